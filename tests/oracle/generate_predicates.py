"""Random predicates over a case's pools: thresholds shared by many queries, and all that is no threshold."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.oracle.arithmetic import Abs, Arithmetic
from tests.oracle.conditions import COMPARISONS, And, Between, Compare, In, IsNull, Not, Or
from tests.oracle.expressions import Column, Expression, Literal
from tests.oracle.functions import Case, Cast, Coalesce, Length, Upper
from tests.oracle.matching import IsTruth, Like, Matcher, NullSafe
from tests.oracle.pools import Pool
from tests.oracle.registered import GRADE, MIDCAP, Called
from tests.oracle.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Kind

PATTERNS = ("%", "a%", "%a", "_", "__", "%b%", "", "😀%", "_a%", "x y", "é")
REGULAR = ("^a", "b$", "^$", "[a-c]+", "a|😀")
OPS = tuple(COMPARISONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What predicates may read."""

    pools: tuple[Pool, ...]
    """Of every column; those of joined tables too, where a query joins them."""
    calls: bool = False
    """Whether registered functions may be called."""

    def pool(self, rng: Random, *kinds: Kind) -> Pool:
        """Return the pool of a column, of one of these kinds if any are named."""
        return rng.choice([pool for pool in self.pools if not kinds or pool.column.type.kind in kinds])


def random_predicate(rng: Random, inputs: Inputs, atoms: Sequence[Expression], depth: int = 2) -> Expression:
    """Return a predicate of atoms, some of them shared with other queries."""
    if depth and rng.random() < 0.6:
        left = random_predicate(rng, inputs, atoms, depth - 1)
        match rng.randrange(8):
            case 0:
                return Not(left)
            case 1:
                return IsTruth(left, rng.random() < 0.7, rng.random() < 0.3)
            case 2 | 3:
                return Or(left, random_predicate(rng, inputs, atoms, depth - 1))
        return And(left, random_predicate(rng, inputs, atoms, depth - 1))
    return rng.choice(list(atoms)) if atoms and rng.random() < 0.6 else random_atom(rng, inputs)


def random_atom(rng: Random, inputs: Inputs) -> Expression:
    """Return a test without connectives: mostly a threshold of a column."""
    choice = rng.random()
    if choice < 0.55:
        return threshold(rng, inputs.pool(rng))
    if choice < 0.70:
        return _of_number(rng, inputs)
    if choice < 0.78:
        return _of_string(rng, inputs)
    if choice < 0.86:
        return _between_columns(rng, inputs)
    if choice < 0.93:
        return _failing(rng, inputs)
    if choice < 0.96 and inputs.calls:
        return _of_call(rng, inputs)
    return _of_case(rng, inputs)


def threshold(rng: Random, pool: Pool) -> Expression:
    """Return a comparison of a column with constants of its pool."""
    column = pool.column
    if column.type == BOOLEAN and rng.random() < 0.4:
        return column
    match rng.randrange(10):
        case 0:
            return IsNull(column, rng.random() < 0.5)
        case 1:
            return NullSafe(column, pool.constant(rng) if rng.random() < 0.7 else Literal(None))
        case 2 if column.type != BOOLEAN:
            return Between(column, pool.constant(rng), pool.constant(rng), rng.random() < 0.3)
        case 3 | 4:
            return _listed(rng, pool)
        case 5 if rng.random() < 0.2:
            return Compare(rng.choice(OPS), column, Literal(None))
    op, constant = rng.choice(OPS), pool.constant(rng)
    return Compare(op, column, constant) if rng.random() < 0.7 else Compare(op, constant, column)


def _listed(rng: Random, pool: Pool) -> Expression:
    chosen = tuple(pool.constant(rng) for _ in range(rng.randint(1, 4)))
    options = (*chosen, Literal(None)) if rng.random() < 0.15 else chosen
    return In(pool.column, options, rng.random() < 0.35)


def _of_number(rng: Random, inputs: Inputs) -> Expression:
    """Return a threshold of arithmetic: price * vol, abs(price - cp) / cp, b % 3."""
    double, other = inputs.pool(rng, Kind.DOUBLE), inputs.pool(rng, Kind.DOUBLE)
    whole = inputs.pool(rng, Kind.BIGINT, Kind.INT)
    match rng.randrange(5):
        case 0:
            product = Arithmetic("*", double.column, whole.column)
            return Compare(rng.choice(OPS), product, double.constant(rng))
        case 1 | 2:
            gap = Abs(Arithmetic("-", double.column, other.column))
            change = Arithmetic("/", gap, other.column)
            return Compare(rng.choice(OPS), change, Literal(rng.choice((0.0, 0.1, 0.5, 1.0))))
        case 3:
            rest = Arithmetic("%", whole.column, Literal(rng.choice((2, 3, -5))))
            return Compare(rng.choice(OPS), rest, Literal(rng.randint(-1, 2)))
    total = Arithmetic(rng.choice("+-"), whole.column, inputs.pool(rng, Kind.BIGINT).column)
    return Compare(rng.choice(OPS), total, whole.constant(rng))


def _of_string(rng: Random, inputs: Inputs) -> Expression:
    pool = inputs.pool(rng, Kind.STRING)
    match rng.randrange(4):
        case 0:
            return Compare(rng.choice(OPS), Length(pool.column), Literal(rng.randint(0, 3)))
        case 1:
            return Compare(rng.choice(OPS), Upper(pool.column), Literal(rng.choice(("A", "AB", "É", ""))))
        case 2:
            return Like(pool.column, rng.choice(REGULAR), Matcher.RLIKE, rng.random() < 0.3)
    matcher = rng.choice((Matcher.LIKE, Matcher.LIKE, Matcher.ILIKE))
    return Like(pool.column, rng.choice(PATTERNS), matcher, rng.random() < 0.3)


def _between_columns(rng: Random, inputs: Inputs) -> Expression:
    column = inputs.pool(rng).column

    def comparable(other: Column) -> bool:
        numbers = column.type.is_numeric and other.type.is_numeric
        times = {column.type.kind, other.type.kind} <= {Kind.DATE, Kind.TIMESTAMP}
        return numbers or times or other.type == column.type

    partner = rng.choice([pool.column for pool in inputs.pools if comparable(pool.column)])
    if rng.random() < 0.2:
        return NullSafe(column, partner)
    return Compare(rng.choice(OPS), column, partner)


def _failing(rng: Random, inputs: Inputs) -> Expression:
    """Return a test that fails on some rows: a division by zero, an overflow, a bad cast."""
    whole = inputs.pool(rng, Kind.INT, Kind.BIGINT).column
    match rng.randrange(5):
        case 0:
            return Compare(rng.choice(OPS), Arithmetic("/", Literal(1), whole), Literal(0.1))
        case 1:
            return Compare(rng.choice(OPS), Arithmetic("%", Literal(7), whole), Literal(1))
        case 2:
            word = inputs.pool(rng, Kind.STRING).column
            return Compare(rng.choice(OPS), Cast(word, rng.choice((INT, BIGINT))), Literal(-7))
        case 3:
            narrow = Cast(inputs.pool(rng, Kind.BIGINT, Kind.DOUBLE).column, INT)
            return IsNull(narrow, rng.random() < 0.5)
    large = Arithmetic(rng.choice("+-*"), inputs.pool(rng, Kind.BIGINT).column, Literal(2**62 + 1))
    return Compare(rng.choice(OPS), large, Literal(2**62))


def _of_call(rng: Random, inputs: Inputs) -> Expression:
    if rng.random() < 0.6:
        return Called(MIDCAP, (inputs.pool(rng, Kind.STRING).column,))
    graded = Called(GRADE, (inputs.pool(rng, Kind.BIGINT).column,))
    return Compare(rng.choice(OPS), graded, Literal(rng.randint(0, 6)))


def _of_case(rng: Random, inputs: Inputs) -> Expression:
    pool = inputs.pool(rng, Kind.INT, Kind.BIGINT, Kind.STRING, Kind.DOUBLE)
    first, second = threshold(rng, inputs.pool(rng)), threshold(rng, inputs.pool(rng))
    match rng.randrange(3):
        case 0:
            return Case(((first, second), (second, Literal(False))), rng.choice((None, Literal(True))))
        case 1:
            chosen = Case(((first, pool.column),), None)
            return Compare(rng.choice(OPS), chosen, pool.constant(rng))
    default = {INT: Literal(7), BIGINT: Literal(5), DOUBLE: Literal(0.1), STRING: Literal("a")}
    filled = Coalesce((pool.column, default[pool.column.type]))
    return Compare(rng.choice(OPS), filled, pool.constant(rng))
