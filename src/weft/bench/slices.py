"""The bench of shared slices: the paper's workload (A), in operations and in seconds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from rich.console import Console
from rich.table import Table

from weft.bench import report
from weft.bench.against_spark import (
    AgainstSpark,
    against_spark,
    headlines,
    operations_table,
    seconds_table,
    show_checks,
    trades_input,
)
from weft.bench.bench import Bench
from weft.bench.dataset import Dataset
from weft.bench.records import Seconds, plain
from weft.bench.runs import Input
from weft.bench.signatures import PAPER, Counted, Run, Strategy, count_all
from weft.bench.tiny_batches import FixedCost
from weft.bench.workloads import PAPER_SIZES, paper_queries

_STYLES = {
    Strategy.UNSHARED_PANED: (report.RED, "--"),
    Strategy.UNSHARED_PAIRED: (report.RED, "-"),
    Strategy.SHARED_PANED: (report.BLUE, "--"),
    Strategy.SHARED_PAIRED: (report.BLUE, "-"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicesResult(AgainstSpark):
    """What `weft bench slices` found for one number of queries."""

    workload: str = "A: ranges 600–900 s, slides 300–600 s"
    operations: tuple[Counted, ...]
    """The paper's counts for each strategy and each number of queries, with the last seed's queries."""

    def as_json(self) -> dict[str, object]:
        """Return all figures by name, and what the paper counted."""
        return {**AgainstSpark.as_json(self), "paper": plain(tuple(PAPER.values()))}

    def show(self, console: Console) -> None:
        """Print seconds, operations and what was checked."""
        console.print(seconds_table(self))
        if len(self.figures.seeds) == 1:
            console.print(_operations(self))
            console.print(_finals(self))
        show_checks(self.figures, console)

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw the paper's Figure 13 in operations, and seconds beside it for each number of rows."""
        results = headlines(results)
        by_size = sorted(results, key=lambda result: result.figures.queries)
        largest = {result.figures.run.rows: result for result in by_size}
        figure = report.new_figure(6 + 5 * len(largest), 5)
        operations, *seconds = figure.subplots(1, 1 + len(largest))
        _draw_operations(operations, results[0])
        for axes, result in zip(seconds, largest.values(), strict=True):
            _draw_seconds(axes, result)
        return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices(Bench[SlicesResult]):
    """Many windows over one hour of trades (the paper's workload A), against ordinary Spark.

    Example: weft bench slices -n 16 -n 256 --json slices.json
    """

    pictures = ("slices",)

    def measure(self) -> Iterator[SlicesResult]:
        """Measure each set of queries."""
        spark = self.session()
        fixed: dict[tuple[int, int], FixedCost] = {}

        def measure(given: Input, size: int, seed: int) -> SlicesResult:
            figures = against_spark(
                given, paper_queries(size, seed=seed), self, seed=seed, fixed=fixed.get((size, seed))
            )
            fixed[size, seed] = figures.fixed
            operations = counts((*PAPER_SIZES, size), given.dataset, seed)
            return SlicesResult(bench=self, cores=given.cores, figures=figures, operations=operations)

        return self.over_sets(partial(trades_input, spark, self), measure)


def counts(sizes: Sequence[int], dataset: Dataset, seed: int) -> tuple[Counted, ...]:
    """Return the paper's operation counts over a data set."""
    run = Run(begin_ms=dataset.begin_ms, end_ms=dataset.begin_ms + dataset.span_ms, rows=dataset.rows)
    windows = ([query.window for query in paper_queries(size, seed=seed)] for size in sorted(set(sizes)))
    return tuple(counted for of_size in windows for counted in count_all(of_size, run))


def _operations(result: SlicesResult) -> Table:
    figures, slicing = result.figures, result.bench.slicing
    caption = (
        f"Weft's run has {slicing} slices: compare it with shared {slicing}. "
        "Counted over the windows that end within the hour; Weft's run has those closed at the end of input, "
        "too. The paper read 1,138,636 rows and took the mean of 10 sets of queries; it does not print "
        "unshared paned."
    )
    counted, printed = (
        [
            (f"{prefix}{counted.strategy}", counted.partial, counted.final, "")
            for counted in counts
            if counted.queries == figures.queries
        ]
        for prefix, counts in (("", result.operations), ("the paper, ", PAPER.values()))
    )
    return operations_table(figures, "6.2", counted, printed, caption)


def _finals(result: SlicesResult) -> Table:
    finals: dict[int, list[int]] = {}
    for counted in sorted(result.operations, key=lambda counted: counted.queries):
        finals.setdefault(counted.queries, []).append(counted.final)
    columns = {name: f"{{{number}:,}}" for number, name in enumerate(("queries", *Strategy))}
    rows = [(queries, *numbers) for queries, numbers in finals.items()]
    return report.make_table("final operations by number of queries", columns, rows)


def _draw_operations(axes: report.Axes, result: SlicesResult) -> None:
    for strategy, (color, line) in _STYLES.items():
        points = [
            (counted.queries, counted.total) for counted in result.operations if counted.strategy is strategy
        ]
        report.draw_line(axes, points, line, color=color, markersize=3, label=strategy.value)
    for number, printed in enumerate(PAPER.values()):
        label = "_" if number else "the paper, 1.1 M rows"
        axes.scatter(printed.queries, printed.total, marker="x", color="black", label=label, zorder=3)
    title = f"aggregate operations, {result.figures.run.rows:,} rows"
    sizes = [counted.queries for counted in result.operations]
    report.finish(axes, sizes, title=title, ylabel="partial + final")


def _draw_seconds(axes: report.Axes, result: SlicesResult) -> None:
    figures = result.figures
    bars = (
        ("bare scan", figures.scan, report.GREY),
        (f"Weft,\n{figures.queries} queries", figures.weft, report.BLUE),
        ("without a\ncheckpoint", figures.without_checkpoint, report.PALE_BLUE),
        ("one ordinary\nSpark query", figures.ordinary, report.RED),
        (f"{figures.queries} ordinary\n({figures.measured_queries} measured)",
         Seconds((figures.unshared_s,)), report.RED),
    )  # fmt: skip
    for name, seconds, color in bars:
        axes.bar_label(report.draw_bar(axes, name, seconds, color), labels=[f"{seconds.median:,.1f} s"])
    axes.tick_params(axis="x", labelsize="small")
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set(title=f"{figures.run.rows:,} rows, {result.cores} cores", ylabel="seconds, least to most")
