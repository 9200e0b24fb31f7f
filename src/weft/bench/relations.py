"""The bench of many relations: what a batch costs Spark and the driver until its partials are there.

Queries that group in 1 to 16 ways, with many predicates, against one ordinary grouped query over the same
batch. Finals are not in it: how many results there are depends on windows, not on relations. The rows are
departures of a few months, few a slice, and the queries are what dashboards ask of them.
"""

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.bench import Bench, Result
from weft.bench.dataset import Dataset, make, moment, uniform
from weft.bench.equality import Comparison, compare_with_plain
from weft.bench.options import Check, Checked, Counts, Repeats, Warmups
from weft.bench.records import Record, Seconds
from weft.bench.runs import Input, Settings, engine_for
from weft.bench.workloads import SqlQuery
from weft.optimizer.rules import Sharing
from weft.spark.job.job import BatchJob
from weft.spark.job.sampling import take_sample
from weft.spark.job.verdicts import Bounds
from weft.stream.planner import Planner

_ORDINARY = "one ordinary query"
_COMPARED_ROWS = 5_000
"""Rows over which results are compared: few, for finals and plain queries take long."""
COLUMNS = (
    "time TIMESTAMP, origin STRING, dest STRING, carrier STRING, plane INT, delay DOUBLE, air_time DOUBLE, "
    "distance BIGINT"
)
_MS_PER_ROW = 100_000
"""About 36 departures an hour."""
GROUPINGS = (
    "origin", "dest", "carrier", "origin, dest", "origin, carrier", "dest, carrier", "", "plane",
    "hour(time)", "origin, hour(time)", "carrier, hour(time)", "upper(origin)", "origin, dest, carrier",
    "plane % 10", "distance > 1000", "dayofweek(time)",
)  # fmt: skip
"""What queries group by: each is a relation."""
_VALUES = (
    "count(*)", "avg(delay)", "sum(distance)", "max(delay)", "min(air_time)", "avg(air_time)",
    "sum(distance * 2)", "stddev(delay)",
)  # fmt: skip
_TESTS = (
    "delay > {minutes}", "distance > {miles}", "origin = '{origin}'", "carrier IN ('C{one}', 'C{two}')",
    "delay > {minutes} AND origin = '{origin}'", "distance BETWEEN {miles} AND {further}",
    "delay > {minutes} AND carrier = 'C{one}'",
)  # fmt: skip
_WINDOWS = (
    ("5 minutes", "5 minutes"), ("10 minutes", "5 minutes"), ("15 minutes", "15 minutes"),
    ("1 hour", "15 minutes"), ("1 hour", "1 hour"), ("3 hours", "1 hour"), ("6 hours", "1 hour"),
    ("1 day", "6 hours"), ("1 day", "1 day"),
)  # fmt: skip
_ORIGINS = ("EWR", "JFK", "LGA")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Record):
    """One number of GROUP BYs."""

    groupings: int
    relations: int
    """As planned."""
    groups: int
    """Partials of the batch."""
    seconds: Seconds
    ratio: float
    """In units of one ordinary query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationsResult(Result):
    """What `weft bench relations` found."""

    workload: str = "dashboards of departures"
    rows: int
    queries: int
    one_query: Seconds
    sizes: tuple[Size, ...]

    def show(self, console: Console) -> None:
        """Print the ratio for each number of relations."""
        rows = [(_ORDINARY, "", "", self.one_query, 1.0)]
        rows += [
            (f"{size.groupings}", f"{size.relations}", f"{size.groups:,}", size.seconds, size.ratio)
            for size in self.sizes
        ]
        columns = {
            "GROUP BYs": "{0}", "relations": "{1}", "groups": "{2}", "seconds": "{3.median:.3f}",
            "least": "{3.least:.3f}", "most": "{3.most:.3f}", "ratio_to_one_query": "{4:.2f}",
        }  # fmt: skip
        caption = (
            "From rows in Parquet to partials in the driver, finals aside. Medians of "
            f"{self.bench.repeats} rounds by turns: the ordinary query (one WHERE, groupBy(window, key)) "
            f"runs before each of the others. {self.cores} cores, pyspark {pyspark.__version__}."
        )
        title = f"{self.queries:,} queries over a batch of {self.rows:,} rows"
        console.print(report.make_table(title, columns, rows, caption=caption))
        console.print(report.equality(self.compared))


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
        """Measure each number of GROUP BYs, alternating."""
        spark, rows = self.session(), self.batch_rows
        dataset = make_departures(spark, self.data, rows=rows, seed=self.seed)
        few = make_departures(spark, self.data, rows=min(rows, _COMPARED_ROWS), seed=self.seed)
        given, batch = Input(spark=spark, dataset=few, files_per_trigger=few.files), dataset.read(spark)
        stages = {
            f"{count} GROUP BYs": _Stage(self, given, dataset, batch, count)
            for count in sorted(self.relations)
        }
        ordinary = (_ORDINARY, partial(_timed, partial(_ordinary, batch)))
        turns = [(name, partial(_timed, stage.run)) for name, stage in stages.items()]
        # As many turns of the ordinary query as of the others together: it is what all are divided by.
        taken = self.alternate([turn for stage in turns for turn in (ordinary, stage)])
        one_query = taken[_ORDINARY]
        yield RelationsResult(
            bench=self, cores=given.cores, rows=rows, queries=self.query_count, one_query=one_query,
            compared=Comparison.pooled([stage.compared for stage in stages.values()]),
            sizes=tuple(
                Size(
                    groupings=stage.groupings, relations=len(stage.job.relations), groups=len(stage.run()),
                    seconds=taken[name], ratio=taken[name].median / one_query.median,
                )
                for name, stage in stages.items()
            ),
        )  # fmt: skip


class _Stage:
    """The Spark stage of a batch for queries with a number of GROUP BYs, and their rows over few rows."""

    def __init__(
        self, bench: Relations, few: Input, dataset: Dataset, batch: DataFrame, groupings: int
    ) -> None:
        self.groupings = groupings
        queries = departure_queries(groupings, queries=bench.query_count, seed=bench.seed)
        engine = engine_for(few, queries, Settings(sharing=Sharing.JOINT))
        engine.run()
        self.compared = compare_with_plain(engine, [query.name for query in bench.check.choose(queries)])
        pipeline = engine.pipeline(dataset.name)
        assert pipeline is not None
        planner, stream = Planner(sharing=Sharing.JOINT), pipeline.stream
        sampled = partial(take_sample, batch, stream=stream, tables={}, functions={})
        plan = planner.plan([query.logical for query in engine.queries.values()], sampled)
        self._batch, self._bounds = batch, Bounds(
            watermark=None, future=None, begin=planner.begin, span=dataset.span_ms * 1000,
            groups=planner.groups_per_slice, groups_per_row=planner.groups_per_row(plan),
        )  # fmt: skip
        self.job = BatchJob(plan, stream, {}, {})

    def run(self) -> Sized:
        """Return the batch's partials."""
        return self.job.run(self._batch, self._bounds)


def _ordinary(batch: DataFrame) -> pa.Table:
    """Run one grouped query as Spark's guide has it."""
    chosen = batch.where("delay > 10").groupBy(F.window("time", "1 hour"), "origin")
    return chosen.agg(F.count(F.lit(1)).alias("n"), F.avg("delay").alias("delay")).toArrow()


def _timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def make_departures(spark: SparkSession, data: Path, *, rows: int, files: int = 1, seed: int = 1) -> Dataset:
    """Write departures in the order of time, or return those that an earlier run wrote."""
    folder, span_ms = data / f"departures-{rows}-{files}-seed{seed}", rows * _MS_PER_ROW
    dataset = Dataset(
        name="departures", folder=folder, columns=COLUMNS, rows=rows, files=files, span_ms=span_ms
    )
    return make(spark, dataset, departures, seed)


def departures(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into departures."""

    def chosen(salt: int, count: int) -> Column:
        # Some are met more often than others.
        return F.floor(F.pow(uniform(seed, salt), F.lit(2.0)) * F.lit(count)).cast("int")

    delay = F.round(F.lit(-20.0) - F.lit(30.0) * F.ln(F.lit(1.0) - uniform(seed, 6)))
    return numbered.select(
        moment(dataset, uniform(seed, 2)).alias("time"),
        F.element_at(F.array(*map(F.lit, _ORIGINS)), chosen(3, len(_ORIGINS)) + 1).alias("origin"),
        F.concat(F.lit("D"), chosen(4, 105)).alias("dest"),
        F.concat(F.lit("C"), chosen(5, 16)).alias("carrier"),
        chosen(7, 4_000).alias("plane"),
        F.when(uniform(seed, 8) > 0.02, delay).alias("delay"),
        F.when(uniform(seed, 8) > 0.03, F.round(uniform(seed, 9) * 400)).alias("air_time"),
        F.floor(uniform(seed, 9) * 2_500).cast("bigint").alias("distance"),
    )


def departure_queries(relations: int, *, queries: int, seed: int = 1) -> list[SqlQuery]:
    """Return queries that group in a number of ways, each with a predicate."""
    chance = Random(seed)
    return [
        SqlQuery(name=f"q{number}", sql=_text(GROUPINGS[number % relations], chance))
        for number in range(queries)
    ]


def _text(grouping: str, chance: Random) -> str:
    keys = [key.strip() for key in grouping.split(",") if key]
    values = chance.sample(_VALUES, chance.randint(1, 3))
    outputs = [f"{key} AS k{index}" for index, key in enumerate(keys)]
    outputs += [f"{value} AS v{index}" for index, value in enumerate(values)]
    miles = chance.choice((200, 400, 600, 800))
    test = chance.choice(_TESTS).format(
        minutes=chance.choice((0, 5, 10, 15, 20, 30, 45, 60, 90, 120)), miles=miles,
        further=miles + chance.choice((500, 1000)), origin=chance.choice(_ORIGINS),
        one=chance.randrange(4), two=chance.randrange(4, 8),
    )  # fmt: skip
    window = ", ".join(f"'{length}'" for length in chance.choice(_WINDOWS))
    groups = ", ".join([f"window(time, {window})", *keys])
    return f"SELECT {', '.join(outputs)} FROM departures WHERE {test} GROUP BY {groups}"
