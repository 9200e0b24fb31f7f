"""Which columns have predicates evaluated once for each of their values, rather than for each row."""

from collections import Counter
from dataclasses import replace

from weft.expression import Call, Column, Expression, columns, walk
from weft.optimizer.cost import WEIGHTS
from weft.optimizer.plan import Relation, SharedPlan
from weft.optimizer.statistics import Frequencies, Statistics
from weft.predicates import tests
from weft.query.allowed_functions import FUNCTIONS
from weft.types import Kind

_LOOKED_UP = (Kind.STRING, Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
"""The types whose values are looked up. (A function may tell −0.0 from 0.0, which are one value.)"""

_SLOW = ("rlike", "regexp_extract", "regexp_replace", "get_json_object", "parse_url")
"""Functions that read strings sign by sign."""


def evaluable(expression: Expression) -> bool:
    """Say whether an expression is a boolean that reads one column, whose values can be looked up."""
    read = {node for node in walk(expression) if isinstance(node, Column)}
    return (
        isinstance(expression, Call)
        and expression.type.kind is Kind.BOOLEAN
        and len(read) == 1
        and all("." not in column.name and column.type.kind in _LOOKED_UP for column in read)
    )


def evaluate_by_value(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Choose columns with so few values that it is cheaper to look a row's up than to evaluate predicates."""
    costs: Counter[str] = Counter()
    for expression in frozenset().union(*map(_evaluable, plan.relations)):
        (name,) = columns(expression)
        costs[name] += evaluation(expression)  # type: ignore[assignment]
    chosen = tuple(sorted(name for name, cost in costs.items() if _pays(name, cost, statistics)))
    return plan if chosen == plan.by_value else replace(plan, by_value=chosen)


def evaluate_most_by_value(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Have predicates evaluated by value where half the relations gain.

    If there are registered functions among them, Spark groups the rows of all relations then.
    """
    by_value = evaluate_by_value(plan, statistics)
    names = set(by_value.by_value)
    gaining = sum(
        any(columns(expression) <= names for expression in _evaluable(relation))
        for relation in plan.relations
    )
    return by_value if 2 * gaining >= len(plan.relations) else plan


def _evaluable(relation: Relation) -> set[Expression]:
    """Return what a relation tests that can be evaluated by value."""
    tested = {test.expression for predicate in relation.predicates for test in tests(predicate)}
    return set(filter(evaluable, tested))


def evaluation(expression: Expression) -> float:
    """Return what evaluating an expression costs for a row, in microseconds."""
    weights = WEIGHTS
    calls = [node.function for node in walk(expression) if isinstance(node, Call)]
    known = {"like": weights.pattern, "ilike": weights.pattern, **dict.fromkeys(_SLOW, 4 * weights.pattern)}
    return sum(known.get(call, weights.operator if call in FUNCTIONS else weights.function) for call in calls)


def _pays(name: str, cost: float, statistics: Statistics) -> bool:
    """Say whether rows are looked up, even if every batch showed new values only."""
    values, rows = statistics.sample.values.get(name), statistics.rows
    if values is None:
        return False
    fresh = Frequencies(values, 0).distinct(rows)
    return WEIGHTS.looked_up * rows + fresh * (cost + 2 * WEIGHTS.group) < cost * rows
