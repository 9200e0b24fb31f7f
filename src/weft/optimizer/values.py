"""Which columns have predicates evaluated once for each of their values, rather than for each row."""

from collections import Counter
from dataclasses import replace

from weft.expression import Call, Column, Expression, columns, walk
from weft.optimizer.cost import WEIGHTS, Weights
from weft.optimizer.plan import SharedPlan
from weft.optimizer.statistics import Frequencies, Statistics
from weft.predicates import tests
from weft.query.allowed_functions import FUNCTIONS
from weft.types import Kind

_LOOKED_UP = (Kind.STRING, Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
"""The types whose values are looked up. (A function may tell −0.0 from 0.0, which are one value.)"""


def evaluable(expression: Expression) -> bool:
    """Say whether an expression is a boolean that reads one column, whose values can be looked up."""
    read = {node for node in walk(expression) if isinstance(node, Column)}
    return (
        isinstance(expression, Call)
        and expression.type.kind is Kind.BOOLEAN
        and len(read) == 1
        and all("." not in one.name and one.type.kind in _LOOKED_UP for one in read)
    )


def evaluate_by_value(plan: SharedPlan, statistics: Statistics, weights: Weights = WEIGHTS) -> SharedPlan:
    """Choose columns with so few values that it is cheaper to look a row's up than to evaluate predicates."""
    opaque = {
        one.expression
        for relation in plan.relations
        for predicate in relation.predicates
        for one in tests(predicate)
        if evaluable(one.expression)
    }
    costs: Counter[str] = Counter()
    for expression in opaque:
        (name,) = columns(expression)
        costs[name] += evaluation(expression, weights)  # type: ignore[assignment]
    chosen = tuple(sorted(name for name, each in costs.items() if _pays(name, each, statistics, weights)))
    return plan if chosen == plan.by_value else replace(plan, by_value=chosen)


def evaluation(expression: Expression, weights: Weights = WEIGHTS) -> float:
    """Return what evaluating an expression costs for a row, in microseconds."""
    calls = [node.function for node in walk(expression) if isinstance(node, Call)]
    known = {"like": weights.pattern, "ilike": weights.pattern, "rlike": 4 * weights.pattern}
    return sum(known.get(one, weights.operator if one in FUNCTIONS else weights.function) for one in calls)


def _pays(name: str, each: float, statistics: Statistics, weights: Weights) -> bool:
    """Say whether rows are looked up, even if every batch showed new values only."""
    values, rows = statistics.sample.values.get(name), statistics.rows
    if values is None:
        return False
    fresh = Frequencies(values, 0).distinct(rows)
    return weights.looked_up * rows + fresh * (each + 2 * weights.group) < each * rows
