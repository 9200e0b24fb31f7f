"""The passes that turn queries into a shared plan; each is a pure function of the plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial

from weft.optimizer.by_value import evaluate_by_value, evaluate_most_by_value
from weft.optimizer.cost import Weights
from weft.optimizer.merging import Coding, share_fragments
from weft.optimizer.plan import Relation, RelationId, SharedPlan, answer, leaf, plan_of, union
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Statistics, assumed
from weft.query.logical import LogicalQuery

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
