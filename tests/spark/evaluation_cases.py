"""Every function of the language on every combination of types that it takes."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import product

from tests.spark.nasty_values import (
    BINARY,
    FINE,
    FLOAT,
    LONG,
    MONEY,
    NUMBERS,
    SHARE,
    SHORT,
    TIMES,
    TINYINT,
    TYPES,
    slot,
)
from weft.errors import TypeMismatch
from weft.evaluation import can_evaluate
from weft.expression import Call, Expression, Literal
from weft.query.allowed_functions import FUNCTIONS, TRUNC_UNITS
from weft.query.coercion import castable
from weft.query.constant_arguments import check_constants
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, Kind

NOTHING = Literal(None, NULL)
CONSTANTS = (
    Literal(0, INT), Literal(-3, INT), Literal(5_000_000_000, BIGINT), Literal(2.5, DOUBLE),
    Literal(Decimal("1.5"), SHORT), NOTHING, Literal(True, BOOLEAN), Literal("ab", STRING),
)  # fmt: skip
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "=",
    "<",
    ">=",
    "<=>",
    "and",
    "or",
    "greatest",
    "&",
    "startswith",
)


_LIKE_OTHERS = frozenset({"<>", "<=", ">", ">=", "least", "|", "^"})
"""Functions whose types are converted as for another that is tried on all pairs of types."""


def call(function: str, *args: Expression) -> Call | None:
    """Return a call with the type that the language gives it; None if it takes no such arguments."""
    type = FUNCTIONS[function].result(args)
    if type is None:
        return None
    try:
        check_constants(function, args)
    except TypeMismatch:
        return None
    return Call(function, args, type)


def unary() -> Iterator[Call | None]:
    """Yield functions of one argument on columns of all types."""
    for name, function in FUNCTIONS.items():
        if function.least == 1 and name != "cast":
            yield from (call(name, slot(type, 0)) for type in TYPES)


def binary() -> Iterator[Call | None]:
    """Yield functions of two arguments on columns of all pairs of types."""
    for name, function in FUNCTIONS.items():
        if function.least <= 2 <= function.most and name not in ("round", "case", "date_trunc", "floor_div"):
            pairs = zip(TYPES, TYPES, strict=True) if name in _LIKE_OTHERS else product(TYPES, TYPES)
            yield from (call(name, slot(one, 0), slot(other, 1)) for one, other in pairs)


def with_constants() -> Iterator[Call | None]:
    """Yield operators between a column and a constant, on either side."""
    for name, type, constant in product(OPERATORS, TYPES, CONSTANTS):
        yield call(name, slot(type, 0), constant)
        yield call(name, constant, slot(type, 0))


def casts() -> Iterator[Call | None]:
    """Yield every cast."""
    for one, other in product(TYPES, TYPES):
        if one != other and castable(one, other):
            yield Call("cast", (slot(one, 0),), other)


def choices() -> Iterator[Call | None]:
    """Yield CASE, IN and functions of three arguments."""
    flag = slot(BOOLEAN, 0)
    for one, other in product(TYPES, TYPES):
        yield call("case", flag, slot(one, 0), slot(other, 1))
        yield call("in", slot(one, 0), slot(other, 1), slot(one, 1))
    for type in TYPES:
        a, b = slot(type, 0), slot(type, 1)
        yield call("case", flag, a, slot(BOOLEAN, 1), b, NOTHING)
        yield call("case", flag, NOTHING, slot(BOOLEAN, 1), a, b)
        yield call("in", a, b, NOTHING)
        yield call("coalesce", a, NOTHING, b)
        yield call("greatest", a, b, a)
        yield call("least", NOTHING, a, b)
        yield call("is_null", a)
    many = [slot(type, number) for type in NUMBERS[:6] for number in (0, 1)]
    yield from (call(name, *many * 20, NOTHING) for name in ("greatest", "least", "coalesce"))
    yield call("and", flag, slot(BOOLEAN, 1), NOTHING)
    yield call("or", flag, NOTHING, slot(BOOLEAN, 1))
    options = [Literal(float(number), DOUBLE) for number in range(12)]
    yield call("in", slot(DOUBLE, 0), *options)
    yield call("in", slot(BIGINT, 0), *(Literal(number, INT) for number in (1, 2, 3)), NOTHING)


def numbers() -> Iterator[Call | None]:
    """Yield rounding and shifts by constants."""
    for type, places in product(NUMBERS, (-39, -38, -20, -19, -5, -3, -2, -1, 0, 1, 2, 3, 5, 15, 30)):
        if type.kind is not Kind.DECIMAL or abs(places) <= 38:
            yield call("round", slot(type, 0), Literal(places, INT))
    for type, bits in product(NUMBERS, (-1, 0, 1, 7, 31, 32, 33, 63, 64)):
        for name in ("shiftleft", "shiftright"):
            yield call(name, slot(type, 0), Literal(bits, INT))
    for divisor in (1, 7, 300, 1000):
        yield Call("floor_div", (Call("cast", (slot(INT, 1),), BIGINT), Literal(divisor, BIGINT)), BIGINT)


def strings() -> Iterator[Call | None]:
    """Yield functions of strings with places, lengths and patterns."""
    word = slot(STRING, 0)
    bounds = (-(2**31), -20, -3, -1, 0, 1, 2, 3, 50, 2**31 - 1)
    for start in bounds:
        yield call("substring", word, Literal(start, INT))
        yield from (call("substring", word, Literal(start, INT), Literal(size, INT)) for size in bounds)
        yield from (call(name, word, Literal(start, INT)) for name in ("left", "right"))
    yield call("substring", word, slot(INT, 0), slot(INT, 1))
    yield call("substring", word, slot(INT, 1))
    yield call("left", word, slot(INT, 0))
    yield call("right", word, slot(INT, 0))
    yield call("concat", word, Literal("x", STRING), slot(STRING, 1))
    yield call("concat", word)
    yield call("replace", word, Literal("a", STRING), Literal("xy", STRING))
    yield call("replace", word, Literal("", STRING), Literal("xy", STRING))
    yield call("replace", word, slot(STRING, 1), Literal("-", STRING))
    for part in ("", "a", "é", "-0"):
        yield from (
            call(name, word, Literal(part, STRING)) for name in ("startswith", "endswith", "contains")
        )
    for pattern in LIKES:
        yield from (call(name, word, Literal(pattern, STRING)) for name in ("like", "ilike"))
    for pattern in PATTERNS:
        yield call("rlike", word, Literal(pattern, STRING))


LIKES = (
    "", "%", "a%", "%b", "%a%", "a_b", "a\\%b", "a\\_b", "a\\\\b", "_", "__", "%é%", "%\n%", "ABC", "%ß%",
    "1%2", "%SS%", "%σ", "2024-%-%",
)  # fmt: skip
PATTERNS = (
    "", "a", "^a", "b$", "^$", "^.$", "^..$", "a.b", "[a-c]+$", "[^a-z]", "\\d+", "^\\d+$", "\\w", "^\\s",
    "\\S$", "(ab)+", "(?:a|b)c", "a{2,3}", "a{2}", "^(a+)b", "(?i)ABC", "(?i)straße", "x?y", "é", "[é日]",
    "a*?b", "\\.", "\\-", "[.]", "\\\\", "^[+-]?[0-9]+$", "\\$", "(?=1)1", "(?<!a)b", "\\(", "\t",
    "a\\tb", "[\\d]", "[a\\-z]", "日.語", "^2024-[01][0-9]-\\d{2}$", "^.*$",
)  # fmt: skip


def times() -> Iterator[Call | None]:
    """Yield functions of times."""
    for unit, type in product(sorted(TRUNC_UNITS), TIMES):
        yield call("date_trunc", Literal(unit, STRING), slot(type, 0))


EXTRACTS = (
    ("(a)", 1), ("(a+)b", 1), ("([a-z]+)-?([0-9]*)", 2), ("a|b", 0), ("(a)|(b)", 2), ("^(.*)$", 1),
    ("(.)$", 1),
    ("(?i)(ABC)", 1), ("(\\d{4})-(\\d{2})", 2), ("(é|日.)", 1), ("(a)?b", 1), ("", 0), ("([^a]+)", 1),
    ("(?:a|b)(.?)", 1), ("(a*?)b", 1), ("\\S+", 0), ("(?<=a)(.)", 1), ("\\w+$", 0),
)  # fmt: skip
REPLACED = (
    ("a", ""), ("a", "<$0>"), ("(a)(b)?", "$2$1"), ("[0-9]+", "#"), ("(\\d)(\\d)", "$2$1$10"), ("\\s+", " "),
    (".", "x"), ("é", "\\$e\\\\"), ("^\\s", ""), ("[^a-z]", "_"), ("(?i)ABC|b", "😀"), ("\\d{2}", "$0-"),
    (".$", "!"), ("a|", "-"), ("x*", "-"), ("(a|b)+", "-"),
)  # fmt: skip
"""The last ones match nothing, and stay with Spark."""
DELIMITERS = ("", " ", "a", "aa", "-", "é", "b\n", "😀", ".", "日", "1")


def texts() -> Iterator[Call | None]:
    """Yield functions that take strings apart, pad and search them."""
    word, other = slot(STRING, 0), slot(STRING, 1)
    for (pattern, group), regex in product(EXTRACTS, ("regexp_extract",)):
        yield call(regex, word, Literal(pattern, STRING), Literal(group, INT))
    yield call("regexp_extract", word, Literal("(b)", STRING))
    for pattern, put in REPLACED:
        yield call("regexp_replace", word, Literal(pattern, STRING), Literal(put, STRING))
    for delimiter, count in product(DELIMITERS, (-(2**31), -3, -2, -1, 1, 2, 3, 2**31 - 1)):
        constants = Literal(delimiter, STRING), Literal(count, INT)
        yield call("split_part", word, *constants)
        if abs(count) < 100:
            yield call("substring_index", word, *constants)
    yield call("substring_index", word, Literal("a", STRING), Literal(0, INT))
    yield call("substring_index", word, other, Literal(2, INT))
    yield call("split_part", word, other, Literal(-1, INT))
    for name, size in product(("lpad", "rpad"), (0, 1, 3, 7, 40)):
        yield call(name, word, Literal(size, INT))
        yield from (call(name, word, Literal(size, INT), Literal(pad, STRING)) for pad in ("", "é", "ab😀"))
        yield call(name, word, Literal(size, INT), other)
    yield from (call("repeat", word, Literal(count, INT)) for count in (0, 1, 3))
    for part in ("", "a", "b", "é", "😀", "-0", "日本"):
        yield call("instr", word, Literal(part, STRING))
        for start in (-1, 0, 1, 2, 3, 9, 2**31 - 1):
            yield call("locate", Literal(part, STRING), word, Literal(start, INT))
    yield call("locate", other, word, Literal(2, INT))
    for sought, put in (("abc", "xy"), ("", "x"), ("é😀", "e"), ("aa", "bc"), ("0", "\x00"), ("a", "日")):
        yield call("translate", word, Literal(sought, STRING), Literal(put, STRING))
    yield call("translate", word, other, Literal("12", STRING))
    yield call("concat_ws", Literal(", ", STRING), word, other)
    yield call("concat_ws", word, other, NOTHING, Literal("é", STRING))
    yield call("concat_ws", Literal(", ", STRING))
    yield call("concat_ws", word, NOTHING)
    for bits, type in product((224, 256, 384, 512), (STRING, BINARY)):
        yield call("sha2", slot(type, 0), Literal(bits, INT))


ZONES = ("UTC", "GMT", "Z", "+02:00", "-18:00", "+05:30")
DATE_PATTERNS = (
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "y M d H m s S", "yy yyy", "QQ QQQ QQQQ Q",
    "MMM MMMM",
    "E EE EEE EEEE", "D DD DDD", "k kk K KK h hh a", "SSSSSSSSS SS", "'it''s' ''",
    "''''", "'''x'y''", "", "dd/MM/yyyy", "HH:mm",
    "X XX x xx xxx Z ZZZ", "日 yyyy年", "yyyyMMddHH",
)  # fmt: skip


def clocks() -> Iterator[Call | None]:
    """Yield times in zones, times as text, and calendars."""
    for zone, type in product(ZONES, TIMES):
        for name in ("from_utc_timestamp", "to_utc_timestamp"):
            yield call(name, slot(type, 0), Literal(zone, STRING))
    for pattern, type in product(DATE_PATTERNS, TIMES):
        yield call("date_format", slot(type, 0), Literal(pattern, STRING))
    for count, type in product((-(2**31), -100_000, -13, -1, 0, 1, 11, 12, 5_000, 2**31 - 1), TIMES):
        yield from (call(name, slot(type, 0), Literal(count, INT)) for name in ("add_months", "date_add"))
    top = Call("date_add", (slot(DATE, 0), Literal(2**31 - 1 - 20_000, INT)), DATE)
    yield from (call(name, top) for name in ("last_day", "weekofyear", "quarter", "dayofyear", "weekday"))


def buckets() -> Iterator[Call | None]:
    """Yield buckets between constants and between columns."""
    bounds = (0.0, 10.0, -1e300, 1e300, float("nan"), float("inf"))
    for type, count in product((INT, BIGINT, DOUBLE, MONEY), (0, 1, 7, -1, 2**31 - 1)):
        for low, high in product(bounds[:3] if count != 7 or type != DOUBLE else bounds, bounds[:3]):
            constants = (Literal(low, DOUBLE), Literal(high, DOUBLE), Literal(count, INT))
            yield call("width_bucket", slot(type, 0), *constants)
    yield call("width_bucket", slot(DOUBLE, 0), slot(DOUBLE, 1), slot(FLOAT, 0), slot(BIGINT, 0))
    yield call("width_bucket", slot(SHARE, 0), slot(TINYINT, 1), slot(LONG, 0), Literal(2**63 - 1, BIGINT))


MAKERS = (unary, binary, with_constants, casts, choices, numbers, strings, texts, times, clocks, buckets)


def cases(*makers: Callable[[], Iterator[Call | None]]) -> list[Call]:
    """Return the calls that can be evaluated without Spark, each once."""
    made = dict.fromkeys(one for maker in makers for one in maker() if one is not None)
    return [one for one in made if can_evaluate(one) and not _is_odd(one)]


def _is_odd(one: Call) -> bool:
    """Say whether Spark does not take a call that the language does, or fails where NULL is meant."""
    kinds = [argument.type.kind for argument in one.args]
    if one.function == "concat":
        return Kind.BINARY in kinds
    if one.function in ("substring", "left", "right"):
        return Kind.BIGINT in kinds
    if one.function in ("div", "%"):
        # Quotients of more than 38 digits.
        return one.args[1].type == SHARE or (
            one.args[0].type == LONG and one.args[1].type in (SHORT, MONEY, FINE)
        )
    return False
