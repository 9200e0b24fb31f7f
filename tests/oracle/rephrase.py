"""The same predicate in other words: `5 < a AND b = 1` for `b = 1 AND a > 5`.

Every step keeps the value for every row, NULL included, with NaN above all numbers.
"""

from functools import reduce
from random import Random

from tests.oracle.conditions import And, Between, Compare, In, IsNull, Not, Or
from tests.oracle.expressions import Expression, Literal
from tests.oracle.matching import IsTruth, NullSafe

MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def rephrased(rng: Random, of: Expression) -> Expression:
    """Return an expression with the same value for every row."""
    match of:
        case And(left, right):
            return _pair(rng, of, And, Or, rephrased(rng, left), rephrased(rng, right))
        case Or(left, right):
            return _pair(rng, of, Or, And, rephrased(rng, left), rephrased(rng, right))
        case Not(Compare(op, left, right)) if rng.random() < 0.5:
            return Compare(OPPOSITE[op], left, right)
        case Not(inner):
            return Not(rephrased(rng, inner))
        case Compare(op, left, right):
            return _compare(rng, op, left, right)
        case NullSafe(left, right):
            return NullSafe(right, left)
        case Between(value, low, high, negated):
            return _between(rng, value, low, high, negated)
        case In(value, options, negated):
            return _in(rng, value, options, negated)
        case IsNull(inner, negated):
            return Not(IsNull(inner, not negated)) if rng.random() < 0.5 else _same_as_null(inner, negated)
        case IsTruth(inner, wanted, negated):
            return Not(IsTruth(inner, wanted, not negated))
    return Not(Not(of)) if rng.random() < 0.3 else of


def _same_as_null(of: Expression, negated: bool) -> Expression:
    """Return `[NOT] x <=> NULL`."""
    same = NullSafe(of, Literal(None))
    return Not(same) if negated else same


def _pair(
    rng: Random,
    of: And | Or,
    same: type[And] | type[Or],
    dual: type[And] | type[Or],
    left: Expression,
    right: Expression,
) -> Expression:
    if rng.random() < 0.2:
        return Not(dual(Not(left), Not(right)))
    return same(right, left) if rng.random() < 0.7 else same(left, right)


def _compare(rng: Random, op: str, left: Expression, right: Expression) -> Expression:
    choice = rng.random()
    if choice < 0.2:
        return Not(Compare(OPPOSITE[op], left, right))
    if choice < 0.3 and op == "=":
        return In(left, (right,)) if isinstance(right, Literal) else Compare("=", right, left)
    if choice < 0.4 and op == "<=":
        return Or(Compare("<", left, right), Compare("=", left, right))
    return Compare(MIRRORED[op], right, left)


def _between(rng: Random, value: Expression, low: Expression, high: Expression, negated: bool) -> Expression:
    inside = And(_compare(rng, ">=", value, low), _compare(rng, "<=", value, high))
    return Not(inside) if negated else inside


def _in(rng: Random, value: Expression, options: tuple[Expression, ...], negated: bool) -> Expression:
    alike = all(option.type == value.type or option == Literal(None) for option in options)
    if not alike or rng.random() < 0.4:  # options of several types are compared in the widest of them
        return In(value, options[::-1], negated)
    tests: list[Expression] = [Compare("=", value, option) for option in options]
    found = reduce(Or, tests)
    return Not(found) if negated else found
