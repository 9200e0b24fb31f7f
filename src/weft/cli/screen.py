"""The live view as a screen: what is told of a run, cut to the lines there are."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from weft.cli.figures import Figures, LastBatch
from weft.cli.status import EngineStatus, SinkStatus, StreamStatus
from weft.cli.wording import NONE, moment, one_line, span

_SHOWN_STREAMS, _SHOWN_SINKS, _SHOWN_NOTICES = 4, 4, 4
_BAR = 24
_STYLES = {"running": "green", "paused": "yellow", "failed": "bold red"}
_PHASES = {"plan": "cyan", "spark": "blue", "finals": "magenta", "commit": "yellow"}


def draw(
    figures: Figures, status: EngineStatus, *, now: float, began: float, wall: float, lines: int
) -> RenderableType:
    """Draw a run: `now` and `began` by the monotonic clock, `wall` in seconds since 1970."""
    title = f"weft · {span(now - began)} · batches {figures.batches:,} · results {figures.windows:,}"
    above = [
        _streams(figures, status.streams, now=now, began=began, wall=wall),
        _work(figures, status.streams),
        *([_sinks(status.sinks)] if status.sinks else []),
    ]
    notices = list(_notices(status.streams))[-_SHOWN_NOTICES:]
    # The title, a line between parts, and one below for the cursor; results have what is left.
    used = 2 + sum(_height(one) + 1 for one in above) + (len(notices) + 1 if notices else 0)
    room = lines - used - 1
    parts: list[RenderableType] = [Rule(title, align="left", style="dim")]
    for table in [*above, *([_results(figures, room)] if figures.newest() and room > 0 else [])]:
        parts += [table, Text()]
    return Group(*(parts if notices else parts[:-1]), *notices)


def _height(table: Table) -> int:
    return table.row_count + table.show_header


def _streams(
    figures: Figures, streams: Mapping[str, StreamStatus], *, now: float, began: float, wall: float
) -> Table:
    table = _table("stream", ">rows/s", ">rows", ">lag", "watermark", ">late", ">quarantined", ">missing", "")
    for name, one in list(streams.items())[:_SHOWN_STREAMS]:
        counts, newest = one.clock.counts, one.clock.newest
        table.add_row(
            Text(one_line(name)),
            f"{figures.rate(name, now, began):,.0f}",
            f"{counts.read:,}",
            NONE if newest is None else span(wall - newest / 1e6),
            moment(one.clock.watermark).partition(".")[0],
            _told(counts.late),
            _told(counts.quarantined),
            _told(counts.missing),
        )
    if len(streams) > _SHOWN_STREAMS:
        table.add_row(Text(f"and {len(streams) - _SHOWN_STREAMS:,} more", style="dim"))
    return table


def _work(figures: Figures, streams: Mapping[str, StreamStatus]) -> Table:
    table = _table("", "", header=False)
    queries: Counter[str] = Counter()
    for one in streams.values():
        queries.update({str(state): count for state, count in one.queries.items()})
    table.add_row(_label("queries"), states(queries))
    table.add_row(_label("sharing"), _sharing(figures))
    table.add_row(_label("batch"), Text(NONE) if figures.last is None else _batch(figures.last))
    if figures.last is not None and figures.last.seconds:
        table.add_row(Text(), _phases(figures.last))
    if figures.failures:
        failed = Text(f"{figures.failures:,} expressions failed and became NULL", style="yellow")
        table.add_row(_label("failures"), failed)
    return table


def states(queries: Mapping[Any, int]) -> Text:
    """Say how many queries are in each state that matters.

    >>> states({"running": 1200, "failed": 1, "dropped": 3}).plain
    '1,200 running, 1 failed'
    """
    counts = {str(state): count for state, count in queries.items()}
    shown = [Text(f"{counts[one]:,} {one}", style=style) for one, style in _STYLES.items() if counts.get(one)]
    return Text(", ").join(shown) if shown else Text("none", style="dim")


def _label(word: str) -> Text:
    return Text(word, style="bold")


def _batch(last: LastBatch) -> Text:
    return Text(
        f"{span(last.total)} for {last.rows:,} rows of {one_line(last.stream)}, results {last.windows:,}"
    )


def _phases(last: LastBatch) -> Text:
    """Draw the phases of a batch side by side, each as long as its time."""
    bar, drawn, spent = Text(), 0, 0.0
    for phase, seconds in last.seconds.items():
        spent += seconds
        until = round(_BAR * spent / last.total) if last.total else 0
        bar.append("━" * (until - drawn), style=_style(phase))
        drawn = until
    for phase, seconds in last.seconds.items():
        bar.append(f"  {phase} {span(seconds)}", style=_style(phase))
    return bar


def _sharing(figures: Figures) -> Text:
    if figures.sharing is None:
        return Text(NONE)
    text = Text(f"{figures.sharing:,.1f} ×", style="bold")
    return text.append(
        f"  {figures.aggregated:,} rows aggregated, {figures.unshared:,} without sharing", style="not bold"
    )


def _sinks(sinks: Sequence[SinkStatus]) -> Table:
    table = _table("sink", ">done", ">behind", ">waiting", "")
    for one in sinks[:_SHOWN_SINKS]:
        waiting = f"{one.waiting_bytes / (1 << 20):,.1f} MiB" if one.waiting_bytes else NONE
        done = f"{one.done:,}" if one.done >= 0 else NONE
        table.add_row(Text(one_line(one.sink)), done, f"{one.behind:,}", waiting, _sink_state(one))
    if len(sinks) > _SHOWN_SINKS:
        table.add_row(Text(f"and {len(sinks) - _SHOWN_SINKS:,} more", style="dim"))
    return table


def _sink_state(sink: SinkStatus) -> Text:
    """Say whether a sink works, and if not why, and when it is tried again."""
    if sink.error is None:
        return Text("ok", style="green")
    again = "" if sink.retry_in_s is None else f", again in {span(max(sink.retry_in_s, 0.0))}"
    return Text(f"failed {sink.attempts:,} times{again}: {one_line(sink.error)}", style="red")


def _results(figures: Figures, room: int) -> Table:
    table = _table("newest results", "window", "")
    for one in figures.newest()[:room]:
        values = Text(one_line(one.values))
        if one.more:
            values = Text.assemble((f"1 of {one.more + 1:,}  ", "dim"), values)
        table.add_row(Text(one_line(one.query)), Text(one.window), values)
    return table


def _notices(streams: Mapping[str, StreamStatus]) -> Iterator[Text]:
    for said in chain.from_iterable(one.notices for one in streams.values()):
        text = Text(f"! {one_line(said)}", style="yellow")
        text.no_wrap, text.overflow = True, "ellipsis"
        yield text


def _table(*headings: str, header: bool = True) -> Table:
    """Return a table without lines; headings that begin with > are of numbers, the last has what is left."""
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


def _told(count: int) -> Text:
    return Text(f"{count:,}", style="yellow" if count else "")


def _style(phase: str) -> str:
    return _PHASES.get(phase, "white")
