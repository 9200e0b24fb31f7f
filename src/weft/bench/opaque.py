"""The bench of predicates that are no thresholds: what 1 to 256 of them cost, in units of one ordinary query.

Weft, with a checkpoint on disk and its results in Parquet, and one ordinary Spark query with one such
predicate, with Spark's own checkpoint, run by turns over the same files with the same settings. Each is
warmed up by as many rounds, and a figure is the median of all counted ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import repeat
from pathlib import Path
from random import Random
from string import ascii_lowercase, digits
from typing import Annotated, ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.against_spark import WeftTurns
from weft.bench.bench import Bench, Result
from weft.bench.dataset import Dataset, make, moment, uniform
from weft.bench.equality import Comparison
from weft.bench.options import Check, Checked, Counts, OneSeed, Repeats, Timed
from weft.bench.records import Record, Seconds
from weft.bench.runs import Input, WeftRun, run_query
from weft.bench.trades import HOUR_MS
from weft.bench.workloads import BenchQuery, first_distinct
from weft.spark.session.local import DEFAULT_MEMORY
from weft.window import Window

SIZES = (1, 16, 64, 256)
_PAIRS, _WHOLE, _FEW = 4, 8, 4
"""Planned and actual times, columns of a hundred values, and columns of twenty."""
_NAMES = 3_000
COLUMNS = ", ".join(
    (
        "time TIMESTAMP, name STRING, value BIGINT",
        *(f"planned{n} BIGINT, actual{n} BIGINT" for n in range(_PAIRS)),
        *(f"c{n} BIGINT" for n in range(_WHOLE + _FEW)),
    )
)


class Case(StrEnum):
    """What the predicates of a set are like."""

    LIKE = "like"
    COMPARISONS = "comparisons"
    DIMENSIONS = "dimensions"

    @property
    def described(self) -> str:
        """The case in words."""
        return {
            Case.LIKE: f"LIKE on one column with {_NAMES:,} values",
            Case.COMPARISONS: f"comparisons of {2 * _PAIRS} columns",
            Case.DIMENSIONS: f"conditions on two or three of {_WHOLE + _FEW} columns",
        }[self]

    @property
    def bar(self) -> tuple[int, float]:
        """How many predicates may cost how many times one ordinary query."""
        return {Case.LIKE: (256, 2.5), Case.COMPARISONS: (64, 4.0), Case.DIMENSIONS: (256, 4.0)}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Record):
    """What was measured for one number of predicates."""

    computed: ClassVar[str] = "ratio ratio_by_pairs"
    case: str
    predicates: int
    weft: Seconds
    one_query: Seconds
    """The ordinary query that was run right after each run of Weft."""
    run: WeftRun
    """The last one of Weft."""
    compared: Comparison

    @property
    def ratio(self) -> float:
        """The median of Weft's runs over the median of the ordinary query's."""
        return self.weft.median / self.one_query.median

    @property
    def ratio_by_pairs(self) -> float:
        """The median of each run of Weft over the ordinary query right after it."""
        return self.weft.over(self.one_query).median


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueResult(Result):
    """All that was measured of a case."""

    case: str
    rows: int
    sizes: tuple[Size, ...]

    def show(self, console: Console) -> None:
        """Print a case as a table."""
        columns = {
            "predicates": "{0.predicates:,}", "Weft, s": "{0.weft.median:.2f}",
            "spread": "{0.weft.spread}", "one ordinary query, s": "{0.one_query.median:.2f}",
            "its spread": "{0.one_query.spread}",
            "ratio": "{0.ratio:.2f}", "by pairs": "{0.ratio_by_pairs:.2f}",
            "relations": "{0.run.relations:,}", "groups": "{0.run.groups:,}",
        }  # fmt: skip
        case = Case(self.case)
        title = f"{case.described}, no two windows alike; {self.rows:,} rows, {self.cores} cores"
        console.print(report.make_table(title, columns, self.sizes))
        console.print(report.equality(self.compared))
        count, most = case.bar
        console.print(f"bar: {count} predicates at most {most} × one ordinary query")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaquePredicates(Bench[OpaqueResult]):
    """Predicates that are no thresholds (LIKE, comparisons of columns, many columns), against ordinary Spark.

    Example: weft bench predicates --case like -n 16 -n 256
    """

    offers = "cases predicates stream_rows repeats check seed json data cores"
    cases: Annotated[
        tuple[Case, ...], Option("--case", help="Which predicates; may be repeated.")
    ] = tuple(Case)  # fmt: skip
    predicates: Annotated[
        Counts, Option("--predicates", "-n", help="How many; may be repeated.", min=1)
    ] = SIZES  # fmt: skip
    stream_rows: Annotated[int, Option("--rows", help="Rows in the hour.", min=1000)] = 1_000_000
    repeats: Repeats = 3
    check: Checked = Check.SAMPLE
    seed: OneSeed = 1
    memory: str = DEFAULT_MEMORY

    def measure(self) -> Iterator[OpaqueResult]:
        """Measure each number of predicates of each case."""
        spark = self.session()
        cores = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.shuffle.partitions", cores)
        rows, files = self.stream_rows, self.batches * cores
        dataset = make_readings(spark, self.data, rows=rows, files=files, seed=self.seed)
        given = Input(spark=spark, dataset=dataset, files_per_trigger=cores)
        for case in self.cases:
            sizes = tuple(self._measure(given, case, count) for count in sorted(self.predicates))
            compared = Comparison.pooled([size.compared for size in sizes])
            yield OpaqueResult(bench=self, cores=cores, case=case, rows=rows, sizes=sizes, compared=compared)

    def _measure(self, given: Input, case: Case, count: int) -> Size:
        queries = opaque_queries(case, count, seed=self.seed)
        with given.folder() as scratch:
            weft = WeftTurns(given, queries, self, scratch)
            turns: list[tuple[str, Timed]] = [
                (f"{count:,} predicates", weft.run),
                ("one ordinary query", partial(run_query, given, queries[0])),
            ]
            seconds, one_query = self.alternate(turns).values()
            compared = weft.compare()
        return Size(
            case=case, predicates=count, weft=seconds, one_query=one_query,
            run=weft.last, compared=compared,
        )  # fmt: skip


def opaque_queries(case: Case, count: int, *, seed: int = 1) -> tuple[BenchQuery, ...]:
    """Return queries of which no two have the same predicate or the same window.

    >>> opaque_queries(Case.LIKE, 1)[0].where
    "name LIKE 'u%'"
    """
    chance = Random(seed)
    write = {Case.LIKE: _like, Case.COMPARISONS: _comparison, Case.DIMENSIONS: _dimensions}[case]
    wheres = first_distinct((write(chance) for _ in repeat(None)), count)
    lengths = ((chance.randint(600, 900), chance.randint(300, 600)) for _ in repeat(None))
    windows = first_distinct(lengths, count)
    return tuple(
        BenchQuery(
            name=f"q{number:04d}", stream="readings", value="value", where=where,
            window=Window(range_ms=range_s * 1000, slide_ms=slide_s * 1000),
        )
        for number, (where, (range_s, slide_s)) in enumerate(zip(wheres, windows, strict=True))
    )  # fmt: skip


def _like(chance: Random) -> str:
    text = "".join(chance.choices(ascii_lowercase + digits, k=chance.choice((1, 2))))
    return f"name LIKE '{chance.choice(('{}%', '%{}', '%{}%')).format(text)}'"


def _comparison(chance: Random) -> str:
    pair = chance.randrange(_PAIRS)
    return f"actual{pair} {chance.choice('<>')} planned{pair} + {chance.randint(-5, 58)}"


def _dimensions(chance: Random) -> str:
    columns = sorted(chance.sample(range(_WHOLE + _FEW), chance.choice((2, 3))))
    return " AND ".join(_condition(chance, column) for column in columns)


def _condition(chance: Random, column: int) -> str:
    if column >= _WHOLE:
        return f"c{column} = {chance.randrange(20)}"
    low = chance.randint(0, 80)
    return f"c{column} BETWEEN {low} AND {low + chance.randint(4, 30)}"


def make_readings(spark: SparkSession, data: Path, *, rows: int, files: int, seed: int = 1) -> Dataset:
    """Write an hour of readings, or return those that an earlier run wrote."""
    folder = data / f"readings-{rows}-{files}-seed{seed}"
    dataset = Dataset(
        name="readings", folder=folder, columns=COLUMNS, rows=rows, files=files, span_ms=HOUR_MS
    )
    return make(spark, dataset, _readings, seed)


def _readings(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into readings: some names come often, and what is planned is mostly kept."""

    def whole(values: float, salt: int) -> Column:
        return F.floor(uniform(seed, salt) * F.lit(values)).cast("bigint")

    rank = F.floor(F.pow(uniform(seed, 3), F.lit(3.0)) * F.lit(_NAMES))
    name = F.lower(F.conv(F.hex(F.xxhash64(rank, F.lit(seed))), 16, 36))
    columns = [
        moment(dataset, uniform(seed, 2)).alias("time"),
        name.alias("name"),
        whole(1000, 4).alias("value"),
    ]
    for pair in range(_PAIRS):
        planned = whole(10_000, 10 + pair)
        late = F.floor(-F.ln(F.lit(1.0) - uniform(seed, 20 + pair)) * F.lit(15.0)).cast("bigint") - 5
        columns += [planned.alias(f"planned{pair}"), (planned + late).alias(f"actual{pair}")]
    columns += [whole(100, 40 + n).alias(f"c{n}") for n in range(_WHOLE)]
    columns += [whole(20, 40 + n).alias(f"c{n}") for n in range(_WHOLE, _WHOLE + _FEW)]
    return numbered.select(*columns)
