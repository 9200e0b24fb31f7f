"""Ids for fragments: sets of predicates that rows satisfy together.

A fragment is known by its signature (STS 4.3), whatever relation or plan it comes from. Every predicate has a
slot, a bit of the signatures, and every eight slots have an array with a byte for each fragment.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from weft.arrays import Bools, Ids, follow
from weft.predicates import Formula
from weft.predicates.signatures import Signatures, packed_across, pieces

Bytes = npt.NDArray[np.uint8]
_MOST_FREE = 32
"""Maximum number of free slots, unless more slots are in use."""
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
"""The bits of each byte, as they are packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Classes of fragments that agree in some predicates."""

    of: Ids
    """The class of each fragment; −1 where it satisfies none of the predicates."""
    samples: npt.NDArray[np.intp]
    """One fragment of each class."""

    def __len__(self) -> int:
        return len(self.samples)


class Fragments:
    """Number the fragments of a store; equal signatures have one number."""

    def __init__(self) -> None:
        self._slots: dict[Formula, int] = {}
        self._free: list[int] = []
        self._numbers: dict[bytes, int] = {}
        self._size = 0
        self._bytes: Bytes = np.zeros((1, 8), dtype=np.uint8)
        self._empty: Bools = np.zeros(0, dtype=bool)
        self._known: WeakKeyDictionary[Signatures, Ids] = WeakKeyDictionary()

    def __len__(self) -> int:
        return self._size

    @property
    def predicates(self) -> tuple[Formula, ...]:
        """The predicates that have a bit."""
        return tuple(self._slots)

    def ids(self, signatures: Signatures) -> Ids:
        """Return the number of each of a block's fragments, numbering those not seen before."""
        known = self._known.get(signatures)
        if known is None:
            slots = np.array([self._slot(predicate) for predicate in signatures.predicates], dtype=np.intp)
            numbers = [np.empty(0, dtype=np.int32)]
            for rows in pieces(len(signatures), 8 * len(self._bytes)):
                numbers.append(self._numbered(self._placed(signatures.packed[rows], slots)))
            known = self._known[signatures] = np.concatenate(numbers)
        return known

    def signatures(self) -> Signatures:
        """Return what all fragments satisfy."""
        packed = np.empty((self._size, -(-len(self._slots) // 8)), dtype=np.uint8)
        predicates = self.predicates
        for rows in pieces(self._size, len(predicates)):
            packed[rows] = packed_across(self.bits(predicates, np.arange(rows.start, rows.stop)))
        return Signatures(predicates=predicates, packed=packed)

    def bits(self, predicates: Sequence[Formula], fragments: npt.NDArray[np.intp]) -> Bools:
        """Return which of the given fragments (columns) satisfy which predicates (rows)."""
        slots = self._slots_of(predicates)
        columns = _as_slice(fragments)
        if isinstance(columns, slice):
            bits = self._bytes[:, columns][slots >> 3]
        else:
            asked, places = np.unique(slots >> 3, return_inverse=True)
            # Rows stay contiguous with take, but not with an index.
            bits = np.take(self._bytes[asked], columns, axis=1)[places]
        bits &= np.where(slots < 0, 0, 128 >> (slots & 7)).astype(np.uint8)[:, None]
        satisfied: Bools = np.not_equal(bits, 0, out=bits.view(bool))
        return satisfied

    def rows_satisfying(
        self, predicates: Sequence[Formula], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return how many rows satisfy each predicate, given how many each fragment has."""
        slots = self._slots_of(predicates)
        counts = np.zeros(8 * len(self._bytes) + 1)
        # Eight predicates at a time; doubles count exactly as far as memory goes.
        for number in np.unique(slots[slots >= 0] >> 3).tolist():
            of_value = np.bincount(self._bytes[number, : len(rows)], weights=rows, minlength=256)
            counts[8 * number : 8 * number + 8] = of_value @ _BITS
        return counts[slots].astype(np.int64)

    def satisfied(self, predicates: Sequence[Formula], fragments: npt.NDArray[np.intp]) -> Bools:
        """Return which of the predicates any of the fragments satisfies."""
        united = np.bitwise_or.reduce(np.take(self._bytes, fragments, axis=1), axis=1, initial=0)
        held = np.append(np.unpackbits(united).view(bool), False)
        return held[self._slots_of(predicates)]

    def classes(self, predicates: Collection[Formula]) -> Classes:
        """Group fragments that agree in all these predicates; classes of one root are next to each other."""
        slots = [self._slots[predicate] for predicate in predicates if predicate in self._slots]
        of = np.full(self._size, -1, dtype=np.int32)
        chosen = self._bytes[:, : self._size]
        if len(set(slots)) == len(self._slots):
            first = np.flatnonzero(~self._empty)
            of[first] = np.arange(len(first))
        else:
            asked = np.zeros(8 * len(chosen), dtype=bool)
            asked[slots] = True
            mask = np.packbits(asked)
            used = np.flatnonzero(mask)
            chosen = chosen[used] & mask[used, None]
            held = np.flatnonzero(chosen.any(axis=0))
            numbers: dict[bytes, int] = {}
            of[held] = [numbers.setdefault(key, len(numbers)) for key in _keys(chosen[:, held].T)]
            first = held[np.unique(of[held], return_index=True)[1]]
        if not len(first):
            return Classes(of=of, samples=first)
        # Roots have different predicates, so the first bit in use tells the root of a fragment.
        order = np.argsort((chosen[:, first] != 0).argmax(axis=0), kind="stable")
        renamed = np.full(len(order) + 1, -1, dtype=np.int32)
        renamed[order] = np.arange(len(order))
        return Classes(of=renamed[of], samples=first[order])

    def keep(self, predicates: Iterable[Formula]) -> bool:
        """Forget all other predicates; return whether any was known."""
        wanted = set(predicates)
        dropped = [predicate for predicate in self._slots if predicate not in wanted]
        if not dropped:
            return False
        slots = [self._slots.pop(predicate) for predicate in dropped]
        self._free += slots
        kept = np.ones(8 * len(self._bytes), dtype=bool)
        kept[slots] = False
        self._bytes &= np.packbits(kept)[:, None]
        self._empty = _are_empty(self._bytes[:, : self._size])
        if len(self._free) > max(_MOST_FREE, len(self._slots)):
            self._compact()
        self._renumber()
        return True

    def derive(self, predicate: Formula, sources: Sequence[Formula], patterns: Collection[int]) -> None:
        """Give a bit to a predicate that follows from others.

        It holds where their bits, the first one lowest, are one of the patterns.
        """
        held = follow(self.bits(sources, np.arange(self._size)), patterns)
        self._write(self._slot(predicate), held)
        self._empty = _are_empty(self._bytes[:, : self._size])
        self._renumber()

    def empty(self) -> Bools:
        """Return which fragments satisfy no predicate at all."""
        return self._empty

    def forget(self, live: npt.NDArray[np.intp]) -> None:
        """Forget all fragments but these, which are numbered anew in the given order."""
        self._bytes = np.ascontiguousarray(self._bytes[:, live])
        self._size, self._empty = len(live), self._empty[live]
        self._renumber()

    def _compact(self) -> None:
        """Remove free slots."""
        predicates, every = tuple(self._slots), np.arange(self._size)
        columns = [self.bits(predicates[begin : begin + 8], every) for begin in range(0, len(predicates), 8)]
        self._bytes = np.zeros((max(1, len(columns)), self._bytes.shape[1]), dtype=np.uint8)
        self._slots = {predicate: slot for slot, predicate in enumerate(predicates)}
        self._free = []
        for number, bits in enumerate(columns):
            self._bytes[number, : self._size] = np.packbits(bits, axis=0)[0]

    def _write(self, slot: int, held: Bools) -> None:
        """Write the bits of a slot."""
        bit, own = 128 >> (slot & 7), self._bytes[slot >> 3, : self._size]
        own &= np.uint8(255 - bit)
        own |= np.where(held, bit, 0).astype(np.uint8)

    def _renumber(self) -> None:
        """Index signatures anew; of signatures that have become equal, the first counts."""
        self._known = WeakKeyDictionary()
        self._numbers = {}
        for rows in pieces(self._size, 8 * len(self._bytes)):
            for number, key in enumerate(_keys(self._bytes[:, rows].T), rows.start):
                self._numbers.setdefault(key.rstrip(b"\0"), number)

    def _slot(self, predicate: Formula) -> int:
        if predicate not in self._slots:
            slot = self._free.pop() if self._free else len(self._slots)
            self._slots[predicate] = slot
            self._bytes = _grown(self._bytes, 0, (slot >> 3) + 1)
        return self._slots[predicate]

    def _slots_of(self, predicates: Sequence[Formula]) -> npt.NDArray[np.intp]:
        """Return the slots of predicates, −1 for those that have none."""
        return np.array([self._slots.get(predicate, -1) for predicate in predicates], dtype=np.intp)

    def _placed(self, packed: Bytes, slots: npt.NDArray[np.intp]) -> Bytes:
        """Return packed signatures whose bits are where the slots have them."""
        placed = np.zeros((len(packed), len(self._bytes)), dtype=np.uint8)
        columns = _as_slice(slots)
        if isinstance(columns, slice) and columns.start % 8 == 0:
            placed[:, columns.start >> 3 :][:, : packed.shape[1]] = packed
            return placed
        wide = np.zeros((len(packed), 8 * len(self._bytes)), dtype=bool)
        wide[:, columns] = np.unpackbits(packed, axis=1, count=len(slots)).view(bool)
        return np.packbits(wide, axis=1)

    def _numbered(self, rows: Bytes) -> Ids:
        """Return the numbers of signatures, packed by slot, and number those that are new."""
        numbers = np.empty(len(rows), dtype=np.int32)
        fresh: list[int] = []
        for row, key in enumerate(_keys(rows)):
            number = self._numbers.setdefault(key.rstrip(b"\0"), self._size + len(fresh))
            numbers[row] = number
            if number == self._size + len(fresh):
                fresh.append(row)
        begin, self._size = self._size, self._size + len(fresh)
        self._bytes = _grown(self._bytes, 1, self._size)
        self._bytes[:, begin : self._size] = rows[fresh].T
        self._empty = np.append(self._empty, _are_empty(self._bytes[:, begin : self._size]))
        return numbers


def _are_empty(columns: Bytes) -> Bools:
    """Return which columns have no bit set."""
    return np.logical_not(columns.any(axis=0))


def _keys(rows: Bytes) -> list[bytes]:
    """Return each row as bytes."""
    width, data = rows.shape[1], rows.tobytes()
    return [data[begin : begin + width] for begin in range(0, len(rows) * width, width)] if width else []


def _as_slice(indices: npt.NDArray[np.intp]) -> npt.NDArray[np.intp] | slice:
    """Return consecutive indices as a slice, which is much faster."""
    if len(indices) and indices[-1] - indices[0] == len(indices) - 1 and (np.diff(indices) == 1).all():
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def _grown(array: Bytes, axis: int, least: int) -> Bytes:
    """Return the array with a length of at least `least` along an axis, grown by a quarter or more."""
    size = array.shape[axis]
    if least <= size:
        return array
    more = list(array.shape)
    more[axis] = max(least, size + size // 4 + 1) - size
    return np.concatenate([array, np.zeros(more, dtype=np.uint8)], axis=axis)
