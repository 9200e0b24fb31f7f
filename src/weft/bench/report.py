"""Results of the benches as tables for people and as JSON for programs."""

import json as jsonlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.console import Console
from rich.table import Table

from weft.bench.operations import PAPER, Strategy
from weft.errors import UserError

if TYPE_CHECKING:
    from weft.bench.against_spark import Figures
    from weft.bench.equality import Comparison
    from weft.bench.memory import MemoryResult
    from weft.bench.slices import SlicesResult
    from weft.bench.windows import WindowsResult


class Result(Protocol):
    """What a bench found."""

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""


Found = TypeVar("Found", bound=Result)


def needs_matplotlib(plot: Path | None) -> None:
    """Refuse to draw without Matplotlib: before an hour of measuring, not after it."""
    if plot is None:
        return
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        raise UserError(
            "the picture needs Matplotlib, which is not installed: install Weft with the extra bench, "
            "or leave the picture out with --no-plot"
        ) from error


def publish(
    results: Sequence[Found],
    *,
    json: Path | None,
    plot: Path | None,
    draw: Callable[[Sequence[Found], Path], None],
    console: Console,
) -> None:
    """Write the results as JSON and as a picture, where there is a path for it."""
    save([one.as_json() for one in results], json, console)
    if plot is not None:
        draw(results, plot)
        console.print(f"plot: {plot}", soft_wrap=True)


def save(results: Sequence[object], path: Path | None, console: Console) -> None:
    """Write JSON: one object, or a list where there are several."""
    if path is None:
        return
    told = results[0] if len(results) == 1 else results
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(jsonlib.dumps(told, indent=2, default=str) + "\n")
    console.print(f"json: {path}", soft_wrap=True)


def show_slices(result: "SlicesResult", console: Console) -> None:
    """Print seconds, operations and what was checked."""
    console.print(seconds_table(result.figures))
    console.print(_operations(result))
    console.print(_finals(result))
    show_checks(result.figures, console)


def show_checks(figures: "Figures", console: Console) -> None:
    """Print what was compared, and the ratios that all benches against Spark have."""
    console.print(equality(figures.comparison))
    console.print(
        f"fixed_cost_ms {figures.fixed_cost_ms:.0f} per micro-batch, planning aside, over Spark's own "
        f"{figures.empty_batch_ms:.0f} ms\n"
        f"ratio_to_one_query {figures.ratio_to_one_query:.2f} "
        f"({figures.ratio_by_pairs:.2f} by pairs of consecutive runs)\n"
        f"speedup_vs_unshared {figures.speedup_vs_unshared:,.0f}"
    )


def seconds_table(result: "Figures", *, joins: str = "") -> Table:
    """Return the seconds of Weft, ordinary queries and a scan."""
    table = Table(title=f"{result.queries:,} queries over {result.rows:,} rows", title_justify="left")
    for name in ("", "seconds", "of one query"):
        table.add_column(name, justify="left" if not name else "right")
    scaled = f"{result.queries:,} ordinary queries ({result.measured_queries} measured, scaled)"
    for name, seconds in (
        (f"Weft, {result.queries:,} queries", result.weft_s),
        (f"one ordinary query (median of {result.measured_queries})", result.one_query_s),
        (scaled, result.unshared_s),
        ("bare scan", result.scan_s),
    ):
        table.add_row(name, f"{seconds:,.2f}", f"{seconds / result.one_query_s:,.2f}")
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result.stages_s.items())
    table.caption = (
        f"Medians within the quietest of {result.repeats} rounds, the one whose runs together took least; "
        "in a round Weft runs before each ordinary query. A warm-up round is not counted. "
        f"{result.batches} micro-batches, {result.cores} cores, "
        f"pyspark {result.pyspark}. An ordinary query is withWatermark, {joins}groupBy(window), append mode; "
        "it throws its results away, which favours Spark. "
        f"Weft's time includes its queries' text, finals and results in Parquet (in batches: {stages})."
    )
    table.caption_justify = "left"
    return table


def operations_table(figures: "Figures", section: str) -> Table:
    """Return a table for the operations of all queries, without rows yet."""
    title = f"operations of {figures.queries:,} queries (STS, section {section})"
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("")
    for name in ("partial", "final", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def add_own_run(table: Table, figures: "Figures") -> None:
    """Add what Weft really did: its operations, and over how many relations."""
    relations = f"{figures.relations:,} relation{'s' if figures.relations != 1 else ''}"
    table.add_row(
        f"Weft's run, {relations}",
        f"{figures.partial_ops:,}",
        f"{figures.final_ops:,}",
        f"{figures.weft_s:,.2f}",
    )


def _operations(result: "SlicesResult") -> Table:
    figures = result.figures
    table = operations_table(figures, "6.2")
    for counted in result.operations:
        if counted.queries == figures.queries:
            table.add_row(counted.strategy, f"{counted.partial:,}", f"{counted.final:,}")
    add_own_run(table, figures)
    for printed in PAPER.values():
        if printed.queries == figures.queries:
            table.add_row(f"the paper, {printed.strategy}", f"{printed.partial:,}", f"{printed.final:,}")
    table.caption = (
        "Counted over the windows that end within the hour; Weft's run has those closed at the end of input, "
        "too. The paper read 1,138,636 rows and took the mean of 10 sets of queries; it does not print "
        "unshared paned."
    )
    return table


def _finals(result: "SlicesResult") -> Table:
    table = Table(title="final operations by number of queries", title_justify="left")
    table.add_column("queries", justify="right")
    for strategy in Strategy:
        table.add_column(strategy, justify="right")
    for queries in sorted({counted.queries for counted in result.operations}):
        finals = {one.strategy: one.final for one in result.operations if one.queries == queries}
        table.add_row(f"{queries:,}", *(f"{finals[strategy]:,}" for strategy in Strategy))
    return table


def equality(compared: "Comparison") -> str:
    """Say whether rows were plain Spark's."""
    if compared.equal is None:
        return "rows were not compared"
    which = f"{compared.rows:,} rows of {compared.queries:,} queries"
    if compared.equal:
        return f"rows equal plain Spark's: {which} compared"
    return "\n".join([f"[red]rows differ from plain Spark's[/red] ({which}):", *compared.differences[:10]])


def show_windows(result: "WindowsResult", console: Console) -> None:
    """Print the throughput for each number of windows."""
    table = Table(title=f"tumbling windows of 1–20 s over {result.rows:,} rows", title_justify="left")
    for name in ("windows", "rows/s", "of one window", "seconds", "results", "slices a batch", "to register"):
        table.add_column(name, justify="right")
    first = result.sizes[0]
    for one in result.sizes:
        table.add_row(
            f"{one.queries:,}", f"{one.rows_per_s:,.0f}", f"{one.rows_per_s / first.rows_per_s:.2f}",
            f"{one.seconds:.2f}", f"{one.windows:,}", f"{one.slices:,}", f"{one.register_s:.2f} s",
        )  # fmt: skip
    table.caption = (
        f"Medians of {result.repeats} alternating runs after a warm-up round that is not counted; "
        f"{result.rate:,} rows per second of event time, {result.batches} micro-batches, "
        f"{result.cores} cores. "
        "As in Scotty's benchmark, windows are registered before the clock starts and results stay in memory."
    )
    table.caption_justify = "left"
    console.print(table)


def show_memory(result: "MemoryResult", console: Console) -> None:
    """Print peaks and retained state."""
    table = Table(title=f"{result.queries:,} queries in a {result.heap} heap", title_justify="left")
    for name in (
        "run",
        "rows",
        "event time",
        "seconds",
        "retained partials",
        "JVM live",
        "JVM RSS",
        "Python RSS",
    ):
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, one in (
        ("many rows", result.large),
        ("short", result.short),
        ("ten times as long", result.long),
    ):
        table.add_row(
            name, f"{one.rows:,}", f"{one.hours} h", f"{one.seconds:.1f}", f"{one.most_retained:,}",
            *(f"{size:,.0f} MB" for size in (one.jvm_live_mb, one.jvm_rss_mb, one.python_rss_mb)),
        )  # fmt: skip
    table.caption = (
        "Each run is a process of its own. RSS: its peak. Live: the heap after a collection at the end."
    )
    table.caption_justify = "left"
    console.print(table)
    console.print(
        f"ten times the event time: retained partials × {result.retained_ratio:.2f}, "
        f"Python RSS × {result.rss_ratio:.2f}"
    )
