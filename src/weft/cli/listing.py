"""Prints queries of a checkpoint: as a table, as lines, or a single one in full."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.cli.wording import NONE, STATE_STYLES, moment, one_line, printable, window
from weft.service.status import QueryInfo

OVER = frozenset({"ended", "dropped"})
"""States of queries that are over for good."""


class Listed(QueryInfo):
    """A query as an engine or a checkpoint reports it, in words."""

    @property
    def first(self) -> str:
        """The first window that it answers, if known."""
        return NONE if self.first_window is None else window(*self.first_window)

    @property
    def note(self) -> str:
        """Errors and the end of its lifetime, in one line."""
        notes = [] if self.error is None else [one_line(self.error)]
        notes += [f"{self.failures:,} failed expressions"] if self.failures else []
        notes += [f"until {moment(self.expires)}"] if self.expires is not None else []
        return "; ".join(notes)


def read_listed(reported: Mapping[str, Any]) -> Listed:
    """Return a query from plain values, as an engine of this or another version sends them."""
    first = reported.get("first_window")
    return Listed(
        name=reported["name"],
        text=reported["text"],
        stream=reported["stream"],
        state=reported["state"],
        first_window=None if first is None else (int(first[0]), int(first[1])),
        error=reported.get("error"),
        failures=reported.get("failures", 0),
        added_commit=reported.get("added_commit", 0),
        expires=reported.get("expires"),
    )


def print_list(console: Console, queries: Sequence[Listed], *, everything: bool) -> None:
    """Print a table on a terminal, else one line per query, with tabs between its fields."""
    shown = [query for query in queries if everything or query.state not in OVER]
    if not console.is_terminal:
        for query in shown:
            cells = (printable(query.name), query.state, printable(query.stream), query.first, query.note)
            # Rich would replace tabs by spaces.
            print("\t".join(cells).rstrip(), file=console.file)
        return
    console.print(_table(shown) if shown else "no queries")
    if len(shown) < len(queries):
        console.print(f"{len(queries) - len(shown):,} dropped or ended; --all shows them", style="dim")


def print_query(console: Console, query: Listed) -> None:
    """Print all that is known of a query."""
    rows = {
        "query": printable(query.name),
        "state": query.state,
        "stream": printable(query.stream),
        "first window": query.first,
        "expires": NONE if query.expires is None else moment(query.expires),
        "joined with": f"commit {query.added_commit:,}",
        "failed expressions": f"{query.failures:,}",
    }
    for label, value in rows.items():
        console.out(f"{label:<20}{value}", highlight=False)
    if query.error is not None:
        console.out(f"\n{query.error}", style="red", highlight=False)
    console.out(f"\n{query.text.strip()}", highlight=False)


def _table(queries: Sequence[Listed]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("query", "state", "stream", "first window", ""):
        table.add_column(heading, no_wrap=heading in {"state", "first window"}, overflow="fold")
    for query in queries:
        state = Text(query.state, style=STATE_STYLES.get(query.state, "dim"))
        name, stream = Text(printable(query.name)), Text(printable(query.stream))
        table.add_row(name, state, stream, Text(query.first), Text(query.note))
    return table
