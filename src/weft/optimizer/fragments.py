"""Which predicates share fragments: leaf relations are merged into roots by cost (SDF, SDS).

Joint fragments save copies of rows: every root costs another. But a query that constrains only `vol` must not
be split by cuts on `price`, and each group costs more than a row does. So predicates that test the same
expressions start as one root, and roots are merged while a batch, as it is expected, gets cheaper by it.
Where a row satisfies hardly any predicate and fragments are nearly as many as rows (section 4.3.3), a root
aggregates rows once for each predicate instead.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from math import exp, gcd, prod

import numpy as np
import numpy.typing as npt

from weft.expression import Expression, columns
from weft.optimizer.cost import WEIGHTS, Fragmentation, Weights
from weft.optimizer.plan import Answer, Grouping, Relation, SharedPlan, union
from weft.optimizer.slices import paired
from weft.optimizer.statistics import Frequencies, Measured, Statistics, numbered
from weft.predicates import Cut, Formula, tests
from weft.types import Kind
from weft.window import Window

Numbers = npt.NDArray[np.int64]
MOST_CELLS = 1 << 16
"""The largest grid of codes that is looked up in one table; with more, rows have words instead."""
_NO_FRAGMENT = 0
_MOST_COMBINATIONS = 1 << 62
"""Numbers of combinations stay below it."""
_MOST_PAIRED = 24
"""Up to so many roots, all pairs are tried for the best one to merge."""


class Coding(StrEnum):
    """What rows may be coded by."""

    GRIDS = "grids"
    """Cells of grids alone, however many roots that takes."""
    ANY = "any"
    """Grids, and words wherever grids would be too large."""
    SPARING = "sparing"
    """The same, but words only if they spare a grouping half of its roots.

    What words cost depends on who groups rows, which is decided batch by batch (weft.spark.job.forms): the
    driver looks them up almost as fast as cells, Spark does not. Twice the roots cost about as much as that.
    """


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
    """Predicates of one grouping that may share fragments, and what they make of the sample."""

    relation: Relation
    statistics: Statistics
    weights: Weights
    cuts: dict[Expression, frozenset[Cut]]
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
    def cells(self) -> int:
        """The grid's size, at most."""
        return prod(len(cuts) + 2 for cuts in self.cuts.values())

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
        several = int(keys.max(initial=0)) + 1
        groups = np.where(self.signature == _NO_FRAGMENT, _NO_FRAGMENT, self.signature * several + keys)
        return Frequencies(groups, _NO_FRAGMENT)

    def fragmentation(self, rows: float | None = None) -> Fragmentation:
        """Return the paper's k, α and β of the sample, or of so many rows like it."""
        sizes = self._sizes
        return Fragmentation(
            rows=len(self.signature) if rows is None else rows,
            fragments=len(sizes)
            if rows is None
            else Frequencies(self.signature, _NO_FRAGMENT).distinct(rows),
            alpha=float(self.cardinality.mean()),
            beta=float(sizes.mean()) if len(sizes) else 0.0,
        )

    @cached_property
    def _sizes(self) -> Numbers:
        """For each fragment of the sample, F0 aside, how many predicates it satisfies."""
        _, firsts = np.unique(self.signature, return_index=True)
        found: Numbers = self.cardinality[firsts[self.signature[firsts] != _NO_FRAGMENT]]
        return found

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

    def _measured(self, *, shared: bool) -> float | None:
        return self.statistics.groups.get(measured_key(replace(self.relation, shared=shared)))

    @property
    def has_words(self) -> bool:
        """Whether rows have words, because a grid of codes would be too large."""
        return self.cells > MOST_CELLS

    @property
    def least(self) -> float:
        """What a batch costs in the cheaper of the two ways, in microseconds."""
        return min(self.shared.microseconds, self.unshared.microseconds)

    @property
    def is_cheap(self) -> bool:
        """Whether groups cost less than another copy of the rows would."""
        expected = self.shared
        return self.weights.group * expected.groups <= self.weights.row * expected.rows

    def _expected(self, rows: float, groups: float, final: float, masked: float = 0.0) -> Expected:
        weights = self.weights
        cost = weights.root + weights.row * rows + weights.group * groups
        if self.has_words:
            cost += weights.coded * self.statistics.rows * len(self.cuts)
        cost += weights.final * (final - masked) + weights.masked * masked
        return Expected(rows=rows, groups=groups, final=final, microseconds=cost)

    def with_other(self, other: "Root") -> "Root":
        """Return the two as one root."""
        return _merged((self, other))


def cells(predicates: Iterable[Formula]) -> int:
    """Return how large the grid of some predicates would be, at most."""
    cuts: dict[Expression, set[Cut]] = {}
    for predicate in predicates:
        for one in tests(predicate):
            cuts.setdefault(one.expression, set()).update(one.values.cuts)
    return prod(len(some) + 2 for some in cuts.values())


def measured_key(relation: Relation) -> Measured:
    """Return what a root's group count is measured under."""
    return relation.grouping, frozenset(relation.predicates), relation.shared


def share_fragments(
    plan: SharedPlan,
    statistics: Statistics,
    weights: Weights = WEIGHTS,
    coding: Coding = Coding.SPARING,
) -> SharedPlan:
    """Merge relations of one grouping into roots with joint fragments, wherever that is expected to pay.

    Each relation has one predicate, and no two of a grouping have the same: as `share_slices` leaves them.
    """
    groupings: dict[Grouping, list[Root]] = {}
    for relation, asking in zip(plan.relations, plan.answers_by_relation(), strict=True):
        windows = [one.query.window for one in asking]
        groupings.setdefault(relation.grouping, []).append(_root(relation, windows, statistics, weights))
    relations: list[Relation] = []
    place: dict[tuple[Grouping, Formula], int] = {}
    for grouping, leaves in groupings.items():
        for root in _coded(leaves, coding):
            place |= {(grouping, predicate): len(relations) for predicate in root.relation.predicates}
            relations.append(replace(root.relation, shared=_pays(root)))
    # Rows are counted in the first relation's copy, which every row must have: see weft.spark.job.job.
    order = sorted(range(len(relations)), key=lambda number: not relations[number].shared)
    moved = {old: new for new, old in enumerate(order)}
    answers = tuple(replace(one, relation=moved[place[one.grouping, one.predicate]]) for one in plan.answers)
    merged = replace(plan, relations=tuple(relations[number] for number in order), answers=answers)
    return plan if merged == plan else merged


def roots_of(plan: SharedPlan, statistics: Statistics, weights: Weights = WEIGHTS) -> list[Root]:
    """Return the roots of a plan as they are, costed with the given statistics."""
    answers = plan.answers_by_relation()
    return [
        replace(_merged(_own_leaves(relation, asking, statistics, weights)), relation=relation)
        for relation, asking in zip(plan.relations, answers, strict=True)
    ]


def cost(plan: SharedPlan, statistics: Statistics, weights: Weights = WEIGHTS) -> float:
    """Return what a batch is expected to cost under a plan, in microseconds."""
    return sum(root.expected.microseconds for root in roots_of(plan, statistics, weights))


def together(one: Root, two: Root) -> Expected:
    """Return what a batch is expected to cost if two roots are one."""
    return one.with_other(two).expected


def _pays(root: Root) -> bool:
    """Say whether joint fragments cost no more than a copy of the row for each predicate."""
    if len(root.relation.predicates) == 1:
        return True
    return root.shared.microseconds <= root.unshared.microseconds


def _own_leaves(
    relation: Relation, answers: Iterable[Answer], statistics: Statistics, weights: Weights
) -> list[Root]:
    windows: dict[Formula, list[Window]] = {one: [] for one in relation.predicates}
    for one in answers:
        windows[one.predicate].append(one.query.window)
    return [
        _root(replace(relation, predicates=(predicate,), windows=frozenset(some)), some, statistics, weights)
        for predicate, some in windows.items()
    ]


def _root(relation: Relation, windows: Sequence[Window], statistics: Statistics, weights: Weights) -> Root:
    """Return the root of one predicate."""
    cuts: dict[Expression, frozenset[Cut]] = {}
    for one in tests(relation.predicates[0]):
        cuts[one.expression] = cuts.get(one.expression, frozenset()) | frozenset(one.values.cuts)
    satisfied = statistics.sample.satisfy(relation.joins, relation.predicates[0]).astype(np.int64)
    due = sum(1 / window.slide_ms for window in windows)
    return Root(
        relation=relation,
        statistics=statistics,
        weights=weights,
        cuts=cuts,
        signature=satisfied,
        cardinality=satisfied,
        shares=np.array([satisfied.mean()]),
        due_per_ms=due,
        range_ms=sum(window.range_ms / window.slide_ms for window in windows) / due if due else 1.0,
    )


def _coded(leaves: Sequence[Root], coding: Coding) -> list[Root]:
    """Merge the leaves of one grouping, coded as is asked."""
    if coding is Coding.GRIDS:
        return _roots(leaves, MOST_CELLS)
    merged = _roots(leaves, None)
    if coding is Coding.ANY or not any(root.has_words for root in merged):
        return merged
    in_grids = _roots(leaves, MOST_CELLS)
    return merged if 2 * len(merged) <= len(in_grids) else in_grids


def _roots(leaves: Sequence[Root], most_cells: int | None) -> list[Root]:
    """Merge leaves: first those that test the same expressions, then whatever gets cheaper by it."""
    families: dict[object, list[Root]] = {}
    for one in leaves:
        key = frozenset(map(_family, one.cuts)) if one.cells <= MOST_CELLS else one
        families.setdefault(key, []).append(one)
    found = [root for family in families.values() for root in _fitting(family, most_cells)]
    if len(found) > _MOST_PAIRED:
        found.sort(key=lambda root: -len(root.relation.predicates))
        return _or_as_one(_inserted(found, most_cells), most_cells)
    gains = {pair: _gain(*pair, most_cells) for pair in combinations(found, 2)}
    while gains and max(gains.values()) >= 0:
        one, two = max(gains, key=gains.__getitem__)
        rest = [root for root in found if root is not one and root is not two]
        both = one.with_other(two)
        gains = {pair: gain for pair, gain in gains.items() if not {one, two} & set(pair)}
        gains |= {(both, root): _gain(both, root, most_cells) for root in rest}
        found = [both, *rest]
    return _or_as_one(found, most_cells)


def _or_as_one(roots: list[Root], most_cells: int | None) -> list[Root]:
    """Return roots, or all as one if they cost less with a copy of the row for each predicate."""
    if len(roots) < 2 or most_cells is not None:
        return roots
    whole = _merged(roots)
    return [whole] if whole.least < sum(one.least for one in roots) else roots


def _family(expression: Expression) -> object:
    """Return what predicates that test an expression have in common: booleans of equal columns are alike."""
    return columns(expression) if expression.type.kind is Kind.BOOLEAN else expression


def _inserted(roots: Sequence[Root], most_cells: int | None) -> list[Root]:
    """Add roots one by one to the one that gains most by it: for when there are too many to try all pairs."""
    found: list[Root] = []
    for root in roots:
        gains = [_gain(one, root, most_cells) for one in found]
        best = int(np.argmax(gains)) if gains else -1
        if best >= 0 and gains[best] >= 0:
            found[best] = found[best].with_other(root)
        else:
            found.append(root)
    return found


def _gain(one: Root, two: Root, most_cells: int | None) -> float:
    """Return what a batch saves if two roots are one, in microseconds; negative if they cannot be."""
    if most_cells is not None and _joint_cells(one, two) > most_cells:
        return -1.0
    return one.expected.microseconds + two.expected.microseconds - together(one, two).microseconds


def _joint_cells(one: Root, two: Root) -> int:
    """Return how large the grid of two roots as one would be, at most."""
    nothing = frozenset[Cut]()
    cuts = (one.cuts.get(each, nothing) | two.cuts.get(each, nothing) for each in {**one.cuts, **two.cuts})
    return prod(len(some) + 2 for some in cuts)


def _fitting(family: Sequence[Root], most_cells: int | None) -> list[Root]:
    """Return a family as one root; or as several if it needs words and they cost less, or if it must fit."""
    whole = _merged(family)
    if len(family) == 1 or not whole.has_words or (most_cells is None and whole.is_cheap):
        return [whole]
    half = len(family) // 2
    parts = _fitting(family[:half], most_cells) + _fitting(family[half:], most_cells)
    if most_cells is not None:
        return parts
    return [whole] if whole.least <= sum(one.least for one in parts) else parts


def _merged(family: Sequence[Root]) -> Root:
    """Return many roots as one, at once: one by one, thousands would be merged thousands of times."""
    if len(family) == 1:
        return family[0]
    cuts: dict[Expression, set[Cut]] = {}
    for root in family:
        for expression, some in root.cuts.items():
            cuts.setdefault(expression, set()).update(some)
    due = sum(root.due_per_ms for root in family)
    cardinality = family[0].cardinality.astype(np.int64)
    for root in family[1:]:
        cardinality += root.cardinality
    return replace(
        family[0],
        relation=union(root.relation for root in family),
        cuts={expression: frozenset(some) for expression, some in cuts.items()},
        signature=_joint([root.signature for root in family]),
        cardinality=cardinality,
        shares=np.concatenate([root.shares for root in family]),
        due_per_ms=due,
        range_ms=sum(root.range_ms * root.due_per_ms for root in family) / due if due else 1.0,
    )


def _joint(signatures: Sequence[Numbers]) -> Numbers:
    """Number combinations of signatures; 0 stays the empty one."""
    joint, count = signatures[0].astype(np.int64), int(signatures[0].max(initial=0)) + 1
    for one in signatures[1:]:
        choices = int(one.max(initial=0)) + 1
        if count * choices > _MOST_COMBINATIONS:
            joint = _numbered(joint)
            count = int(joint.max(initial=0)) + 1
        joint, count = joint * choices + one, count * choices
    return _numbered(joint)


def _numbered(signature: Numbers) -> Numbers:
    """Return the same distinctions in small numbers; 0 stays 0."""
    return numbered(signature) + int(signature.min(initial=1) != _NO_FRAGMENT)


def _edge_rate(windows: frozenset[Window]) -> float:
    """Return about how many slices a millisecond has: edges fall on a common grid, as if by chance."""
    edges = sum(len(paired(window)) / window.slide_ms for window in windows)
    grid = 1.0 / gcd(
        *(length for window in windows for length in (window.slide_ms, window.range_ms % window.slide_ms))
    )
    return grid * (1 - exp(-edges / grid)) if len(windows) > 1 else edges
