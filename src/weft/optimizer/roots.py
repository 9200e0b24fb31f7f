"""Roots: predicates of one grouping that may share fragments, and what a batch with them should cost."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, gcd, prod

import numpy as np
import numpy.typing as npt

from weft.arrays import Numbers
from weft.expression import Expression
from weft.optimizer.cost import WEIGHTS, Fragmentation, Weights
from weft.optimizer.plan import Answer, Relation, SharedPlan, union
from weft.optimizer.slices import paired
from weft.optimizer.statistics import Frequencies, Measured, Statistics, numbered
from weft.predicates import Cut, Formula, cuts_of
from weft.predicates.words import WORD_BITS
from weft.window import Window

MOST_CELLS = 1 << 16
"""The largest grid of codes that is looked up in one table; with more, rows have words instead."""
_NO_FRAGMENT = 0
_MOST_COMBINATIONS = 1 << 62
"""Numbers of combinations stay below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a root is expected to do in a batch."""

    rows: float
    """Rows aggregated: with the number of copies, if it is not shared."""
    groups: float
    final: float
    """Totals of groups looked at for results, also those that a predicate masks."""
    microseconds: float


@dataclass(frozen=True, eq=False)
class Root:
    """Predicates of one grouping that may share fragments, and how they split the sample."""

    relation: Relation
    statistics: Statistics
    weights: Weights
    cuts: Mapping[Expression, Set[Cut]]
    signature: Numbers
    """For each row of the sample, which predicates it satisfies; 0 for none."""
    cardinality: Numbers
    """For each row of the sample, how many."""
    shares: npt.NDArray[np.float64]
    """For each predicate, the part of the rows that satisfy it."""
    due_per_ms: float
    """How many windows of the queries end in a millisecond."""
    range_ms: float
    """The mean range of the windows that end."""

    @cached_property
    def has_words(self) -> bool:
        """Whether rows have words, because a grid of codes would be too large."""
        return not fits_grid(self.cuts)

    @cached_property
    def slices(self) -> float:
        """The slices in a batch."""
        return max(1.0, _edge_rate(self.relation.windows) * self.statistics.span_ms)

    @cached_property
    def groups(self) -> Frequencies:
        """The groups of the sample, among all slices: fragment and keys."""
        keys = self.statistics.sample.numbered_keys(self.relation.joins, self.relation.keys)
        if keys is None or not self.relation.keys:
            return Frequencies(self.signature, _NO_FRAGMENT)
        groups = self.signature * (int(keys.max(initial=0)) + 1) + keys
        return Frequencies(np.where(self.signature == _NO_FRAGMENT, _NO_FRAGMENT, groups), _NO_FRAGMENT)

    def fragmentation(self, rows: float | None = None) -> Fragmentation:
        """Return the paper's k, α and β of the sample, or of so many rows like it."""
        sizes = self._sizes
        return Fragmentation(
            rows=len(self.signature) if rows is None else rows,
            fragments=len(sizes) if rows is None else self._signatures.distinct(rows),
            alpha=float(self.cardinality.mean()),
            beta=float(sizes.mean()) if len(sizes) else 0.0,
        )

    @cached_property
    def _signatures(self) -> Frequencies:
        """The fragments of the sample, whatever their slices and keys."""
        return Frequencies(self.signature, _NO_FRAGMENT)

    @cached_property
    def _sizes(self) -> Numbers:
        """For each fragment of the sample, F0 aside, how many predicates it satisfies."""
        _, firsts = np.unique(self.signature, return_index=True)
        sizes: Numbers = self.cardinality[firsts[self.signature[firsts] != _NO_FRAGMENT]]
        return sizes

    @cached_property
    def shared(self) -> Expected:
        """What a batch costs with fragments."""
        rows, span = self.statistics.rows, self.statistics.span_ms
        taken = rows * float((self.signature != _NO_FRAGMENT).mean())
        groups = self._measured(shared=True)
        if groups is None:
            groups = min(taken, self.slices * self.groups.distinct(rows / self.slices))
        # No window shows more than its slices hold together.
        in_window = min(
            self.groups.distinct(rows * self.range_ms / span), groups * max(1.0, self.range_ms / span)
        )
        looked_at = self.due_per_ms * span * in_window
        masked = 0.0
        if self.weights.masked != self.weights.final and len(self._sizes):
            masked = looked_at * (1 - float(self._sizes.mean()) / len(self.shares))
        return self._expected(taken, groups, looked_at, masked)

    @cached_property
    def unshared(self) -> Expected:
        """What a batch costs if rows are aggregated once for each predicate."""
        rows, span = self.statistics.rows, self.statistics.span_ms
        copies = rows * float(self.cardinality.mean())
        groups = self._measured(shared=False)
        if groups is None:
            in_slice = float((1 - (1 - self.shares) ** (rows / self.slices)).sum())
            if self.relation.keys:
                in_slice *= self.groups.distinct(rows / self.slices)
            groups = min(copies, self.slices * in_slice)
        in_window = min(self.slices * self.range_ms / span, rows * self.range_ms / span)
        return self._expected(copies, groups, self.due_per_ms * span * in_window)

    @property
    def expected(self) -> Expected:
        """What a batch costs in the relation's own way."""
        return self.shared if self.relation.shared else self.unshared

    @property
    def sharing_pays(self) -> bool:
        """Whether joint fragments cost no more than a copy of the row for each predicate."""
        return len(self.shares) == 1 or self.shared.microseconds <= self.unshared.microseconds

    @property
    def least(self) -> float:
        """What a batch costs in the cheaper of the two ways, in microseconds."""
        return min(self.shared.microseconds, self.unshared.microseconds)

    def _measured(self, *, shared: bool) -> float | None:
        """Return how many groups such a root had in the last batch."""
        return self.statistics.groups.get(measured_key(replace(self.relation, shared=shared)))

    def _expected(self, rows: float, groups: float, final: float, masked: float = 0.0) -> Expected:
        weights = self.weights
        batch, predicates = self.statistics.rows, len(self.shares)
        cost = weights.root + weights.cell * batch + weights.row * rows + weights.group * groups
        if self.has_words and predicates > 1:
            signatures = min(groups, self._signatures.distinct(batch))
            cost += weights.word * batch * (1 + predicates // WORD_BITS)
            cost += weights.verdict * signatures * predicates
        cost += weights.final * (final - masked) + weights.masked * masked
        return Expected(rows=rows, groups=groups, final=final, microseconds=cost)


def fits_grid(cuts: Mapping[Expression, Set[Cut]]) -> bool:
    """Say whether the grid of codes is small enough if values are cut there."""
    return prod(len(own) + 2 for own in cuts.values()) <= MOST_CELLS


def measured_key(relation: Relation) -> Measured:
    """Return what a root's group count is measured under."""
    return relation.grouping, frozenset(relation.predicates), relation.shared


def roots_of(plan: SharedPlan, statistics: Statistics, weights: Weights = WEIGHTS) -> list[Root]:
    """Return the roots of a plan as they are, costed with the given statistics."""
    answers = plan.answers_by_relation()
    return [
        replace(merged(split(relation, answers[relation.id], statistics, weights)), relation=relation)
        for relation in plan.roots
    ]


def cost(plan: SharedPlan, statistics: Statistics) -> float:
    """Return what a batch is expected to cost under a plan, in microseconds."""
    return sum(root.expected.microseconds for root in roots_of(plan, statistics))


def split(
    relation: Relation, answers: Iterable[Answer], statistics: Statistics, weights: Weights
) -> list[Root]:
    """Return a root for each predicate of a relation, with the windows of the queries that ask for it."""
    windows: dict[Formula, list[Window]] = {predicate: [] for predicate in relation.predicates}
    for answer in answers:
        windows[answer.predicate].append(answer.query.window)
    roots = []
    for predicate, own in windows.items():
        satisfied = statistics.sample.satisfy(relation.joins, predicate).astype(np.int64)
        parts = [part for window in own for part in window.parts]
        due = sum(1 / window.slide_ms for window in parts)
        root = Root(
            relation=replace(relation, predicates=(predicate,), windows=frozenset(own)),
            statistics=statistics,
            weights=weights,
            cuts=cuts_of((predicate,)),
            signature=satisfied,
            cardinality=satisfied,
            shares=np.array([satisfied.mean()]),
            due_per_ms=due,
            range_ms=sum(window.range_ms / window.slide_ms for window in parts) / due if due else 1.0,
        )
        roots.append(root)
    return roots


def merged(roots: Sequence[Root]) -> Root:
    """Return roots of one grouping as one.

    All at once: one by one, thousands would be merged thousands of times.
    """
    if len(roots) == 1:
        return roots[0]
    due = sum(root.due_per_ms for root in roots)
    cardinality = roots[0].cardinality.copy()
    for root in roots[1:]:
        cardinality += root.cardinality
    return replace(
        roots[0],
        relation=union(root.relation for root in roots),
        cuts=merged_cuts(root.cuts for root in roots),
        signature=_joint([root.signature for root in roots]),
        cardinality=cardinality,
        shares=np.concatenate([root.shares for root in roots]),
        due_per_ms=due,
        range_ms=sum(root.range_ms * root.due_per_ms for root in roots) / due if due else 1.0,
    )


def merged_cuts(roots: Iterable[Mapping[Expression, Set[Cut]]]) -> dict[Expression, set[Cut]]:
    """Return where any of several roots cuts the values of each expression."""
    merged: dict[Expression, set[Cut]] = {}
    for cuts in roots:
        for expression, own in cuts.items():
            merged.setdefault(expression, set()).update(own)
    return merged


def _joint(signatures: Sequence[Numbers]) -> Numbers:
    """Number combinations of signatures; 0 stays the empty one."""
    joint, count = signatures[0].astype(np.int64), int(signatures[0].max(initial=0)) + 1
    for signature in signatures[1:]:
        choices = int(signature.max(initial=0)) + 1
        if count * choices > _MOST_COMBINATIONS:
            joint = _numbered(joint)
            count = int(joint.max(initial=0)) + 1
        joint, count = joint * choices + signature, count * choices
    return _numbered(joint)


def _numbered(signature: Numbers) -> Numbers:
    """Return the same distinctions in small numbers; 0 stays 0."""
    return numbered(signature) + int(signature.min(initial=1) != _NO_FRAGMENT)


def _edge_rate(windows: frozenset[Window]) -> float:
    """Return about how many slices a millisecond has: edges fall on a common grid, as if by chance."""
    edges = sum(len(paired(window)) / window.slide_ms for window in windows)
    if len(windows) == 1:
        return edges
    grid = 1.0 / gcd(
        *(
            length
            for window in windows
            for length in (window.step_ms or window.slide_ms, window.range_ms % window.slide_ms)
        )
    )
    return grid * (1 - exp(-edges / grid))
