"""The groups that a job makes of a batch, and which column holds which key and primitive of which relation.

Relations computed in one job share columns: the first DOUBLE sums of all relations are in one column, where
the fragment tells them apart. So a job's width grows with the widest relation, not with their number.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Primitive
from weft.aggregates.holistic import BAG_LIFT, TIMED_BAG_LIFT
from weft.aggregates.partial import Parameter
from weft.arrays import Numbers
from weft.optimizer.plan import Relation
from weft.types import DataType

FRAGMENT = "__weft_fragment"
"""The column of a group's fragment."""
SLICE = "__weft_slice"
"""The column of the start of a group's slice, or of a time within it."""
ROWS = "rows"
"""The column that counts a group's rows; it is the primitive count(*) too."""
READ = "read"
"""The column that counts the rows of the stream that a group has, without copies made by joins."""
OLDEST, NEWEST = "oldest", "newest"
"""The columns of the first and the last event time of a group."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A column, or several, that relations use for values of the same types."""

    name: str
    types: tuple[DataType, ...]
    lifts: tuple[str, ...] = ()
    """The lifts applied to it; none for a key."""
    parameters: tuple[Parameter, ...] = ()

    @property
    def is_bag(self) -> bool:
        """Whether rows are grouped by its values, so that these can be counted."""
        return self.grouped_by > 0

    @property
    def grouped_by(self) -> int:
        """How many of its columns rows are grouped by."""
        return {BAG_LIFT: 1, TIMED_BAG_LIFT: 2}.get(self.lifts[0], 0) if self.lifts else 0

    def inputs(self) -> tuple[str, ...]:
        """Return the names of its columns before aggregation."""
        return (self.name, *(f"{self.name}_with{number}" for number in range(1, len(self.types))))

    def fields(self) -> tuple[str, ...]:
        """Return the names of the aggregated columns; of a bag, the value, and its time or weight."""
        if self.is_bag:
            names, bound = self.inputs(), self.grouped_by
            return (*names[:bound], *(f"{name}_sum" for name in names[bound:]))
        return tuple(f"{self.name}_{lift}" for lift in self.lifts)


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one job."""

    keys: tuple[tuple[Slot, ...], ...]
    """For each relation, the slots of its keys."""
    primitives: tuple[tuple[Slot | None, ...], ...]
    """For each relation, the slots of its primitives; None for count(*)."""

    def key_slots(self) -> tuple[Slot, ...]:
        """Return every key slot once."""
        return tuple(dict.fromkeys(slot for slots in self.keys for slot in slots))

    def primitive_slots(self) -> tuple[Slot, ...]:
        """Return every primitive slot once."""
        return tuple(dict.fromkeys(slot for slots in self.primitives for slot in slots if slot is not None))

    def bag_slots(self) -> tuple[Slot, ...]:
        """Return the slots of bags: rows are grouped by their values, too."""
        return tuple(slot for slot in self.primitive_slots() if slot.is_bag)


def lay_out(relations: Sequence[Relation]) -> Layout:
    """Assign slots to the keys and primitives of relations."""
    names: dict[Hashable, str] = {}
    keys, primitives = [], []
    for relation in relations:
        seen: Counter[Hashable] = Counter()
        keys.append(tuple(_slot(names, seen, Slot("key", (key.type,))) for key in relation.keys))
        primitives.append(
            tuple(
                _slot(names, seen, _values(primitive)) if primitive.arguments else None
                for primitive in relation.primitives
            )
        )
    return Layout(tuple(keys), tuple(primitives))


def _values(primitive: Primitive) -> Slot:
    types = tuple(argument.type for argument in primitive.arguments)
    return Slot("value", types, primitive.lifts, primitive.parameters)


def _slot(names: dict[Hashable, str], seen: Counter[Hashable], kind: Slot) -> Slot:
    name = names.setdefault((kind, seen[kind]), f"{kind.name}{len(names)}")
    seen[kind] += 1
    return replace(kind, name=name)


class BatchGroups:
    """The groups that a job makes of a batch: those of all relations, and of rows that are in none."""

    def __init__(self, counts: pa.Table, relations: Sequence[pa.Table] | None = None) -> None:
        self.counts = counts
        """The fragment and the counts of every group; where Spark grouped rows, all other columns as well."""
        self._relations = relations
        self.fragment: npt.NDArray[np.int32] = np.asarray(counts[FRAGMENT])
        """The fragment of every group."""

    def __len__(self) -> int:
        return len(self.fragment)

    def of_relation(self, index: int, first: int, end: int, columns: Sequence[str]) -> pa.Table:
        """Return some columns of the groups of a relation, whose fragments are those from first to end."""
        if self._relations is not None:
            return self._relations[index].select(columns)
        in_relation = (self.fragment >= first) & (self.fragment < end)
        return self.counts.select(columns).filter(pa.array(in_relation))

    @cached_property
    def rows_in_fragments(self) -> Numbers:
        """The number of rows of each fragment from number 0 on, up to the last that has any."""
        numbered = np.flatnonzero(self.fragment >= 0)
        counts = np.asarray(self.counts[ROWS])[numbered]
        return np.bincount(self.fragment[numbered], weights=counts, minlength=1).astype(np.int64)
