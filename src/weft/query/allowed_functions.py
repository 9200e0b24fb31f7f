"""The functions and operators of the language: all that a `Call` can have, with its typing rule.

To add one, add its line to the tables below, its translation to Spark and its implementation in the driver.

    arithmetic   + - * / % div neg           comparison   = <> < <= > >= <=>
    bits         & | ^ shiftleft shiftright  logic        and or (n-ary, flat) not is_null
    tests        in(x, constant, …) like ilike rlike(x, constant pattern)
    choice       case(condition, value, …, else) coalesce greatest least
    types        cast(x), its target is the call's type
    numbers      abs sign round(x[, constant]) floor ceil sqrt exp ln log10 pow isnan
    strings      upper lower length trim ltrim rtrim substring(x, from[, length]) concat replace left right
                 startswith endswith contains
    time         year month day hour minute second dayofweek date_trunc(constant unit, t) to_date
                 unix_seconds unix_millis unix_micros
    internal     floor_div(bigint, bigint): the quotient rounded down; no text spells it
                 coupon(x, constant): what a value leaves in a sketch of distinct values; no text spells it

Every other call is of a function registered from Python, by its registered name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType

from weft.expression import Call, Expression, Literal
from weft.query.coercion import arithmetic, common_of, common_type, rounded
from weft.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    DataType,
    Kind,
)

Arguments = tuple[Expression, ...]
Rule = Callable[[Arguments], DataType | None]
"""The result's type, or None where the arguments do not fit."""
_ANY = 1_000_000
_ALIKE = "two values of one type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function or operator of the language."""

    name: str
    """The canonical name: `Call.function`."""
    takes: str
    """Its arguments, in words."""
    least: int
    most: int
    result: Rule
    spellings: tuple[str, ...] = ()
    """The names by which text can call it."""
    compares: bool = False
    """Whether string constants compared with times are read as times."""


_NUMERIC = frozenset(kind for kind in Kind if DataType(kind).is_numeric)
_TIME = frozenset(kind for kind in Kind if DataType(kind).is_time)
_INSTANT = _TIME - {Kind.DATE}
_STRING, _BOOLEAN = frozenset({Kind.STRING}), frozenset({Kind.BOOLEAN})


def _is(kinds: frozenset[Kind], *args: Expression) -> bool:
    return all(arg.type.kind in kinds or arg.type.kind is Kind.NULL for arg in args)


def _all(kinds: frozenset[Kind], result: DataType) -> Rule:
    return lambda args: result if _is(kinds, *args) else None


def _arithmetic(operator: str) -> Rule:
    return lambda args: arithmetic(operator, *args)


def _same_number(args: Arguments) -> DataType | None:
    return args[0].type if args[0].type.is_numeric else None


def _bits(args: Arguments) -> DataType | None:
    return common_type(args[0].type, args[1].type) if all(arg.type.is_integer for arg in args) else None


def _shift(args: Arguments) -> DataType | None:
    if not all(arg.type.is_integer for arg in args) or not isinstance(args[1], Literal):
        return None
    return BIGINT if args[0].type == BIGINT else INT


def _comparable(args: Arguments) -> DataType | None:
    return BOOLEAN if all(common_type(args[0].type, arg.type) for arg in args[1:]) else None


def _common(args: Arguments) -> DataType | None:
    return common_of([arg.type for arg in args])


def _case(args: Arguments) -> DataType | None:
    conditions, values = args[:-1:2], (*args[1:-1:2], args[-1])
    return _common(values) if _is(_BOOLEAN, *conditions) else None


def _pattern(args: Arguments) -> DataType | None:
    constant = isinstance(args[1], Literal) and isinstance(args[1].value, str)
    return BOOLEAN if _is(_STRING, args[0]) and constant else None


def _substring(args: Arguments) -> DataType | None:
    return STRING if _is(_STRING, args[0]) and all(arg.type.is_integer for arg in args[1:]) else None


def _trunc(args: Arguments) -> DataType | None:
    unit = isinstance(args[0], Literal) and str(args[0].value).casefold() in TRUNC_UNITS
    return TIMESTAMP if unit and args[1].type.is_time else None


def _round(args: Arguments) -> DataType | None:
    digits = args[1] if len(args) == 2 else Literal(0, INT)
    if not args[0].type.is_numeric or not isinstance(digits, Literal) or not isinstance(digits.value, int):
        return None
    return rounded(args[0].type, digits.value) if abs(digits.value) <= MAX_PRECISION else None


def _whole(args: Arguments) -> DataType | None:
    type = args[0].type
    if type.kind is Kind.DECIMAL:
        return DataType(Kind.DECIMAL, min(type.precision - type.scale + 1, MAX_PRECISION), 0)
    return BIGINT if type.is_numeric else None


TRUNC_UNITS = frozenset("year quarter month week day hour minute second millisecond microsecond".split())
"""The units of `date_trunc`."""


def _function(
    name: str, takes: str, least: int, most: int, result: Rule, *others: str, operator: bool = False,
    compares: bool = False,
) -> Function:  # fmt: skip
    spellings = others if operator else (name, *others)
    return Function(
        name=name, takes=takes, least=least, most=most, result=result, spellings=spellings, compares=compares
    )


_operator = partial(_function, operator=True)


_OPERATORS = (
    *(_operator(name, "two numbers", 2, 2, _arithmetic(name)) for name in ("+", "-", "*", "/")),
    _operator("%", "two numbers", 2, 2, _arithmetic("%"), "mod"),
    _operator("div", "two whole numbers or decimals", 2, 2, _arithmetic("div")),
    _operator("neg", "a number", 1, 1, _same_number),
    *(
        _operator(name, _ALIKE, 2, 2, _comparable, compares=True)
        for name in ("=", "<>", "<", "<=", ">", ">=", "<=>")
    ),
    *(_operator(name, "conditions", 2, _ANY, _all(_BOOLEAN, BOOLEAN)) for name in ("and", "or")),
    _operator("not", "a condition", 1, 1, _all(_BOOLEAN, BOOLEAN)),
    _operator("is_null", "anything", 1, 1, lambda _: BOOLEAN),
    _operator("in", "values of one type", 2, _ANY, _comparable, compares=True),
    _operator("case", "conditions, and values of one type", 3, _ANY, _case),
    _operator("cast", "a value", 1, 1, lambda args: args[0].type),
    *(_operator(name, "two whole numbers", 2, 2, _bits) for name in ("&", "|", "^")),
    _operator("floor_div", "two whole numbers", 2, 2, lambda _: BIGINT),
    _operator("coupon", "a value and a number of bits", 2, 2, lambda _: INT),
)
_NUMBERS = (
    _function("abs", "a number", 1, 1, _same_number),
    _function("round", "a number and, if wanted, a constant number of digits", 1, 2, _round),
    _function("floor", "a number", 1, 1, _whole),
    _function("ceil", "a number", 1, 1, _whole, "ceiling"),
    *(_function(name, "a number", 1, 1, _all(_NUMERIC, DOUBLE)) for name in ("sqrt", "exp", "log10")),
    _function("ln", "a number", 1, 1, _all(_NUMERIC, DOUBLE), "log"),
    _function("sign", "a number", 1, 1, _all(_NUMERIC, DOUBLE), "signum"),
    _function("pow", "two numbers", 2, 2, _all(_NUMERIC, DOUBLE), "power"),
    _function("isnan", "a number", 1, 1, _all(_NUMERIC, BOOLEAN)),
    _function("shiftleft", "two whole numbers", 2, 2, _shift),
    _function("shiftright", "two whole numbers", 2, 2, _shift),
)
_CHOICES = (
    _function("coalesce", "values of one type", 1, _ANY, _common, "nvl", "ifnull"),
    _function("greatest", "values of one type", 2, _ANY, _common),
    _function("least", "values of one type", 2, _ANY, _common),
)
_STRINGS = (
    _function("upper", "a string", 1, 1, _all(_STRING, STRING), "ucase"),
    _function("lower", "a string", 1, 1, _all(_STRING, STRING), "lcase"),
    _function("length", "a string", 1, 1, _all(_STRING, INT), "char_length", "character_length", "len"),
    *(_function(name, "a string", 1, 1, _all(_STRING, STRING)) for name in ("trim", "ltrim", "rtrim")),
    _function("substring", "a string, a start and, if wanted, a length", 2, 3, _substring, "substr"),
    _function("left", "a string and a length", 2, 2, _substring),
    _function("right", "a string and a length", 2, 2, _substring),
    _function("concat", "strings", 1, _ANY, _all(_STRING, STRING)),
    _function("replace", "three strings", 3, 3, _all(_STRING, STRING)),
    _function("startswith", "two strings", 2, 2, _all(_STRING, BOOLEAN), "starts_with"),
    _function("endswith", "two strings", 2, 2, _all(_STRING, BOOLEAN), "ends_with"),
    _function("contains", "two strings", 2, 2, _all(_STRING, BOOLEAN)),
    _function("like", "a string and a constant pattern", 2, 2, _pattern),
    _function("ilike", "a string and a constant pattern", 2, 2, _pattern),
    _function("rlike", "a string and a constant pattern", 2, 2, _pattern, "regexp", "regexp_like"),
)
_TIMES = (
    *(_function(name, "a date or timestamp", 1, 1, _all(_TIME, INT))
      for name in ("year", "month", "hour", "minute", "second", "dayofweek")),
    _function("day", "a date or timestamp", 1, 1, _all(_TIME, INT), "dayofmonth"),
    _function("date_trunc", f"one of {', '.join(sorted(TRUNC_UNITS))} and a timestamp", 2, 2, _trunc),
    _function("to_date", "a timestamp or string", 1, 1, _all(_TIME | _STRING, DATE), "date"),
    *(_function(name, "a timestamp", 1, 1, _all(_INSTANT, BIGINT))
      for name in ("unix_seconds", "unix_millis", "unix_micros")),
)  # fmt: skip

FUNCTIONS = MappingProxyType(
    {function.name: function for function in (*_OPERATORS, *_NUMBERS, *_CHOICES, *_STRINGS, *_TIMES)}
)
"""Every function and operator by its canonical name."""

SPELLINGS = MappingProxyType(
    {spelling: function for function in FUNCTIONS.values() for spelling in function.spellings}
)
"""Every function by the names that text can call it."""


_ALWAYS_FALLIBLE = frozenset({"/", "%", "div", "floor_div"})
_FALLIBLE_OF_DATES = frozenset({"hour", "minute", "second", "date_trunc"})
_FALLIBLE_UNLESS_DOUBLE = frozenset({"+", "-", "*", "neg", "abs", "round"})


@lru_cache(maxsize=4096)
def sites(expression: Expression) -> tuple[Expression, ...]:
    """Return the operations of an expression that may fail; a CASE counts as one operation."""
    if not isinstance(expression, Call):
        return ()
    within = dict.fromkeys(site for argument in expression.args for site in sites(argument))
    if expression.function == "case":
        return (expression,) if within else ()
    return (*within, expression) if _can_fail(expression) else tuple(within)


def _can_fail(call: Call) -> bool:
    if call.function in _ALWAYS_FALLIBLE or call.function not in FUNCTIONS:
        return True
    if call.function in ("cast", "to_date"):
        return not is_safe_cast(call.args[0].type, call.type)
    if call.type.kind is Kind.DECIMAL and call.function in ("neg", "abs"):
        return False
    if call.function in _FALLIBLE_OF_DATES:
        return call.args[-1].type.kind is Kind.DATE
    return call.function in _FALLIBLE_UNLESS_DOUBLE and not call.type.is_fractional


def is_safe_cast(source: DataType, target: DataType) -> bool:
    """Say whether a cast from one type to another never fails."""
    if source == target or source.kind is Kind.NULL or target.kind is Kind.STRING:
        return True
    if target.is_fractional:
        return source.is_numeric or source.kind is Kind.BOOLEAN
    if source.is_integer and target.is_integer:
        return source.bits <= target.bits
    return source.is_time and target.is_time and source.kind is not Kind.DATE
