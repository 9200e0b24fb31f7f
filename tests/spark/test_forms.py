"""A batch's groups are the same whether Spark or the driver makes them."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isinf, nan
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import weft
from tests.spark.trades import Feed, stream
from weft.aggregates import Bags, Primitive, arrow_type, to_arrow
from weft.aggregates.moments import Moments
from weft.optimizer.rules import Sharing, copy_rows, optimize
from weft.optimizer.statistics import assumed
from weft.spark.input.tables import LocalTable
from weft.spark.job.batch_groups import BatchGroups
from weft.spark.job.job import BatchJob
from weft.spark.job.verdicts import Bounds
from weft.state.clock import Seen
from weft.state.driver_store import DriverStore
from weft.stream import decode
from weft.types import DataType

START = datetime(2026, 1, 1, tzinfo=UTC)
SEEDS = range(16)
LOOKED_UP: list[dict[int, LocalTable] | None] = []
"""The tables of each seed that the driver looks up, or None."""
WORDS: list[tuple[bool, set[bool]]] = []
"""For each seed, whether rows have words, and whether relations are shared."""
COLUMNS = (
    "time TIMESTAMP, symbol STRING, price DOUBLE, small FLOAT, vol INT, huge BIGINT, amount DECIMAL(12, 2), "
    "wide DECIMAL(38, 6), flag BOOLEAN, day DATE, raw BINARY"
)
_LARGEST = "9" * 32 + "." + "9" * 6
CHOICES: dict[str, tuple[Any, ...]] = {
    "symbol": ("a", "b", "bb", "", "Ä", "😀", None),
    "price": (0.0, -0.0, nan, inf, -inf, 0.1, 2.5, 1e6, -1e6, None),
    "small": (0.0, -0.0, nan, 1.5, None),
    "vol": (0, 1, -1, 40, 2**31 - 1, -(2**31), None),
    "huge": (2**63 - 1, -(2**63), 2**53 + 1, 7, 0, None),
    "amount": (Decimal("0.01"), Decimal("-9999999999.99"), Decimal("9999999999.99"), None),
    "wide": (Decimal(_LARGEST), Decimal(f"-{_LARGEST}"), Decimal("0.000001"), None),
    "flag": (True, False, None),
    "day": (date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), None),
    "raw": (b"", b"\xff\x00", b"a", None),
}
KEYS = (
    "", "symbol", "price", "small, flag", "vol", "huge, symbol", "amount", "wide", "day", "raw", "vol / 0",
    "symbol, price, day", "vol % 3", "upper(symbol)", "hour(time), vol div 7", "to_date(time)",
)  # fmt: skip
AGGREGATES = (
    "count(*)", "count(price)", "sum(price)", "avg(small)", "stddev(price)", "var_pop(vol)", "sum(vol)",
    "sum(huge)", "avg(huge)", "sum(amount)", "avg(amount)", "sum(wide)", "min(symbol)", "max(symbol)",
    "min(price)", "max(price)",
    "min(small)", "max(wide)", "min(amount)", "max(flag)", "min(flag)", "min(day)", "max(time)", "min(raw)",
    "max(raw)", "sum(vol * vol)", "max(huge + 1)", "min(vol) FILTER (WHERE flag)",
    "sum(CASE WHEN vol > 0 THEN huge - vol ELSE 1 END)", "max(cast(symbol AS INT))",
    "max(concat(symbol, 'x'))", "count_if(vol > 0)", "bool_and(flag)", "bool_or(price > 1)",
    "bit_and(huge)", "bit_or(vol)", "bit_xor(huge)", "product(vol % 7)", "product(small)",
    "skewness(vol % 7)", "kurtosis(small)",
    "skewness(0.1 + vol - vol)", "covar_pop(vol % 7, small)", "corr(vol % 5, vol % 3)",
    "regr_slope(0.1 + vol - vol, vol % 3)", "first(symbol)", "last(price)", "first(wide, true)",
    "last(flag, true) FILTER (WHERE vol > 0)", "min_by(raw, day)", "max_by(amount, small)",
    "max_by(time, symbol)", "any_value(symbol)", "collect_list(symbol)", "collect_set(price)",
    "string_agg(symbol, ',')",
    "count(DISTINCT amount)", "top_k(symbol, 2, sum(vol))",
)  # fmt: skip
TESTS = (
    "", "vol > 0", "vol < 40", "price >= 0.1", "price = 0", "symbol IN ('a', 'Ä')", "symbol LIKE '%b%'",
    "vol > 0 AND price < 2", "huge + 1 > 0", "wide IS NULL OR flag", "day < DATE '1970-01-01'",
    "10 / vol > 1", "symbol > 'a'", "upper(symbol) BETWEEN 'A' AND 'B'", "small >= 1.5",
    "amount > 0.5 OR flag", "wide < 0", "huge NOT IN (7, 0)", "vol IS NOT NULL",
    "time > TIMESTAMP '2026-01-01 00:00:30'",
)  # fmt: skip
JOINED = ("sector = 2", "rate > 0.3", "sector > 1 AND vol > 0", "sector IS NULL")
SOURCES = ("t JOIN u ON t.symbol = u.name", "t LEFT JOIN u ON t.symbol = u.name")
BY_TWO = (
    "t JOIN w ON t.day = w.since AND t.amount = w.least",
    "t JOIN u ON t.symbol = u.name LEFT JOIN w ON t.day = w.since AND t.amount = w.least",
)
"""Joins of a table by two keys, one of them NULL at times."""


def rows(spark: SparkSession, chance: Random, count: int) -> DataFrame:
    """Return rows of awkward values, some of them without a time, late or far ahead."""
    data = []
    for _ in range(count):
        time = START + timedelta(milliseconds=chance.randrange(-2_000, 60_000))
        time = chance.choice((None, START + timedelta(days=99), *[time] * 30))
        data.append((time, *(chance.choice(values) for values in CHOICES.values())))
    return spark.createDataFrame(data, COLUMNS)


def queries(chance: Random, count: int) -> Iterator[str]:
    """Draw queries of few groupings and many predicates, so that relations have fragments."""
    groupings = chance.sample(KEYS, chance.randint(1, 4))
    for _ in range(count):
        keys = chance.choice(groupings)
        values = ", ".join(
            f"{one} AS v{place}" for place, one in enumerate(chance.sample(AGGREGATES, chance.randint(1, 5)))
        )
        joins = chance.random() < 0.4
        source = chance.choice((*SOURCES, *BY_TWO)) if joins else "t"
        test = chance.choice(JOINED if "u.name" in source else TESTS)
        if joins and "w.least" in source and chance.random() < 0.5:
            test, keys = "kind <> 'x'", "kind"
        where = f" WHERE {test}" if test else ""
        window = chance.choice(("'5 s'", "'12 s', '5 s'", "'3700 ms', '1300 ms'", "'1 minute'"))
        items = "".join(f", {key.strip()}" for key in keys.split(",") if key)
        yield f"SELECT {values} FROM {source}{where} GROUP BY window(time, {window}){items}"


def stored(spark: SparkSession, rows: pa.Table, folder: Path) -> DataFrame:
    """Return rows in a file: Spark knows how large it is."""
    folder.mkdir()
    pq.write_table(rows, folder / "rows.parquet")
    return spark.read.parquet(str(folder))


def job_of(spark: SparkSession, chance: Random, batch: DataFrame, folder: Path, *, words: bool) -> BatchJob:
    engine = weft.Engine(spark)
    engine.stream("t", batch, time="time")
    names = ["a", "b", "Ä", *(["a", "b"] if chance.random() < 0.5 else []), None]
    table = [(name, place % 3 or None, place / 4) for place, name in enumerate(names)]
    columns = [list(one) for one in zip(*table, strict=True)]
    schema = pa.schema([("name", pa.string()), ("sector", pa.int32()), ("rate", pa.float64())])
    engine.table("u", stored(spark, pa.table(columns, schema=schema), folder / "u"))
    days, amounts = CHOICES["day"], CHOICES["amount"]
    pairs = [(day, amount) for day in days for amount in amounts if chance.random() < 0.7]
    types = (pa.date32(), pa.decimal128(12, 2), pa.string())
    values = (
        [day for day, _ in pairs],
        [amount for _, amount in pairs],
        [*"xyzxyzxyzxyzxyzxyz"][: len(pairs)],
    )
    arrays = [pa.array(some, type) for some, type in zip(values, types, strict=True)]
    engine.table("w", stored(spark, pa.table(arrays, names=["since", "least", "kind"]), folder / "w"))
    for number, text in enumerate(queries(chance, chance.randint(2, 8))):
        engine.add(text, name=f"q{number}")
    declared = engine._declared
    sharing = Sharing.JOINT if words else chance.choice(list(Sharing))
    plan = optimize(engine._queries_of("t"), sharing=sharing)
    if words and chance.random() < 0.5:
        plan = copy_rows(plan, assumed(()))
    return BatchJob(plan, declared.streams["t"].definition, declared.tables, declared.functions)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_driver_groups_rows_as_spark_does(
    spark: SparkSession, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chance = Random(seed)
    if seed % 2:
        # As with many relations: fragments and fields are evaluated apart from the stage.
        monkeypatch.setattr("weft.spark.job.job._MOST_IN_ONE_STAGE", 0)
    words = seed % 4 > 1
    if words:
        # As with many predicates: rows have words.
        monkeypatch.setattr("weft.optimizer.roots.MOST_CELLS", 1)
    batch = rows(spark, chance, chance.choice((0, 1, 60, 400)))
    job = job_of(spark, chance, batch, tmp_path, words=words)
    first, last = (int((START + timedelta(days=days)).timestamp()) * 1_000_000 for days in (0, 1))
    bounds = Bounds(watermark=chance.choice((None, first)), future=last)
    ways = [(job.group_rows, job.fold_rows), (job.fold_rows, job.group_rows)][seed % 3 % 2]
    # What a result's fragments mean is known until the next batch.
    one, other = (read(job, way(batch, bounds)) for way in ways)
    LOOKED_UP.append(job._joins.local_tables())
    WORDS.append((bool(job.fragments.word_coders), {relation.shared for relation in job.relations}))
    assert one[:2] == other[:2]
    for mine, theirs in zip(one[2], other[2], strict=True):
        assert_alike(mine, theirs)


def test_some_tables_are_looked_up_by_the_driver_and_some_joined_by_spark() -> None:
    assert any(LOOKED_UP)
    assert None in LOOKED_UP


def test_some_rows_have_words_whether_or_not_they_are_shared() -> None:
    for shared in (True, False):
        assert any(words and shared in ways for words, ways in WORDS)


def read(
    job: BatchJob, result: BatchGroups
) -> tuple[Seen, dict[str, int], list[dict[tuple[Any, ...], list[Any]]]]:
    """Return all that a result tells: of rows, failures, and the groups of each relation."""
    several = [groups(job, index, result) for index in range(len(job.relations))]
    return decode.seen(job, result), decode.failures(job, result), several


def groups(job: BatchJob, index: int, result: BatchGroups) -> dict[tuple[Any, ...], list[Any]]:
    """Return a relation's partials by slice, keys and fragment, as they are kept: Spark may cut slices."""
    relation = job.relations[index]
    state = DriverStore([arrow_type(key.type) for key in relation.keys])
    state.add(decode.block(job, index, result))
    found: dict[tuple[Any, ...], list[Any]] = {}
    for run in state.runs():
        keys = state.groups.values(run.key).to_pylist() if relation.keys else [{}] * len(run)
        partials = [
            known(primitive, plain(field, run.partials[primitive].valid_mask(), type))
            for primitive in relation.primitives
            for field, type in zip(run.partials[primitive].fields, primitive.types, strict=True)
        ]
        for row, key in enumerate(keys):
            identity = (int(run.start[row]), int(run.fragment[row]), *(exact(one) for one in key.values()))
            assert identity not in found
            found[identity] = [partial[row] for partial in partials]
    return found


def plain(field: Any, valid: Any, type: DataType) -> list[Any]:
    """Return a field as plain values; bags as texts, since NaN does not equal itself."""
    if isinstance(field, Bags):
        return list(map(repr, field.to_arrow().to_pylist()))
    return to_arrow(field, valid, type).to_pylist()


def known(primitive: Primitive, values: list[Any]) -> list[Any]:
    """Return values, without what depends on the order of rows: a mean of infinities is one, or NaN."""
    if not isinstance(primitive.combine, Moments):
        return values
    return [nan if isinstance(one, float) and isinf(one) else one for one in values]


def exact(key: Any) -> Any:
    """Return what is equal where a key is to the last bit, NaN too."""
    return key.hex() if isinstance(key, float) else key


def assert_alike(found: dict[tuple[Any, ...], list[Any]], expected: dict[tuple[Any, ...], list[Any]]) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        for one, other in zip(found[key], values, strict=True):
            assert type(one) is type(other), (key, one, other)
            if isinstance(one, float) and isinstance(other, float):
                assert one == pytest.approx(other, rel=1e-9, abs=1e-6, nan_ok=True), (key, one, other)
            else:
                assert one == other, key


@pytest.mark.parametrize("most_rows", [0, 1_000_000])
def test_files_of_few_rows_are_grouped_by_the_driver(
    spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    forms: list[str] = []
    for name in ("fold_rows", "group_rows"):
        whole = getattr(BatchJob, name)

        def noted(
            job: BatchJob, batch: DataFrame, bounds: Bounds, *, name: str = name, whole: Any = whole
        ) -> pa.Table:
            forms.append(name)
            return whole(job, batch, bounds)

        monkeypatch.setattr(BatchJob, name, noted)
    monkeypatch.setattr("weft.spark.job.forms.MOST_ROWS", most_rows)
    feed((1, "a", 1.0, 1), (2, "b", 2.0, 2))
    engine = weft.Engine(spark)
    stream(engine, spark, feed((11, "a", 3.0, 3)))
    by_symbol = engine.add(
        "SELECT symbol, sum(vol) AS v FROM trades [RANGE '10 s'] GROUP BY symbol", name="a"
    )
    total = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s'] WHERE price > 1", name="b")
    engine.run()
    assert forms == ["fold_rows" if most_rows else "group_rows"] * 2
    assert sorted(by_symbol.results()["v"].to_pylist()) == [1, 2, 3]
    assert total.results()["n"].to_pylist() == [1, 1]


@pytest.mark.parametrize("most_rows", [0, 1_000_000])
def test_equal_values_have_no_spread_in_any_cut(
    spark: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    monkeypatch.setattr("weft.spark.job.forms.MOST_ROWS", most_rows)
    # Three times 0.1 add up to more than 0.3, so that their mean is not 0.1 where it is a sum's.
    source = feed(*((second, "a", 0.1, second) for second in (1, 2, 3, 6)))
    engine = weft.Engine(spark)
    stream(engine, spark, source)
    query = engine.add(
        "SELECT skewness(price) AS s, kurtosis(price) AS k, corr(price, vol) AS c, "
        "regr_slope(vol, price) AS m, regr_r2(price, vol) AS r FROM trades [RANGE '10 s' SLIDE '5 s']",
        name="level",
    )
    engine.run()
    rows = query.results().drop_columns(["window_start", "window_end"]).to_pylist()
    nothing = dict.fromkeys("skcm")
    # In the last window there is one row.
    assert rows == [nothing | {"r": 1.0}] * 2 + [nothing | {"r": None}]
