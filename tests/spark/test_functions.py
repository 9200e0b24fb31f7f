"""Functions of the language mean what they mean in Spark SQL; registered ones harm only their queries."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import weft
from tests.spark.evaluation_cases import call
from tests.spark.nasty_values import NTZ, NUMBERS, TYPES, columns, slot
from tests.spark.trades import Feed, counted
from tests.spark.trades import stream as declare
from tests.unit.nested_samples import OF_NESTED_VALUES
from weft.errors import TypeMismatch
from weft.evaluation import can_evaluate
from weft.evaluation.implementations import SPARK_ONLY
from weft.expression import Call, Literal, walk
from weft.query import bind, parse_select
from weft.query.allowed_functions import FUNCTIONS
from weft.query.constant_arguments import URL_PARTS
from weft.query.logical import Catalog, StreamDef
from weft.spark.columns import Translator
from weft.spark.input.rows import column_defs
from weft.types import INT, STRING, TIMESTAMP

ROWS = """
    SELECT * FROM VALUES
      (TIMESTAMP '2026-03-05 17:28:39.123456Z', 7, 3L, 2.5D, 1.25BD, 'Abc def', true, DATE '2024-02-29'),
      (TIMESTAMP '1969-12-31 23:59:59.999999Z', -7, 9007199254740993L, -0.5D, -12.75BD, '', false,
       DATE '1969-07-20'),
      (TIMESTAMP '2026-12-31 00:00:00Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL)
    AS t(ts, i, b, d, m, s, f, day)
"""
EXPRESSIONS = [
    "i + 1", "i - b", "i * d", "i / 2", "i % 3", "i div 2", "-i", "m + 1", "m * m", "m / 3", "m % 1", "d + i",
    "i = 7", "i <> 7", "i < b", "i <= 7", "i > 1", "i >= 7", "i <=> NULL", "i IS NULL", "i IS NOT NULL",
    "f AND i > 1", "f OR i > 1", "NOT f", "f IS TRUE", "i IN (7, 8)", "i NOT IN (7, 8)", "i BETWEEN 1 AND 7",
    "s LIKE 'A%'", "s ILIKE 'a_c%'", "s RLIKE '^A.*f$'", "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END",
    "CASE i WHEN 7 THEN 1 ELSE 2.5 END", "IF(i > 0, i, b)", "COALESCE(i, b, 0)", "NULLIF(i, 7)",
    "NVL(s, 'none')",
    "CAST(i AS STRING)", "CAST(d AS INT)", "CAST(m AS DOUBLE)", "CAST(b AS DECIMAL(20,2))",
    "CAST(ts AS DATE)",
    "abs(i)", "abs(m)", "round(d)", "round(m, 1)", "floor(d)", "ceil(m)", "sqrt(abs(d))", "exp(d)", "ln(b)",
    "log10(b)", "pow(d, 2)", "sign(d)", "greatest(i, b)", "least(i, d)", "isnan(d)", "upper(s)", "lower(s)",
    "length(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "substring(s, 2, 3)", "substring(s, 2)", "concat(s, 'x')",
    "s || s", "replace(s, 'b', 'x')", "left(s, 2)", "right(s, 2)", "startswith(s, 'A')", "endswith(s, 'f')",
    "contains(s, 'c d')", "year(ts)", "month(day)", "day(ts)", "hour(ts)", "minute(ts)", "second(ts)",
    "dayofweek(day)", "date_trunc('month', ts)", "to_date(ts)", "unix_seconds(ts)", "unix_millis(ts)",
    "unix_micros(ts)", "i & 3", "i | 8", "i ^ 1", "shiftright(i, 1)", "shiftleft(b, 2)", "ts > '2026-01-01'",
    "day < DATE '2000-01-01'", "-m", "round(i, -1)", "to_date('2026-02-03')",
    "EXTRACT(HOUR FROM ts)", "b = 9007199254740992", "d = -0.5", "s = 'Abc def'",
]  # fmt: skip
FURTHER_ROWS = """
    SELECT * FROM VALUES
      (TIMESTAMP '2026-03-05 17:28:39.123456Z', 7, 3L, 2.5D, 1.25BD, 'Abc def', true, DATE '2024-02-29',
       '{"a": 1.50, "b": [0, {"c": "é😀"}], "x y": null}', 'https://me:pw@example.org:80/a/b?k=v&l=1#end'),
      (TIMESTAMP '1969-12-31 23:59:59.999999Z', -7, 1234567890L, -0.5D, -12.75BD, '', false,
       DATE '1969-07-20', '[1, 2', 'not a url'),
      (TIMESTAMP '2026-12-31 00:00:00Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      (TIMESTAMP '0003-01-01 00:00:00Z', 0, 0L, double('NaN'), 0BD, 'aé😀 日', true, DATE '9990-12-30',
       '{"a": {"b": 2}}', 'mailto:me@example.org'),
      (TIMESTAMP '9998-12-31 23:59:59Z', 65536, -1L, -0D, 99BD, ' b ', false, DATE '0002-01-01', '7', '/a?k=')
    AS t(ts, i, b, d, m, s, f, day, j, u)
"""
FURTHER = [
    "regexp_extract(s, '^(A)(.)', 2)", "regexp_extract(s, '(b+)')", "regexp_replace(s, '(b)(c)', '$2$1')",
    "split_part(s, ' ', 2)", "split_part(s, ' ', -1)", "substring_index(s, ' ', i)",
    "concat_ws('-', s, NULL, s)", "get_json_object(j, '$.a')", "get_json_object(j, '$.b[1].c')",
    "get_json_object(j, '$.*')", "get_json_object(j, '$.b[*].c')", "get_json_object(j, '$[''x y'']')",
    "get_json_object(j, '$')", "parse_url(u, 'HOST')", "parse_url(u, 'QUERY', 'k')", "parse_url(u, 'PATH')",
    "parse_url(u, 'REF')", "parse_url(u, 'PROTOCOL')", "parse_url(u, 'FILE')", "parse_url(u, 'AUTHORITY')",
    "parse_url(u, 'USERINFO')", "parse_url(u, 'QUERY')", "initcap(s)", "octet_length(s)", "lpad(s, 9, 'xy')",
    "rpad(s, 3)", "repeat(s, 2)", "reverse(s)", "translate(s, 'Abc', 'xy')", "instr(s, 'c')",
    "locate('c', s)", "locate('e', s, 3)", "POSITION('d' IN s)", "ascii(s)",
    "regexp_like(s, 'A')", "regexp(s, 'z')", "xxhash64(s)", "xxhash64(i, b, d, m, s, f, day, ts, NULL)",
    "xxhash64(0D, -0D)", "hash(i, s, ts)", "crc32(s)", "md5(s)", "sha1(s)", "sha2(s, 224)", "sha2(s, 512)",
    "hex(i)", "hex(s)", "pmod(i, 4)", "pmod(b, -4L)", "pmod(d, 2)", "width_bucket(d, 0, 10, 4)",
    "width_bucket(m, 10, 0, i)", "width_bucket(i, 1, 1, 3)",
    "bround(d)", "bround(m, 1)", "bround(i, -1)", "rint(d)", "cbrt(d)", "expm1(d)", "log2(b)",
    "log1p(d)", "sin(d)", "cos(d)", "tan(d)", "asin(d)", "acos(d)", "atan(d)", "sinh(d)", "cosh(d)",
    "tanh(d)", "degrees(d)", "radians(m)", "atan2(d, i)", "hypot(d, i)",
    "greatest(i, 1, 2, 3, 4, 5, 6, b, 7)", "least(i, 9, 8, d, 7, 6)", "nvl2(i, 1, 2)", "mod(i, 4)",
    "quarter(ts)", "weekofyear(day)", "dayofyear(ts)", "weekday(day)",
    "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "date_format(day, 'EEEE d MMM yy')",
    "from_utc_timestamp(ts, 'Europe/Paris')", "to_utc_timestamp(ts, 'America/New_York')",
    "from_utc_timestamp(ts, '+05:30')", "date_add(day, 30)", "dateadd(day, i)", "date_sub(ts, 1)",
    "datediff(ts, day)", "date_diff(day, ts)", "add_months(day, 12)", "last_day(ts)", "unix_date(day)",
    "unix_timestamp(ts)", "to_unix_timestamp(ts)", "timestamp_seconds(b)", "timestamp_millis(i)",
    "timestamp_micros(b)", "to_timestamp(day)", "EXTRACT(WEEK FROM ts)",
    "EXTRACT(QUARTER FROM ts)", "EXTRACT(DOY FROM ts)",
]  # fmt: skip
"""Functions on values that the other expressions, without NULL for what fails, could not take."""
FAILING = [
    "to_date(s)",
    "i / 0",
    "i % 0",
    "i div 0",
    "2147483647 + i",
    "b * 9007199254740993",
    "CAST(s AS INT)",
    "CAST(b AS INT)",
    "pmod(i, 0)",
    "parse_url(s, 'REF')",
    "timestamp_seconds(b)",
    "add_months(day, 2147483647)",
]
INTERNAL = {"floor_div", "coupon"}
"""Functions that only windows such as GROUP BY time/300 and sketches make."""


def expression_of(text: str, stream: StreamDef) -> Call:
    """Return a bound expression."""
    query = parse_select(f"SELECT count(*) AS n FROM t [RANGE '1 day'] GROUP BY {text} AS k", name="q")
    expression = bind(query, Catalog(streams=(stream,))).keys[0].expression
    assert isinstance(expression, Call)
    return expression


@pytest.fixture
def stream(spark: SparkSession) -> StreamDef:
    rows = spark.sql(ROWS)
    rows.createOrReplaceTempView("t")
    return StreamDef(name="t", columns=column_defs(rows.schema), time="ts")


@pytest.mark.parametrize(
    ("rows", "texts"), [(ROWS, EXPRESSIONS), (FURTHER_ROWS, FURTHER)], ids=["first", "further"]
)
def test_expressions_give_sparks_values_and_types(spark: SparkSession, rows: str, texts: list[str]) -> None:
    table = spark.sql(rows)
    stream = StreamDef(name="t", columns=column_defs(table.schema), time="ts")
    translate = Translator()
    bound = [expression_of(text, stream) for text in texts]
    found = table.select(*(translate(one).alias(f"c{place}") for place, one in enumerate(bound)))
    # Spark itself raises an error for what is no URL.
    plain = [text.replace("parse_url", "try_parse_url") for text in texts]
    wanted = table.selectExpr(*(f"{text} AS c{place}" for place, text in enumerate(plain)))
    types = zip(column_defs(found.schema), column_defs(wanted.schema), bound, texts, strict=True)
    for ours, theirs, expression, text in types:
        assert (text, str(ours.type)) == (text, str(theirs.type))
        assert (text, str(expression.type)) == (text, str(theirs.type))
    for ours, theirs in zip(found.collect(), wanted.collect(), strict=True):
        for mine, right, text in zip(ours, theirs, texts, strict=True):
            assert (text, repr(mine)) == (text, repr(right))


def test_the_samples_cover_the_language(spark: SparkSession) -> None:
    samples = ((ROWS, EXPRESSIONS), (FURTHER_ROWS, FURTHER))
    used = {
        node.function
        for rows, texts in samples
        for stream in [StreamDef(name="t", columns=column_defs(spark.sql(rows).schema), time="ts")]
        for text in texts
        for node in walk(expression_of(text, stream))
        if isinstance(node, Call)
    }
    assert set(FUNCTIONS) - used - INTERNAL - OF_NESTED_VALUES == set()


def test_what_fails_is_null_and_told(spark: SparkSession, stream: StreamDef) -> None:
    translate = Translator()
    bound = [expression_of(text, stream) for text in FAILING]
    failures = [translate.failure(one) for one in bound]
    assert all(one is not None for one in failures)
    rows = spark.table("t").select(
        *(translate(one).isNull() for one in bound), *(one for one in failures if one is not None)
    )
    for row in rows.collect():
        for text, null, failed in zip(FAILING, row[: len(bound)], row[len(bound) :], strict=True):
            assert not failed or null, text
    totals = [sum(bool(row[len(bound) + place]) for row in rows.collect()) for place in range(len(bound))]
    assert dict(zip(FAILING, totals, strict=True)) == {
        "to_date(s)": 2, "i / 0": 2, "i % 0": 2, "i div 0": 2, "2147483647 + i": 1, "b * 9007199254740993": 1,
        "CAST(s AS INT)": 2, "CAST(b AS INT)": 1, "pmod(i, 0)": 2, "parse_url(s, 'REF')": 1,
        "timestamp_seconds(b)": 1, "add_months(day, 2147483647)": 2,
    }  # fmt: skip


def only_in_spark() -> Iterator[Call | None]:
    """Yield calls on values that are easy to get wrong that only Spark evaluates."""
    for name, type in product(("hash", "xxhash64"), TYPES):
        yield call(name, slot(type, 0))
        yield call(name, slot(type, 0), slot(STRING, 0), slot(type, 1))
    word = slot(STRING, 0)
    for type, digits in product(NUMBERS, (0, 1, 2)):
        yield call("bround", slot(type, 0), Literal(digits, INT))
    yield call("initcap", word)
    yield from (call("get_json_object", word, Literal(path, STRING)) for path in ("$", "$.a", "$[0]"))
    yield from (call("parse_url", word, Literal(part, STRING)) for part in URL_PARTS)
    yield call("parse_url", word, Literal("QUERY", STRING), Literal("k", STRING))
    yield from (
        call(name, slot(type, 0), Literal(zone, STRING))
        for name, type, zone in product(("from_utc_timestamp", "to_utc_timestamp"), (TIMESTAMP, NTZ), ZONES)
    )


ZONES = (
    "Europe/Paris", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Africa/Casablanca",
    "America/St_Johns", "Australia/Lord_Howe", "Europe/Dublin", "Asia/Pyongyang", "Etc/GMT+5",
)  # fmt: skip


def test_what_only_spark_evaluates_is_what_its_sql_means(spark: SparkSession) -> None:
    calls = [one for one in only_in_spark() if one is not None]
    assert {one.function for one in calls} > SPARK_ONLY - INTERNAL
    assert not any(map(can_evaluate, calls))
    table = spark.createDataFrame(pa.table({str(one): column for one, column in columns(seed=3).items()}))
    translate = Translator(slot=lambda one: F.col(str(one)))
    same = [
        translate(one).eqNullSafe(F.expr(str(one).replace("parse_url", "try_parse_url"))).alias(f"c{place}")
        for place, one in enumerate(calls)
    ]
    found = table.select(*same).toArrow()
    wrong = [str(one) for place, one in enumerate(calls) if not pc.all(found[f"c{place}"]).as_py()]
    assert wrong == []


def accepted(rng: Random, function: str, alphabet: str, *before: str) -> list[str]:
    """Return calls with random constants that the language accepts, among many that it refuses."""
    calls = []
    for _ in range(400):
        constant = "".join(rng.choices(alphabet, k=rng.randint(0, 6)))
        arguments = ", ".join(["s", *before, "r'" + constant + "'"])
        if "'" not in constant and not constant.endswith("\\"):
            calls.append(f"{function}({arguments})")
    return calls


@pytest.mark.parametrize(
    ("function", "alphabet", "before"),
    [
        ("regexp_replace", "$\\0123a{}", ("'(a)(b)?'",)),
        ("regexp_replace", "$1", ("'(b)'",)),
        ("rlike", "(a)b|*+?$^.[]", ()),
        ("get_json_object", "$.a[0]*b", ()),
        ("date_format", "yMdHhmsSaEQDkKXxZ -:[]{}#GYw", ()),
    ],
)
def test_constants_that_are_accepted_are_read_by_spark(
    spark: SparkSession, stream: StreamDef, function: str, alphabet: str, before: tuple[str, ...]
) -> None:
    bound, refused = [], 0
    for text in accepted(Random(7), function, alphabet, *before):
        try:
            bound.append(
                expression_of(text.replace("(s,", "(ts,") if function == "date_format" else text, stream)
            )
        except TypeMismatch:
            refused += 1
    assert len(bound) > 5
    assert refused > 5
    translate = Translator()
    found = spark.table("t").select(*(translate(one).alias(f"c{place}") for place, one in enumerate(bound)))
    assert len(found.collect()) == 3


def test_a_branch_that_is_not_taken_does_not_fail(spark: SparkSession, stream: StreamDef) -> None:
    failed = Translator().failure(expression_of("CASE WHEN i > 0 THEN i / 0 ELSE i END", stream))
    assert failed is not None
    assert [bool(row[0]) for row in spark.table("t").select(failed).collect()] == [True, False, False]


def test_a_function_that_refuses_columns_fails_only_its_queries(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """`fits` takes one column; in the second run, it takes none."""

    def refuses(column: Column) -> Column:
        raise LookupError("no such model")

    count = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
    texts = {
        "good": count,
        "in_where": f"{count} WHERE fits(symbol, price)",
        "in_select": "SELECT fits(count(*), 1) AS n FROM trades [RANGE '10 s']",
        "later": f"{count} WHERE fits(vol > 0)",
    }
    found: dict[float, int] = {}
    for number, fits in enumerate((lambda column: column, refuses)):
        engine = weft.Engine(spark)
        feed.at(*((1, 12) if number == 0 else (23, 34)))
        declare(engine, spark, feed.folder)
        engine.function("fits", fits)
        queries = {name: engine.add(text, name=name) for name, text in texts.items()}
        engine.start(checkpoint=tmp_path / "checkpoint")
        engine.process_available()
        errors = {name: one.error for name, one in queries.items() if one.state == "failed"}
        assert list(errors) == ["in_where", "in_select", "later"][: 2 + number]
        for name in ("in_where", "in_select"):
            assert "takes 1 positional argument but 2 were given" in str(errors[name])
        assert errors.get("later") == ("LookupError: no such model" if number else None)
        engine.stop()
        found |= counted(queries["good"].results())
    assert found == {10: 1, 20: 1, 30: 1}
