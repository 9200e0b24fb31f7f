"""Plan by what the stream shows: a sample of the current batch, and the counts of earlier batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import prod

from weft.expression import Expression
from weft.optimizer.cost import WEIGHTS
from weft.optimizer.plan import (
    Answer,
    Grouping,
    Leaf,
    Relation,
    RelationId,
    Selection,
    SharedPlan,
    answer,
    leaf,
    plan_of,
    union,
)
from weft.optimizer.roots import MOST_CELLS, Root, cost, fits_grid, measured_key, roots_of
from weft.optimizer.rules import Sharing, share
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Measured, Sample, Statistics
from weft.predicates import Cut, Formula, cuts_of, tests
from weft.query.logical import LogicalQuery

TakeSample = Callable[[SharedPlan], Sample]
"""Samples the current batch for the leaves of a plan."""
_WORTH = 0.8
"""A new plan replaces the current one when it costs less than this part of it…"""
_WORTH_MICROSECONDS = 50_000.0
"""…and saves at least this much in a batch: making a plan is not free."""
_ALIKE = 1.25
"""Costs that differ by less are alike."""
_REMEMBERED = 64
"""Maximum number of relations no longer in the plan whose group counts are remembered."""
_MORE_ROOTS = 3
"""Maximum number of roots by which a plan grows before it is made anew."""
_RIPE = 8
"""Number of batches after which a plan that has grown by half is made anew."""


@dataclass(slots=True, kw_only=True)
class Planner:
    """Choose plans for one stream; results are the same under any."""

    slicing: Slicing = Slicing.PAIRED
    sharing: Sharing = Sharing.AUTO
    provisional: bool = True
    """Whether the plan was made without rows to judge by, and should be made again when there are some."""
    _sample: Sample | None = None
    _rows: float | None = None
    _span_ms: float | None = None
    _groups: dict[Measured, float] = field(default_factory=dict)
    _batches: int = 0
    """Number of batches since the plan was last reconsidered."""
    _patience: int = 1
    """How many batches until it is looked at again: twice as many each time that it stays."""
    groups_per_slice: Mapping[RelationId, float] = field(default_factory=dict)
    """How many groups a slice of each root of the current plan is expected to have, if not one."""
    _expected: Statistics | None = None
    """The statistics by which the current plan was chosen."""
    _expected_groups: Mapping[Measured, float] = field(default_factory=dict)
    """How many groups each relation of the current plan is expected to have in a batch."""
    _planned: frozenset[Selection] = frozenset()
    """The predicates that the plan was last made for, rather than grown."""
    _age: int = 0
    """Batches since then."""
    _needs: dict[str, "_Needs"] = field(default_factory=dict)
    """What each query needs, by its name: worked out once, however often it is planned."""
    _vain: float | None = None
    """What a batch was expected to cost when no better plan was found, in microseconds."""
    _costed: tuple[SharedPlan, Sequence[Root]] | None = None
    """The current plan and its roots, as the sample shows them, however many rows a batch has."""

    def plan(self, queries: Sequence[LogicalQuery], take_sample: TakeSample | None) -> SharedPlan:
        """Plan queries anew; without a batch, by what is expected of any stream."""
        self._batches, self._patience, self._age = 0, 1, 0
        self._sample, self.provisional, self._expected = None, False, None
        apart = self._apart(queries)
        self._planned = frozenset(apart.selections)
        if len(apart.relations) == len({relation.grouping for relation in apart.relations}):
            return self._chosen(share(apart, sharing=self.sharing), None)
        sample = None if take_sample is None else take_sample(apart)
        if sample is None or not sample.rows:
            self.provisional = True
            return self._chosen(share(apart, sharing=self.sharing), None)
        self._sample = sample
        statistics = self._statistics(sample)
        return self._chosen(share(apart, statistics, self.sharing), statistics)

    def leaf(self, query: LogicalQuery) -> Leaf:
        """Return what a query needs and nothing more."""
        return self._needs_of(query).leaf

    def forget(self, name: str) -> None:
        """Forget a query that is no longer planned."""
        self._needs.pop(name, None)

    def _needs_of(self, query: LogicalQuery) -> "_Needs":
        needs = self._needs.get(query.name)
        if needs is None or needs.answer.query is not query:
            own = leaf(query)
            needs = self._needs[query.name] = _Needs(own, own.relation(), answer(query, own))
        return needs

    def _apart(self, queries: Sequence[LogicalQuery]) -> SharedPlan:
        """Return the plan in which queries share slices and nothing else."""
        needs = [self._needs_of(query) for query in queries]
        alike = _by_selection(needs).values()
        return plan_of(map(union, alike), [each.answer for each in needs], self.slicing)

    def grown(self, plan: SharedPlan, queries: Sequence[LogicalQuery]) -> SharedPlan | None:
        """Return the plan of other queries in which predicates share as they do now, without looking at rows.

        A new predicate joins a root that tests what it tests. None if that cannot be, or if the plan has
        changed so much that one made anew is likely to be better.
        """
        if self.provisional or self.sharing not in (Sharing.AUTO, Sharing.JOINT):
            return None
        needs = [self._needs_of(query) for query in queries]
        by_selection = _by_selection(needs)
        if self._age >= _RIPE and 2 * len(self._planned & by_selection.keys()) < len(by_selection):
            return None
        roots = _grown_roots(plan, by_selection)
        if len(roots) > len(plan.relations) + (_MORE_ROOTS if self.sharing is Sharing.AUTO else 0):
            return None
        relations = [replace(union(root.members), shared=root.shares) for root in roots]
        self._sample, self._expected, self._costed, self.groups_per_slice = None, None, None, {}
        return plan_of(relations, [each.answer for each in needs], self.slicing, plan.by_value)

    def _chosen(self, plan: SharedPlan, statistics: Statistics | None) -> SharedPlan:
        """Note what a plan is expected to do."""
        self._costed, self._vain, self.groups_per_slice = None, None, {}
        if statistics is not None:
            self._expect(plan, statistics)
        self._expected = statistics
        return plan

    def _expect(self, plan: SharedPlan, statistics: Statistics) -> Sequence[Root]:
        """Return the roots of the current plan, costed by statistics of the same sample, and note that."""
        if self._costed is not None and self._costed[0] is plan:
            roots: Sequence[Root] = [replace(root, statistics=statistics) for root in self._costed[1]]
        else:
            roots = roots_of(plan, statistics)
        self._costed, self._expected = (plan, roots), statistics
        self._expected_groups = {measured_key(root.relation): root.expected.groups for root in roots}
        self.groups_per_slice = {root.relation.id: root.expected.groups / root.slices for root in roots}
        return roots

    def reconsider(self, plan: SharedPlan, queries: Sequence[LogicalQuery]) -> SharedPlan:
        """Return a better plan if the latest batches suggest one; else the same."""
        if self._sample is None or self._batches < self._patience or self.sharing is not Sharing.AUTO:
            return plan
        statistics = self._statistics(self._sample)
        self._batches, self._patience = 0, 2 * self._patience
        if not self._surprised(statistics):
            return plan
        roots = self._expect(plan, statistics)
        now = sum(root.expected.microseconds for root in roots)
        # If a batch costs about what it did when no better plan was found, there is none now either.
        in_vain = self._vain is not None and 1 / _ALIKE < now / self._vain < _ALIKE
        if in_vain or not _is_worth(now, _least(roots)):
            return plan
        other = share(self._apart(queries), statistics, self.sharing)
        same = set(map(measured_key, other.relations)) == set(map(measured_key, plan.relations))
        if same or not _is_worth(now, cost(other, statistics)):
            self._vain = now
            return plan
        self._patience = 1
        return self._chosen(other, statistics)

    def _surprised(self, now: Statistics) -> bool:
        """Return whether the stream is not as it was expected to be: by half, or twice over."""
        then = self._expected
        if then is None:
            return True
        pairs = [(now.rows, then.rows), (now.span_ms, then.span_ms)]
        expected = self._expected_groups
        pairs += [(count, expected[key]) for key, count in now.groups.items() if key in expected]
        return any(not 0.5 < measured / max(planned, 1.0) < 2.0 for measured, planned in pairs)

    def note(self, plan: SharedPlan, *, rows: int, span_ms: float, groups: Sequence[int] = ()) -> None:
        """Take in what a batch showed: its rows, the event time it covers, and each root's groups.

        The first batch's groups are no measure: without a watermark, its slices are cut into panes.
        """
        if not rows:
            return
        self._batches += 1
        self._age += 1
        # Batches differ; a mean that favours the latest follows them without jumping.
        self._rows = rows if self._rows is None else (self._rows + rows) / 2
        self._span_ms = span_ms if self._span_ms is None else (self._span_ms + span_ms) / 2
        keys = list(map(measured_key, plan.roots))
        measured = {key: float(count) for key, count in zip(keys, groups, strict=False)}
        # A plan of these queries could have such roots again.
        asked = frozenset[Formula]().union(*(predicates for _, predicates, _ in keys))
        former = {
            key: count for key, count in self._groups.items() if key not in measured and key[1] <= asked
        }
        self._groups = {**dict(list(former.items())[-_REMEMBERED:]), **measured}

    @property
    def statistics(self) -> Statistics | None:
        """What is known of the stream by now; None while no plan was made with rows to judge by."""
        return None if self._sample is None else self._statistics(self._sample)

    @property
    def begin(self) -> int | None:
        """About when the rows began that the plan was made with, in microseconds of event time."""
        return None if self._sample is None else self._sample.begin

    def groups_per_row(self, plan: SharedPlan) -> float | None:
        """Return how many groups of all relations a row is expected to make; None before the first batch."""
        if self._rows is None:
            return None
        if self._expected is None:
            return 0.0
        expected = (self._expected_groups.get(measured_key(root), 0.0) for root in plan.roots)
        return sum(expected) / max(self._expected.rows, 1.0)

    def _statistics(self, sample: Sample | None) -> Statistics:
        statistics = Statistics(sample=sample or Sample(rows=0, attributes={}, positions={}))
        if self._rows is not None and self._span_ms is not None:
            return replace(statistics, rows=self._rows, span_ms=max(self._span_ms, 1.0), groups=self._groups)
        return statistics


def _is_worth(now: float, then: float) -> bool:
    """Return whether a plan is so much cheaper, in microseconds a batch, that it should replace another."""
    return then <= _WORTH * now and now - then >= _WORTH_MICROSECONDS


def _least(roots: Sequence[Root]) -> float:
    """Return about what a batch costs at least, in microseconds, under whatever plan of the same queries.

    Predicates that test the same expressions, a family, are never apart, unless their grid is too large. So
    a grouping has as many roots, with as many rows, as one of its families; and whatever roots a family is
    in, there are no fewer groups than it has on its own.
    """
    weights, families = WEIGHTS, dict[tuple[Grouping, object], float]()
    least = 0.0
    for root in roots:
        first = weights.root + weights.row * root.shared.rows
        tested = {frozenset(test.expression for test in tests(each)) for each in root.relation.predicates}
        family = root.relation.grouping, frozenset(tested)
        families[family] = families.get(family, 0.0) + first
        if len(tested) == 1:
            least += min(root.shared.microseconds, root.unshared.microseconds) - first
    groupings: dict[Grouping, float] = {}
    for (grouping, _), first in families.items():
        groupings[grouping] = max(groupings.get(grouping, 0.0), first)
    return least + sum(groupings.values())


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a query needs, and how it is answered from that."""

    leaf: Leaf
    relation: Relation
    """The leaf as a relation of its own."""
    answer: Answer


def _by_selection(queries: Iterable[_Needs]) -> dict[Selection, list[Relation]]:
    """Return the leaves of each selection, as relations."""
    alike: dict[Selection, list[Relation]] = {}
    for needs in queries:
        alike.setdefault(needs.leaf.selection, []).append(needs.relation)
    return alike


@dataclass(slots=True, eq=False)
class _GrownRoot:
    """A root of a plan, and the leaves that it gets as the plan grows."""

    grouping: Grouping
    expressions: frozenset[Expression]
    shared: bool = True
    worded: bool = False
    """Whether its grid is too large already, so that rows have words."""
    members: list[Relation] = field(default_factory=list)
    cuts: dict[Expression, set[Cut]] = field(default_factory=dict)

    @property
    def shares(self) -> bool:
        """Whether a row is aggregated once: a lone predicate has nothing to tell apart."""
        return self.shared or len({leaf.predicates for leaf in self.members}) == 1

    def takes(self, grouping: Grouping, cuts: Mapping[Expression, Set[Cut]]) -> bool:
        """Say whether a predicate tests nothing new here, and leaves a grid small enough."""
        if self.grouping != grouping or not self.expressions.issuperset(cuts):
            return False
        if self.worded:
            return True
        sizes = {expression: len(values) for expression, values in self.cuts.items()}
        for expression, values in cuts.items():
            mine = self.cuts.get(expression, set())
            sizes[expression] = len(mine) + len(values - mine)
        return prod(size + 2 for size in sizes.values()) <= MOST_CELLS

    def add(self, leaves: Sequence[Relation], cuts: Mapping[Expression, Set[Cut]]) -> None:
        """Add the leaves of one predicate."""
        self.members += leaves
        for expression, values in cuts.items():
            self.cuts.setdefault(expression, set()).update(values)


def _grown_roots(plan: SharedPlan, leaves: Mapping[Selection, Sequence[Relation]]) -> list[_GrownRoot]:
    """Return the roots of the given leaves.

    Predicates stay in their roots. New ones join a root that tests all that they test, or make new ones.
    """
    roots: list[_GrownRoot] = []
    homes: dict[Selection, _GrownRoot] = {}
    for root in plan.roots:
        cuts = cuts_of(root.predicates)
        roots.append(_GrownRoot(root.grouping, frozenset(cuts), root.shared, not fits_grid(cuts)))
        homes |= dict.fromkeys(root.selections, roots[-1])
    # Those that have a root first: it may take fewer new ones then.
    for selection in sorted(leaves, key=lambda selection: selection not in homes):
        grouping, predicate = selection
        cuts = cuts_of((predicate,))
        home = homes.get(selection) or next((root for root in roots if root.takes(grouping, cuts)), None)
        if home is None:
            home = _GrownRoot(grouping, frozenset(cuts))
            roots.append(home)
        home.add(leaves[selection], cuts)
    return [root for root in roots if root.members]
