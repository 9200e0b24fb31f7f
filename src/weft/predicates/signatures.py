"""What fragments mean: the predicates that the rows of each satisfy, as packed bits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.predicates.codebook import Bits, Packed
from weft.predicates.formula import Formula

_UNPACKED = 1 << 24
"""Maximum number of bits that are a byte each at a time, unless one signature has more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Signatures:
    """For each of some fragments, which predicates its rows satisfy.

    >>> several = signatures_of((), np.zeros((2, 0), dtype=bool))
    >>> len(several), several.bits.shape
    (2, (2, 0))
    """

    predicates: tuple[Formula, ...]
    packed: Packed
    """A row for each fragment, with a bit for each predicate, the first one highest."""

    def __len__(self) -> int:
        return len(self.packed)

    @property
    def bits(self) -> Bits:
        """The same with a byte for each bit: a row for each fragment, a column for each predicate."""
        return _unpacked(self.packed, len(self.predicates))

    def column(self, predicate: Formula) -> Bits:
        """Return which fragments satisfy a predicate."""
        number = self.predicates.index(predicate)
        satisfied: Bits = (self.packed[:, number >> 3] & (128 >> (number & 7))) != 0
        return satisfied

    def count(
        self, fragments: npt.NDArray[np.intp] | slice, asked: Bits | None = None
    ) -> npt.NDArray[np.int64]:
        """Return how many predicates some fragments satisfy, or how many of those asked for."""
        mask = None if asked is None else np.packbits(asked)
        some = self.packed[fragments]
        counts = np.empty(len(some), dtype=np.int64)
        for rows in pieces(len(some), len(self.predicates)):
            piece = some[rows] if mask is None else some[rows] & mask
            counts[rows] = np.bitwise_count(piece).sum(axis=1, dtype=np.int64)
        return counts

    def take(self, fragments: npt.NDArray[np.intp]) -> "Signatures":
        """Return some of the fragments."""
        return Signatures(predicates=self.predicates, packed=self.packed[fragments])

    def and_also(self, others: "Signatures") -> "Signatures":
        """Return these fragments and others of the same predicates."""
        return Signatures(predicates=self.predicates, packed=np.concatenate([self.packed, others.packed]))

    def extended(self, predicate: Formula, satisfied: Bits) -> "Signatures":
        """Return the fragments with one more predicate, given which of them satisfy it."""
        number = len(self.predicates)
        packed = self.packed.copy() if number & 7 else np.pad(self.packed, ((0, 0), (0, 1)))
        packed[:, number >> 3] |= np.where(satisfied, 128 >> (number & 7), 0).astype(np.uint8)
        return Signatures(predicates=(*self.predicates, predicate), packed=packed)


def signatures_of(predicates: Sequence[Formula], bits: Bits) -> Signatures:
    """Return signatures, given a row for each fragment with a column for each predicate."""
    return Signatures(predicates=tuple(predicates), packed=np.packbits(bits, axis=1))


def packed_across(bits: Bits) -> Packed:
    """Return signatures packed, given a row for each predicate with a column for each fragment.

    >>> packed_across(np.array([[True, False], [True, True]])).tolist()
    [[192], [64]]
    """
    across: Packed = np.zeros((-(-len(bits) // 8), bits.shape[1]), dtype=np.uint8)
    for bit in range(8):
        some = bits[bit::8].view(np.uint8)
        across[: len(some)] |= some << (7 - bit)
    return np.ascontiguousarray(across.T)


def pieces(rows: int, bits: int) -> Iterator[slice]:
    """Yield slices of rows whose bits are few enough to be a byte each."""
    step = max(1, _UNPACKED // max(1, bits))
    for begin in range(0, rows, step):
        yield slice(begin, min(rows, begin + step))


def _unpacked(packed: Packed, width: int) -> Bits:
    return np.unpackbits(packed, axis=1, count=width).view(bool)
