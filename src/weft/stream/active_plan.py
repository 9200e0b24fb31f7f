"""A plan in effect: its job, what the job's fragments mean, and the queries that are answered by it.

Queries leave it, and join it if all that they need is computed already, without any other job.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from weft.expression import Expression
from weft.optimizer.plan import Answer, Leaf, Relation, SharedPlan, answer
from weft.predicates import Formula, tests
from weft.query.allowed_functions import sites
from weft.query.logical import LogicalQuery
from weft.spark.job.failures import Failures
from weft.spark.job.fragment_coder import FragmentCoder, Numbered
from weft.spark.job.job import BatchJob
from weft.spark.job.seen_signatures import Follows
from weft.state.signatures import Signatures
from weft.stream.warm_start import Derived, Found

_LOOSE_BATCHES, _LOOSE_PART = 16, 0.25
"""Maximum number of batches, and part of its predicates, for which a plan keeps what no query needs."""


class ActivePlan:
    """What a batch is aggregated and answered by."""

    def __init__(self, plan: SharedPlan, job: BatchJob) -> None:
        self.plan, self.job = plan, job
        self._signatures: dict[int, Signatures] = {}
        self._failing = FailureSites(job.failures, plan.answers)
        self._readers: tuple[SharedPlan, Sequence[Counter[Formula]]] | None = None

    @property
    def signatures(self) -> list[Signatures]:
        """What the fragments of each relation mean: of words, those that have occurred so far."""
        for index, one in enumerate(self.job.fragments.numbered):
            known = self._signatures.get(index)
            if known is None or known.bits is not one.signatures:
                self._signatures[index] = Signatures(predicates=one.predicates, bits=one.signatures)
        return list(self._signatures.values())

    def join(self, query: LogicalQuery, leaf: Leaf, found: Found) -> bool:
        """Answer one more query; False if its failures would not be counted: then another job is needed."""
        relation, relations = self.plan.relation(found.relation), self.plan.relations
        told = found.derived is not None or leaf.predicate in relation.predicates
        joining = answer(query, leaf, relation.id)
        if not told or not self._failing.share(joining):
            return False
        if found.derived is not None:
            numbered = extend(self.job.fragments, self.job.index_of[relation.id], found.derived)
            longer = replace(relation, predicates=numbered.predicates)
            relations = tuple(longer if one is relation else one for one in relations)
        self.plan = replace(self.plan, relations=relations, answers=(*self.plan.answers, joining))
        return True

    def leave(self, name: str) -> None:
        """Answer a query no longer; what it needed is still computed."""
        self._failing.forget(name)
        self.plan = replace(
            self.plan, answers=tuple(one for one in self.plan.answers if one.query.name != name)
        )

    @property
    def readers(self) -> Sequence[Counter[Formula]]:
        """For each relation of the job, how many queries ask for each predicate."""
        if self._readers is None or self._readers[0] is not self.plan:
            answers = self.plan.answers_by_relation()
            counted = [Counter(one.predicate for one in answers[root.id]) for root in self.job.relations]
            self._readers = self.plan, counted
        return self._readers[1]

    def is_loose(self, batches: int | None) -> bool:
        """Return whether what nobody has asked for in so many batches is worth a change of the plan."""
        if batches is None:
            return False
        kept = sum(len(relation.predicates) for relation in self.plan.relations)
        asked = {(one.grouping, one.predicate) for one in self.plan.answers}
        return batches >= _LOOSE_BATCHES or len(asked) < (1 - _LOOSE_PART) * kept

    def computes_all_of(self, plan: SharedPlan) -> bool:
        """Return whether the plan's relations are these, in this order."""
        if plan.by_value != self.plan.by_value:
            return False
        return plan is self.plan or [*map(_unordered, plan.relations)] == [
            *map(_unordered, self.plan.relations)
        ]


def extend(coder: FragmentCoder, relation: int, derived: Derived) -> Numbered:
    """Have a relation's fragments tell a predicate that follows from others of it."""
    return coder.extend(relation, Follows(derived.predicate, derived.sources, derived.patterns))


class FailureSites:
    """Which column of a job counts failures of which expressions: queries that fail alike share it."""

    def __init__(self, failures: Failures, answers: Iterable[Answer]) -> None:
        self._failures = failures
        queries = {one.query.name: one.query for one in answers}
        self._tests = {
            (query.joins, _in_predicate(query)): column
            for column, names in failures.queries.items()
            for query in (queries[names[0]],)
        }
        self._values = {
            (told[0].query.joins, _in_values(told[0].query)): column
            for column, told in failures.answers.items()
        }

    def share(self, joining: Answer) -> bool:
        """Have a query's failures counted with those of others; False if nobody fails like it."""
        query, failures = joining.query, self._failures
        in_test, in_values = _in_predicate(query), _in_values(query)
        test, value = self._tests.get((query.joins, in_test)), self._values.get((query.joins, in_values))
        if (in_test and test is None) or (in_values and value is None):
            return False
        if test is not None:
            failures.queries[test] = (*failures.queries[test], query.name)
        if value is not None:
            failures.answers[value] = (*failures.answers[value], joining)
        return True

    def forget(self, name: str) -> None:
        """Count nothing for a query any more."""
        failures = self._failures
        for column, names in failures.queries.items():
            if name in names:
                failures.queries[column] = tuple(one for one in names if one != name)
        for column, told in failures.answers.items():
            failures.answers[column] = tuple(one for one in told if one.query.name != name)


def _in_predicate(query: LogicalQuery) -> tuple[Expression, ...]:
    return () if query.predicate is None else sites(query.predicate)


def _in_values(query: LogicalQuery) -> tuple[Expression, ...]:
    calls = [one for call in query.aggregates for one in (call.argument, call.filter) if one is not None]
    values = (*(key.expression for key in query.keys), *calls)
    return tuple(dict.fromkeys(site for one in values for site in sites(one)))


def computed(plan: SharedPlan) -> Iterator[object]:
    """Yield what Spark computes in a plan: expressions, each with the tables that it may read."""
    for one in plan.relations:
        tested = (test.expression for predicate in one.predicates for test in tests(predicate))
        for part in (*one.keys, *one.primitives, *tested):
            yield one.joins, part
        yield one.joins


def _unordered(relation: Relation) -> object:
    return (
        relation.grouping, relation.windows, relation.shared,
        frozenset(relation.predicates), frozenset(relation.primitives),
    )  # fmt: skip
