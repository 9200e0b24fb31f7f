"""Numbers for fragments: sets of predicates that rows satisfy together.

A fragment is known by its signature (STS 4.3), whatever relation or plan it comes from. Signatures are kept
as bits twice: by fragment, to find equal ones, and by predicate, to find the fragments that satisfy it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from weft.predicates import Formula

Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]
_UNPACKED = 4096
"""Maximum number of signatures that are unpacked to one byte per bit at a time."""
_MOST_BITS = 1 << 22
"""Maximum number of (predicate, fragment) pairs that are counted together."""
_MOST_FREE = 32
"""Maximum number of free slots, unless more slots are in use."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Signatures:
    """The fragments of a block: which predicates the rows of each satisfy."""

    predicates: tuple[Formula, ...]
    bits: Bools
    """One row per fragment, one column per predicate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Classes of fragments that agree in some predicates."""

    of: Numbers
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
        self._by_fragment: Bytes = np.zeros((8, 1), dtype=np.uint8)
        self._by_predicate: Bytes = np.zeros((8, 1), dtype=np.uint8)
        self._empty: Bools = np.zeros(0, dtype=bool)
        self._known: WeakKeyDictionary[Signatures, Numbers] = WeakKeyDictionary()

    def __len__(self) -> int:
        return self._size

    @property
    def predicates(self) -> tuple[Formula, ...]:
        """The predicates that have a bit."""
        return tuple(self._slots)

    def ids(self, signatures: Signatures) -> Numbers:
        """Return the number of each of a block's fragments, numbering those not seen before."""
        known = self._known.get(signatures)
        if known is None:
            slots = np.array([self._slot(predicate) for predicate in signatures.predicates], dtype=np.intp)
            pieces = [np.empty(0, dtype=np.int32)]
            for begin in range(0, len(signatures.bits), _UNPACKED):
                pieces.append(self._numbered(slots, signatures.bits[begin : begin + _UNPACKED]))
            known = self._known[signatures] = np.concatenate(pieces)
        return known

    def bits(self, predicates: Sequence[Formula], fragments: npt.NDArray[np.intp]) -> Bools:
        """Return which of the given fragments (columns) satisfy which predicates (rows)."""
        if not len(fragments) or not len(predicates):
            return np.zeros((len(predicates), len(fragments)), dtype=bool)
        first, last = int(fragments.min()) >> 3, (int(fragments.max()) >> 3) + 1
        slots = np.array([self._slots.get(predicate, -1) for predicate in predicates], dtype=np.intp)
        packed = self._by_predicate[:, first:last][np.maximum(slots, 0)]
        packed[slots < 0] = 0
        wide = np.unpackbits(packed, axis=1).view(bool)
        columns = _as_slice(fragments - first * 8)
        # Rows stay contiguous with take, but not with an index.
        return wide[:, columns] if isinstance(columns, slice) else np.take(wide, columns, axis=1)

    def rows_satisfying(
        self, predicates: Sequence[Formula], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Return how many rows satisfy each predicate, given how many each fragment has."""
        # As doubles, which count exactly as far as memory goes, and a few predicates at a time: whole numbers
        # are multiplied far more slowly, and thousands of predicates by all fragments take gigabytes.
        weights, every = rows.astype(np.float64), np.arange(len(rows))
        step = max(1, _MOST_BITS // max(1, len(rows)))
        counts = [
            self.bits(predicates[first : first + step], every).astype(np.float64) @ weights
            for first in range(0, len(predicates), step)
        ]
        return np.concatenate([np.empty(0), *counts]).astype(np.int64)

    def satisfied(self, predicates: Sequence[Formula], fragments: npt.NDArray[np.intp]) -> Bools:
        """Return which of the predicates any of the fragments satisfies."""
        united = np.bitwise_or.reduce(self._by_fragment[fragments], axis=0, initial=0)
        held = np.append(np.unpackbits(united).view(bool), False)
        slots = [self._slots.get(predicate, -1) for predicate in predicates]
        return held[np.array(slots, dtype=np.intp)]

    def classes(self, predicates: Collection[Formula]) -> Classes:
        """Group fragments that agree in all these predicates; classes of one root are next to each other."""
        slots = [self._slots[predicate] for predicate in predicates if predicate in self._slots]
        of = np.full(self._size, -1, dtype=np.int32)
        chosen = self._by_fragment[: self._size]
        if len(set(slots)) == len(self._slots):
            first = np.flatnonzero(~self._empty)
            of[first] = np.arange(len(first))
        else:
            asked = np.zeros(8 * chosen.shape[1], dtype=bool)
            asked[slots] = True
            chosen = chosen & np.packbits(asked)
            held = np.flatnonzero(chosen.any(axis=1))
            numbers: dict[bytes, int] = {}
            of[held] = [numbers.setdefault(key, len(numbers)) for key in _keys(chosen[held])]
            first = held[np.unique(of[held], return_index=True)[1]]
        if not len(first):
            return Classes(of=of, samples=first)
        # Roots have different predicates, so the first bit in use tells the root of a fragment.
        order = np.argsort((chosen[first] != 0).argmax(axis=1), kind="stable")
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
        kept = np.ones(8 * self._by_fragment.shape[1], dtype=bool)
        kept[slots] = False
        self._by_predicate[slots] = 0
        self._by_fragment &= np.packbits(kept)
        self._empty = _are_empty(self._by_fragment[: self._size])
        if len(self._free) > max(_MOST_FREE, len(self._slots)):
            self._compact()
        self._renumber()
        return True

    def derive(self, predicate: Formula, sources: Sequence[Formula], patterns: Collection[int]) -> None:
        """Give a bit to a predicate that follows from others.

        It holds where their bits, the first one lowest, are one of the patterns.
        """
        codes = np.zeros(self._size, dtype=np.int64)
        for order, satisfied in enumerate(self.bits(sources, np.arange(self._size))):
            codes |= satisfied.astype(np.int64) << order
        held = np.isin(codes, list(patterns))
        slot = self._slot(predicate)
        packed = np.packbits(held)
        self._by_predicate[slot] = 0
        self._by_predicate[slot, : len(packed)] = packed
        bit, column = 128 >> (slot & 7), self._by_fragment[: self._size, slot >> 3]
        column &= np.uint8(255 - bit)
        column |= np.where(held, bit, 0).astype(np.uint8)
        self._empty = _are_empty(self._by_fragment[: self._size])
        self._renumber()

    def empty(self) -> Bools:
        """Return which fragments satisfy no predicate at all."""
        return self._empty

    def forget(self, live: npt.NDArray[np.intp]) -> None:
        """Forget all fragments but these, which are numbered anew in the given order."""
        rows = self._by_fragment[live]
        self._by_fragment = np.zeros((max(8, len(live)), rows.shape[1]), dtype=np.uint8)
        self._by_predicate = np.zeros((8 * rows.shape[1], len(live) // 8 + 1), dtype=np.uint8)
        self._size, self._empty = 0, self._empty[:0]
        slots = np.arange(8 * rows.shape[1])
        for begin in range(0, len(rows), _UNPACKED):
            packed = rows[begin : begin + _UNPACKED]
            self._append(packed, slots, np.unpackbits(packed, axis=1).view(bool))
        self._renumber()

    def _compact(self) -> None:
        """Remove free slots."""
        slots = np.fromiter(self._slots.values(), dtype=np.intp, count=len(self._slots))
        width = max(1, -(-len(slots) // 8))
        rows = np.zeros((8 * width, self._by_predicate.shape[1]), dtype=np.uint8)
        rows[: len(slots)] = self._by_predicate[slots]
        narrow = np.zeros((len(self._by_fragment), width), dtype=np.uint8)
        for begin in range(0, self._size, _UNPACKED):
            end = min(self._size, begin + _UNPACKED)
            bits = np.unpackbits(self._by_fragment[begin:end], axis=1)[:, slots]
            narrow[begin:end] = np.packbits(bits, axis=1) if len(slots) else 0
        self._by_predicate, self._by_fragment = rows, narrow
        self._slots = {predicate: slot for slot, predicate in enumerate(self._slots)}
        self._free = []

    def _renumber(self) -> None:
        """Index signatures anew; of signatures that have become equal, the first counts."""
        self._known = WeakKeyDictionary()
        self._numbers = {}
        for number, key in enumerate(_keys(self._by_fragment[: self._size])):
            self._numbers.setdefault(key.rstrip(b"\0"), number)

    def _slot(self, predicate: Formula) -> int:
        if predicate not in self._slots:
            slot = self._free.pop() if self._free else len(self._slots)
            self._slots[predicate] = slot
            if slot >= len(self._by_predicate):
                self._by_fragment = _grown(self._by_fragment, 1, slot // 8 + 1)
                wide = np.zeros((8 * self._by_fragment.shape[1], self._by_predicate.shape[1]), dtype=np.uint8)
                wide[: len(self._by_predicate)] = self._by_predicate
                self._by_predicate = wide
        return self._slots[predicate]

    def _numbered(self, slots: npt.NDArray[np.intp], bits: Bools) -> Numbers:
        wide = np.zeros((len(bits), 8 * self._by_fragment.shape[1]), dtype=bool)
        wide[:, _as_slice(slots)] = bits
        packed = np.packbits(wide, axis=1)
        numbers = np.empty(len(bits), dtype=np.int32)
        fresh: list[int] = []
        for row, key in enumerate(_keys(packed)):
            number = self._numbers.setdefault(key.rstrip(b"\0"), self._size + len(fresh))
            numbers[row] = number
            if number == self._size + len(fresh):
                fresh.append(row)
        self._append(packed[fresh], slots, bits[fresh])
        return numbers

    def _append(self, rows: Bytes, slots: npt.NDArray[np.intp], bits: Bools) -> None:
        """Add fragments, given as packed rows and as the bits of some slots."""
        begin, end = self._size, self._size + len(rows)
        self._by_fragment = _grown(self._by_fragment, 0, end)
        self._by_predicate = _grown(self._by_predicate, 1, end // 8 + 1)
        self._by_fragment[begin:end] = rows
        # The first byte may hold bits of earlier fragments.
        padded = np.zeros((len(slots), begin % 8 + len(rows)), dtype=bool)
        padded[:, begin % 8 :] = bits.T
        packed = np.packbits(padded, axis=1)
        self._by_predicate[slots, begin // 8 : begin // 8 + packed.shape[1]] |= packed
        self._size, self._empty = end, np.append(self._empty, _are_empty(rows))


def _are_empty(rows: Bytes) -> Bools:
    """Return which rows have no bit set."""
    return np.logical_not(rows.any(axis=1))


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
