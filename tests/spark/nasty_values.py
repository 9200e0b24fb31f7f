"""Columns of values that are easy to get wrong, two of each type, for tests that compare with Spark."""

from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from weft.aggregates import arrow_type
from weft.expression import Slot, SlotKind
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

TINYINT, SMALLINT, FLOAT = DataType(Kind.TINYINT), DataType(Kind.SMALLINT), DataType(Kind.FLOAT)
NTZ, BINARY = DataType(Kind.TIMESTAMP_NTZ), DataType(Kind.BINARY)
SHORT, MONEY = DataType(Kind.DECIMAL, 5, 2), DataType(Kind.DECIMAL, 18, 4)
LONG, FINE, SHARE = (DataType(Kind.DECIMAL, 38, scale) for scale in (0, 10, 38))
NUMBERS = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, SHORT, MONEY, LONG, FINE, SHARE)
TIMES = (DATE, TIMESTAMP, NTZ)
TYPES = (BOOLEAN, *NUMBERS, STRING, BINARY, *TIMES)
ROWS = 300


def _integers(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    near = [0, 1, -1, 2, -2, 3, 5, -7, 10, 49, 50, -50, 99, 100, top // 2, -top // 2]
    edges = [top - 1, top - 2, -top, -top + 1, 2**31 - 1, -(2**31), 2**31, 2**53, 2**53 + 1, -(2**53) - 1]
    more = [1_000_003, 3_037_000_500, 10**18]
    return [value for value in [*near, *edges, *more] if -top <= value < top]


def _decimals(type: DataType) -> list[Decimal]:
    # Spark cannot change the sign of 38 nines: it rounds to 34 digits, and the result has 39.
    most = 10**type.precision - 10 ** max(0, type.precision - 34)
    one = 10**type.scale
    near = [0, 1, -1, 4, 5, -5, 15, 25, 50, -50, one, -one, one // 2, 3 * one, 7 * one + one // 2]
    edges = [most, -most, most // 2, most // 3, 10 ** (type.precision // 2), 2**63, -(2**63), 2**63 - 1]
    more = [10**18, 10**18 - 1, 123_456_789, 333_333_333_333, 127 * one, 128 * one, -129 * one]
    return [_scaled(value, type.scale) for value in [*near, *edges, *more] if abs(value) <= most]


def _scaled(units: int, scale: int) -> Decimal:
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))


WORDS = [
    "", " ", "a", "abc", "ABC", "Abc def", "  padded  ", "\ttab\n", "%", "_", "a%b", "a_b", "a\\b",
    "\\", "aaa", "abab", "straße", "STRASSE", "ΑΣ", "Σ", "ǅ", "ﬃ", "İ", "ı", "i̇", "é", "é", "日本語",
    "😀", "x😀y", "～", "a\nb", "a\r\n", "\r", "\u2028", "0", "1", "-1", "+7", " 12 ", "127", "128",
    "-128", "-129", "32768", "2147483648", "9223372036854775807", "9223372036854775808",
    "00000000000000000000000012", "1.5", ".5", "5.", "1e3", "1E-3", "-1.25e2", "1d", "1f", "0x1p3",
    "1_000", "1,000", "NaN", "nan", "inf", "-Infinity", "+inf", "infinity", "1e400", "-1e-400",
    "1e38", "99999999999999999999", "0.1", "0.005", "0.0050000001", "2.675", "--1", "1-", "e5",
    "1e", "\x001\x00", "1\x7f", "\u00a01", "١", "true", "TRUE", "t", " yes ", "n", "no", "False",
    "f", "y", "on", "2024-02-29", "2023-02-29", "2024-2-9", "2024", "2024-13", "2024-12",
    "2024-01-01T", "2024-01-01 x", "12345-01-01", "+2024-01-01", "-0044-03-15", "1234567-01-01",
    "202-01-01", " 2024-05-06 ", "2024-05-06 7", "2024-05-06 7:8", "2024-05-06 07:08:09",
    "2024-05-06T07:08:09.1", "2024-05-06 07:08:09.123456789", "2024-05-06 07:08:09Z",
    "2024-05-06 07:08:09+05:30", "2024-05-06 07:08:09 -8", "2024-05-06 07:08:09 UTC+1",
    "2024-05-06 07:08:09 Europe/Paris", "2024-03-31 02:30:00 Europe/Paris",
    "2024-10-27 02:30:00 Europe/Paris", "2024-05-06 07:08:09.5Nowhere/Else", "2024-05-06 24:00:00",
    "2024-05-06 23:59:60", "2024-05-06 07:08:09 PST", "2024-05-06 07:08:09.",
    "294247-01-10 04:00:54.775807", "294248-01-01", "epoch", "now", "2024-05-06 07:08:09 z",
    "2024-05-06  07:08:09",
]  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.1, 0.5, -0.5, 1.5, 2.5, -2.5, 2.675, 1.005, 0.125, 0.015, 1e-5, 1e-7,
    123456.789, 1e7, 1e10, 1e15, 2.0**31, 2.0**31 - 1, 2147483647.9, -2147483648.9, 2.0**53,
    2.0**53 + 2, 127.9, 128.0, -128.9, -129.0, 1e300, -1e300, 5e-324, 1.7976931348623157e308,
    float("inf"), float("-inf"), float("nan"), 9.223372036854775e18, 3.0, 709.8, -745.2, 1 / 3,
    12345.678, 99999.995,
]  # fmt: skip
POOLS: dict[DataType, list[Any]] = {
    BOOLEAN: [True, False],
    TINYINT: _integers(8), SMALLINT: _integers(16), INT: _integers(32), BIGINT: _integers(64),
    DOUBLE: [*DOUBLES, 2.0**63, -(2.0**63)], FLOAT: [*DOUBLES, 16777217.0, 3.4028235e38, 1e-45],
    **{type: _decimals(type) for type in (SHORT, MONEY, LONG, FINE, SHARE)},
    STRING: WORDS,
    BINARY: [b"", b"a", b"ab", b"\xff", b"\x00", "é".encode()],
    DATE: [date(1970, 1, 1), date(2024, 2, 29), date(2023, 12, 31), date(1582, 10, 4), date(1, 1, 1),
           date(9999, 12, 31), date(1969, 12, 31), date(2026, 6, 14)],
    TIMESTAMP: [0, 1, -1, 1_700_000_000_123_456, -86_400_000_000, -1_000_001, 253_402_300_799_999_999,
                -62_135_596_800_000_000, -70_000_000_000_000_000, 1_717_171_717_000_000,
                1_711_846_800_500_000],
    NTZ: [0, 999_999, -1, 1_700_000_000_000_000, 4_102_444_800_000_000, -62_135_596_800_000_000],
}  # fmt: skip


def slot(type: DataType, number: int) -> Slot:
    """Return the first (0) or second (1) column of a type."""
    return Slot(SlotKind.AGGREGATE, 2 * TYPES.index(type) + number, type)


def columns(seed: int, rows: int = ROWS) -> dict[Slot, pa.Array]:
    """Return columns of all types with one value in eight NULL."""
    rng = Random(seed)
    made: dict[Slot, pa.Array] = {}
    for type in TYPES:
        for number in (0, 1):
            pool = POOLS[type]
            order = rng.sample(pool, len(pool)) if number == 0 else []
            drawn = [*order, *rng.choices(pool, k=max(0, rows - len(order)))][:rows]
            values = [None if rng.random() < 0.125 else value for value in drawn]
            made[slot(type, number)] = pa.array(values, arrow_type(type))
    return made
