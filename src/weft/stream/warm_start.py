"""Warm start: which retained partials answer a query that joins late, and from when on.

A plan's *epoch* begins after the newest row that was aggregated before the plan was adopted. So all rows from
an epoch's beginning on were aggregated in it or in later ones, however late they came:

    epoch 0         epoch 1             epoch 2
    |───────────────|───────────────────|──────────  event time
                    newest row + 1      newest row + 1

A query is answered from the beginning of the earliest epoch such that in it and all later ones a relation of
its grouping kept its primitives, cut time at the ends of its windows, and told its predicate: as one of its
own, or as one that follows from them.
"""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm

import numpy as np
import numpy.typing as npt

from weft.aggregates import Primitive
from weft.durability.encoding import described
from weft.optimizer.plan import Grouping, Leaf, RelationId, Selection, SharedPlan
from weft.optimizer.roots import fits_grid
from weft.optimizer.slices import EdgeClass, Slicing, edge_classes
from weft.predicates import Codebook, Formula, codebook, cuts_of, tests
from weft.state.clock import ALWAYS
from weft.state.derivation import Derivation

Bools = npt.NDArray[np.bool_]
_FORMER = RelationId(-1)
"""Stands for relations of plans of an earlier run."""
_MOST_SOURCES = 16
_MOST_EDGES = 4096
"""Maximum number of edges of one class that are compared with those of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A predicate that follows from others of one relation."""

    predicate: Formula
    sources: tuple[Formula, ...]
    patterns: tuple[int, ...]

    def stored(self) -> Derivation:
        """Return it as a later run can read it."""
        return Derivation(
            predicate=described(self.predicate),
            sources=tuple(map(described, self.sources)),
            patterns=self.patterns,
        )


@dataclass(eq=False, kw_only=True)
class Held:
    """What a relation keeps of the rows of an epoch."""

    predicates: tuple[Formula, ...]
    shared: bool
    """Whether a row's fragment tells all the predicates that the row satisfies, and not one of them."""
    primitives: frozenset[Primitive]
    edges: frozenset[EdgeClass]
    derived: set[Formula] = field(default_factory=set)
    """Predicates that were found to follow from its own."""

    @cached_property
    def _own(self) -> frozenset[Formula]:
        return frozenset(self.predicates)

    @cached_property
    def _cuts(self) -> dict[object, set[object]]:
        """For each expression that is tested, the values at which it is cut."""
        return {key: {cut.value for cut in cuts} for key, cuts in cuts_of(self.predicates).items()}

    def _told_by(self, predicate: Formula) -> tuple[tuple[Formula, ...], Codebook] | None:
        """Return the predicates that could tell of another, with their fragments.

        These are all of the relation's; or, if their grid would be too large, those that test nothing else
        than the other. None if even their grid is.
        """
        asked = None if self._fits else frozenset(test.expression for test in tests(predicate))
        if asked not in self._codebooks:
            mine = [
                one
                for one in self.predicates
                if asked is None or asked.issuperset(test.expression for test in tests(one))
            ]
            fits = asked is None or fits_grid(cuts_of(mine))
            self._codebooks[asked] = (tuple(mine), codebook(mine)) if fits else None
        return self._codebooks[asked]

    @cached_property
    def _fits(self) -> bool:
        return fits_grid(cuts_of(self.predicates))

    @cached_property
    def _codebooks(self) -> dict[object, tuple[tuple[Formula, ...], Codebook] | None]:
        return {}

    def less(self, predicates: Set[Formula], primitives: Set[Primitive]) -> "Held":
        """Return what is left once only these are asked for."""
        return replace(
            self,
            predicates=tuple(one for one in self.predicates if one in predicates),
            primitives=self.primitives & primitives,
            derived=self.derived & predicates,
        )

    def tells(self, predicate: Formula, derived: Derived | None = None) -> bool:
        """Return whether a row here shows if it satisfies a predicate; by those it follows from, if given."""
        if derived is None:
            return predicate in self._own or predicate in self.derived
        return (self.shared or len(derived.sources) == 1) and self._own.issuperset(derived.sources)

    def serves(self, leaf: Leaf, edges: Iterable[EdgeClass]) -> bool:
        """Say whether the primitives and the edges that a query needs are kept."""
        return self.primitives.issuperset(leaf.primitives) and all(self._cut_at(one) for one in edges)

    def _cut_at(self, wanted: EdgeClass) -> bool:
        if wanted not in self._cut:
            self._cut[wanted] = cut_at(self.edges, wanted)
        return self._cut[wanted]

    @cached_property
    def _cut(self) -> dict[EdgeClass, bool]:
        """For each class that was asked for, whether time is cut at all of its edges."""
        return {}

    def derive(self, predicate: Formula) -> Derived | None:
        """Return how a predicate follows from those kept here, if it does."""
        if not self.shared or len(self.predicates) < 2:
            return None
        cuts = self._cuts
        for test in tests(predicate):
            if not cuts.get(test.expression, set()).issuperset(cut.value for cut in test.values.cuts):
                return None
        told = self._told_by(predicate)
        truth = None if told is None else told[1].verdict(predicate)
        places = None if told is None or truth is None else _sources(told[1].signatures, truth)
        if told is None or truth is None or not places:
            return None
        own, book = told
        weights = 1 << np.arange(len(places), dtype=np.int64)
        patterns = np.unique(book.signatures[truth][:, places] @ weights)
        sources = tuple(own[place] for place in places)
        return Derived(predicate=predicate, sources=sources, patterns=tuple(patterns.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A plan, and the time from which on all rows were aggregated by it or later ones."""

    since: int
    held: dict[Grouping, list[tuple[RelationId, Held]]]
    """By grouping, what its relations keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How the current plan answers a query that is not in it."""

    relation: RelationId
    since: int
    """Windows that begin at this time or later are answered exactly."""
    derived: Derived | None
    """How its predicate follows from others, where it is not one that is told already."""


class History:
    """The epochs whose partials are still retained."""

    def __init__(self, slicing: Slicing) -> None:
        self._slicing = slicing
        self._epochs: list[Epoch] = []
        self._evicted = ALWAYS

    def __len__(self) -> int:
        return len(self._epochs)

    def adopt(self, plan: SharedPlan, *, since: int) -> None:
        """Begin an epoch."""
        held: dict[Grouping, list[tuple[RelationId, Held]]] = {}
        for relation in plan.relations:
            kept = Held(
                predicates=relation.predicates,
                shared=relation.shared,
                primitives=frozenset(relation.primitives),
                edges=relation.edges(self._slicing),
            )
            held.setdefault(relation.grouping, []).append((relation.id, kept))
        self._forget(plan)
        self._epochs.append(Epoch(since=since, held=held))

    def _forget(self, plan: SharedPlan) -> None:
        """Record that retained partials have lost what a new plan does not need."""
        primitives: dict[Grouping, set[Primitive]] = {}
        predicates: dict[Grouping, set[Formula]] = {}
        for one in plan.relations:
            primitives.setdefault(one.grouping, set()).update(one.primitives)
            predicates.setdefault(one.grouping, set()).update(one.predicates)
        for epoch in self._epochs:
            for grouping in list(epoch.held):
                if grouping not in primitives:
                    del epoch.held[grouping]
                    continue
                asked, kept = predicates[grouping], primitives[grouping]
                epoch.held[grouping] = [(id, held.less(asked, kept)) for id, held in epoch.held[grouping]]

    def recall(self, known: Iterable[tuple[Leaf, int]]) -> None:
        """Take in what was kept before a restart: what each query needs, and since when it was answered.

        How an earlier run has sliced is not known; the ends and starts of its windows were edges either way.
        """
        several = sorted(known, key=lambda pair: pair[1])
        kept: dict[Selection, Held] = {}
        for place, (leaf, since) in enumerate(several):
            former = kept.get(leaf.selection)
            kept[leaf.selection] = Held(
                predicates=(leaf.predicate,),
                shared=False,
                primitives=frozenset(leaf.primitives) | (former.primitives if former else frozenset()),
                edges=edge_classes((leaf.window,)) | (former.edges if former else frozenset()),
            )
            if place + 1 == len(several) or several[place + 1][1] > since:
                held: dict[Grouping, list[tuple[RelationId, Held]]] = {}
                for (grouping, _), one in kept.items():
                    held.setdefault(grouping, []).append((_FORMER, one))
                self._epochs.append(Epoch(since=since, held=held))

    def evict(self, before: int) -> None:
        """Record that slices that begin before a time were evicted."""
        self._evicted = max(self._evicted, before)
        # The rows of an epoch lie before the next one's beginning.
        while len(self._epochs) > 1 and self._epochs[1].since <= self._evicted:
            del self._epochs[0]

    def find(self, leaf: Leaf) -> Found | None:
        """Return how the current plan answers a query with the given leaf, if it does."""
        if not self._epochs:
            return None
        grouping, predicate = leaf.selection
        edges, relations = edge_classes((leaf.window,)), self._epochs[-1].held.get(grouping, ())
        # A row counts for a predicate in one relation of a grouping: where it is told, it is not derived too.
        telling = [one for one in relations if one[1].tells(predicate)]
        for id, held in telling or relations:
            if not held.serves(leaf, edges):
                continue
            derived = None if telling else held.derive(predicate)
            if telling or derived is not None:
                since = min(epoch.since for epoch, _ in self._served(leaf, derived))
                return Found(relation=id, since=max(self._evicted, since), derived=derived)
        return None

    def note(self, leaf: Leaf, derived: Derived) -> None:
        """Take note that a predicate is told wherever those are that it follows from."""
        for _, held in self._served(leaf, derived):
            held.derived.add(derived.predicate)

    def _served(self, leaf: Leaf, derived: Derived | None) -> Iterator[tuple[Epoch, Held]]:
        """Yield the epochs that serve a query, from the current one back to the first that does not."""
        grouping, predicate = leaf.selection
        edges = edge_classes((leaf.window,))
        for epoch in reversed(self._epochs):
            several = (held for _, held in epoch.held.get(grouping, ()) if held.tells(predicate, derived))
            found = next((held for held in several if held.serves(leaf, edges)), None)
            if found is None:
                return
            yield epoch, found


def cut_at(edges: frozenset[EdgeClass], wanted: EdgeClass) -> bool:
    """Return whether time is cut at all edges of a class.

    >>> ten, five = EdgeClass(10, 0), EdgeClass(10, 5)
    >>> cut_at(frozenset([ten, five]), EdgeClass(5, 0)), cut_at(frozenset([ten]), EdgeClass(15, 0))
    (True, False)
    """
    for edge_class in edges:
        modulus, residue = edge_class.modulus, edge_class.residue
        if wanted.modulus % modulus == 0 and (wanted.residue - residue) % modulus == 0:
            return True
    # Several classes may do it together; what they have in common repeats after their common multiple.
    period, compared = wanted.modulus, []
    for edge_class in sorted(edges):
        longer = lcm(period, edge_class.modulus)
        if longer // wanted.modulus <= _MOST_EDGES:
            period = longer
            compared.append(edge_class)
    times = np.arange(wanted.residue, wanted.residue + period, wanted.modulus)
    cut = np.zeros(len(times), dtype=bool)
    for edge_class in compared:
        cut |= (times - edge_class.residue) % edge_class.modulus == 0
    return bool(cut.all())


def _sources(signatures: Bools, truth: Bools) -> list[int] | None:
    """Return the places of a few predicates whose bits tell where another is true; None if they are many.

    One after the other, that which leaves the fewest pairs of fragments that differ and are not told apart.
    """
    # F0 satisfies nothing.
    bits = np.vstack([np.zeros((1, signatures.shape[1]), dtype=bool), signatures])
    wanted = np.append(False, truth)
    chosen: list[int] = []
    group = np.zeros(len(bits), dtype=np.intp)
    while True:
        true, false = (np.bincount(group[rows], minlength=group.max() + 1) for rows in (wanted, ~wanted))
        mixed = (true > 0) & (false > 0)
        if not mixed.any():
            return chosen
        if len(chosen) == _MOST_SOURCES:
            return None
        rows = np.flatnonzero(mixed[group])
        left = _undecided(bits[rows], wanted[rows], group[rows])
        best = int(np.argmin(left))
        if left[best] >= float((true[mixed].astype(float) * false[mixed]).sum()):
            return None
        chosen.append(best)
        group = np.unique(2 * group + bits[:, best], return_inverse=True)[1].ravel()


def _undecided(bits: Bools, wanted: Bools, group: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Return, for each predicate, how many pairs differ and are not told apart once it is looked at, too."""
    total = np.zeros(bits.shape[1])
    for number in np.unique(group):
        mine = group == number
        inside, outside = bits[mine & wanted], bits[mine & ~wanted]
        yes, no = inside.sum(axis=0, dtype=float), outside.sum(axis=0, dtype=float)
        total += yes * no + (len(inside) - yes) * (len(outside) - no)
    return total
