"""What the benches of fragments and shards found, as tables and as the paper's Figures 14, 15 and 16."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.table import Table

from weft.bench import report
from weft.bench.figures import AgainstSpark, headlines, operations_table, seconds_table, show_checks
from weft.bench.plan_change import PlanChange
from weft.bench.records import plain
from weft.bench.signatures import (
    PAPER_COUNTS,
    PAPER_SIZE,
    PAPER_SPEEDUPS,
    Sharing,
    Signatures,
    times_fewer_in_paper,
)  # fmt: skip
from weft.bench.workloads import Predicates

_SECTIONS = {Predicates.FRAGMENTS: "6.3", Predicates.REGULAR: "6.4.1", Predicates.LOW: "6.4.2"}
_FIGURES = {Predicates.FRAGMENTS: 14, Predicates.REGULAR: 15, Predicates.LOW: 16}
_COLORS = {Sharing.UNSHARED: report.RED, Sharing.SHARED: report.BLUE}


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsResult(AgainstSpark):
    """What `weft bench fragments` or `weft bench shards` found for one number of queries."""

    workload: Predicates
    change: PlanChange
    change_without_checkpoint: PlanChange
    counted: tuple[Signatures, ...]
    """The paper's counts for each number of queries, with the last seed's queries."""

    @property
    def signatures(self) -> Signatures:
        """The counts for the number of queries that was measured."""
        return next(one for one in self.counted if one.queries == self.figures.queries)

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""

        def described(counted: Signatures) -> dict[str, object]:
            return {name: getattr(counted, name) for name in ("queries", "k", "alpha", "beta", "times_fewer")}

        printed = PAPER_COUNTS[self.workload]
        return {
            "workload": self.workload.described,
            **described(self.signatures),
            **self.figures.as_json(),
            "signatures": [described(counted) for counted in self.counted],
            "plan_change_ms": self.change.plan_change_ms,
            "plan_change": self.change.as_json(),
            "plan_change_without_checkpoint_ms": self.change_without_checkpoint.plan_change_ms,
            "operations": plain([one for of in self.counted for one in (of.unshared, of.shared)]),
            "paper": {
                "queries": PAPER_SIZE,
                "speedup": PAPER_SPEEDUPS[self.workload],
                "times_fewer": times_fewer_in_paper(self.workload),
                **{str(sharing): counts.as_json() for sharing, counts in printed.items()},
            },
        }

    def show(self, console: Console) -> None:
        """Print seconds, operations, signatures and what was checked."""
        console.rule(self.workload.described)
        console.print(seconds_table(self.figures, joins="two broadcast joins of tables in memory, where, "))
        if len(self.figures.seeds) == 1:
            console.print(_operations(self))
            console.print(_signatures(self))
            console.print(premise(self))
        show_checks(self.figures, console)
        change, without = self.change, self.change_without_checkpoint
        console.print(
            f"plan_change_ms {change.plan_change_ms:.0f}: the call that adds a query took "
            f"{1000 * change.add.median:.0f} ms, the batch after it {1000 * change.changed.median:.0f} ms, "
            f"others {1000 * change.quiet.median:.0f} ms (medians of {change.adds} queries that join); "
            f"without a checkpoint {without.plan_change_ms:.0f}"
        )

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw all sizes that were measured, and the paper's printed points beside them."""
        results = headlines(results)
        figure = report.new_figure(15, 5.4)
        seconds, operations, speedup = figure.subplots(1, 3)
        rows = results[0].figures.rows
        others = [one for one in results if one.figures.rows != rows]
        results = sorted(
            (one for one in results if one.figures.rows == rows), key=lambda one: one.figures.queries
        )
        _draw_seconds(seconds, results, others)
        _draw_operations(operations, results[-1])
        _draw_speedup(speedup, results)
        workload = results[-1].workload
        figure.suptitle(f"{workload.described} (the paper's report.Figure {_FIGURES[workload]})")
        return figure


def premise(result: FragmentsResult) -> str:
    """Say how much sharing saves by the paper's count, here and in the paper."""
    own = result.signatures
    return (
        f"premise: shared and unshared operations of {own.queries:,} queries stand 1 : {own.times_fewer:.2f} "
        f"over these {result.figures.rows:,} rows; in the paper 1 : "
        f"{times_fewer_in_paper(result.workload):.2f} (256 queries, 1,138,636 rows)"
    )


def _operations(result: FragmentsResult) -> Table:
    figures, own = result.figures, result.signatures
    counted = [(one.strategy, f"{one.partial:,}", f"{one.final:,}") for one in (own.unshared, own.shared)]
    printed = [
        (f"the paper, {sharing}", f"{paper.partial:,}", f"{paper.final:,}", f"{paper.seconds:.2f}")
        for sharing, paper in PAPER_COUNTS[result.workload].items()
        if figures.queries == PAPER_SIZE
    ]
    caption = (
        "Unshared and shared are counted from the rows, F0 aside, as if all queries had one relation, over "
        "windows that end within the hour. Weft's run has those closed at the end of input, too, and a "
        "row once for each relation that it takes part in. "
        "The paper read about 1.1 M rows and took the mean of 10 sets of queries."
    )
    return operations_table(figures, _SECTIONS[result.workload], counted, printed, caption)


def _signatures(result: FragmentsResult) -> Table:
    unit = "window" if result.workload is Predicates.FRAGMENTS else "slice"
    title = f"signatures of a {unit}, and operations, by number of queries (STS, section 4.3.3)"
    caption = (
        f"k: different signatures in a {unit}, the empty one (F0) aside; α: queries that a row satisfies; "
        f"β: queries in a signature; means over {unit}s."
    )
    rows = [
        (
            f"{one.queries:,}", f"{one.k:,.0f}", _mean(one.alpha), _mean(one.beta),
            f"{one.unshared.total:,}", f"{one.shared.total:,}", f"{one.times_fewer:.2f} ×",
        )
        for one in result.counted
    ]  # fmt: skip
    return report.make_table(
        title, "queries|k|α|β|unshared|shared|fewer", rows, caption=caption, no_wrap=True
    )


def _mean(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"


def _draw_seconds(
    axes: report.Axes, results: Sequence[FragmentsResult], others: Sequence[FragmentsResult]
) -> None:
    """Draw the seconds of each number of queries, and what other numbers of rows took."""
    figures = [one.figures for one in results]
    last, sizes = figures[-1], [one.queries for one in figures]
    measured = f"ordinary Spark queries ({last.measured_queries} measured, scaled)"
    axes.plot(sizes, [one.unshared_s for one in figures], color=report.RED, marker="o", label=measured)
    middles, errors = [one.weft_s for one in figures], report.around([one.weft for one in figures])
    axes.errorbar(
        sizes, middles, errors, color=report.BLUE, marker="o", capsize=3, label="Weft, least to most"
    )
    alone, scans = [one.one_query_s for one in figures], [one.scan.median for one in figures]
    axes.plot(sizes, alone, ":", color=report.RED, marker=".", label="one ordinary query")
    axes.plot(sizes, scans, ":", color=report.GREY, marker=".", label="bare scan")
    for sharing, color in _COLORS.items():
        seconds = PAPER_COUNTS[results[-1].workload][sharing].seconds
        axes.plot([PAPER_SIZE], [seconds], "x", color=color, label=f"the paper, {sharing}", zorder=3)
    for one in (other.figures for other in others):
        for name, taken, color in (
            ("ordinary", one.unshared_s, report.RED),
            ("Weft", one.weft_s, report.BLUE),
        ):
            label = f"{name}, {one.rows:,} rows"
            axes.plot([one.queries], [taken], "s", color=color, fillstyle="none", label=label)
    _finish(axes, [*sizes, PAPER_SIZE], "seconds", f"{last.rows:,} rows, {last.cores} cores")


def _draw_operations(axes: report.Axes, result: FragmentsResult) -> None:
    curves = {
        "unshared": ([one.unshared.total for one in result.counted], report.RED, "-"),
        "shared, partial + final": ([one.shared.total for one in result.counted], report.BLUE, "-"),
        "shared, final only": ([one.shared.final for one in result.counted], report.BLUE, "--"),
    }
    sizes = [one.queries for one in result.counted]
    for label, (operations, color, line) in curves.items():
        report.draw_line(
            axes, zip(sizes, operations, strict=True), line, color=color, markersize=3, label=label
        )
    for sharing, color in _COLORS.items():
        total = PAPER_COUNTS[result.workload][sharing].total
        axes.plot([PAPER_SIZE], [total], "x", color=color, label=f"the paper, {sharing}, 1.1 M rows")
    _finish(axes, [*sizes, PAPER_SIZE], "partial + final", "aggregate operations, counted")


def _draw_speedup(axes: report.Axes, results: Sequence[FragmentsResult]) -> None:
    measured = [(one.figures.queries, one.figures.speedup_vs_unshared) for one in results]
    counted = [(one.queries, one.times_fewer) for one in results[-1].counted]
    report.draw_line(axes, measured, color=report.BLUE, label="seconds, measured")
    report.draw_line(axes, counted, ":", marker=".", color=report.GREY, label="operations, counted")
    printed = PAPER_SPEEDUPS[results[-1].workload]
    axes.plot([PAPER_SIZE], [printed], "x", color="black", label=f"the paper, seconds: {printed:.1f}")
    axes.axhline(1, color="black", linewidth=0.5)
    sizes = [size for size, _ in (*measured, *counted)]
    _finish(axes, sizes, "times", "how many times less sharing takes")


def _finish(axes: report.Axes, sizes: Sequence[int], label: str, title: str) -> None:
    axes.set_yscale("log")
    report.put_sizes(axes, sizes)
    axes.set(xlabel="queries", ylabel=label, title=title)
    axes.margins(y=0.1)
    report.put_legend(axes)
