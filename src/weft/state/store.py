"""What a store of partials is: those of one grouping, back to the oldest window still open.

A grouping is what queries with the same joins and keys have in common. The driver's store
(weft.state.driver_store) is the first implementation; nothing outside a store knows how it keeps partials.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Partial, Primitive
from weft.arrays import Ids, Rows, Times
from weft.errors import InternalError
from weft.predicates import Formula
from weft.predicates.signatures import Signatures
from weft.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The partials of a relation that one batch gave."""

    starts: Times
    """The start of each row's slice, in microseconds."""
    keys: pa.Table
    fragments: Ids
    """Each row's fragment, as a row of the signatures."""
    signatures: Signatures
    partials: dict[Primitive, Partial]
    rows: int = 0
    """How many rows were aggregated into it."""

    def __post_init__(self) -> None:
        if len(self) and self.fragments.max() >= len(self.signatures):
            # Stored, it would mean something else, or nothing.
            raise InternalError("a block has a fragment that its signatures do not describe")

    def __len__(self) -> int:
        return len(self.starts)

    def since(self, start: int) -> "Block":
        """Return the part whose slices begin at a time or later."""
        kept = np.flatnonzero(self.starts >= start)
        return self if len(kept) == len(self) else self.take(kept)

    def take(self, rows: Rows) -> "Block":
        """Return the given rows, in that order."""
        return replace(
            self,
            starts=self.starts[rows],
            keys=self.keys.take(rows) if self.keys.num_columns else self.keys.slice(0, len(rows)),
            fragments=self.fragments[rows],
            partials={primitive: partial.take(rows) for primitive, partial in self.partials.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DueWindows:
    """The due windows of asks: for each, evenly spaced windows of one length. Times are in microseconds."""

    range_us: Times
    slide_us: Times
    offset_us: Times
    first: Times
    """The number of the first due window; window k ends at k · slide + offset."""
    last: Times
    predicate: npt.NDArray[np.int32]
    """Which of the predicates that are given beside the windows."""

    def __len__(self) -> int:
        return len(self.first)

    def take(self, asks: Rows | slice) -> "DueWindows":
        """Return the windows of some asks."""
        return DueWindows(**{column.name: getattr(self, column.name)[asks] for column in fields(self)})

    @property
    def step(self) -> Times:
        """How many panes later the next window of each ask ends."""
        uneven: Times = (self.range_us % self.slide_us != 0).astype(np.int64)
        return uneven + 1

    @property
    def width(self) -> Times:
        """How many panes a window of each ask has."""
        uneven = self.step - 1
        return self.range_us // self.slide_us * (1 + uneven) + uneven

    @property
    def since(self) -> Times:
        """When the first due window of each ask begins."""
        return self.first * self.slide_us + self.offset_us - self.range_us

    @property
    def until(self) -> Times:
        """When the last due window of each ask ends."""
        return self.last * self.slide_us + self.offset_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """The combined partials of (ask, key, window), sorted by ask."""

    ask: Rows
    key: Rows
    """The number by which the store knows the key."""
    end: Times
    """When the window ends, in microseconds."""
    partials: dict[Primitive, Partial]
    operations: int
    """How many shards were combined: one for each window that a shard is part of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuestion:
    """The groups of rows that satisfy a predicate, in windows that begin at a time or later."""

    window: Window
    predicate: Formula
    since: int


class PartialStore(Protocol):
    """Keep the partials of one grouping, and answer windows from them."""

    def __len__(self) -> int:
        """Return how many partials are kept, of each primitive."""

    def add(self, block: Block) -> None:
        """Take in a batch's partials."""

    def starts(self) -> Times:
        """Return the distinct starts of the slices that are kept, in order, in microseconds."""

    def answer(
        self,
        due: DueWindows,
        asks: Rows,
        predicates: Sequence[Formula],
        primitives: Sequence[tuple[Primitive, ...]],
    ) -> Iterator[tuple[Rows, Combined]]:
        """Yield combined partials of the due windows of some asks, in pieces of bounded size.

        `primitives` are those of each ask. With each piece come the asks that it numbers its rows by.
        """

    def keys(self, numbers: Rows) -> pa.Table:
        """Return the keys of groups, known by number since the last answer."""

    def groups_over(self, limit: int, questions: Iterable[tuple[int, GroupQuestion]]) -> dict[int, int]:
        """Return the questions, by number, that have more groups than a limit, and how many."""

    def keep(self, primitives: Iterable[Primitive], predicates: Iterable[Formula]) -> None:
        """Forget the partials of all other primitives, and of rows that satisfy none of the predicates."""

    def derive(self, predicate: Formula, sources: Sequence[Formula], patterns: Collection[int]) -> None:
        """Let rows satisfy a predicate where the bits of the sources, the first one lowest, are a pattern."""

    def evict(self, before_us: int) -> None:
        """Forget slices that begin before a time: no open or future window holds them."""

    def snapshot(self) -> list[Block]:
        """Return everything as blocks, from which another store can be filled."""
