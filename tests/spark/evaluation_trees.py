"""Random nested expressions over the columns of `nasty_values`."""

from random import Random

from tests.spark.evaluation_cases import call
from tests.spark.nasty_values import FLOAT, MONEY, SHORT, slot
from tests.unit.nested_samples import OF_NESTED_VALUES
from weft.evaluation.implementations import SPARK_ONLY
from weft.expression import Call, Expression, Literal
from weft.query.allowed_functions import FUNCTIONS
from weft.query.coercion import castable
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType

LEAVES = (BOOLEAN, INT, BIGINT, DOUBLE, FLOAT, SHORT, MONEY, STRING, DATE, TIMESTAMP)
_FAILING_IN_SPARK = frozenset({"div", "%", "neg", "abs", "round", "floor_div", "substring", "left", "right"})
"""Functions that make Spark fail for decimals of 38 digits, or whole numbers of 64 bits, that others give."""
_INEXACT = frozenset(
    """exp ln log10 pow cbrt expm1 log2 log1p sin cos tan asin acos atan atan2 sinh cosh tanh hypot degrees
    radians""".split()
)
"""A last place that differs may grow to any difference."""
_NAMES = sorted(
    set(FUNCTIONS)
    - SPARK_ONLY
    - OF_NESTED_VALUES
    - _FAILING_IN_SPARK
    - _INEXACT
    - {"date_trunc", "like", "ilike", "rlike", "cast"}
)
_TARGETS = (INT, BIGINT, DOUBLE, FLOAT, STRING, MONEY, DATE, TIMESTAMP)


def random_tree(rng: Random, depth: int) -> Expression:
    """Return an expression of at most so many levels that the language takes."""
    if depth == 0 or rng.random() < 0.1:
        return _leaf(rng)
    while True:
        tree = _call(rng, depth)
        if tree is not None:
            return tree


def _leaf(rng: Random) -> Expression:
    if rng.random() < 0.25:
        return rng.choice((Literal(3, INT), Literal(0, INT), Literal(0.5, DOUBLE), Literal("a", STRING)))
    return slot(rng.choice(LEAVES), rng.choice((0, 1)))


def _call(rng: Random, depth: int) -> Call | None:
    if rng.random() < 0.15:
        return _cast(random_tree(rng, depth - 1), rng.choice(_TARGETS))
    name = rng.choice(_NAMES)
    function = FUNCTIONS[name]
    many = rng.randint(function.least, max(function.least, min(function.most, 3)))
    args = tuple(random_tree(rng, depth - 1) for _ in range(many))
    if name in ("in", "shiftleft", "shiftright") and not all(isinstance(arg, Literal) for arg in args[1:]):
        return None
    return call(name, *args) if name != "case" or many == 3 else None


def _cast(operand: Expression, type: DataType) -> Call | None:
    literal = isinstance(operand, Literal)
    return (
        None
        if literal or operand.type == type or not castable(operand.type, type)
        else Call("cast", (operand,), type)
    )
