"""The plan that batches are aggregated by: made, kept, extended, and replaced when another pays."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from weft.optimizer.plan import Leaf, SharedPlan
from weft.optimizer.rules import Sharing, leaves, optimize
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Sample
from weft.query.logical import LogicalQuery, StreamDef
from weft.spark.columns import Udf
from weft.spark.input.declarations import Tables
from weft.spark.job.batch_groups import BatchGroups
from weft.spark.job.forms import Forms
from weft.spark.job.job import BatchJob
from weft.spark.job.sampling import take_sample
from weft.spark.job.value_predicates import KnownValues
from weft.spark.job.verdicts import Bounds
from weft.spark.session.troubles import culprits
from weft.stream.active_plan import ActivePlan, computed
from weft.stream.planner import Planner
from weft.stream.warm_start import Found


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
        self._accepted: frozenset[object] = frozenset()
        """What Spark is known to be able to compute."""
        self._known = KnownValues()
        """The values of columns for which predicates have been evaluated."""
        self._forms = Forms()
        """Row and group counts so far."""

    @property
    def plan(self) -> SharedPlan:
        """The plan; an empty one before the first batch."""
        if self.active is None:
            return SharedPlan(relations=(), answers=(), slicing=self.planner.slicing)
        return self.active.plan

    def join(self, query: LogicalQuery, leaf: Leaf, found: Found | None) -> bool:
        """Answer one more query by what is computed already; if that is not possible, plan anew."""
        if found is not None and self.active is not None and self.active.join(query, leaf, found):
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
        return self._accepted.issuperset(computed(leaves([query], self.planner.slicing)))

    def job_of(self, queries: Sequence[LogicalQuery], *, shared: bool = False) -> BatchJob:
        """Return a job of some queries that share nothing, or as much as possible."""
        slicing = self.planner.slicing
        plan = optimize(queries, slicing) if shared else leaves(queries, slicing)
        return BatchJob(plan, self._stream, self._tables, self._functions)
