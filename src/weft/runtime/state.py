"""The partials of one relation, back to the oldest window still open."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Partial, Primitive, combine, concatenate, empty
from weft.runtime.groups import GroupIndex

Times = npt.NDArray[np.int64]
_FORGET_GROUPS_FROM = 10_000
"""Below so many groups, forgetting some is not worth the renumbering."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The partials of a relation that one batch gave."""

    starts: Times
    """The start of each row's slice, in microseconds."""
    keys: pa.Table
    partials: dict[Primitive, Partial]
    rows: int = 0
    """How many rows were aggregated into it."""

    def __len__(self) -> int:
        return len(self.starts)


class RelationState:
    """Merge blocks, and answer which rows lie in a window.

    A slice is known by its start alone. Since every block's edges include those of every window that it
    answers, a slice that starts in a window lies within it: blocks of different plans mix freely.
    """

    def __init__(self, key_types: Sequence[pa.DataType]) -> None:
        self.groups = GroupIndex(key_types)
        self.group: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.start: Times = np.empty(0, dtype=np.int64)
        self.partials: dict[Primitive, Partial] = {}
        self._fresh: list[Block] = []

    def __len__(self) -> int:
        return len(self.start) + sum(map(len, self._fresh))

    def add(self, block: Block) -> None:
        """Take in a batch's partials."""
        if len(block):
            self._fresh.append(block)

    def keep(self, primitives: Iterable[Primitive]) -> None:
        """Forget the partials of all other primitives."""
        self.settle()
        wanted = set(primitives)
        self.partials = {one: partial for one, partial in self.partials.items() if one in wanted}

    def starts(self) -> Times:
        """Return the distinct slice starts."""
        self.settle()
        return np.unique(self.start)

    def settle(self) -> None:
        """Merge what came since the last time, sorted by group and slice."""
        if not self._fresh:
            return
        blocks, self._fresh = self._fresh, []
        old = len(self.start)
        self.group = np.concatenate([self.group, *(self.groups.ids(block.keys) for block in blocks)])
        self.start = np.concatenate([self.start, *(block.starts for block in blocks)])
        asked = dict.fromkeys([*self.partials, *(one for block in blocks for one in block.partials)])
        self.partials = {one: self._gather(one, old, blocks) for one in asked}
        self._sort()

    def _gather(self, primitive: Primitive, old: int, blocks: Sequence[Block]) -> Partial:
        # What was aggregated before anyone asked for a primitive is in no window of those who ask.
        before = self.partials.get(primitive)
        parts = [empty(primitive, old) if before is None else before]
        for block in blocks:
            part = block.partials.get(primitive)
            parts.append(empty(primitive, len(block)) if part is None else part)
        return concatenate(parts)

    def _sort(self) -> None:
        order = np.lexsort((self.start, self.group))
        group, start = self.group[order], self.start[order]
        changes = np.empty(len(order), dtype=bool)
        changes[:1] = True
        np.not_equal(group[1:], group[:-1], out=changes[1:])
        changes[1:] |= start[1:] != start[:-1]
        lo = np.flatnonzero(changes)
        hi = np.append(lo[1:], len(order))
        for primitive, partial in self.partials.items():
            ordered = partial.take(order)
            merged = ordered if len(lo) == len(order) else combine(primitive, ordered, lo, hi)
            self.partials[primitive] = merged
        self.group, self.start = group[lo], start[lo]

    def evict(self, before_us: int) -> None:
        """Forget slices that no open or future window holds."""
        if len(self.start) and self.start.min() < before_us:
            self._keep(self.start >= before_us)
        self._fresh = [block for block in self._fresh if block.starts.max() >= before_us]

    def _keep(self, rows: npt.NDArray[np.bool_]) -> None:
        chosen = np.flatnonzero(rows)
        self.group, self.start = self.group[chosen], self.start[chosen]
        self.partials = {one: partial.take(chosen) for one, partial in self.partials.items()}
        live = np.unique(self.group)
        if len(self.groups) > max(_FORGET_GROUPS_FROM, 2 * len(live)):
            self._renumber(live)

    def _renumber(self, live: npt.NDArray[np.int64]) -> None:
        renamed = self.groups.keep(live)
        self.group = renamed[np.searchsorted(live, self.group)]
        self._sort()
