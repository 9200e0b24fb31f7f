"""The live view as a screen, cut to the height of the terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from weft.cli.figures import Figures, LastBatch
from weft.cli.wording import NONE, STATE_STYLES, moment, one_line, span
from weft.service.status import EngineStatus, StreamStatus
from weft.sinks import DeliveryStatus

_SHOWN_STREAMS, _SHOWN_SINKS, _SHOWN_NOTICES = 4, 4, 4
_BAR = 24
_PHASES = {"plan": "cyan", "spark": "blue", "finals": "magenta", "commit": "yellow"}


def draw(
    figures: Figures, status: EngineStatus, *, now: float, began: float, wall: float, lines: int
) -> RenderableType:
    """Draw a run: `now` and `began` by the monotonic clock, `wall` in seconds since 1970."""
    title = f"weft · {span(now - began)} · batches {figures.batches:,} · results {figures.windows:,}"
    tables = [
        _streams(figures, status.streams, now=now, began=began, wall=wall),
        _work(figures, status.streams),
        *([_sinks(status.sinks)] if status.sinks else []),
    ]
    newest = [notice for stream in status.streams.values() for notice in stream.notices][-_SHOWN_NOTICES:]
    notices = [
        Text(f"! {one_line(notice.words)}", style="yellow", no_wrap=True, overflow="ellipsis")
        for notice in newest
    ]
    # The title, a line between parts, and one below for the cursor; results get the rest.
    used = 2 + sum(table.row_count + table.show_header + 1 for table in tables)
    room = lines - used - 1 - (len(notices) + 1 if notices else 0)
    if figures.newest() and room > 0:
        tables.append(_results(figures, room))
    parts: list[RenderableType] = [Rule(title, align="left", style="dim")]
    for table in tables:
        parts += [table, Text()]
    return Group(*(parts if notices else parts[:-1]), *notices)


def _streams(
    figures: Figures, streams: Mapping[str, StreamStatus], *, now: float, began: float, wall: float
) -> Table:
    table = _table("stream", ">rows/s", ">rows", ">lag", "watermark", ">late", ">quarantined", ">missing", "")
    for name, stream in list(streams.items())[:_SHOWN_STREAMS]:
        clock, counts = stream.clock, stream.clock.counts
        table.add_row(
            Text(one_line(name)),
            f"{figures.rate(name, now, began):,.0f}",
            f"{counts.read:,}",
            NONE if clock.newest is None else span(wall - clock.newest / 1e6),
            moment(clock.watermark).partition(".")[0],
            *(
                Text(f"{count:,}", style="yellow" if count else "")
                for count in (counts.late, counts.quarantined, counts.missing)
            ),
        )
    _add_rest(table, len(streams) - _SHOWN_STREAMS)
    return table


def _work(figures: Figures, streams: Mapping[str, StreamStatus]) -> Table:
    table = _table("", "", header=False)
    queries: Counter[str] = Counter()
    for stream in streams.values():
        queries.update({str(state): count for state, count in stream.queries.items()})
    rows = {"queries": states(queries), "sharing": _sharing(figures), "batch": Text(NONE)}
    last = figures.last
    if last is not None:
        took = f"{span(last.total)} for {last.rows:,} rows of {one_line(last.stream)}"
        rows["batch"] = Text(f"{took}, results {last.windows:,}")
        if last.seconds:
            rows[""] = _phases(last)
    if figures.failures:
        failed = f"{figures.failures:,} expressions failed and became NULL"
        rows["failures"] = Text(failed, style="yellow")
    for label, text in rows.items():
        table.add_row(Text(label, style="bold"), text)
    return table


def states(queries: Mapping[Any, int]) -> Text:
    """Return the number of queries in each state that matters.

    >>> states({"running": 1200, "failed": 1, "dropped": 3}).plain
    '1,200 running, 1 failed'
    """
    counts = {str(state): count for state, count in queries.items()}
    shown = [
        Text(f"{counts[state]:,} {state}", style=style)
        for state, style in STATE_STYLES.items()
        if counts.get(state)
    ]
    return Text(", ").join(shown) if shown else Text("none", style="dim")


def _phases(last: LastBatch) -> Text:
    """Draw the phases of a batch side by side, each as long as its time."""
    bar, drawn, spent = Text(), 0, 0.0
    for phase, seconds in last.seconds.items():
        spent += seconds
        until = round(_BAR * spent / last.total) if last.total else 0
        bar.append("━" * (until - drawn), style=_PHASES.get(phase, "white"))
        drawn = until
    for phase, seconds in last.seconds.items():
        bar.append(f"  {phase} {span(seconds)}", style=_PHASES.get(phase, "white"))
    return bar


def _sharing(figures: Figures) -> Text:
    if figures.sharing is None:
        return Text(NONE)
    text = Text(f"{figures.sharing:,.1f} ×", style="bold")
    return text.append(
        f"  {figures.aggregated:,} rows aggregated, {figures.unshared:,} without sharing", style="not bold"
    )


def _sinks(sinks: Sequence[DeliveryStatus]) -> Table:
    table = _table("sink", ">done", ">behind", ">waiting", "")
    for sink in sinks[:_SHOWN_SINKS]:
        waiting = f"{sink.waiting_bytes / (1 << 20):,.1f} MiB" if sink.waiting_bytes else NONE
        done = f"{sink.done:,}" if sink.done >= 0 else NONE
        state = Text("ok", style="green")
        if sink.error is not None:
            again = "" if sink.retry_in_s is None else f", again in {span(max(sink.retry_in_s, 0.0))}"
            state = Text(f"failed {sink.attempts:,} times{again}: {one_line(sink.error)}", style="red")
        table.add_row(Text(one_line(sink.sink)), done, f"{sink.behind:,}", waiting, state)
    _add_rest(table, len(sinks) - _SHOWN_SINKS)
    return table


def _add_rest(table: Table, hidden: int) -> None:
    if hidden > 0:
        table.add_row(Text(f"and {hidden:,} more", style="dim"))


def _results(figures: Figures, room: int) -> Table:
    table = _table("newest results", "window", "")
    for result in figures.newest()[:room]:
        values = Text(one_line(result.values))
        if result.more:
            values = Text.assemble((f"1 of {result.more + 1:,}  ", "dim"), values)
        table.add_row(Text(one_line(result.query)), Text(result.window), values)
    return table


def _table(*headings: str, header: bool = True) -> Table:
    """Return a table without lines; headings that begin with > are of numbers, the last gets the rest."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", expand=True, show_header=header)
    for number, heading in enumerate(headings, 1):
        last = number == len(headings)
        table.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=None if last else 24,
            ratio=1 if last else None,
        )
    return table
