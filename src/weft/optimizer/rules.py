"""The passes that turn queries into a shared plan; each is a pure function of the plan."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.optimizer.fragments import share_fragments
from weft.optimizer.plan import SharedPlan, answer, leaf, union
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Statistics, assumed
from weft.query.logical import LogicalQuery

Rule = Callable[[SharedPlan, Statistics], SharedPlan]


def share_slices(plan: SharedPlan, statistics: Statistics) -> SharedPlan:
    """Merge relations that differ in windows and primitives only (STS)."""
    merged: dict[object, list[int]] = {}
    for number, relation in enumerate(plan.relations):
        merged.setdefault((relation.grouping, relation.predicates), []).append(number)
    relations = tuple(union(plan.relations[number] for number in members) for members in merged.values())
    place = {number: index for index, members in enumerate(merged.values()) for number in members}
    answers = tuple(replace(one, relation=place[one.relation]) for one in plan.answers)
    return replace(plan, relations=relations, answers=answers)


RULES: tuple[Rule, ...] = (
    share_slices,
    # After slices, so that it sees each predicate once.
    share_fragments,
)


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
    rules: Sequence[Rule] = RULES,
) -> SharedPlan:
    """Plan queries over one stream so that they share what they can."""
    plan = leaves(queries, slicing)
    if statistics is None:
        statistics = assumed((one.joins, one.predicates[0]) for one in plan.relations)
    for rule in rules:
        plan = rule(plan, statistics)
    return plan
