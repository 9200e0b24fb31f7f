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
from weft.predicates.formula import FALSE, TRUE, Formula, all_of, any_of, negation, size, test
from weft.predicates.values import (
    ANY_VALUE,
    IS_FALSE,
    IS_TRUE,
    NOTHING,
    ONLY_NULL,
    Values,
    joined,
    values_from,
)
from weft.query.coercion import common_of
from weft.types import BOOLEAN, DataType, Kind

_MOST_TESTS = 2_000
"""A predicate that grows beyond it is left whole, as one boolean."""
_MOST_SPREAD = 200
"""A CASE, or IS NULL of a boolean, that would ask for more tests is left whole: nested, they multiply."""
_MOST_BRANCHES = 16
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}
_formulas: WeakValueDictionary[Expression, Formula] = WeakValueDictionary()
"""Those in use: queries with the same predicate have one formula, and it goes with the last of them."""


def canonical(predicate: Expression | None) -> Formula:
    """Return when a predicate is true; no predicate is true always."""
    if predicate is None:
        return TRUE
    formula = _formulas.get(predicate)
    if formula is None:
        formula = _when(predicate, True)
        if size(formula) > _MOST_TESTS:
            formula = test(predicate, IS_TRUE)
        _formulas[predicate] = formula
        _when.cache_clear()
    return formula


# Without a memory of answers, each IS NULL in another would double the work.
@lru_cache(maxsize=2_048)
def _when(expression: Expression, truth: bool) -> Formula:
    """Return when a boolean expression is TRUE, or when it is FALSE."""
    if isinstance(expression, Literal):
        return TRUE if expression.value is truth else FALSE
    if isinstance(expression, Call):
        if expression.function == "not":
            return _when(expression.args[0], not truth)
        if expression.function in ("and", "or"):
            join = all_of if (expression.function == "and") is truth else any_of
            return join(_when(part, truth) for part in expression.args)
        formula = _decided(expression, truth) or _compared(expression, truth)
        if formula is not None:
            return formula
        expression = _flipped(expression)
    return test(expression, IS_TRUE if truth else IS_FALSE)


def _decided(call: Call, truth: bool) -> Formula | None:
    """Ask a CASE, or IS NULL of a boolean, through its parts; None for any other call."""
    if call.function == "is_null" and _is_logic(call.args[0]):
        known = any_of([_when(call.args[0], True), _when(call.args[0], False)])
        if size(known) > _MOST_SPREAD:
            return None
        return negation(known) if truth else known
    if call.function != "case" or len(call.args) > 2 * _MOST_BRANCHES + 1:
        return None
    reached: Formula = TRUE
    branches: list[Formula] = []
    for condition, value in zip(call.args[0:-1:2], call.args[1::2], strict=True):
        holds = _when(condition, True)
        branches.append(all_of([reached, holds, _when(value, truth)]))
        reached = all_of([reached, negation(holds)])
        if size(reached) > _MOST_SPREAD:
            return None
    return any_of([*branches, all_of([reached, _when(call.args[-1], truth)])])


def _is_logic(expression: Expression) -> bool:
    if not isinstance(expression, Call) or expression.type.kind is not Kind.BOOLEAN:
        return False  # a CASE can also give numbers
    return expression.function in ("and", "or", "not", "case", *_MIRRORED)


def _compared(call: Call, truth: bool) -> Formula | None:
    """Return when a comparison with constants is TRUE, or FALSE; None for other calls."""
    function = call.function
    if function not in ("is_null", "in", *_MIRRORED):
        return None
    subject, *options = [_constant(operand) or operand for operand in call.args]
    if function == "is_null":
        return test(subject, ONLY_NULL if truth else ANY_VALUE)
    if function != "in" and isinstance(subject, Literal):
        subject, options, function = options[0], [subject], _MIRRORED[function]
    constants = [option for option in options if isinstance(option, Literal)]
    if isinstance(subject, Literal) or len(constants) < len(options):
        return None
    compared = _common(subject, constants)
    sets = None if compared is None else _sets(compared.type, function, list(map(_value, constants)))
    return None if compared is None or sets is None else test(compared, sets[0 if truth else 1])


def _common(subject: Expression, constants: Sequence[Literal]) -> Expression | None:
    """Return the expression in the type in which Spark compares it; None where that would not be exact."""
    type = common_of([subject.type, *(constant.type for constant in constants)])
    if type is None:
        return None
    exact = subject.type.is_integer or subject.type.kind is Kind.DECIMAL
    if exact and (type.is_integer or type.kind is Kind.DECIMAL):
        # A wider type changes nothing, unless digits had to be cut to fit it.
        types = [subject.type, *(constant.type for constant in constants if constant.value is not None)]
        holds_all = all(
            part.scale <= type.scale and part.precision - part.scale <= type.precision - type.scale
            for part in (each.as_decimal() for each in types)
        )
        return subject if type.is_integer or holds_all else None
    if type.kind is Kind.FLOAT:
        type = DataType(Kind.DOUBLE)
    return subject if subject.type == type else Call("cast", (subject,), type)


def _value(constant: Literal) -> Scalar:
    """Return the value that Spark compares with: a FLOAT constant has only the digits of a float."""
    if constant.type.kind is not Kind.FLOAT or not isinstance(constant.value, float):
        return constant.value
    with np.errstate(over="ignore"):
        return float(np.float32(constant.value))


def _sets(type: DataType, function: str, constants: Sequence[Scalar]) -> tuple[Values, Values] | None:
    """Return the values for which a comparison is TRUE, and those for which it is FALSE."""
    known = [constant for constant in constants if constant is not None]
    if function in ("<", "<=", ">", ">="):
        if not known:
            return NOTHING, NOTHING
        above = values_from(type, known[0], inclusive=function in (">=", "<"))
        if above is None:
            return None
        below = (~above).without_null()
        return (above, below) if function in (">", ">=") else (below, above)
    equal = [_equal(type, constant) for constant in known]
    if None in equal:
        return None
    among = joined([values for values in equal if values is not None] or [NOTHING], Values.__or__)
    if function == "<=>":
        same = among if known else ONLY_NULL
        return same, ~same
    others = (~among).without_null() if len(known) == len(constants) else NOTHING
    if function in ("=", "in"):
        return among, others
    return (others, among) if known else (NOTHING, NOTHING)


def _equal(type: DataType, constant: Scalar) -> Values | None:
    low = values_from(type, constant, inclusive=True)
    high = values_from(type, constant, inclusive=False)
    return None if low is None or high is None else low & (~high).without_null()


def _constant(expression: Expression) -> Literal | None:
    """Return the value of arithmetic on whole constants, such as 60 * 1000, where it fits its type."""
    if isinstance(expression, Literal):
        return expression
    if not (isinstance(expression, Call) and expression.type.is_integer and expression.function in _FOLDED):
        return None
    operands = [_constant(operand) for operand in expression.args]
    numbers = [part.value for part in operands if part is not None and type(part.value) is int]
    if len(numbers) < len(operands):
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
