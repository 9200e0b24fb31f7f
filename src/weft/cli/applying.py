"""`weft apply`: what a workload changes in a running engine, shown first, and done by one request."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import typer

from weft.cli.checking import queries_of, read_changes, read_text
from weft.cli.control import (
    NO_LIMITS,
    Checkpoint,
    Json,
    Wait,
    answer,
    change,
    print_json,
    to_add,
)
from weft.cli.listing import OVER, Listed, read_listed
from weft.cli.wording import printable
from weft.errors import EngineError, SyntaxMistake
from weft.query import CreateQuery
from weft.query.lexer import lex
from weft.storage.mailbox import Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How the queries of a workload differ from those of a checkpoint."""

    dropped: Sequence[str]
    replaced: Sequence[CreateQuery]
    added: Sequence[CreateQuery]
    unchanged: Sequence[str]

    @property
    def asked(self) -> list[Asked]:
        """The requests that make them the same. Those that leave come first: limits count what stays."""
        drops: list[Asked] = [("drop", {"name": name}) for name in self.dropped]
        joining = (*self.replaced, *self.added)
        return drops + [("add", to_add(statement, replace=True)) for statement in joining]

    def names(self) -> dict[str, list[str]]:
        """Return the queries by what becomes of them."""
        return {
            "dropped": list(self.dropped),
            "replaced": [statement.name for statement in self.replaced],
            "added": [statement.name for statement in self.added],
            "unchanged": list(self.unchanged),
        }


def apply(
    checkpoint: Checkpoint,
    workload: Annotated[Path, typer.Argument(help="A workload file; of its statements, queries count.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    wait: Wait = 30.0,
    json: Json = False,
) -> None:
    """Make the queries of a running engine those of a workload, by one commit, after showing the changes.

    Example: weft apply state/ workload.sql
    """
    statements = read_changes(workload, read_text(workload), limits=NO_LIMITS)
    queries = queries_of(statements)
    known = [read_listed(query) for query in answer(checkpoint, wait, "list")["queries"]]
    found = difference(queries, known)
    if json and dry_run:
        print_json(found.names())
        return
    _show(found, sys.stderr if json else sys.stdout)
    if dry_run or not found.asked:
        return
    if not yes:
        _ask_whether(found)
    change(checkpoint, "change", found.asked, wait=wait, as_json=json)


def difference(queries: Mapping[str, CreateQuery], known: Sequence[Listed]) -> Difference:
    """Return how queries differ from those that are known and not over."""
    present = {query.name: query.text for query in known if query.state not in OVER}
    both = {name: statement for name, statement in queries.items() if name in present}
    replaced = [one for name, one in both.items() if not _is_same(one.select, present[name])]
    names = {statement.name for statement in replaced}
    return Difference(
        dropped=[name for name in present if name not in queries],
        replaced=replaced,
        added=[statement for name, statement in queries.items() if name not in present],
        unchanged=[name for name in both if name not in names],
    )


def _is_same(text: str, other: str) -> bool:
    """Say whether two texts differ only in spaces and comments."""
    try:
        return _words(text) == _words(other)
    except SyntaxMistake:
        return text == other


def _words(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in lex(text)]


def _show(found: Difference, file: TextIO) -> None:
    """Print a line for each query that changes, and how many there are of each kind."""
    names = found.names()
    for sign, outcome in (("-", "dropped"), ("~", "replaced"), ("+", "added")):
        for name in names[outcome]:
            print(f"{sign} {printable(name)}", file=file)
    counts = ", ".join(f"{len(some):,} {outcome}" for outcome, some in names.items())
    print(counts, file=file)


def _ask_whether(found: Difference) -> None:
    """Ask for approval; exit with 1 without it."""
    if not _has_person():
        raise EngineError(
            "nothing was changed, for nobody is there to approve it; see above what would be, and add --yes"
        )
    if not typer.confirm(f"make these {len(found.asked):,} changes?", err=True):
        raise typer.Exit(1)


def _has_person() -> bool:
    return sys.stdin.isatty()
