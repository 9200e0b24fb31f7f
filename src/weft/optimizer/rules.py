"""The passes that turn queries into a shared plan; each is a pure function of the plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial

from weft.expression import columns
from weft.optimizer.cost import Weights
from weft.optimizer.fragments import Coding, share_fragments
from weft.optimizer.plan import SharedPlan, answer, leaf, union
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Statistics, assumed
from weft.optimizer.values import evaluable, evaluate_by_value
from weft.predicates import tests
from weft.query.logical import LogicalQuery

Rule = Callable[[SharedPlan, Statistics], SharedPlan]


def share_slices(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Merge relations that differ in windows and primitives only (STS)."""
    merged: dict[object, list[int]] = {}
    for number, relation in enumerate(plan.relations):
        merged.setdefault((relation.grouping, relation.predicates), []).append(number)
    if len(merged) == len(plan.relations):
        return plan
    relations = tuple(union(plan.relations[number] for number in members) for members in merged.values())
    place = {number: index for index, members in enumerate(merged.values()) for number in members}
    answers = tuple(replace(one, relation=place[one.relation]) for one in plan.answers)
    return replace(plan, relations=relations, answers=answers)


def copy_rows(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Have rows aggregated once for each predicate that they satisfy, whatever it costs."""
    copied = [replace(one, shared=len(one.predicates) == 1) for one in plan.relations]
    if tuple(copied) == plan.relations:
        return plan
    order = sorted(range(len(copied)), key=lambda number: not copied[number].shared)
    moved = {old: new for new, old in enumerate(order)}
    answers = tuple(replace(one, relation=moved[one.relation]) for one in plan.answers)
    return replace(plan, relations=tuple(copied[number] for number in order), answers=answers)


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


def evaluate_most_by_value(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Have predicates evaluated by value where half the relations gain.

    If there are registered functions among them, Spark groups the rows of all relations then.
    """
    found = evaluate_by_value(plan, statistics)
    by_value = set(found.by_value)
    gaining = [
        relation
        for relation in plan.relations
        if any(
            evaluable(one.expression) and by_value.issuperset(columns(one.expression))
            for predicate in relation.predicates
            for one in tests(predicate)
        )
    ]
    return found if 2 * len(gaining) >= len(plan.relations) else plan


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
    relations = tuple(map(leaf, queries))
    answers = tuple(
        answer(query, relation, index)
        for index, (query, relation) in enumerate(zip(queries, relations, strict=True))
    )
    return SharedPlan(relations=relations, answers=answers, slicing=slicing)


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
        statistics = assumed((one.joins, one.predicates[0]) for one in plan.relations)
    for rule in RULES[sharing]:
        plan = rule(plan, statistics)
    return plan
