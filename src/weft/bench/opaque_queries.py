"""Predicates that no threshold of a column stands for, and the stream that they are asked of."""

from enum import StrEnum
from itertools import repeat
from pathlib import Path
from random import Random
from string import ascii_lowercase, digits

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.bench.dataset import Dataset, make, moment, uniform
from weft.bench.trades import HOUR_MS
from weft.bench.workloads import BenchQuery, first_distinct
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
