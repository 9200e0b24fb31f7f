"""Expressions: the canonical call of each form, and the type of each result."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from tests.unit.language_samples import argument, predicate
from tests.unit.nested_samples import OF_NESTED_VALUES

from weft.expression import Column, Literal, Scalar
from weft.query.allowed_functions import FUNCTIONS, SPELLINGS
from weft.types import DOUBLE

FORMS = [
    # arithmetic
    ("n + 1", "(n + 1)", "int"),
    ("n + vol", "(n + vol)", "bigint"),
    ("tiny + tiny", "(tiny + tiny)", "tinyint"),
    ("n - 2 * vol", "(n - (2 * vol))", "bigint"),
    ("(n - 2) * vol", "((n - 2) * vol)", "bigint"),
    ("n / 2", "(n / 2)", "double"),
    ("n % 7", "(n % 7)", "int"),
    ("mod(n, 7)", "(n % 7)", "int"),
    ("vol div 2", "div(vol, 2)", "bigint"),
    ("fee div 2", "div(fee, 2)", "bigint"),
    ("-n", "neg(n)", "int"),
    ("+n", "n", "int"),
    ("n + -1", "(n + -1)", "int"),
    ("price * vol", "(price * vol)", "double"),
    ("ratio * ratio", "(ratio * ratio)", "float"),
    ("ratio * n", "(ratio * n)", "double"),
    ("ratio / ratio", "(ratio / ratio)", "double"),
    ("n & 3 | 1 ^ 2", "((n & 3) | (1 ^ 2))", "int"),
    ("shiftright(vol, 32)", "shiftright(vol, 32)", "bigint"),
    ("shiftleft(tiny, 2)", "shiftleft(tiny, 2)", "int"),
    # decimals, checked against Spark 4.3
    ("n * fee", "(n * fee)", "decimal(21,2)"),
    ("fee + fee", "(fee + fee)", "decimal(11,2)"),
    ("fee - 1", "(fee - 1)", "decimal(11,2)"),
    ("fee * fee", "(fee * fee)", "decimal(21,4)"),
    ("fee / 3", "(fee / 3)", "decimal(14,6)"),
    ("fee / fee", "(fee / fee)", "decimal(23,13)"),
    ("fee % 2", "(fee % 2)", "decimal(3,2)"),
    ("fee * price", "(fee * price)", "double"),
    ("fee * 2.5", "(fee * 2.5)", "decimal(13,3)"),
    # conditions
    ("n = 1", "(n = 1)", "boolean"),
    ("n == 1", "(n = 1)", "boolean"),
    ("n != 1", "(n <> 1)", "boolean"),
    ("n <> 1", "(n <> 1)", "boolean"),
    ("n <=> NULL", "(n <=> None)", "boolean"),
    ("n >= fee", "(n >= fee)", "boolean"),
    ("ok AND n > 1 AND n < 5", "and(ok, (n > 1), (n < 5))", "boolean"),
    ("ok AND (n > 1 AND n < 5)", "and(ok, (n > 1), (n < 5))", "boolean"),
    ("ok OR n > 1 AND n < 5 OR n = 9", "or(ok, and((n > 1), (n < 5)), (n = 9))", "boolean"),
    ("NOT ok AND ok", "and(not(ok), ok)", "boolean"),
    ("NOT n = 1", "not((n = 1))", "boolean"),
    ("!ok", "not(ok)", "boolean"),
    ("n IS NULL", "is_null(n)", "boolean"),
    ("n IS NOT NULL", "not(is_null(n))", "boolean"),
    ("isnull(n)", "is_null(n)", "boolean"),
    ("isnotnull(n)", "not(is_null(n))", "boolean"),
    ("ok IS TRUE", "(ok <=> True)", "boolean"),
    ("ok IS NOT FALSE", "not((ok <=> False))", "boolean"),
    ("ok IS UNKNOWN", "is_null(ok)", "boolean"),
    ("n IS DISTINCT FROM 5", "not((n <=> 5))", "boolean"),
    ("n IS NOT DISTINCT FROM 5", "(n <=> 5)", "boolean"),
    ("n + 1 IN (1, 2)", "in((n + 1), 1, 2)", "boolean"),
    ("n NOT IN (1, -2)", "not(in(n, 1, -2))", "boolean"),
    ("n IN (vol, 2)", "or((n = vol), (n = 2))", "boolean"),
    ("n BETWEEN 1 AND 5 AND ok", "and((n >= 1), (n <= 5), ok)", "boolean"),
    ("n NOT BETWEEN 1 AND 5", "not(and((n >= 1), (n <= 5)))", "boolean"),
    ("symbol LIKE 'A%'", "like(symbol, 'A%')", "boolean"),
    ("symbol NOT ILIKE 'a\\_'", "not(ilike(symbol, 'a\\_'))", "boolean"),
    ("symbol RLIKE '^A[0-9]{2,3}$'", "rlike(symbol, '^A[0-9]{2,3}$')", "boolean"),
    ("symbol REGEXP '\\\\p{Lu}+'", "rlike(symbol, '\\p{Lu}+')", "boolean"),
    ("regexp_like(symbol, 'a')", "rlike(symbol, 'a')", "boolean"),
    ("isnan(price)", "isnan(price)", "boolean"),
    # choices
    ("CASE WHEN ok THEN n ELSE fee END", "case(ok, n, fee)", "decimal(12,2)"),
    ("CASE WHEN ok THEN n WHEN n > 5 THEN vol END", "case(ok, n, (n > 5), vol, None)", "bigint"),
    (
        "CASE n WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END",
        "case((n = 1), 'a', (n = 2), 'b', 'c')",
        "string",
    ),
    ("IF(ok, 1, 2.5)", "case(ok, 1, 2.5)", "decimal(11,1)"),
    ("nullif(n, 0)", "case((n = 0), None, n)", "int"),
    ("nvl2(n, 1, 2)", "case(is_null(n), 2, 1)", "int"),
    ("coalesce(n, vol, 0)", "coalesce(n, vol, 0)", "bigint"),
    ("nvl(symbol, 'x')", "coalesce(symbol, 'x')", "string"),
    ("ifnull(n, price)", "coalesce(n, price)", "double"),
    ("greatest(n, vol, fee)", "greatest(n, vol, fee)", "decimal(22,2)"),
    ("least(day, time)", "least(day, time)", "timestamp"),
    # casts
    ("CAST(n AS STRING)", "cast(n as string)", "string"),
    ("TRY_CAST(symbol AS DECIMAL(10, 2))", "cast(symbol as decimal(10,2))", "decimal(10,2)"),
    ("symbol::int + 1", "(cast(symbol as int) + 1)", "int"),
    ("CAST(n AS INT)", "n", "int"),
    ("CAST('2026-01-31' AS DATE)", "2026-01-31", "date"),
    ("CAST('soon' AS DATE)", "cast('soon' as date)", "date"),
    # numbers
    ("abs(fee)", "abs(fee)", "decimal(10,2)"),
    ("sign(n)", "sign(n)", "double"),
    ("signum(n)", "sign(n)", "double"),
    ("round(price)", "round(price)", "double"),
    ("round(fee, 1)", "round(fee, 1)", "decimal(10,1)"),
    ("round(fee, -3)", "round(fee, -3)", "decimal(9,0)"),
    ("floor(fee)", "floor(fee)", "decimal(9,0)"),
    ("floor(n)", "floor(n)", "bigint"),
    ("ceil(price)", "ceil(price)", "bigint"),
    ("ceiling(price)", "ceil(price)", "bigint"),
    ("sqrt(n)", "sqrt(n)", "double"),
    ("exp(n)", "exp(n)", "double"),
    ("ln(n)", "ln(n)", "double"),
    ("log(n)", "ln(n)", "double"),
    ("log10(n)", "log10(n)", "double"),
    ("pow(n, 2)", "pow(n, 2)", "double"),
    ("power(n, 2)", "pow(n, 2)", "double"),
    # strings
    ("UPPER(symbol)", "upper(symbol)", "string"),
    ("lower(symbol)", "lower(symbol)", "string"),
    ("length(symbol)", "length(symbol)", "int"),
    ("char_length(symbol)", "length(symbol)", "int"),
    ("trim(symbol)", "trim(symbol)", "string"),
    ("ltrim(symbol)", "ltrim(symbol)", "string"),
    ("rtrim(symbol)", "rtrim(symbol)", "string"),
    ("substring(symbol, 1, 2)", "substring(symbol, 1, 2)", "string"),
    ("substr(symbol, 2)", "substring(symbol, 2)", "string"),
    ("left(symbol, 2)", "left(symbol, 2)", "string"),
    ("right(symbol, 2)", "right(symbol, 2)", "string"),
    ("concat(symbol, 'a', 'b')", "concat(symbol, 'a', 'b')", "string"),
    ("symbol || '-' || symbol", "concat(concat(symbol, '-'), symbol)", "string"),
    ("replace(symbol, 'a', 'b')", "replace(symbol, 'a', 'b')", "string"),
    ("startswith(symbol, 'a')", "startswith(symbol, 'a')", "boolean"),
    ("starts_with(symbol, 'a')", "startswith(symbol, 'a')", "boolean"),
    ("endswith(symbol, 'a')", "endswith(symbol, 'a')", "boolean"),
    ("contains(symbol, 'a')", "contains(symbol, 'a')", "boolean"),
    # time
    ("year(time)", "year(time)", "int"),
    ("month(day)", "month(day)", "int"),
    ("day(time)", "day(time)", "int"),
    ("dayofmonth(time)", "day(time)", "int"),
    ("dayofweek(time)", "dayofweek(time)", "int"),
    ("hour(time)", "hour(time)", "int"),
    ("minute(ntz)", "minute(ntz)", "int"),
    ("second(time)", "second(time)", "int"),
    ("EXTRACT(HOUR FROM time)", "hour(time)", "int"),
    ("EXTRACT(DOW FROM day)", "dayofweek(day)", "int"),
    ("date_trunc('HOUR', time)", "date_trunc('hour', time)", "timestamp"),
    ("to_date(time)", "to_date(time)", "date"),
    ("date(symbol)", "to_date(symbol)", "date"),
    ("unix_seconds(time)", "unix_seconds(time)", "bigint"),
    ("unix_millis(time)", "unix_millis(time)", "bigint"),
    ("unix_micros(time)", "unix_micros(time)", "bigint"),
    # functions of strings, hashes and times
    ("regexp_extract(symbol, '(a)(b)', 2)", "regexp_extract(symbol, '(a)(b)', 2)", "string"),
    ("regexp_replace(symbol, '(a)', '<$1>')", "regexp_replace(symbol, '(a)', '<$1>')", "string"),
    ("split_part(symbol, '.', -1)", "split_part(symbol, '.', -1)", "string"),
    ("substring_index(symbol, '.', n)", "substring_index(symbol, '.', n)", "string"),
    ("concat_ws('-', symbol, NULL)", "concat_ws('-', symbol, None)", "string"),
    ("get_json_object(symbol, '$.a[0]')", "get_json_object(symbol, '$.a[0]')", "string"),
    ("parse_url(symbol, 'QUERY', 'id')", "parse_url(symbol, 'QUERY', 'id')", "string"),
    ("initcap(symbol)", "initcap(symbol)", "string"),
    ("octet_length(raw)", "octet_length(raw)", "int"),
    ("lpad(symbol, 5)", "lpad(symbol, 5)", "string"),
    ("rpad(symbol, 5, '*')", "rpad(symbol, 5, '*')", "string"),
    ("repeat(symbol, 2)", "repeat(symbol, 2)", "string"),
    ("reverse(symbol)", "reverse(symbol)", "string"),
    ("translate(symbol, 'ab', 'x')", "translate(symbol, 'ab', 'x')", "string"),
    ("instr(symbol, 'a')", "instr(symbol, 'a')", "int"),
    ("position('a' IN symbol)", "locate('a', symbol)", "int"),
    (
        "position('a' || 'b' IN symbol || 'c') + 1",
        "(locate(concat('a', 'b'), concat(symbol, 'c')) + 1)",
        "int",
    ),
    ("position('a', symbol, 2)", "locate('a', symbol, 2)", "int"),
    ("ascii(symbol)", "ascii(symbol)", "int"),
    ("xxhash64(symbol, n, NULL)", "xxhash64(symbol, n, None)", "bigint"),
    ("hash(day)", "hash(day)", "int"),
    ("crc32(symbol)", "crc32(symbol)", "bigint"),
    ("md5(raw)", "md5(raw)", "string"),
    ("sha(symbol)", "sha1(symbol)", "string"),
    ("sha2(symbol, 256)", "sha2(symbol, 256)", "string"),
    ("hex(n)", "hex(n)", "string"),
    ("quarter(time)", "quarter(time)", "int"),
    ("EXTRACT(WEEK FROM time)", "weekofyear(time)", "int"),
    ("EXTRACT(DOY FROM time)", "dayofyear(time)", "int"),
    ("weekday(day)", "weekday(day)", "int"),
    ("date_format(time, 'HH:mm')", "date_format(time, 'HH:mm')", "string"),
    ("time AT TIME ZONE 'Europe/Paris'", "from_utc_timestamp(time, 'Europe/Paris')", "timestamp"),
    ("ntz AT TIME ZONE '+02:00'", "to_utc_timestamp(ntz, '+02:00')", "timestamp"),
    (
        "time AT TIME ZONE 'UTC' > '2026-01-31'",
        "(from_utc_timestamp(time, 'UTC') > 2026-01-31 00:00:00+00:00)",
        "boolean",
    ),
    ("day::timestamp AT TIME ZONE 'UTC'", "from_utc_timestamp(cast(day as timestamp), 'UTC')", "timestamp"),
    ("date_add(day, n)", "date_add(day, n)", "date"),
    ("dateadd(time, 1)", "date_add(time, 1)", "date"),
    ("date_sub(day, tiny)", "date_sub(day, tiny)", "date"),
    ("date_diff(time, day)", "datediff(time, day)", "int"),
    ("add_months(day, -1)", "add_months(day, -1)", "date"),
    ("last_day(time)", "last_day(time)", "date"),
    ("unix_date(day)", "unix_date(day)", "int"),
    ("to_unix_timestamp(day)", "unix_timestamp(day)", "bigint"),
    ("timestamp_seconds(vol)", "timestamp_seconds(vol)", "timestamp"),
    ("timestamp_millis(vol)", "timestamp_millis(vol)", "timestamp"),
    ("timestamp_micros(n)", "timestamp_micros(n)", "timestamp"),
    ("to_timestamp(symbol)", "cast(symbol as timestamp)", "timestamp"),
    # further functions of numbers
    ("bround(fee, 1)", "bround(fee, 1)", "decimal(10,1)"),
    ("pmod(n, 7L)", "pmod(n, 7)", "bigint"),
    ("pmod(price, n)", "pmod(price, n)", "double"),
    ("width_bucket(fee, 0, 10, 5)", "width_bucket(fee, 0, 10, 5)", "bigint"),
    *(
        (f"{name}(n)", f"{name}(n)", "double")
        for name in """rint cbrt expm1 log2 log1p sin cos tan asin acos
    atan sinh cosh tanh degrees radians""".split()
    ),
    ("atan2(n, price)", "atan2(n, price)", "double"),
    ("hypot(fee, 1)", "hypot(fee, 1)", "double"),
    # registered from Python
    ("MidCap(price, symbol)", "midcap(price, symbol)", "boolean"),
]


@pytest.mark.parametrize(("text", "canonical", "type"), FORMS)
def test_each_form_has_one_canonical_call_and_a_type(text: str, canonical: str, type: str) -> None:
    bound = argument(text)
    assert (str(bound), str(bound.type)) == (canonical, type)


def test_every_function_is_shown_above() -> None:
    shown = " ".join(canonical for _, canonical, _ in FORMS)
    operators = {"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "&", "|", "^"}
    for name in FUNCTIONS:
        written = f" {name} " if name in operators else f"{name}("
        assert written in shown or name in ("floor_div", "coupon", "<=", *OF_NESTED_VALUES), name
    assert set(SPELLINGS.values()) <= set(FUNCTIONS.values())


LITERALS: list[tuple[str, Scalar, str]] = [
    ("0", 0, "int"), ("2147483647", 2147483647, "int"), ("-2147483648", -2147483648, "int"),
    ("2147483648", 2147483648, "bigint"), ("9223372036854775808", Decimal(2**63), "decimal(19,0)"),
    ("12L", 12, "bigint"), ("3y", 3, "tinyint"), ("3S", 3, "smallint"), ("3d", 3.0, "double"),
    ("2.5", Decimal("2.5"), "decimal(2,1)"), ("2.50", Decimal("2.50"), "decimal(3,2)"),
    ("0.05", Decimal("0.05"), "decimal(2,2)"), (".5", Decimal("0.5"), "decimal(1,1)"),
    ("-7.25", Decimal("-7.25"), "decimal(3,2)"), ("5.", Decimal(5), "decimal(1,0)"),
    ("2.5BD", Decimal("2.5"), "decimal(2,1)"), ("1e3", 1000.0, "double"), ("1.5E-3", 0.0015, "double"),
    ("'it''s'", "it's", "string"), ('"double"', "double", "string"), ("r'\\d'", "\\d", "string"),
    ("TRUE", True, "boolean"), ("false", False, "boolean"), ("NULL", None, "void"),
    ("DATE '2026-01-31'", date(2026, 1, 31), "date"),
    ("TIMESTAMP '2026-01-31'", datetime(2026, 1, 31, tzinfo=UTC), "timestamp"),
    ("TIMESTAMP '2026-01-31 10:00:00.25'", datetime(2026, 1, 31, 10, 0, 0, 250_000, UTC), "timestamp"),
    ("TIMESTAMP '2026-01-31T10:00:00+02:00'", datetime(2026, 1, 31, 8, tzinfo=UTC), "timestamp"),
    ("TIMESTAMP '2026-01-31 10:00 Europe/Berlin'", datetime(2026, 1, 31, 9, tzinfo=UTC), "timestamp"),
    ("TIMESTAMP_NTZ '2026-01-31 10:00'", datetime(2026, 1, 31, 10, tzinfo=UTC), "timestamp_ntz"),
    ("1" * 38, Decimal("1" * 38), "decimal(38,0)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "type"), LITERALS)
def test_constants_have_sparks_types(text: str, value: Scalar, type: str) -> None:
    bound = argument(text)
    assert isinstance(bound, Literal)
    assert (bound.value, str(bound.type)) == (value, type)
    assert isinstance(bound.value, value.__class__)


@pytest.mark.parametrize(
    ("condition", "canonical"),
    [
        ("time > '2026-01-31'", "(time > 2026-01-31 00:00:00+00:00)"),
        ("'2026-01-31 10:00' <= time", "(2026-01-31 10:00:00+00:00 <= time)"),
        ("day = '2026-01-31'", "(day = 2026-01-31)"),
        ("ntz < '2026-01-31'", "(ntz < 2026-01-31 00:00:00+00:00)"),
        ("day IN ('2026-01-31', DATE '2026-02-28')", "in(day, 2026-01-31, 2026-02-28)"),
        ("day BETWEEN '2026-01-01' AND '2026-01-31'", "and((day >= 2026-01-01), (day <= 2026-01-31))"),
    ],
)
def test_strings_beside_times_are_times(condition: str, canonical: str) -> None:
    assert str(predicate(condition)) == canonical


def test_names_keep_the_spelling_of_the_stream() -> None:
    assert argument("TRADES.Price") == Column("price", DOUBLE)
    assert argument("`PRICE`") == Column("price", DOUBLE)


def test_spans_take_no_part_in_equality() -> None:
    assert argument("price   *vol") == argument("PRICE * Vol")
    assert predicate("vol > 5 and n != 3") == predicate("VOL > 5 AND n <> 3")
