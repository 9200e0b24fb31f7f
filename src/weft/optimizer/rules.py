"""The passes that turn queries into a shared plan; each is a pure function of the plan."""

from collections.abc import Callable, Sequence

from weft.optimizer.plan import Relation, SharedPlan, answer, leaf
from weft.optimizer.slices import Slicing
from weft.query.logical import LogicalQuery

Rule = Callable[[SharedPlan], SharedPlan]


def share_slices(plan: SharedPlan) -> SharedPlan:
    """Merge relations that differ in windows and primitives only (STS)."""
    merged: dict[object, list[Relation]] = {}
    for relation in plan.relations:
        merged.setdefault(relation.grouping, []).append(relation)
    if len(merged) == len(plan.relations):
        return plan
    relations = tuple(_union(several) for several in merged.values())
    place = {relation.grouping: index for index, relation in enumerate(relations)}
    answers = []
    for old in plan.answers:
        index = place[plan.relations[old.relation].grouping]
        answers.append(answer(old.query, relations[index], index))
    return SharedPlan(relations=relations, answers=tuple(answers), slicing=plan.slicing)


def _union(relations: Sequence[Relation]) -> Relation:
    first = relations[0]
    return Relation(
        joins=first.joins,
        windows=frozenset().union(*(relation.windows for relation in relations)),
        keys=first.keys,
        predicate=first.predicate,
        primitives=tuple(dict.fromkeys(one for relation in relations for one in relation.primitives)),
    )


RULES: tuple[Rule, ...] = (
    # One rule for now. Rules that merge relations of different predicates or keys follow this one, so
    # that they see one relation per grouping.
    share_slices,
)


def leaves(queries: Sequence[LogicalQuery], slicing: Slicing = Slicing.PAIRED) -> SharedPlan:
    """Return the plan in which every query has a relation of its own."""
    relations = tuple(leaf(query) for query in queries)
    answers = tuple(
        answer(query, relation, index)
        for index, (query, relation) in enumerate(zip(queries, relations, strict=True))
    )
    return SharedPlan(relations=relations, answers=answers, slicing=slicing)


def optimize(queries: Sequence[LogicalQuery], slicing: Slicing = Slicing.PAIRED) -> SharedPlan:
    """Plan queries over one stream so that they share what they can."""
    plan = leaves(queries, slicing)
    for rule in RULES:
        plan = rule(plan)
    return plan
