"""How each function of the language is evaluated, and which expressions can be; Spark evaluates the others.

The table is the counterpart of `BUILDERS` for Spark.
"""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow.compute as pc

from weft.evaluation import conditions, nested, numbers, strings, times
from weft.evaluation.casts import cast
from weft.evaluation.numbers import places_of
from weft.evaluation.strings import java_regex
from weft.evaluation.vector import Vector
from weft.expression import Call, Expression, Literal, walk
from weft.types import Kind

Implementation = Callable[..., Vector]
"""Takes the call and its arguments' values."""

IMPLEMENTATIONS: MappingProxyType[str, Implementation] = MappingProxyType({
    "+": numbers.add, "-": partial(numbers.add, sign=-1), "*": numbers.multiply, "/": numbers.divide,
    "%": numbers.remainder, "div": numbers.whole_divide, "floor_div": numbers.floor_divide,
    "neg": numbers.negate, "abs": numbers.absolute,
    "&": numbers.bitwise(np.bitwise_and), "|": numbers.bitwise(np.bitwise_or),
    "^": numbers.bitwise(np.bitwise_xor),
    "shiftleft": numbers.shift(np.left_shift), "shiftright": numbers.shift(np.right_shift),
    **{operator: conditions.comparison(operator) for operator in ("=", "<", "<=", ">", ">=")},
    "<>": conditions.comparison("=", negated=True), "<=>": conditions.same, "in": conditions.member,
    "greatest": conditions.extreme(">"), "least": conditions.extreme("<"),
    "and": conditions.connective(decisive=False), "or": conditions.connective(decisive=True),
    "not": conditions.negation, "is_null": conditions.is_null,
    "case": conditions.case, "coalesce": conditions.coalesce, "cast": cast,
    "round": numbers.rounded,
    "floor": partial(numbers.whole, up=False), "ceil": partial(numbers.whole, up=True),
    "sqrt": numbers.of_double(np.sqrt), "exp": numbers.of_double(np.exp),
    "ln": numbers.logarithm(np.log), "log10": numbers.logarithm(np.log10), "pow": numbers.power,
    "sign": numbers.of_double(numbers.signs), "isnan": numbers.is_nan,
    "upper": strings.cased(pc.ascii_upper, strings.uppered),
    "lower": strings.cased(pc.ascii_lower, strings.lowered), "length": strings.length,
    "trim": strings.trimmed(pc.ascii_trim), "ltrim": strings.trimmed(pc.ascii_ltrim),
    "rtrim": strings.trimmed(pc.ascii_rtrim),
    "substring": strings.substring, "left": strings.left, "right": strings.right,
    "concat": strings.concat, "replace": strings.replace,
    "startswith": strings.test(pc.starts_with, bytes.startswith),
    "endswith": strings.test(pc.ends_with, bytes.endswith),
    "contains": strings.test(pc.match_substring, bytes.__contains__),
    "like": strings.like, "ilike": strings.like, "rlike": strings.rlike,
    "year": times.year, "month": times.month, "day": times.day, "dayofweek": times.day_of_week,
    "hour": times.hour, "minute": times.minute, "second": times.second,
    "date_trunc": times.date_trunc, "to_date": times.to_date,
    "unix_seconds": times.since_epoch(1_000_000), "unix_millis": times.since_epoch(1_000),
    "unix_micros": times.since_epoch(1),
    **dict.fromkeys(("subscript", "get", "element_at"), nested.element),
    "size": nested.size, "field": nested.field,
})  # fmt: skip
"""Every function by its canonical name."""

NULL_TOLERANT = frozenset(
    {"and", "or", "is_null", "isnan", "<=>", "in", "case", "coalesce", "greatest", "least"}
)
"""Functions that need not be NULL where an argument is."""


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
