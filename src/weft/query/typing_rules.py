"""Typing rules of functions: the type of a call, or None where its arguments do not fit."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.expression import Expression, Literal
from weft.query.coercion import arithmetic, common_of, common_type, rounded
from weft.query.nested import element_type, size_type
from weft.types import BIGINT, BOOLEAN, DOUBLE, INT, MAX_PRECISION, STRING, TIMESTAMP, DataType, Kind

Arguments = tuple[Expression, ...]
Parameter = Callable[[Expression], bool]
"""Says whether an argument fits one place of a function."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A typing rule."""

    gives: str
    """The type of the result, in words."""
    decide: Callable[[Arguments], DataType | None]

    def __call__(self, args: Arguments) -> DataType | None:
        """Return the type of a call with these arguments, or None where they do not fit."""
        return self.decide(args)


_NUMERIC = frozenset(kind for kind in Kind if DataType(kind).is_numeric)
_TIME = frozenset(kind for kind in Kind if DataType(kind).is_time)
COMMON = "the type that holds all"


def _among(kinds: frozenset[Kind]) -> Parameter:
    return lambda arg: arg.type.kind in kinds or arg.type.kind is Kind.NULL


plain: Parameter = lambda arg: arg.type.kind is not Kind.OTHER and not arg.type.is_nested  # noqa: E731
condition = _among(frozenset({Kind.BOOLEAN}))
number = _among(_NUMERIC)
whole = _among(frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT}))
small_whole = _among(frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT}))
"""What Spark takes as a count: no BIGINT."""
string = _among(frozenset({Kind.STRING}))
bytes_ = _among(frozenset({Kind.STRING, Kind.BINARY}))
bytes_or_whole = _among(
    frozenset({Kind.STRING, Kind.BINARY, Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT})
)
time = _among(_TIME)
time_or_string = _among(_TIME | {Kind.STRING})
instant = _among(_TIME - {Kind.DATE})
day = _among(frozenset({Kind.DATE}))


def constant_string(arg: Expression) -> bool:
    """Say whether an argument is a string as written in the query."""
    return isinstance(arg, Literal) and isinstance(arg.value, str)


def constant_whole(arg: Expression) -> bool:
    """Say whether an argument is an INT as written in the query."""
    return isinstance(arg, Literal) and arg.type.is_integer and arg.type.kind is not Kind.BIGINT


def given(result: DataType, *parameters: Parameter) -> Rule:
    """Return the rule of a function with a fixed type; the last parameter may be repeated."""

    def decide(args: Arguments) -> DataType | None:
        wanted = (*parameters, *parameters[-1:] * (len(args) - len(parameters)))
        fit = all(accepts(arg) for accepts, arg in zip(wanted, args, strict=False))
        return result if fit else None

    return Rule(str(result).upper(), decide)


def of_operator(operator: str) -> Rule:
    """Return the rule of an arithmetic operator."""
    gives = "BIGINT" if operator == "div" else "as Spark's arithmetic"
    return Rule(gives, lambda args: arithmetic(operator, *args))


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
    return _common(values) if all(map(condition, conditions)) else None


def _part(args: Arguments) -> DataType | None:
    return STRING if string(args[0]) and all(arg.type.is_integer for arg in args[1:]) else None


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


def _positive_remainder(args: Arguments) -> DataType | None:
    decimal = any(arg.type.kind is Kind.DECIMAL for arg in args)
    return None if decimal or not all(map(number, args)) else arithmetic("%", *args)


TRUNC_UNITS = frozenset("year quarter month week day hour minute second millisecond microsecond".split())
"""The units of `date_trunc`."""

same_number = Rule("as the number", _same_number)
bits = Rule("the wider type", _bits)
shift = Rule("INT or BIGINT", _shift)
comparable = Rule("BOOLEAN", _comparable)
common = Rule(COMMON, _common)
case = Rule(COMMON, _case)
part = Rule("STRING", _part)
trunc = Rule("TIMESTAMP", _trunc)
rounding = Rule("as the number; a DECIMAL with fewer digits", _round)
rounding_up_or_down = Rule("BIGINT, or a DECIMAL without scale", _whole)
positive_remainder = Rule("the wider type", _positive_remainder)
as_cast = Rule("the type named", lambda args: args[0].type)
of_anything = Rule("BOOLEAN", lambda _: BOOLEAN)
of_doubles = given(DOUBLE, number)
element = Rule("as the elements", element_type)
size = Rule("INT", size_type)
field = Rule("as the field", lambda _: None)
"""Fields are found by name: see `field_of`."""
