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
from weft.arrays import Bools
from weft.optimizer.plan import Grouping, Leaf, RelationId, Selection, SharedPlan
from weft.optimizer.roots import fits_grid
from weft.optimizer.slices import EdgeClass, Slicing, edge_classes
from weft.predicates import Codebook, Formula, codebook, cuts_of, tests
from weft.spark.job.seen_signatures import Follows
from weft.state.clock import ALWAYS

_FORMER = RelationId(-1)
"""Stands for relations of plans of an earlier run."""
_MOST_SOURCES = 16
_MOST_EDGES = 4096
"""Maximum number of edges of one class that are compared with those of others."""


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

    def _book_for(self, predicate: Formula) -> Codebook | None:
        """Return the fragments of the predicates that another could follow from.

        These are all of the relation's; or, if their grid would be too large, those that test nothing else
        than the other. None if even their grid is.
        """
        tested = None if self._fits else frozenset(test.expression for test in tests(predicate))
        if tested not in self._codebooks:
            sources = [
                source
                for source in self.predicates
                if tested is None or tested.issuperset(test.expression for test in tests(source))
            ]
            fits = tested is None or fits_grid(cuts_of(sources))
            self._codebooks[tested] = codebook(sources) if fits else None
        return self._codebooks[tested]

    @cached_property
    def _fits(self) -> bool:
        return fits_grid(cuts_of(self.predicates))

    @cached_property
    def _codebooks(self) -> dict[object, Codebook | None]:
        return {}

    def less(self, predicates: Set[Formula], primitives: Set[Primitive]) -> "Held":
        """Return what is left once only these are asked for."""
        return replace(
            self,
            predicates=tuple(predicate for predicate in self.predicates if predicate in predicates),
            primitives=self.primitives & primitives,
            derived=self.derived & predicates,
        )

    def tells(self, predicate: Formula, derived: Follows | None = None) -> bool:
        """Return whether a row here shows if it satisfies a predicate; by those it follows from, if given."""
        if derived is None:
            return predicate in self._own or predicate in self.derived
        return (self.shared or len(derived.sources) == 1) and self._own.issuperset(derived.sources)

    def serves(self, leaf: Leaf, edges: Set[EdgeClass]) -> bool:
        """Say whether the primitives and the edges that a query needs are kept."""
        for wanted in edges:
            if wanted not in self._cut:
                self._cut[wanted] = cut_at(self.edges, wanted)
        return self.primitives.issuperset(leaf.primitives) and all(self._cut[wanted] for wanted in edges)

    @cached_property
    def _cut(self) -> dict[EdgeClass, bool]:
        """For each class that was asked for, whether time is cut at all of its edges."""
        return {}

    def derive(self, predicate: Formula) -> Follows | None:
        """Return how a predicate follows from those kept here, if it does."""
        if not self.shared or len(self.predicates) < 2:
            return None
        cuts = self._cuts
        for test in tests(predicate):
            if not cuts.get(test.expression, set()).issuperset(cut.value for cut in test.values.cuts):
                return None
        book = self._book_for(predicate)
        truth = None if book is None else book.verdict(predicate)
        sources = None if book is None or truth is None else _sources(book.signatures, truth)
        if book is None or truth is None or not sources:
            return None
        weights = 1 << np.arange(len(sources), dtype=np.int64)
        patterns = np.unique(book.signatures[truth][:, sources] @ weights)
        return Follows(
            predicate, tuple(book.predicates[index] for index in sources), tuple(patterns.tolist())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """A plan, and the time from which on all rows were aggregated by it or later ones."""

    since: int
    held: dict[Grouping, list[tuple[RelationId, Held]]]
    """By grouping, what its relations keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """How the current plan answers a query that is not in it."""

    relation: RelationId
    since: int
    """Windows that begin at this time or later are answered exactly."""
    derived: Follows | None
    """How its predicate follows from others, if the relation has not got it."""


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
        for relation in plan.relations:
            primitives.setdefault(relation.grouping, set()).update(relation.primitives)
            predicates.setdefault(relation.grouping, set()).update(relation.predicates)
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
        leaves = sorted(known, key=lambda pair: pair[1])
        kept: dict[Selection, Held] = {}
        for number, (leaf, since) in enumerate(leaves, 1):
            former = kept.get(leaf.selection)
            kept[leaf.selection] = Held(
                predicates=(leaf.predicate,),
                shared=False,
                primitives=frozenset(leaf.primitives) | (former.primitives if former else frozenset()),
                edges=edge_classes((leaf.window,)) | (former.edges if former else frozenset()),
            )
            if number == len(leaves) or leaves[number][1] > since:
                held: dict[Grouping, list[tuple[RelationId, Held]]] = {}
                for (grouping, _), own in kept.items():
                    held.setdefault(grouping, []).append((_FORMER, own))
                self._epochs.append(Epoch(since=since, held=held))

    def evict(self, before: int) -> None:
        """Record that slices that begin before a time were evicted."""
        self._evicted = max(self._evicted, before)
        # The rows of an epoch lie before the next one's beginning.
        while len(self._epochs) > 1 and self._epochs[1].since <= self._evicted:
            del self._epochs[0]

    def find(self, leaf: Leaf) -> WarmStart | None:
        """Return how the current plan answers a query with the given leaf, if it does."""
        if not self._epochs:
            return None
        grouping, predicate = leaf.selection
        edges, relations = edge_classes((leaf.window,)), self._epochs[-1].held.get(grouping, ())
        # A row counts for a predicate in one relation of a grouping: one that has it, or one it follows in.
        having = [(id, held) for id, held in relations if held.tells(predicate)]
        for id, held in having or relations:
            if not held.serves(leaf, edges):
                continue
            derived = None if having else held.derive(predicate)
            if having or derived is not None:
                since = min(epoch.since for epoch, _ in self._served(leaf, derived))
                return WarmStart(relation=id, since=max(self._evicted, since), derived=derived)
        return None

    def note(self, leaf: Leaf, derived: Follows) -> None:
        """Record that rows show a predicate wherever they show those that it follows from."""
        for _, held in self._served(leaf, derived):
            held.derived.add(derived.predicate)

    def _served(self, leaf: Leaf, derived: Follows | None) -> Iterator[tuple[Epoch, Held]]:
        """Yield the epochs that serve a query, from the current one back to the first that does not."""
        grouping, predicate = leaf.selection
        edges = edge_classes((leaf.window,))
        for epoch in reversed(self._epochs):
            telling = (held for _, held in epoch.held.get(grouping, ()) if held.tells(predicate, derived))
            serving = next((held for held in telling if held.serves(leaf, edges)), None)
            if serving is None:
                return
            yield epoch, serving


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
    """Return the indices of a few predicates whose bits tell where another is true; None if they are many.

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
