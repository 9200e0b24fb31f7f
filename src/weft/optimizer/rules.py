"""The passes that turn queries into a shared plan; each is a pure function of the plan.

Which predicates share fragments: those of a grouping are merged into roots by cost (SDF, SDS). Joint
fragments save copies of rows: every root costs another. But a query that constrains only `vol` must not be
split by cuts on `price`, and each group costs more than a row does. So predicates that test the same
expressions start as one root, and roots are merged while a batch, as it is expected, gets cheaper by it.
Where a row satisfies hardly any predicate and fragments are nearly as many as rows (section 4.3.3), a root
aggregates rows once for each predicate instead.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import combinations

import numpy as np

from weft.expression import Call, Column, Expression, columns, walk
from weft.optimizer.cost import WEIGHTS, Weights
from weft.optimizer.plan import Grouping, Relation, RelationId, SharedPlan, answer, leaf, plan_of, union
from weft.optimizer.roots import Root, fits_grid, merged, merged_cuts, split
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Frequencies, Statistics, assumed
from weft.predicates import tests
from weft.query.allowed_functions import FUNCTIONS
from weft.query.logical import LogicalQuery
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


_MOST_PAIRED = 24
"""With more roots than these, not all pairs are tried for the best one to merge."""


class Coding(StrEnum):
    """What rows may be coded by."""

    GRIDS = "grids"
    """Cells of grids alone, however many roots that takes."""
    ANY = "any"
    """Grids, and words wherever grids would be too large."""
    CHEAPEST = "cheapest"
    """Grids alone or words as well, whichever costs a grouping less."""


def share_fragments(
    plan: SharedPlan,
    statistics: Statistics,
    weights: Weights = WEIGHTS,
    coding: Coding = Coding.CHEAPEST,
) -> SharedPlan:
    """Merge the predicates of each grouping into roots with joint fragments, where that should pay."""
    answers = plan.answers_by_relation()
    groupings: dict[Grouping, list[Root]] = {}
    for relation in plan.relations:
        singles = split(relation, answers[relation.id], statistics, weights)
        groupings.setdefault(relation.grouping, []).extend(singles)
    relations = [
        replace(root.relation, shared=root.sharing_pays)
        for singles in groupings.values()
        for root in _coded(singles, coding)
    ]
    shared = plan_of(relations, plan.answers, plan.slicing, plan.by_value)
    return plan if shared == plan else shared


def _coded(singles: Sequence[Root], coding: Coding) -> list[Root]:
    """Merge the predicates of one grouping, coded as is asked."""
    if coding is Coding.GRIDS:
        return _roots(singles, in_grids=True)
    roots = _roots(singles, in_grids=False)
    if coding is Coding.ANY or not any(root.has_words for root in roots):
        return roots
    in_grids = _roots(singles, in_grids=True)
    return min((roots, in_grids), key=lambda roots: sum(root.least for root in roots))


def _roots(singles: Sequence[Root], *, in_grids: bool) -> list[Root]:
    """Merge first the predicates that test the same expressions, then whatever gets cheaper by it."""
    families: dict[object, list[Root]] = {}
    for single in singles:
        # Booleans of equal columns are alike.
        tested = frozenset(columns(own) if own.type.kind is Kind.BOOLEAN else own for own in single.cuts)
        families.setdefault(single if single.has_words else tested, []).append(single)
    roots = [root for family in families.values() for root in _fitting(family, in_grids=in_grids)]
    merge = _merge_in_turn if len(roots) > _MOST_PAIRED else _merge_best_pairs
    roots = merge(roots, in_grids=in_grids)
    if in_grids or len(roots) < 2:
        return roots
    # All as one, if they cost less with a copy of the row for each predicate.
    whole = merged(roots)
    return [whole] if whole.least < sum(root.least for root in roots) else roots


def _fitting(family: Sequence[Root], *, in_grids: bool) -> list[Root]:
    """Return a family as one root; or as several if it needs words and they cost less, or if it must fit."""
    whole = merged(family)
    # Whether groups cost less than another copy of the rows would.
    is_cheap = whole.weights.group * whole.shared.groups <= whole.weights.row * whole.shared.rows
    if len(family) == 1 or not whole.has_words or (not in_grids and is_cheap):
        return [whole]
    half = len(family) // 2
    parts = [part for side in (family[:half], family[half:]) for part in _fitting(side, in_grids=in_grids)]
    return parts if in_grids or whole.least > sum(part.least for part in parts) else [whole]


def _merge_best_pairs(roots: Sequence[Root], *, in_grids: bool) -> list[Root]:
    """Merge the two roots that gain most by it, again and again."""
    left = list(roots)
    gains = {pair: _gain(*pair, in_grids=in_grids) for pair in combinations(left, 2)}
    while gains and max(gains.values()) >= 0:
        best = max(gains, key=gains.__getitem__)
        both = merged(best)
        left = [root for root in left if root not in best]
        gains = {pair: gain for pair, gain in gains.items() if not set(best) & set(pair)}
        gains |= {(both, root): _gain(both, root, in_grids=in_grids) for root in left}
        left = [both, *left]
    return left


def _merge_in_turn(roots: Sequence[Root], *, in_grids: bool) -> list[Root]:
    """Add roots, the largest first, to the one that gains most by it: for when there are too many pairs."""
    chosen: list[Root] = []
    for root in sorted(roots, key=lambda root: -len(root.relation.predicates)):
        gains = [_gain(other, root, in_grids=in_grids) for other in chosen]
        best = int(np.argmax(gains)) if gains else -1
        if best >= 0 and gains[best] >= 0:
            chosen[best] = merged((chosen[best], root))
        else:
            chosen.append(root)
    return chosen


def _gain(root: Root, other: Root, *, in_grids: bool) -> float:
    """Return what a batch saves if two roots are one, in microseconds; negative if they cannot be."""
    if in_grids and not fits_grid(merged_cuts((root.cuts, other.cuts))):
        return -1.0
    apart = root.expected.microseconds + other.expected.microseconds
    return apart - merged((root, other)).expected.microseconds


Rule = Callable[[SharedPlan, Statistics], SharedPlan]


def share_slices(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Merge relations that differ in windows and primitives only (STS)."""
    alike: dict[object, list[Relation]] = {}
    for relation in plan.relations:
        alike.setdefault((relation.grouping, relation.predicates), []).append(relation)
    if len(alike) == len(plan.relations):
        return plan
    return plan_of(map(union, alike.values()), plan.answers, plan.slicing, plan.by_value)


def copy_rows(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Have rows aggregated once for each predicate that they satisfy, whatever it costs."""
    relations = tuple(replace(relation, shared=len(relation.predicates) == 1) for relation in plan.relations)
    return plan if relations == plan.relations else replace(plan, relations=relations)


class Sharing(StrEnum):
    """How predicates share; results are the same in every way."""

    AUTO = "auto"
    """Whichever of the others is expected to cost least, for each group of predicates."""
    JOINT = "joint"
    """As few roots as possible."""
    SEPARATE = "separate"
    """A root for each predicate."""
    UNSHARED = "unshared"
    """Rows are aggregated once for each predicate that they satisfy."""


_JOINTLY = partial(share_fragments, weights=Weights(row=1e9, root=1e18), coding=Coding.ANY)
_GRIDS = partial(share_fragments, weights=Weights(row=1e9, root=1e18), coding=Coding.GRIDS)
"""Copies of rows are looked up in grids."""
RULES: Mapping[Sharing, tuple[Rule, ...]] = {
    # Fragments after slices, so that each predicate is seen once.
    Sharing.AUTO: (share_slices, share_fragments, evaluate_most_by_value),
    Sharing.JOINT: (share_slices, _JOINTLY, evaluate_by_value),
    Sharing.SEPARATE: (share_slices, evaluate_by_value),
    Sharing.UNSHARED: (share_slices, _GRIDS, copy_rows),
}


def leaves(queries: Sequence[LogicalQuery], slicing: Slicing = Slicing.PAIRED) -> SharedPlan:
    """Return the plan in which every query has a relation of its own."""
    own = {RelationId(number): (query, leaf(query)) for number, query in enumerate(queries)}
    return SharedPlan(
        relations=tuple(needs.relation(id) for id, (_, needs) in own.items()),
        answers=tuple(answer(query, needs, id) for id, (query, needs) in own.items()),
        slicing=slicing,
    )


def optimize(
    queries: Sequence[LogicalQuery],
    slicing: Slicing = Slicing.PAIRED,
    statistics: Statistics | None = None,
    sharing: Sharing = Sharing.AUTO,
) -> SharedPlan:
    """Plan queries over one stream so that they share what they can."""
    return share(leaves(queries, slicing), statistics, sharing)


def share(
    plan: SharedPlan, statistics: Statistics | None = None, sharing: Sharing = Sharing.AUTO
) -> SharedPlan:
    """Have the leaves of a plan share what they can."""
    if statistics is None:
        statistics = assumed((joins, predicate) for (joins, _), predicate in plan.selections)
    for rule in RULES[sharing]:
        plan = rule(plan, statistics)
    return plan
