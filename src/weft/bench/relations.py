"""The bench of many relations: what a batch costs Spark and the driver until its partials are there.

Queries that group in 1 to 16 ways, with many predicates, against one ordinary grouped query over the same
batch. Finals are not in it: how many results there are depends on windows, not on relations.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Annotated, ClassVar

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.bench import Bench
from weft.bench.dataset import Dataset
from weft.bench.departures import departure_queries, make_departures
from weft.bench.options import Check, Checked, Counts, Repeats, Warmups
from weft.bench.records import Record, Seconds
from weft.bench.runs import How, Input, engine_for
from weft.bench.same_rows import differences_from_plain
from weft.optimizer.rules import Sharing
from weft.spark.job.job import BatchJob
from weft.spark.job.sampling import take_sample
from weft.spark.job.verdicts import Bounds
from weft.stream.planner import Planner

_ORDINARY = "one ordinary query"
_COMPARED_ROWS = 5_000
"""Rows over which results are compared: few, for finals and plain queries take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Record):
    """One number of GROUP BYs."""

    groupings: int
    relations: int
    """As planned."""
    groups: int = 0
    """What the stage made of the batch."""
    seconds: float = 0.0
    runs_s: tuple[float, ...] = ()
    ratio: float = 0.0
    """In units of one ordinary query."""
    compared_rows: int
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationsResult(report.Result):
    """What `weft bench relations` found."""

    computed: ClassVar[str] = "rows_equal"
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
    def rows_equal(self) -> bool | None:
        """Whether all rows that were compared are plain Spark's."""
        return not any(size.differences for size in self.sizes)

    def show(self, console: Console) -> None:
        """Print the ratio for each number of relations."""
        rows = [(_ORDINARY, "", "", Seconds(self.ordinary_runs_s), 1.0)]
        rows += [
            (f"{size.groupings}", f"{size.relations}", f"{size.groups:,}", Seconds(size.runs_s), size.ratio)
            for size in self.sizes
        ]
        columns = {
            "GROUP BYs": "{0}", "relations": "{1}", "groups": "{2}", "seconds": "{3.median:.3f}",
            "least": "{3.least:.3f}", "most": "{3.most:.3f}", "ratio_to_one_query": "{4:.2f}",
        }  # fmt: skip
        caption = (
            f"From rows in Parquet to partials in the driver, finals aside. Medians of {self.repeats} rounds "
            "by turns: the ordinary query (one WHERE, groupBy(window, key)) runs before each of the others. "
            f"{self.cores} cores, pyspark {self.pyspark}."
        )
        title = f"{self.queries:,} queries over a batch of {self.rows:,} rows"
        console.print(report.make_table(title, columns, rows, caption=caption))
        if not self.rows_equal:
            differences = [text for size in self.sizes for text in size.differences[:5]]
            console.print("\n".join(["[red]rows differ[/red]", *differences]))
            return
        compared = sum(size.compared_rows for size in self.sizes)
        console.print(
            f"rows equal plain Spark's: {compared:,} rows compared" if compared else "rows were not compared"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations(Bench[RelationsResult]):
    """Queries with 1 to 16 GROUP BYs over one batch: its Spark stage against one ordinary grouped query.

    Example: weft bench relations -r 7 -r 16 --rows 50000
    """

    offers = "relations query_count batch_rows repeats check json data cores"
    relations: Annotated[
        Counts,
        Option("--relations", "-r", help="Ways in which queries group; may be repeated.", min=1, max=16),
    ] = (1, 2, 4, 7, 16)
    query_count: Annotated[int, Option("--queries", "-n", help="How many queries.", min=1)] = 60
    batch_rows: Annotated[int, Option("--rows", help="Rows of the batch.", min=1)] = 50_000
    repeats: Repeats = 7
    warmups: Warmups = 3
    check: Checked = Check.SAMPLE
    seed: int = 1

    def measure(self) -> Iterator[RelationsResult]:
        """Measure each number of GROUP BYs by turns."""
        spark, rows = self.session(), self.batch_rows
        dataset = make_departures(spark, self.data, rows=rows, seed=self.seed)
        few = make_departures(spark, self.data, rows=min(rows, _COMPARED_ROWS), seed=self.seed)
        given, batch = Input(spark=spark, dataset=few, files_per_trigger=few.files), dataset.read(spark)
        stages = {
            f"{count} GROUP BYs": self._stage(given, dataset, batch, count)
            for count in sorted(self.relations)
        }
        ordinary = (_ORDINARY, partial(_timed, partial(_ordinary, batch)))
        turns = [(name, partial(_timed, run)) for name, (_, run) in stages.items()]
        # As many turns of the ordinary query as of the others together: it is what all are divided by.
        taken = self.alternate([turn for stage in turns for turn in (ordinary, stage)])
        one_query = taken[_ORDINARY]
        yield RelationsResult(
            rows=rows, queries=self.query_count, repeats=self.repeats, cores=given.cores,
            pyspark=pyspark.__version__, ordinary_s=one_query.median, ordinary_runs_s=one_query.runs,
            sizes=tuple(
                replace(
                    size, groups=len(run()), seconds=taken[name].median, runs_s=taken[name].runs,
                    ratio=taken[name].median / one_query.median,
                )
                for name, (size, run) in stages.items()
            ),
        )  # fmt: skip

    def _stage(
        self, few: Input, dataset: Dataset, batch: DataFrame, groupings: int
    ) -> tuple[Size, Callable[[], Sized]]:
        """Compare what the queries give over few rows; return what is known of the batch's stage, and it."""
        queries = departure_queries(groupings, queries=self.query_count, seed=self.seed)
        engine = engine_for(few, queries, How(sharing=Sharing.JOINT))
        engine.run()
        names = [query.name for query in self.check.choose(queries)]
        pipeline = engine.pipeline(dataset.name)
        assert pipeline is not None
        planner, stream = Planner(sharing=Sharing.JOINT), pipeline.stream
        sampled = partial(take_sample, batch, stream=stream, tables={}, functions={})
        plan = planner.plan([query.logical for query in engine.queries.values()], sampled)
        bounds = Bounds(
            watermark=None, future=None, begin=planner.begin, span=dataset.span_ms * 1000,
            groups=planner.groups_per_slice, groups_per_row=planner.groups_per_row(plan),
        )  # fmt: skip
        job = BatchJob(plan, stream, {}, {})
        size = Size(
            groupings=groupings, relations=len(job.relations),
            compared_rows=sum(engine.results(name).num_rows for name in names),
            differences=differences_from_plain(engine, names),
        )  # fmt: skip
        return size, partial(job.run, batch, bounds)


def _ordinary(batch: DataFrame) -> pa.Table:
    """Run one grouped query as Spark's guide has it."""
    chosen = batch.where("delay > 10").groupBy(F.window("time", "1 hour"), "origin")
    return chosen.agg(F.count(F.lit(1)).alias("n"), F.avg("delay").alias("delay")).toArrow()


def _timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began
