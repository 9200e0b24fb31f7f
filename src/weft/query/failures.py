"""Which operations of an expression may fail: they give NULL for the row, and the failure is counted."""

from functools import lru_cache

from weft.expression import Call, Expression
from weft.query.allowed_functions import FUNCTIONS
from weft.types import DataType, Kind

_ALWAYS = frozenset(
    "/ % div floor_div pmod parse_url from_utc_timestamp to_utc_timestamp timestamp_seconds timestamp_millis"
    " add_months last_day subscript element_at".split()
)
_OF_DATES = frozenset({"hour", "minute", "second", "date_trunc", "date_format", "unix_timestamp"})
_UNLESS_DOUBLE = frozenset({"+", "-", "*", "neg", "abs", "round", "bround"})


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
    if call.function in _ALWAYS or call.function not in FUNCTIONS:
        return True
    if call.function in ("cast", "to_date"):
        return not is_safe_cast(call.args[0].type, call.type)
    if call.type.kind is Kind.DECIMAL and call.function in ("neg", "abs"):
        return False
    if call.function in _OF_DATES:
        return any(argument.type.kind is Kind.DATE for argument in call.args)
    return call.function in _UNLESS_DOUBLE and not call.type.is_fractional


def is_safe_cast(source: DataType, target: DataType) -> bool:
    """Say whether a cast from one type to another never fails."""
    if source == target or source.kind is Kind.NULL or target.kind is Kind.STRING:
        return True
    if target.is_fractional:
        return source.is_numeric or source.kind is Kind.BOOLEAN
    if source.is_integer and target.is_integer:
        return source.bits <= target.bits
    return source.is_time and target.is_time and source.kind is not Kind.DATE
