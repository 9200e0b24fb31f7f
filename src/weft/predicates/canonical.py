"""The canonical form of a predicate: `5 < a AND b = 1` and `b = 1 AND a > 5` become one formula.

Two questions are asked of every boolean expression, each with the answer yes or no for any row: is it TRUE,
is it FALSE? (It is NULL where neither holds.) With them SQL's three-valued logic is plain:

    a AND b    TRUE: both are TRUE            FALSE: one of them is FALSE
    a OR b     TRUE: one of them is TRUE      FALSE: both are FALSE
    NOT a      TRUE: a is FALSE               FALSE: a is TRUE
    x < 5      TRUE: x lies before 5          FALSE: x lies at or after 5; a NULL x is in neither set

What is not a comparison with a constant (LIKE, a registered function, one column against another) is a test
of that boolean itself.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from weakref import WeakValueDictionary

import numpy as np

from weft.expression import Call, Expression, Literal, Scalar
from weft.predicates.domain import IS_FALSE, IS_TRUE, values_from
from weft.predicates.formula import FALSE, TRUE, Formula, all_of, any_of, negation, size, test
from weft.predicates.values import ANY_VALUE, NOTHING, ONLY_NULL, Values, joined
from weft.query.coercion import common_of
from weft.types import BOOLEAN, DataType, Kind

_MOST_TESTS = 2_000
"""A predicate that grows beyond it is left whole, as one boolean."""
_MOST_SPREAD = 200
"""A CASE, or IS NULL of a boolean, that would ask for more tests is left whole: nested, they multiply."""
_MOST_BRANCHES = 16
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}


_found: WeakValueDictionary[Expression, Formula] = WeakValueDictionary()
"""What is in use: queries with the same predicate have one formula, and it goes with the last of them."""


def canonical(predicate: Expression | None) -> Formula:
    """Return when a predicate is true; no predicate is true always."""
    if predicate is None:
        return TRUE
    found = _found.get(predicate)
    if found is None:
        found = _true(predicate)
        if size(found) > _MOST_TESTS:
            found = test(predicate, IS_TRUE)
        _found[predicate] = found
        for parts in (_true, _false):
            parts.cache_clear()
    return found


# Without a memory of answers, each IS NULL in another would double the work.
@lru_cache(maxsize=1_024)
def _true(expression: Expression) -> Formula:
    """Return when a boolean expression is TRUE."""
    if isinstance(expression, Literal):
        return TRUE if expression.value is True else FALSE
    if isinstance(expression, Call):
        if expression.function == "and":
            return all_of(map(_true, expression.args))
        if expression.function == "or":
            return any_of(map(_true, expression.args))
        if expression.function == "not":
            return _false(expression.args[0])
        decided = _decided(expression, _true)
        if decided is not None:
            return decided
        return _compared(expression, 0) or test(_flipped(expression), IS_TRUE)
    return test(expression, IS_TRUE)


@lru_cache(maxsize=1_024)
def _false(expression: Expression) -> Formula:
    """Return when a boolean expression is FALSE."""
    if isinstance(expression, Literal):
        return TRUE if expression.value is False else FALSE
    if isinstance(expression, Call):
        if expression.function == "and":
            return any_of(map(_false, expression.args))
        if expression.function == "or":
            return all_of(map(_false, expression.args))
        if expression.function == "not":
            return _true(expression.args[0])
        decided = _decided(expression, _false)
        if decided is not None:
            return decided
        return _compared(expression, 1) or test(_flipped(expression), IS_FALSE)
    return test(expression, IS_FALSE)


def _decided(call: Call, ask: Callable[[Expression], Formula]) -> Formula | None:
    """Ask a CASE, or IS NULL of a boolean, through its parts; None for any other call."""
    if call.function == "is_null" and _is_logic(call.args[0]):
        known = any_of([_true(call.args[0]), _false(call.args[0])])
        if size(known) > _MOST_SPREAD:
            return None
        return negation(known) if ask is _true else known
    if call.function != "case" or len(call.args) > 2 * _MOST_BRANCHES + 1:
        return None
    reached: Formula = TRUE
    found: list[Formula] = []
    for condition, value in zip(call.args[0:-1:2], call.args[1::2], strict=True):
        holds = _true(condition)
        found.append(all_of([reached, holds, ask(value)]))
        reached = all_of([reached, negation(holds)])
        if size(reached) > _MOST_SPREAD:
            return None
    return any_of([*found, all_of([reached, ask(call.args[-1])])])


def _is_logic(expression: Expression) -> bool:
    if not isinstance(expression, Call) or expression.type.kind is not Kind.BOOLEAN:
        return False  # a CASE can also give numbers
    return expression.function in ("and", "or", "not", "case", *_MIRRORED)


def _compared(call: Call, answer: int) -> Formula | None:
    """Return when a comparison with constants is TRUE (answer 0) or FALSE (1); None for other calls."""
    operands = [_constant(one) or one for one in call.args]
    if call.function == "is_null":
        return test(operands[0], (ONLY_NULL, ANY_VALUE)[answer])
    if call.function != "in" and call.function not in _MIRRORED:
        return None
    function, subject, options = call.function, operands[0], operands[1:]
    if function != "in" and isinstance(subject, Literal):
        subject, options, function = options[0], [subject], _MIRRORED[function]
    literals = [one for one in options if isinstance(one, Literal)]
    if isinstance(subject, Literal) or len(literals) < len(options):
        return None
    placed = _common(subject, literals)
    if placed is None:
        return None
    sets = _sets(placed.type, function, [_value(one) for one in literals])
    return None if sets is None else test(placed, sets[answer])


def _common(subject: Expression, literals: Sequence[Literal]) -> Expression | None:
    """Return the expression in the type in which Spark compares it; None where that would not be exact."""
    type = common_of([subject.type, *(one.type for one in literals)])
    if type is None:
        return None
    exact = subject.type.is_integer or subject.type.kind is Kind.DECIMAL
    if exact and (type.is_integer or type.kind is Kind.DECIMAL):
        # A wider type changes nothing, unless digits had to be cut to fit it.
        every = [subject.type, *(one.type for one in literals if one.value is not None)]
        return subject if type.is_integer or _holds_all(type, every) else None
    if type.kind is Kind.FLOAT:
        type = DataType(Kind.DOUBLE)
    return subject if subject.type == type else Call("cast", (subject,), type)


def _value(constant: Literal) -> Scalar:
    """Return the value that Spark compares with: a FLOAT constant has only the digits of a float."""
    if constant.type.kind is not Kind.FLOAT or not isinstance(constant.value, float):
        return constant.value
    with np.errstate(over="ignore"):
        return float(np.float32(constant.value))


def _holds_all(type: DataType, every: Sequence[DataType]) -> bool:
    decimals = [one.as_decimal() for one in every]
    return all(
        one.scale <= type.scale and one.precision - one.scale <= type.precision - type.scale
        for one in decimals
    )


def _sets(type: DataType, function: str, constants: Sequence[Scalar]) -> tuple[Values, Values] | None:
    """Return the values for which a comparison is TRUE, and those for which it is FALSE."""
    known = [constant for constant in constants if constant is not None]
    if function in ("<", "<=", ">", ">="):
        return _sides(type, function, known[0]) if known else (NOTHING, NOTHING)
    equal = [_equal(type, constant) for constant in known]
    if None in equal:
        return None
    among = joined([one for one in equal if one is not None] or [NOTHING], Values.__or__)
    if function == "<=>":
        same = among if known else ONLY_NULL
        return same, ~same
    others = (~among).without_null() if len(known) == len(constants) else NOTHING
    if function in ("=", "in"):
        return among, others
    return (others, among) if known else (NOTHING, NOTHING)


def _sides(type: DataType, function: str, constant: Scalar) -> tuple[Values, Values] | None:
    """Return the values on the side of a constant that an inequality asks for, and those on the other."""
    above = values_from(type, constant, inclusive=function in (">=", "<"))
    if above is None:
        return None
    below = (~above).without_null()
    return (above, below) if function in (">", ">=") else (below, above)


def _equal(type: DataType, constant: Scalar) -> Values | None:
    low = values_from(type, constant, inclusive=True)
    high = values_from(type, constant, inclusive=False)
    return None if low is None or high is None else low & (~high).without_null()


def _constant(expression: Expression) -> Literal | None:
    """Return the value of arithmetic on whole constants, such as 60 * 1000, where it fits its type."""
    if isinstance(expression, Literal):
        return expression
    if not (isinstance(expression, Call) and expression.type.is_integer):
        return None
    if expression.function not in _FOLDED:
        return None
    parts = [_constant(one) for one in expression.args]
    numbers = [one.value for one in parts if one is not None and type(one.value) is int]
    if len(numbers) < len(expression.args):
        return None
    value = _FOLDED[expression.function](*numbers)
    fits = values_from(expression.type, value, inclusive=True)
    return None if fits in (NOTHING, ANY_VALUE) else Literal(value, expression.type)


_FOLDED: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "neg": lambda a: -a,
}


def _flipped(call: Call) -> Call:
    """Return `b > a` as `a < b`, so that comparisons of columns are written in one way."""
    if call.function in (">", ">=") and len(call.args) == 2:
        return Call(_MIRRORED[call.function], (call.args[1], call.args[0]), BOOLEAN)
    if call.function in ("=", "<>", "<=>") and len(call.args) == 2:
        return Call(call.function, tuple(sorted(call.args, key=str)), BOOLEAN)
    return call
