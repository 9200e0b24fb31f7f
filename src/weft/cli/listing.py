"""Queries of a checkpoint as a table, as lines and one by one."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.cli.wording import NONE, moment, one_line, printable, window
from weft.service.info import QueryInfo

_STYLES = {"running": "green", "paused": "yellow", "failed": "bold red"}
_OVER = frozenset({"ended", "dropped"})


class Listed(QueryInfo):
    """A query as an engine or a checkpoint tells of it, in words."""

    @property
    def first(self) -> str:
        """The first window that it answers, where that is known."""
        return NONE if self.first_window is None else window(*self.first_window)

    @property
    def note(self) -> str:
        """What there is to say besides, in one line."""
        notes = [] if self.error is None else [one_line(self.error)]
        notes += [f"{self.failures:,} failed expressions"] if self.failures else []
        notes += [f"until {moment(self.expires)}"] if self.expires is not None else []
        return "; ".join(notes)


def read_listed(told: Mapping[str, Any]) -> Listed:
    """Return a query from plain values, as they come from an engine."""
    first = told.get("first_window")
    return Listed(
        name=str(told["name"]),
        text=str(told["text"]),
        stream=str(told["stream"]),
        state=str(told["state"]),
        first_window=None if first is None else (int(first[0]), int(first[1])),
        error=told.get("error"),
        failures=int(told.get("failures", 0)),
        added_commit=int(told.get("added_commit", 0)),
        expires=told.get("expires"),
    )


def print_list(console: Console, queries: Sequence[Listed], *, everything: bool) -> None:
    """Print a table on a terminal, else a line a query with tabs between its fields."""
    shown = [query for query in queries if everything or query.state not in _OVER]
    if console.is_terminal:
        console.print(_table(shown) if shown else "no queries")
    else:
        for query in shown:
            fields = (printable(query.name), query.state, printable(query.stream), query.first, query.note)
            # Rich would make spaces of the tabs.
            print("\t".join(fields).rstrip(), file=console.file)
    if console.is_terminal and len(shown) < len(queries):
        console.print(f"{len(queries) - len(shown):,} dropped or ended; --all shows them", style="dim")


def print_query(console: Console, query: Listed) -> None:
    """Print all that is known of a query."""
    fields = [
        ("query", printable(query.name)),
        ("state", query.state),
        ("stream", printable(query.stream)),
        ("first window", query.first),
        ("expires", NONE if query.expires is None else moment(query.expires)),
        ("joined with", f"commit {query.added_commit:,}"),
        ("failed expressions", f"{query.failures:,}"),
    ]
    for label, value in fields:
        console.out(f"{label:<20}{value}", highlight=False)
    if query.error is not None:
        console.out(f"\n{query.error}", style="red", highlight=False)
    console.out(f"\n{query.text.strip()}", highlight=False)


def _table(queries: Sequence[Listed]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("query", "state", "stream", "first window", ""):
        table.add_column(heading, no_wrap=heading in {"state", "first window"}, overflow="fold")
    for one in queries:
        state = Text(one.state, style=_STYLES.get(one.state, "dim"))
        name, stream = Text(printable(one.name)), Text(printable(one.stream))
        table.add_row(name, state, stream, Text(one.first), Text(one.note))
    return table
