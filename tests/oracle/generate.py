"""Random cases from a `random.Random`: nasty values, disordered times, and queries that hit their edges.

Every choice goes through the generator that is passed in, so a seed gives one case for ever, and
hypothesis can stand in for it and shrink (see `strategies`).
"""

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random

from tests.oracle.cases import TIME, Case
from tests.oracle.expressions import Column
from tests.oracle.generate_queries import random_spec, with_functions
from tests.oracle.spec import Spec
from tests.oracle.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Kind,
    Row,
    SqlType,
    Value,
    decimal_type,
)

ORIGINS_US = (
    1_459_069_200_000_000,  # 2016-03-27 09:00:00
    1_700_000_000_123_000,  # within a second
    0,  # rows on both sides of the epoch
    -86_400_000_000,  # before it
)

INTS = (0, 1, -1, 2, 3, 7, 10, 100, 2**31 - 1, -(2**31))
BIGINTS = (0, 1, -1, 5, 100, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), 2**63 - 2)
DOUBLES = (0.0, -0.0, 1.0, -1.5, 0.1, 0.3, 100.25, 1e-30, 1e17, -3e60)
WILD_DOUBLES = (float("nan"), float("inf"), float("-inf"))
STRINGS = ("", "a", "b", "A", "x y", "é", "straße", "Ω", "日本", "😀", " 12 ", "-7", "9223372036854775808")
DATES = (date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1900, 1, 1), date(9999, 12, 31))
DECIMALS = ((4, 2), (10, 0), (18, 4), (9, 9), (38, 0), (38, 10))


def random_case(seed: int | Random, *, queries: int = 6, rows: int = 60) -> Case:
    """Return a case of at most so many queries and rows."""
    rng = Random(seed) if isinstance(seed, int) else seed
    schema = random_schema(rng)
    count = rng.randint(1, queries)
    plain = [random_spec(rng, f"q{index}", schema) for index in range(count)]
    specs = tuple(with_functions(rng, spec, schema) for spec in plain)
    delay_ms = rng.choice((0, 500, 3_000, 60_000))
    times = random_times(rng, specs, delay_ms, rng.randint(0, rows))
    lines = [random_row(rng, schema, at) for at in times]
    return Case(schema=schema, batches=random_cuts(rng, lines), delay_ms=delay_ms, specs=specs)


def random_schema(rng: Random) -> tuple[Column, ...]:
    """Return columns of every kind: `time`, then b BIGINT, d DOUBLE and most of the others."""
    precision, scale = rng.choice(DECIMALS)
    columns = (
        Column("b", BIGINT),
        Column("i", INT),
        Column("d", DOUBLE),
        Column("s", STRING),
        Column("m", decimal_type(precision, scale)),
        Column("flag", BOOLEAN),
        Column("ts", TIMESTAMP),
        Column("dt", DATE),
        Column("b2", BIGINT),
        Column("d2", DOUBLE),
    )
    kept = [column for column in columns if column.name in ("b", "d") or rng.random() < 0.7]
    return (Column(TIME, TIMESTAMP), *kept)


def random_times(rng: Random, specs: tuple[Spec, ...], delay_ms: int, count: int) -> list[int | None]:
    """Return event times: mostly rising, some disordered, equal, on a window's bound, late or missing."""
    at = rng.choice(ORIGINS_US)
    step_us = rng.choice((40_000, 400_000, 2_000_000))
    times: list[int | None] = []
    for _ in range(count):
        at += rng.randint(0, step_us)
        spec = rng.choice(specs)
        choice = rng.random()
        if choice < 0.15:  # exactly on a bound, or a microsecond beside it
            slide_us = spec.slide_ms * 1000
            bound = at - (at - spec.offset_ms * 1000) % slide_us
            times.append(bound + rng.choice((0, 0, -1, 1, -spec.range_ms * 1000)))
        elif choice < 0.35:  # behind, but inside the delay
            times.append(at - rng.randint(0, delay_ms * 1000))
        elif choice < 0.40:  # possibly late
            times.append(at - delay_ms * 1000 - rng.randint(0, 5_000_000))
        elif choice < 0.43:
            times.append(None)
        elif choice < 0.45:  # a gap
            at += rng.randint(0, 20 * step_us)
            times.append(at)
        else:
            times.append(at)
    return times


def random_row(rng: Random, schema: tuple[Column, ...], at: int | None) -> Row:
    """Return a row with the given event time."""
    values = {column.name: random_value(rng, column.type) for column in schema if column.name != TIME}
    return {TIME: at, **values}


def random_value(rng: Random, of: SqlType) -> Value:
    """Return a value of a type: NULL, plain or nasty."""
    if rng.random() < 0.12:
        return None
    match of.kind:
        case Kind.INT:
            return rng.choice(INTS) if rng.random() < 0.3 else rng.randint(-20, 20)
        case Kind.BIGINT:
            return rng.choice(BIGINTS) if rng.random() < 0.2 else rng.randint(-1000, 1000)
        case Kind.DOUBLE:
            return _random_double(rng)
        case Kind.STRING:
            return rng.choice(STRINGS)
        case Kind.DECIMAL:
            return _random_decimal(rng, of)
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.TIMESTAMP:
            return rng.choice(ORIGINS_US) + rng.randint(-3, 3) * rng.choice((1, 1_000_000))
        case Kind.DATE:
            ordinary = date(2024, 1, 1) + timedelta(days=rng.randint(0, 9))
            return rng.choice(DATES) if rng.random() < 0.3 else ordinary
    raise TypeError(f"no values of {of}")


def _random_double(rng: Random) -> float:
    choice = rng.random()
    if choice < 0.03:
        return rng.choice(WILD_DOUBLES)
    return rng.choice(DOUBLES) if choice < 0.3 else rng.randint(-4000, 4000) / 16


def _random_decimal(rng: Random, of: SqlType) -> Decimal:
    largest = 10**of.precision - 1
    units = rng.choice((0, 1, -1, largest, -largest)) if rng.random() < 0.1 else rng.randint(-5000, 5000)
    units = max(-largest, min(largest, units))
    return Decimal((1 if units < 0 else 0, tuple(map(int, str(abs(units)))), -of.scale))


def random_cuts(rng: Random, rows: list[Row]) -> tuple[tuple[Row, ...], ...]:
    """Cut rows into one to six batches, some of them empty."""
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 5)))
    bounds = [0, *cuts, len(rows)]
    return tuple(tuple(rows[a:b]) for a, b in pairwise(bounds))
