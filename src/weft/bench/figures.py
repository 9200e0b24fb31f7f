"""What was measured of one number of queries against ordinary Spark: all counted rounds, none chosen."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from weft.bench import report
from weft.bench.equality import Comparison
from weft.bench.fixed_cost import FixedCost
from weft.bench.records import Record, Seconds, concatenated, plain, pooled_by
from weft.optimizer.slices import Slicing


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(Record):
    """What was measured for one number of queries, from one seed or from several."""

    queries: int
    rows: int
    seeds: tuple[int, ...] = pooled_by(concatenated)
    slicing: Slicing
    weft: Seconds
    """With a checkpoint on disk."""
    without_checkpoint: Seconds
    """Weft with nothing durable."""
    ordinary: Seconds
    """All counted runs of all ordinary queries that were measured."""
    scan: Seconds
    pairs: tuple[float, ...] = pooled_by(concatenated)
    """Each run of Weft over each ordinary query's run of the same round."""
    partial_ops: int
    final_ops: int
    relations: int
    """Of Weft's plan."""
    measured_queries: int
    """How many ordinary queries were run; `unshared_s` is their mean, times all."""
    repeats: int
    warmups: int
    batches: int
    windows: int
    cores: int
    pyspark: str
    register_s: float
    stages_s: dict[str, float]
    """Weft's seconds within batches, in its last run."""
    compared: Comparison
    fixed: FixedCost

    @property
    def weft_s(self) -> float:
        """Weft with a checkpoint on disk: the median of all counted rounds, as the others."""
        return self.weft.median

    @property
    def one_query_s(self) -> float:
        """One ordinary query."""
        return self.ordinary.median

    @property
    def unshared_s(self) -> float:
        """All queries as ordinary ones, by the mean of those measured."""
        return sum(self.ordinary.runs) / len(self.ordinary.runs) * self.queries

    @property
    def ratio_to_one_query(self) -> float:
        """All of Weft's queries, in units of one ordinary query."""
        return self.weft_s / self.one_query_s

    @property
    def ratio_without_checkpoint(self) -> float:
        """The same, with nothing durable on Weft's side."""
        return self.without_checkpoint.median / self.one_query_s

    @property
    def ratio_by_pairs(self) -> float:
        """The median of runs of the same round, one over the other: steady on a busy machine."""
        return median(self.pairs)

    @property
    def speedup_vs_unshared(self) -> float:
        """How many times as long the ordinary queries take together."""
        return self.unshared_s / self.weft_s

    @property
    def rows_equal(self) -> bool | None:
        """Whether all rows compared are plain Spark's; None when nothing was compared."""
        return self.compared.equal

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        timed = {
            "weft": self.weft,
            "weft_without_checkpoint": self.without_checkpoint,
            "one_query": self.ordinary,
            "scan": self.scan,
        }
        names = (
            "queries rows seeds slicing partial_ops final_ops relations measured_queries repeats warmups "
            "batches windows cores pyspark register_s stages_s unshared_s ratio_to_one_query "
            "ratio_without_checkpoint ratio_by_pairs speedup_vs_unshared rows_equal compared"
        )
        return {
            **{name: plain(getattr(self, name)) for name in names.split()},
            **{f"{name}_s": seconds.median for name, seconds in timed.items()},
            "spread_s": {name: (seconds.least, seconds.most) for name, seconds in timed.items()},
            "pairs_spread": (min(self.pairs), max(self.pairs)),
            "runs_s": {name: seconds.runs for name, seconds in timed.items()},
            "fixed_cost_ms": self.fixed.over_spark_ms,
            "fixed_cost_without_checkpoint_ms": self.fixed.without_checkpoint_ms,
            "empty_batch_ms": self.fixed.empty_ms,
            "planning_ms": self.fixed.planning_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstSpark(report.Result):
    """What a bench against ordinary Spark found for one number of queries."""

    figures: Figures

    @property
    def passed(self) -> bool:
        """Whether all rows that were compared are plain Spark's."""
        return self.figures.rows_equal is not False


Found = TypeVar("Found", bound=AgainstSpark)


def headlines(results: Sequence[Found]) -> list[Found]:
    """Return one result for each number of rows and queries: over all seeds, where there are several."""
    return list({(one.figures.rows, one.figures.queries): one for one in results}.values())


def seconds_table(figures: Figures, *, joins: str = "") -> Table:
    """Return the seconds of Weft, ordinary queries and a scan."""
    timed = {
        f"Weft, {figures.queries:,} queries": figures.weft,
        "Weft without a checkpoint": figures.without_checkpoint,
        f"one ordinary query (of {figures.measured_queries})": figures.ordinary,
        "bare scan": figures.scan,
    }
    one = figures.one_query_s
    rows = [
        (name, f"{seconds.median:,.2f}", seconds.spread, f"{seconds.median / one:,.2f}")
        for name, seconds in timed.items()
    ]
    scaled = (f"{figures.unshared_s:,.2f}", "", f"{figures.unshared_s / one:,.2f}")
    rows.append((f"{figures.queries:,} ordinary queries, scaled", *scaled))
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in figures.stages_s.items())
    caption = (
        f"Medians of all {len(figures.weft.runs)} counted rounds, and their least and most; "
        f"{figures.warmups} rounds before them warm up. In a round each runs once, every second round "
        f"backwards. {figures.batches} micro-batches, {figures.cores} cores, pyspark {figures.pyspark}, "
        f"{figures.slicing} slices. All have a checkpoint on the same disk unless it says otherwise. An "
        f"ordinary query is withWatermark, {joins}groupBy(window), append mode; it throws its results away, "
        "which favours Spark. Weft's time includes its queries' text, finals and results in Parquet (in "
        f"batches: {stages})."
    )
    title = f"{figures.queries:,} queries over {figures.rows:,} rows, {report.seeds_of(figures.seeds)}"
    return report.make_table(title, "|seconds|spread|of one query", rows, caption=caption, no_wrap=True)


def operations_table(
    figures: Figures,
    section: str,
    counted: Iterable[Sequence[str]],
    printed: Iterable[Sequence[str]],
    caption: str,
) -> Table:
    """Return the operations of all queries: counted, of Weft's run, and as the paper printed them."""
    relations = f"{figures.relations:,} relation{'s' if figures.relations != 1 else ''}"
    own = (figures.partial_ops, figures.final_ops)
    run = (f"Weft's run, {relations}", *(f"{number:,}" for number in own), f"{figures.weft_s:,.2f}")
    title = f"operations of {figures.queries:,} queries (STS, section {section})"
    rows = [*counted, run, *printed]
    return report.make_table(title, "|partial|final|seconds", rows, caption=caption, no_wrap=True)


def show_checks(figures: Figures, console: Console) -> None:
    """Print what was compared, and the ratios that all benches against Spark have."""
    fixed = figures.fixed
    console.print(report.equality(figures.compared))
    console.print(
        f"fixed_cost_ms {fixed.over_spark_ms:.0f} per micro-batch over Spark's own {fixed.empty_ms:.0f} ms, "
        f"new plans aside (they took {fixed.planning_ms:.0f} ms a batch); without a checkpoint "
        f"{fixed.without_checkpoint_ms:.0f}\n"
        f"ratio_to_one_query {figures.ratio_to_one_query:.2f}; ratio_by_pairs {figures.ratio_by_pairs:.2f} "
        f"({min(figures.pairs):.2f}–{max(figures.pairs):.2f}); without a checkpoint "
        f"{figures.ratio_without_checkpoint:.2f}\n"
        f"speedup_vs_unshared {figures.speedup_vs_unshared:,.0f}"
    )
