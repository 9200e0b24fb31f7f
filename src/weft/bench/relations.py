"""The bench of many relations: what a batch costs Spark and the driver until its partials are there.

Queries that group in 1 to 16 ways, with many predicates, against one ordinary grouped query over the same
batch. Finals are not in it: how many results there are depends on windows, not on relations.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from weft.bench.dataset import DEFAULT_DATA, Dataset
from weft.bench.departures import DepartureQuery, departure_queries, make_departures
from weft.bench.equality import Check
from weft.bench.measure import Seconds, alternate
from weft.bench.report import save
from weft.bench.same_rows import difference
from weft.engine import Engine
from weft.optimizer.rules import Sharing
from weft.spark.job.job import BatchJob, Bounds
from weft.spark.job.sampling import take_sample
from weft.spark.session.local import local_session
from weft.stream.planner import Planner

SIZES = (1, 2, 4, 7, 16)
_ORDINARY = "one ordinary query"
_COMPARED_ROWS = 5_000
"""Results are compared over so many rows, so that finals and plain queries do not take most of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One number of GROUP BYs."""

    groupings: int
    relations: int
    """As planned."""
    groups: int
    """What the stage made of the batch."""
    seconds: float
    runs_s: tuple[float, ...]
    ratio: float
    """In units of one ordinary query."""
    compared_rows: int
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationsResult:
    """What `weft bench relations` found."""

    workload: str = "dashboards of departures"
    rows: int
    queries: int
    repeats: int
    cores: int
    pyspark: str
    ordinary_s: float
    ordinary_runs_s: tuple[float, ...]
    sizes: tuple[Size, ...]

    @property
    def rows_equal(self) -> bool:
        """Whether all rows that were compared are plain Spark's."""
        return not any(size.differences for size in self.sizes)

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {**asdict(self), "rows_equal": self.rows_equal}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """The stage of one number of GROUP BYs, ready to run."""

    groupings: int
    job: BatchJob
    bounds: Bounds
    compared_rows: int
    differences: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its turns are called."""
        return f"{self.groupings} GROUP BYs"


def run_relations(
    *,
    console: Console,
    relations: Sequence[int] = SIZES,
    queries: int = 60,
    rows: int = 50_000,
    repeats: int = 7,
    warmups: int = 3,
    check: Check | str = Check.SAMPLE,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    memory: str = "4g",
    seed: int = 1,
    json: Path | None = None,
) -> RelationsResult:
    """Measure each number of GROUP BYs by turns, print a table, and write JSON if asked."""
    spark = local_session(cores=cores, memory=memory)
    dataset = make_departures(spark, data, rows=rows, seed=seed)
    batch = dataset.read(spark)
    few = make_departures(spark, data, rows=min(rows, _COMPARED_ROWS), seed=seed)
    stages = [
        _stage(
            spark,
            batch,
            few,
            departure_queries(count, queries=queries, seed=seed),
            Check(check),
            count,
            dataset.span_ms * 1000,
        )
        for count in sorted(relations)
    ]
    ordinary = (_ORDINARY, partial(_timed, partial(_ordinary, batch)))
    turns = [(stage.name, partial(_timed, partial(stage.job.run, batch, stage.bounds))) for stage in stages]
    # As many turns of the ordinary query as of the others together: it is what all are divided by.
    taken = alternate(
        [turn for stage in turns for turn in (ordinary, stage)],
        repeats=repeats,
        warmups=warmups,
        console=console,
    )
    one = taken[_ORDINARY]
    result = RelationsResult(
        rows=rows,
        queries=queries,
        repeats=repeats,
        cores=spark.sparkContext.defaultParallelism,
        pyspark=pyspark.__version__,
        ordinary_s=one.median,
        ordinary_runs_s=one.runs,
        sizes=tuple(_size(stage, taken[stage.name], one.median, batch) for stage in stages),
    )
    show_relations(result, console)
    save([result.as_json()], json, console)
    return result


def _stage(
    spark: SparkSession,
    batch: DataFrame,
    few: Dataset,
    queries: Sequence[DepartureQuery],
    check: Check,
    groupings: int,
    span_us: int,
) -> _Stage:
    """Run the queries once over few rows, compare what they give, and return their stage for the batch."""
    engine = Engine(spark, sharing=Sharing.JOINT)
    engine.load(few.statement(few.files))
    for query in queries:
        engine.add(query.sql, name=query.name)
    engine.run()
    names = [query.name for query in check.choose(queries)]
    found = {name: engine.results(name) for name in names}
    compared = (difference(name, found[name], engine.run_plain(name)) for name in names)
    said = [one for one in compared if one is not None]
    pipeline = engine.pipeline(few.stream)
    assert pipeline is not None
    planner, stream = Planner(sharing=Sharing.JOINT), pipeline.stream
    sampled = partial(take_sample, batch, stream=stream, tables={}, functions={})
    plan = planner.plan([query.logical for query in engine.queries.values()], sampled)
    bounds = Bounds(
        watermark=None,
        future=None,
        begin=planner.begin,
        span=span_us,
        groups=planner.groups_per_slice,
        groups_per_row=planner.groups_per_row(plan),
    )
    return _Stage(
        groupings=groupings,
        job=BatchJob(plan, stream, {}, {}),
        bounds=bounds,
        compared_rows=sum(table.num_rows for table in found.values()),
        differences=tuple(said),
    )


def _ordinary(batch: DataFrame) -> pa.Table:
    """Run one grouped query as Spark's guide has it."""
    chosen = batch.where("delay > 10").groupBy(F.window("time", "1 hour"), "origin")
    return chosen.agg(F.count(F.lit(1)).alias("n"), F.avg("delay").alias("delay")).toArrow()


def _timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def _size(stage: _Stage, seconds: Seconds, ordinary_s: float, batch: DataFrame) -> Size:
    return Size(
        groupings=stage.groupings,
        relations=len(stage.job.relations),
        groups=len(stage.job.run(batch, stage.bounds)),
        seconds=seconds.median,
        runs_s=seconds.runs,
        ratio=seconds.median / ordinary_s,
        compared_rows=stage.compared_rows,
        differences=stage.differences,
    )


def show_relations(result: RelationsResult, console: Console) -> None:
    """Print the ratio for each number of relations."""
    title = f"{result.queries:,} queries over a batch of {result.rows:,} rows"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for name in ("GROUP BYs", "relations", "groups", "seconds", "least", "most", "ratio_to_one_query"):
        table.add_column(name, justify="right")
    ordinary = result.ordinary_runs_s
    table.add_row(_ORDINARY, "", "", *_spread(result.ordinary_s, ordinary), "1.00")
    for size in result.sizes:
        table.add_row(
            f"{size.groupings}", f"{size.relations}", f"{size.groups:,}", *_spread(size.seconds, size.runs_s),
            f"{size.ratio:.2f}",
        )  # fmt: skip
    table.caption = (
        f"From rows in Parquet to partials in the driver, finals aside. Medians of {result.repeats} rounds "
        "by turns: the ordinary query (one WHERE, groupBy(window, key)) runs before each of the others. "
        f"{result.cores} cores, pyspark {result.pyspark}."
    )
    console.print(table)
    compared = sum(size.compared_rows for size in result.sizes)
    told = [one for size in result.sizes for one in size.differences[:5]]
    equal = f"rows equal plain Spark's: {compared:,} rows compared" if compared else "rows were not compared"
    console.print(equal if result.rows_equal else "\n".join(["[red]rows differ[/red]", *told]))


def _spread(median: float, runs: Sequence[float]) -> tuple[str, str, str]:
    return f"{median:.3f}", f"{min(runs):.3f}", f"{max(runs):.3f}"
