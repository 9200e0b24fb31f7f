"""The plan that batches are aggregated by: made, kept, extended, and replaced when another pays.

Queries leave it, and join it if all that they need is computed already, without any other job.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from weft.aggregates import Primitive
from weft.evaluation import can_evaluate
from weft.expression import Expression, walk
from weft.optimizer.plan import Leaf, Relation, SharedPlan, answer
from weft.optimizer.rules import Sharing, leaves, optimize
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Sample
from weft.predicates import Formula, tests
from weft.query.logical import Join, LogicalQuery, StreamDef
from weft.spark.columns import Udf
from weft.spark.input.declarations import Tables
from weft.spark.job.batch_groups import BatchGroups
from weft.spark.job.forms import Forms
from weft.spark.job.job import BatchJob
from weft.spark.job.sampling import take_sample
from weft.spark.job.value_predicates import KnownValues
from weft.spark.job.verdicts import Bounds
from weft.spark.session.troubles import culprits
from weft.stream.planner import Planner
from weft.stream.warm_start import WarmStart

_LOOSE_BATCHES, _LOOSE_PART = 16, 0.25
"""Maximum number of batches, and part of its predicates, for which a plan keeps what no query needs."""
_CERTAIN_NODES = 500
"""Maximum number of nodes in the expressions of a query that Spark is certain to compute."""
Part = tuple[tuple[Join, ...], Expression | Primitive | None]
"""What Spark computes over the stream and the tables joined to it; None stands for joining them."""


class ActivePlan:
    """What a batch is aggregated and answered by."""

    def __init__(self, plan: SharedPlan, job: BatchJob) -> None:
        self.plan, self.job = plan, job
        self._readers: tuple[SharedPlan, Sequence[Counter[Formula]]] | None = None

    def join(self, query: LogicalQuery, leaf: Leaf, start: WarmStart) -> bool:
        """Answer one more query; False if its failures would not be counted: then another job is needed."""
        relation, relations = self.plan.relation(start.relation), self.plan.relations
        shows_predicate = start.derived is not None or leaf.predicate in relation.predicates
        joining = answer(query, leaf, relation.id)
        if not shows_predicate or not self.job.failures.share(joining):
            return False
        if start.derived is not None:
            numbered = self.job.fragments.extend(self.job.index_of[relation.id], start.derived)
            longer = replace(relation, predicates=numbered.predicates)
            relations = tuple(longer if each is relation else each for each in relations)
        self.plan = replace(self.plan, relations=relations, answers=(*self.plan.answers, joining))
        return True

    def leave(self, name: str) -> None:
        """Answer a query no longer; what it needed is still computed."""
        self.job.failures.forget(name)
        answers = tuple(answer for answer in self.plan.answers if answer.query.name != name)
        self.plan = replace(self.plan, answers=answers)

    @property
    def readers(self) -> Sequence[Counter[Formula]]:
        """For each relation of the job, how many queries ask for each predicate."""
        if self._readers is None or self._readers[0] is not self.plan:
            answers = self.plan.answers_by_relation()
            counted = [Counter(own.predicate for own in answers[root.id]) for root in self.job.relations]
            self._readers = self.plan, counted
        return self._readers[1]

    def is_loose(self, batches: int | None) -> bool:
        """Return whether what no query has needed for so many batches is worth a change of the plan."""
        if batches is None:
            return False
        kept = sum(len(relation.predicates) for relation in self.plan.relations)
        asked = {(answer.grouping, answer.predicate) for answer in self.plan.answers}
        return batches >= _LOOSE_BATCHES or len(asked) < (1 - _LOOSE_PART) * kept

    def computes_all_of(self, plan: SharedPlan) -> bool:
        """Return whether the plan's relations are these, in this order."""
        if plan.by_value != self.plan.by_value:
            return False
        return plan is self.plan or [*map(_unordered, plan.relations)] == [
            *map(_unordered, self.plan.relations)
        ]


def computed(plan: SharedPlan) -> Iterator[Part]:
    """Yield what Spark computes in a plan."""
    for relation in plan.relations:
        tested = (test.expression for predicate in relation.predicates for test in tests(predicate))
        for part in (*relation.keys, *relation.primitives, *tested, None):
            yield relation.joins, part


def is_certain(parts: Iterable[Part]) -> bool:
    """Say whether Spark is certain to compute what a query asks of it, because the binder has checked it all.

    That leaves registered functions, tables, whose columns may be gone, what only Spark can evaluate, and
    what is very large.
    """
    nodes = 0
    for joins, part in parts:
        expressions = part.arguments if isinstance(part, Primitive) else () if part is None else (part,)
        if joins or not all(map(can_evaluate, expressions)):
            return False
        nodes += sum(1 for expression in expressions for _ in walk(expression))
    return nodes <= _CERTAIN_NODES


def _unordered(relation: Relation) -> object:
    return (
        relation.grouping, relation.windows, relation.shared,
        frozenset(relation.predicates), frozenset(relation.primitives),
    )  # fmt: skip


class PlanInEffect:
    """Hold one stream's plan with its job, and replace it between batches."""

    def __init__(
        self,
        stream: StreamDef,
        tables: Tables,
        functions: Mapping[str, Udf],
        *,
        slicing: Slicing,
        sharing: Sharing,
        on_adopt: Callable[[SharedPlan], None],
    ) -> None:
        """Start without a plan; `on_adopt` is called with each that takes effect."""
        self._stream, self._tables, self._functions = stream, tables, functions
        self._on_adopt = on_adopt
        self.planner = Planner(slicing=slicing, sharing=sharing)
        self.active: ActivePlan | None = None
        """None before the first batch."""
        self._stale = True
        """Whether a query has joined that the plan does not answer."""
        self._loose_for: int | None = None
        """Number of batches for which the plan has computed what no query needs."""
        self._accepted: frozenset[Part] = frozenset()
        """What Spark has computed already."""
        self._known: KnownValues = {}
        """The values of columns for which predicates have been evaluated."""
        self._forms = Forms()
        """Row and group counts so far."""

    @property
    def plan(self) -> SharedPlan:
        """The plan; an empty one before the first batch."""
        if self.active is None:
            return SharedPlan(relations=(), answers=(), slicing=self.planner.slicing)
        return self.active.plan

    def join(self, query: LogicalQuery, leaf: Leaf, start: WarmStart | None) -> bool:
        """Answer one more query by what is computed already; if that is not possible, plan anew."""
        if start is not None and self.active is not None and self.active.join(query, leaf, start):
            return True
        self._stale = True
        return False

    def leave(self, name: str) -> None:
        """Answer a query no longer; what only it needed is still computed for some batches."""
        self.planner.forget(name)
        if self.active is not None:
            self.active.leave(name)
        if self._loose_for is None:
            self._loose_for = 0

    def outdate(self) -> None:
        """Have the plan made anew before it is used again."""
        self._stale = True

    def for_batch(self, queries: Iterable[LogicalQuery], batch: DataFrame | None) -> ActivePlan:
        """Return the plan of the queries, made anew when they have changed or another plan pays.

        What is planned without a batch is planned again with the first.
        """
        active, queries = self.active, list(queries)
        provisional = self.planner.provisional and batch is not None
        if active is None or self._stale or active.is_loose(self._loose_for) or provisional:
            plan = None if active is None else self.planner.grown(active.plan, queries)
            sampler = None if batch is None else partial(self._sample, batch)
            plan = self.planner.plan(queries, sampler) if plan is None else plan
            tight = True
        else:
            keeps = batch is None or self._loose_for is not None
            plan = active.plan if keeps else self.planner.reconsider(active.plan, queries)
            tight = plan is not active.plan
        if active is None or self._stale or not active.computes_all_of(plan):
            active = self._adopt(plan)
            self._stale = False
        if tight:
            self._loose_for = None
        return active

    def ahead(self, queries: Sequence[LogicalQuery]) -> None:
        """Plan without a batch for the queries whose job can be made; the others fail with the next batch."""
        try:
            self.for_batch(queries, None)
        except Exception as error:
            unfit = culprits(queries, self.job_of, error)
            if not unfit:
                raise
            try:
                self.for_batch([query for query in queries if query.name not in unfit], None)
            finally:
                self._stale = True

    def _sample(self, batch: DataFrame, apart: SharedPlan) -> Sample:
        return take_sample(batch, apart, self._stream, self._tables, self._functions)

    def _adopt(self, plan: SharedPlan) -> ActivePlan:
        """Let a plan take effect; what was aggregated under others stays as it is."""
        self._forms = self._forms.for_next_job()
        job = BatchJob(plan, self._stream, self._tables, self._functions, self._known, self._forms)
        self.active, self._accepted = ActivePlan(plan, job), frozenset()
        self._on_adopt(plan)
        return self.active

    def run(self, active: ActivePlan, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Have Spark aggregate a batch by the plan."""
        planner, plan = self.planner, self.plan
        expected = replace(
            bounds,
            groups=planner.groups_per_slice,
            begin=planner.begin,
            groups_per_row=planner.groups_per_row(plan),
        )
        try:
            groups = active.job.run(batch, expected)
        except BaseException:
            # The failed plan must not be tried again unchanged if the query at fault has left.
            self._stale = True
            raise
        if not self._accepted:
            self._accepted = frozenset(computed(plan))
        if self._loose_for is not None:
            self._loose_for += 1
        return groups

    def computes(self, query: LogicalQuery) -> bool:
        """Say whether Spark is known to compute all that a query asks of it."""
        return is_certain({*computed(leaves([query], self.planner.slicing))} - self._accepted)

    def job_of(self, queries: Sequence[LogicalQuery], *, shared: bool = False) -> BatchJob:
        """Return a job of some queries that share nothing, or as much as possible."""
        slicing = self.planner.slicing
        plan = optimize(queries, slicing) if shared else leaves(queries, slicing)
        return BatchJob(plan, self._stream, self._tables, self._functions)
