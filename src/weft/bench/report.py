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
    from weft.bench.equality import Comparison
    from weft.bench.figures import Figures
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
    if len(result.figures.seeds) == 1:
        console.print(_operations(result))
        console.print(_finals(result))
    show_checks(result.figures, console)


def show_checks(figures: "Figures", console: Console) -> None:
    """Print what was compared, and the ratios that all benches against Spark have."""
    fixed = figures.fixed
    console.print(equality(figures.compared))
    console.print(
        f"fixed_cost_ms {fixed.over_spark_ms:.0f} per micro-batch over Spark's own {fixed.empty_ms:.0f} ms, "
        f"new plans aside (they took {fixed.planning_ms:.0f} ms a batch); without a checkpoint "
        f"{fixed.without_checkpoint_ms:.0f}\n"
        f"ratio_to_one_query {figures.ratio_to_one_query:.2f}; ratio_by_pairs {figures.ratio_by_pairs:.2f} "
        f"({min(figures.pairs):.2f}–{max(figures.pairs):.2f}); without a checkpoint "
        f"{figures.ratio_without_checkpoint:.2f}\n"
        f"speedup_vs_unshared {figures.speedup_vs_unshared:,.0f}"
    )


def seconds_table(result: "Figures", *, joins: str = "") -> Table:
    """Return the seconds of Weft, ordinary queries and a scan."""
    title = f"{result.queries:,} queries over {result.rows:,} rows, {seeds_of(result.seeds)}"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in ("", "seconds", "spread", "of one query"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=bool(name))
    for name, seconds in (
        (f"Weft, {result.queries:,} queries", result.weft),
        ("Weft without a checkpoint", result.without_checkpoint),
        (f"one ordinary query (of {result.measured_queries})", result.ordinary),
        ("bare scan", result.scan),
    ):
        median = seconds.median
        table.add_row(name, f"{median:,.2f}", seconds.spread, f"{median / result.one_query_s:,.2f}")
    scaled, of_one = result.unshared_s, result.unshared_s / result.one_query_s
    table.add_row(f"{result.queries:,} ordinary queries, scaled", f"{scaled:,.2f}", "", f"{of_one:,.2f}")
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result.stages_s.items())
    table.caption = (
        f"Medians of all {len(result.weft.runs)} counted rounds, and their least and most; {result.warmups} "
        "rounds before them warm up. In a round each runs once, every second round backwards. "
        f"{result.batches} micro-batches, {result.cores} cores, pyspark {result.pyspark}, {result.slicing} "
        "slices. All have a checkpoint on the same disk unless it says otherwise. An ordinary query is "
        f"withWatermark, {joins}groupBy(window), append mode; it throws its results away, which favours "
        "Spark. Weft's time includes its queries' text, finals and results in Parquet (in batches: "
        f"{stages})."
    )
    return table


def seeds_of(seeds: Sequence[int]) -> str:
    """Return seeds in words."""
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


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
        f"Weft's run has {figures.slicing} slices: compare it with shared {figures.slicing}. "
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
    title = f"tumbling windows of 1–20 s over {result.rows:,} rows"
    table = Table(title=title, title_justify="left", caption_justify="left")
    columns = (
        "windows|rows/s|of one window|seconds|spread|no checkpoint, rows/s|of one|results|slices a batch"
    )
    for name in columns.split("|"):
        table.add_column(name, justify="right")
    first = result.sizes[0]
    for one in result.sizes:
        table.add_row(
            f"{one.queries:,}", f"{one.rows_per_s:,.0f}", f"{one.rows_per_s / first.rows_per_s:.2f}",
            f"{one.seconds:.2f}", one.durable.spread, f"{one.scotty_rows_per_s:,.0f}",
            f"{one.scotty_rows_per_s / first.scotty_rows_per_s:.2f}", f"{one.windows:,}", f"{one.slices:,}",
        )  # fmt: skip
    table.caption = (
        f"Medians of all counted rounds ({result.repeats} for each of seeds "
        f"{', '.join(map(str, result.seeds))}), with their least and most, after {result.warmups} that warm "
        f"up; {result.rate:,} rows per second of event time, {result.batches} micro-batches, {result.cores} "
        "cores. With a checkpoint on disk, from the text of the queries on. Without one it is as in Scotty's "
        "benchmark: windows are registered before the clock starts. Results stay in memory."
    )
    console.print(table)
