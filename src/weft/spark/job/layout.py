"""Which column of the job's result holds which key and primitive of which relation.

Relations computed in one job share columns: the first DOUBLE sum of each relation is the same column, told
apart by the relation's number. So a job's width grows with the widest relation, not with their number.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from weft.aggregates import Primitive
from weft.optimizer.plan import Relation
from weft.types import DataType

ROWS = "rows"
"""The column that counts a group's rows; it is the primitive count(*) too."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A column that several relations use for a value of one type."""

    name: str
    type: DataType
    lifts: tuple[str, ...] = ()
    """The aggregate functions applied to it; none for a key."""

    def fields(self) -> tuple[str, ...]:
        """Return the names of the aggregated columns."""
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


def lay_out(relations: Sequence[Relation]) -> Layout:
    """Assign slots to the keys and primitives of relations."""
    names: dict[Hashable, str] = {}
    keys, primitives = [], []
    for relation in relations:
        seen: Counter[Hashable] = Counter()
        keys.append(tuple(_slot(names, seen, "key", key.type, ()) for key in relation.keys))
        primitives.append(tuple(_primitive_slot(names, seen, one) for one in relation.primitives))
    return Layout(tuple(keys), tuple(primitives))


def _primitive_slot(names: dict[Hashable, str], seen: Counter[Hashable], primitive: Primitive) -> Slot | None:
    if primitive.argument is None:
        return None
    return _slot(names, seen, "value", primitive.argument.type, primitive.lifts)


def _slot(
    names: dict[Hashable, str], seen: Counter[Hashable], prefix: str, type: DataType, lifts: tuple[str, ...]
) -> Slot:
    kind = (prefix, type, lifts)
    place = (*kind, seen[kind])
    seen[kind] += 1
    name = names.setdefault(place, f"{prefix}{len(names)}")
    return Slot(name, type, lifts)
