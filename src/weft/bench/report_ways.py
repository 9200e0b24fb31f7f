"""What `weft bench figures` found: the paper's Figures 13 to 16, timed, as tables and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console

from weft.bench import report
from weft.bench.equality import Comparison
from weft.bench.operations import PAPER_SECONDS
from weft.bench.records import Record, Seconds, plain
from weft.bench.signatures import PAPER_COUNTS, PAPER_SIZE, Sharing
from weft.bench.workloads import Predicates

FIGURES: dict[int, Predicates | None] = {
    13: None,
    14: Predicates.FRAGMENTS,
    15: Predicates.REGULAR,
    16: Predicates.LOW,
}
"""The paper's figures and their workloads; the first has no predicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(Record):
    """What one way took for one number of queries."""

    queries: int
    way: str
    seconds: Seconds
    """All counted rounds; none if the way took longer than there was patience for, or would have."""
    relations: int
    """Of its plan; none if it was not run."""
    partial_ops: int
    final_ops: int

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        names = "queries way relations partial_ops final_ops".split()
        runs = self.seconds.runs
        median = self.seconds.median if runs else None
        return {**{name: getattr(self, name) for name in names}, "seconds": median, "runs_s": runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysResult(report.Result):
    """One of the paper's figures over one number of rows."""

    figure: int
    rows: int
    seeds: tuple[int, ...]
    repeats: int
    warmups: int
    measured: int
    patience_s: float
    cores: int
    taken: tuple[Taken, ...]
    compared: Comparison

    @property
    def passed(self) -> bool:
        """Whether all rows compared are right, in every way."""
        return self.compared.equal is not False

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        names = "figure rows seeds repeats warmups measured patience_s cores taken".split()
        compared = {"rows_equal": self.compared.equal, "differences": self.compared.differences}
        return {**{name: plain(getattr(self, name)) for name in names}, **compared}

    def show(self, console: Console) -> None:
        """Print the seconds of every way, and what was compared."""
        caption = (
            f"Medians of all counted rounds ({self.repeats} for each of {report.seeds_of(self.seeds)}), "
            f"with their least and most, after {self.warmups} that warm up; every way has a checkpoint "
            f"on disk. One that takes more than {self.patience_s:g} s is not run again, and one that would "
            "is not run. The paper's program had 1,138,636 rows in memory and nothing durable."
        )
        if self.figure == 13:
            caption += (
                f" Unshared: the mean of {self.measured} engines with one query each, times all; each engine "
                "reads the stream."
            )
        title = f"{title_of(self.figure)}, {self.rows:,} rows"
        columns = "queries|<way|seconds|spread|relations|partial|final|the paper, s"
        rows = [_row(self, one) for one in self.taken]
        console.print(report.make_table(title, columns, rows, caption=caption, no_wrap=True))
        console.print(report.equality(self.compared))

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw each figure: seconds of every way against the number of queries."""
        figure = report.new_figure(5.5 * len(results), 5.4)
        for axes, result in zip(figure.subplots(1, len(results), squeeze=False)[0], results, strict=True):
            _draw(axes, result)
        return figure


def title_of(figure: int) -> str:
    """Return a figure's workload in words."""
    workload = FIGURES[figure]
    return f"Figure {figure}, {'A: n windows' if workload is None else workload.described}"


def printed_seconds(figure: int) -> dict[str, float]:
    """Return what the paper printed for 256 queries, by the name of the way that does the same."""
    workload = FIGURES[figure]
    if workload is None:
        return {str(strategy): seconds for strategy, seconds in PAPER_SECONDS.items()}
    both = PAPER_COUNTS[workload]
    return {"unshared": both[Sharing.UNSHARED].seconds, "joint": both[Sharing.SHARED].seconds}


def _row(result: WaysResult, taken: Taken) -> tuple[str, ...]:
    paper = printed_seconds(result.figure).get(taken.way) if taken.queries == PAPER_SIZE else None
    timed = (f"> {result.patience_s:g}" if taken.relations else "not run", "")
    if taken.seconds.runs:
        timed = (f"{taken.seconds.median:,.2f}", taken.seconds.spread)
    numbers = (f"{number:,}" for number in (taken.relations, taken.partial_ops, taken.final_ops))
    return (f"{taken.queries:,}", taken.way, *timed, *numbers, "" if paper is None else f"{paper:.2f}")


def _draw(axes: report.Axes, result: WaysResult) -> None:
    printed = printed_seconds(result.figure)
    ways = list(dict.fromkeys(one.way for one in result.taken))
    colors = (report.RED, report.ORANGE, report.GREY, report.BLUE, report.GREEN)
    for way, color in zip(ways, colors, strict=False):
        timed = [one for one in result.taken if one.way == way and one.seconds.runs]
        sizes, seconds = [one.queries for one in timed], [one.seconds for one in timed]
        middles = [one.median for one in seconds]
        axes.errorbar(sizes, middles, report.around(seconds), color=color, marker="o", capsize=3, label=way)
        if way in printed:
            axes.plot([PAPER_SIZE], [printed[way]], "x", color=color, label=f"the paper, {way}")
    report.put_sizes(axes, [*(one.queries for one in result.taken), PAPER_SIZE])
    axes.set_yscale("log")
    axes.set(xlabel="queries", ylabel="seconds, least to most")
    title = f"{title_of(result.figure)}\n{result.rows:,} rows, {result.cores} cores"
    axes.set_title(title, fontsize="medium")
    report.put_legend(axes)
