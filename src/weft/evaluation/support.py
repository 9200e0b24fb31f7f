"""Which expressions can be evaluated in the driver; Spark evaluates the others."""

from weft.evaluation.implementations import IMPLEMENTATIONS
from weft.evaluation.numbers import places_of
from weft.evaluation.patterns import java_regex
from weft.expression import Call, Expression, Literal, walk
from weft.types import Kind

_CASES = ("upper", "lower")
_SAFE_DIGITS = 15
"""How Java prints doubles of more whole digits depends on its version."""
_SCALA_DIGITS = 28
"""Seconds with more digits become different microseconds when Spark compiles than when it interprets."""


def can_evaluate(expression: Expression) -> bool:
    """Say whether an expression over given columns can be evaluated here with exactly Spark's results."""
    return all(_is_known(node) for node in walk(expression))


def _is_known(node: Expression) -> bool:
    if node.type.kind is Kind.OTHER:
        return False
    if not isinstance(node, Call):
        return True
    if node.function not in IMPLEMENTATIONS:
        return False
    if node.function == "rlike":
        pattern = node.args[1]
        return isinstance(pattern, Literal) and java_regex(str(pattern.value)) is not None
    if node.function in _CASES:
        # Spark omits the inner function of upper(lower(x)), though that changes the result for İ and ß.
        return not (isinstance(node.args[0], Call) and node.args[0].function in _CASES)
    if node.function == "round":
        return not node.type.is_fractional or places_of(node) >= 0
    return node.function != "cast" or _is_known_cast(node)


def _is_known_cast(call: Call) -> bool:
    """Say whether a cast is known; doubles become text, and by way of it decimals, as Java prints them."""
    source, target = call.args[0].type, call.type
    if source.is_fractional and target.is_text:
        return False
    if source.is_fractional and target.kind is Kind.DECIMAL:
        return target.precision - target.scale <= _SAFE_DIGITS
    if source.kind is Kind.DECIMAL and target.kind is Kind.TIMESTAMP:
        return source.precision <= _SCALA_DIGITS
    # 'now' and other constant words have a meaning for Spark.
    return not (isinstance(call.args[0], Literal) and isinstance(call.args[0].value, str) and target.is_time)
