"""Queries in DuckDB give the rows of the reference evaluator."""

import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.oracle.aggregates import EVERYDAY
from tests.oracle.cases import STREAM, TIME, Case
from tests.oracle.compare import assert_same
from tests.oracle.expressions import Column
from tests.oracle.generate import random_cuts, random_times
from tests.oracle.generate_queries import random_spec
from tests.oracle.spec import Spec
from tests.oracle.types import BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Kind, Row, SqlType, Value

from weft.bench.dataset import Dataset, TableFiles
from weft.bench.duck import Duck, duck_sql
from weft.errors import UserError
from weft.query import CreateStream, CreateTable, bind, parse, parse_select
from weft.query.logical import Catalog

SCHEMA = (
    Column(TIME, TIMESTAMP),
    Column("i", INT),
    Column("d", DOUBLE),
    Column("s", STRING),
    Column("flag", BOOLEAN),
    Column("dt", DATE),
)
WORDS = ("", "a", "b", "A", "x y", "é", "-7", "12")


def value(rng: Random, of: SqlType) -> Value:
    """Return a value that no arithmetic of two overflows: DuckDB stops there, where Weft has NULL."""
    if rng.random() < 0.12:
        return None
    match of.kind:
        case Kind.INT:
            return rng.randint(-20, 20)
        case Kind.DOUBLE:
            return rng.choice((0.0, 0.1, 0.3, 100.25, rng.randint(-4000, 4000) / 16))
        case Kind.STRING:
            return rng.choice(WORDS)
        case Kind.BOOLEAN:
            return rng.random() < 0.5
    return pa.scalar(rng.randint(19_700, 19_710), pa.date32()).as_py()


def _plain_spec(rng: Random, name: str) -> Spec:
    """Return a random query whose aggregates DuckDB has under Spark's names."""
    while True:
        spec = random_spec(rng, name, SCHEMA)
        if spec.step_ms is None and all(call.function in EVERYDAY for call in spec.computed()):
            return replace(spec, sets=(), order=(), limit_by=None, limit=None)


def tame_case(seed: int) -> Case:
    """Return a case with the oracle's queries and times, over values that DuckDB can compute with."""
    rng = Random(seed)
    specs = tuple(replace(_plain_spec(rng, f"q{index}"), emit_empty=False) for index in range(4))
    rows: list[Row] = [
        {TIME: at, **{column.name: value(rng, column.type) for column in SCHEMA[1:]}}
        for at in random_times(rng, specs, 3_000, rng.randint(1, 60))
    ]
    return Case(schema=SCHEMA, batches=random_cuts(rng, rows), delay_ms=3_000, specs=specs)


class Rows:
    """A DuckDB over a few rows."""

    def __init__(
        self, folder: Path, rows: pa.Table, ddl: str, tables: dict[str, tuple[pa.Table, str]]
    ) -> None:
        self.folder = folder
        dataset = Dataset(
            name=STREAM, folder=folder / "rows", columns=ddl, rows=1, files=1, begin_ms=0, span_ms=0
        )
        files = [
            TableFiles(name=name, folder=folder / name, columns=ddl) for name, (_, ddl) in tables.items()
        ]
        for path, table in ((dataset.folder, rows), *((one.folder, tables[one.name][0]) for one in files)):
            path.mkdir()
            pq.write_table(table, path / "part-0.parquet")
        statements = parse(";".join([dataset.statement(1), *(one.statement() for one in files)]))
        self.catalog = Catalog(
            streams=tuple(one.definition for one in statements if isinstance(one, CreateStream)),
            tables=tuple(one.definition for one in statements if isinstance(one, CreateTable)),
        )
        self.duck = Duck(dataset, files, threads=1)

    def answer(self, sql: str) -> pa.Table:
        """Return the rows of a query in Weft's language."""
        query = bind(parse_select(sql, name="q"), self.catalog)
        path = self.folder / "out.parquet"
        self.duck.write(duck_sql(query, time=TIME), path)
        return pq.read_table(path)


@pytest.mark.parametrize("seed", range(40))
def test_random_queries_give_the_reference_rows(tmp_path: Path, seed: int) -> None:
    case = tame_case(seed)
    run = case.expected()
    rows = Rows(tmp_path, case.table(run.accepted), case.ddl(), {})
    for spec in case.specs:
        assert_same(spec, run.results(spec.name), rows.answer(spec.sql(STREAM, TIME)))


def few_rows(tmp_path: Path, **columns: Any) -> Rows:
    """Return rows that all lie in the first minute of 1970, and a table of names."""
    count = len(next(iter(columns.values())))
    arrays = {TIME: pa.array(range(count), pa.timestamp("us", "UTC"))}
    arrays |= {name: pa.array(values) for name, values in columns.items()}
    kinds = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING"}
    ddl = ", ".join(f"{name} {kinds.get(array.type, 'TIMESTAMP')}" for name, array in arrays.items())
    names = pa.table({"key": [1, 1, 2], "word": ["one", "uno", "two"]})
    return Rows(tmp_path, pa.table(arrays), ddl, {"names": (names, "key BIGINT, word STRING")})


@pytest.mark.parametrize(
    ("number", "digits", "rounded"),
    [
        (0.285, 2, 0.29),
        (2.675, 2, 2.68),
        (1.005, 2, 1.01),
        (-0.125, 2, -0.13),
        (12.25, 1, 12.3),
        (12.35, 1, 12.4),
        (12.349999, 1, 12.3),
        (0.5, 0, 1.0),
        (1234.5678, 1, 1234.6),
    ],
)
def test_rounding_is_half_up_by_the_printed_digits(
    tmp_path: Path, number: float, digits: int, rounded: float
) -> None:
    rows = few_rows(tmp_path, d=[number])
    found = rows.answer(f"SELECT round(max(d), {digits}) AS r FROM {STREAM} [RANGE '1 min']")
    assert found["r"].to_pylist() == [rounded]


def test_a_decimal_quotient_has_the_digits_of_its_type(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, i=[659])
    found = rows.answer(f"SELECT CAST(max(i) AS INT) / 60.0 AS hours FROM {STREAM} [RANGE '1 min']")
    assert found["hours"].to_pylist() == [10.983333]


def test_arithmetic_on_aggregates(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, i=[1, 2, 4], s=["a", "b", None])
    found = rows.answer(
        "SELECT sum(i) / count(*) AS a, 100.0 * count(s) / count(*) AS b, "
        "sum(i) div 2 AS c, sum(i) % 4 AS d, "
        "count(*) / (count(s) - 2) AS e, CASE WHEN max(i) > 3 THEN 'many' ELSE 'few' END AS f, -min(i) AS g, "
        f"coalesce(max(s), '?') || '!' AS h, window_end AS ends FROM {STREAM} [RANGE '1 min']"
    ).to_pylist()[0]
    assert found["b"] == pytest.approx(200 / 3)
    assert found["ends"] == found["window_end"].replace(tzinfo=found["ends"].tzinfo)
    picked = {name: found[name] for name in "acdefgh"}
    assert picked == {"a": 7 / 3, "c": 3, "d": 3, "e": None, "f": "many", "g": -1, "h": "b!"}


def test_joins_give_a_row_for_every_partner(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, i=[1, 2, 3])
    joined = f"FROM {STREAM} E [RANGE '1 min'] JOIN names N ON E.i = N.key"
    inner = f"SELECT N.word, count(*) AS n {joined} GROUP BY N.word"
    assert sorted(map(tuple, (row.values() for row in rows.answer(inner).select([2, 3]).to_pylist()))) == [
        ("one", 1),
        ("two", 1),
        ("uno", 1),
    ]
    outer = f"SELECT count(*) AS n, count(N.word) AS m {joined.replace('JOIN', 'LEFT JOIN')}"
    assert rows.answer(outer).select([2, 3]).to_pylist() == [{"n": 4, "m": 3}]


def test_text_and_days(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, s=["a_b", "axb", "AIRBUS"])
    found = rows.answer(
        r"SELECT count(*) FILTER (WHERE s LIKE 'a\\_b') AS a, count(*) FILTER (WHERE s LIKE 'a_b') AS b, "
        "max(dayofweek(time)) AS c, count(*) FILTER (WHERE startswith(s, 'AIR')) AS d, max(hour(time)) AS e, "
        f"min(left(s, 2)) AS f FROM {STREAM} [RANGE '1 min']"
    ).to_pylist()[0]
    # 1 January 1970 was a Thursday, and Sunday is 1.
    assert [found[name] for name in "abcdef"] == [1, 2, 5, 1, 0, "AI"]


def test_parts_of_strings_and_days(tmp_path: Path) -> None:
    rows = few_rows(tmp_path, s=["a/bé/c1", None])
    texts = {
        "split_part(s, '/', -1)": "c1", "split_part(s, '/', 9)": "", "regexp_extract(s, '/(.)', 1)": "b",
        "regexp_extract(s, '(z)')": "", "translate(s, 'a/1', 'x-')": "x-bé-c",
        "concat_ws('+', s, NULL, 'z')": "a/bé/c1+z",
        "instr(s, 'c')": 6, "ascii(s)": 97, "repeat('ab', 2) || max(s)": "ababa/bé/c1", "quarter(time)": 1,
        "weekofyear(time)": 1,
        "datediff(DATE '1970-02-01', time)": 31, "atan2(0, -1)": pytest.approx(3.141592653589793),
    }  # fmt: skip
    for text, wanted in texts.items():
        shown = text if "max(" in text else f"max({text})"
        found = rows.answer(f"SELECT {shown} AS x FROM {STREAM} [RANGE '1 min'] WHERE s IS NOT NULL")
        assert (text, found["x"].to_pylist()) == (text, [wanted])


@pytest.mark.parametrize("ending", ["EMIT EMPTY", "LIFETIME '1 hour'"])
def test_what_has_no_counterpart_is_refused(tmp_path: Path, ending: str) -> None:
    rows = few_rows(tmp_path, i=[1])
    with pytest.raises(UserError, match="not translated to DuckDB"):
        rows.answer(f"SELECT count(*) AS n FROM {STREAM} [RANGE '1 min'] {ending}")
    with pytest.raises(UserError, match="not translated to DuckDB"):
        rows.answer(f"SELECT max(shiftleft(i, 1)) AS n FROM {STREAM} [RANGE '1 min']")


def test_without_duckdb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UserError, match=r"needs the package duckdb.*weft\[bench\]"):
        few_rows(tmp_path, i=[1])
