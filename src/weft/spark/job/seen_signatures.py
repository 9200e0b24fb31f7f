"""The signatures that words stand for (see weft.predicates.words), numbered as they occur."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.arrays import follow
from weft.predicates import Formula
from weft.predicates.signatures import Signatures, signatures_of
from weft.predicates.words import Learnt, WordBook, Words

_UNREAD = -2
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern in its bits."""
_MOST_KEPT = 1 << 16
"""Maximum number of signatures retained from earlier batches, unless most of them still occur."""


@dataclass(frozen=True, slots=True)
class Follows:
    """A predicate that follows from others of its relation."""

    predicate: Formula
    sources: tuple[Formula, ...]
    patterns: Collection[int]
    """It holds where the bits of the sources, the first one lowest, are one of these."""

    def added_to(self, signatures: Signatures) -> Signatures:
        """Return fragments with it beside their predicates."""
        satisfied = follow(map(signatures.column, self.sources), self.patterns)
        return signatures.extended(self.predicate, satisfied)


@dataclass(slots=True)
class SeenSignatures:
    """The signatures that have occurred in a relation, numbered in order of occurrence."""

    signatures: Signatures
    follows: list[Follows] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _read: "_ReadWords | None" = None
    """Words of the last batch with their signatures: most occur again."""

    def numbers(
        self, book: WordBook, words: Words, learnt: Mapping[Hashable, Learnt]
    ) -> npt.NDArray[np.int32]:
        """Return the signature of each row of words by its number, −1 for the empty one."""
        firsts, groups = distinct(words, [values.answers for values in learnt.values()])
        if learnt:
            of_firsts = {key: Learnt(values.axis, values.answers[firsts]) for key, values in learnt.items()}
            return self._numbered(book.signatures(words[firsts], of_firsts))[groups]
        if len(self._numbers) > max(_MOST_KEPT, 4 * len(firsts)):
            self._numbers, self._read = {}, None
            self.signatures = self.signatures.take(np.empty(0, dtype=np.intp))
        different = words[firsts]
        known = None if self._read is None or self._read.book is not book else self._read.find(different)
        numbers = np.full(len(different), _UNREAD, dtype=np.int32) if known is None else known
        fresh = np.flatnonzero(numbers == _UNREAD)
        numbers[fresh] = self._numbered(book.signatures(different[fresh], {}))
        if len(different):
            self._read = _ReadWords(book, different, numbers)
        return numbers[groups]

    def _numbered(self, signatures: Signatures) -> npt.NDArray[np.int32]:
        """Return the number of each signature, −1 for the empty one."""
        for derived in self.follows:
            signatures = derived.added_to(signatures)
        numbers, fresh = np.empty(len(signatures), dtype=np.int32), []
        empty = bytes(signatures.packed.shape[1])
        for row, key in enumerate(map(np.ndarray.tobytes, signatures.packed)):
            if key == empty:
                numbers[row] = -1
                continue
            known = len(self._numbers)
            number = numbers[row] = self._numbers.setdefault(key, known)
            if number == known:
                fresh.append(row)
        if fresh:
            self.signatures = self.signatures.and_also(signatures.take(np.array(fresh)))
        return numbers

    def follow(self, derived: Follows) -> None:
        """Add a predicate that follows from others."""
        self.signatures = derived.added_to(self.signatures)
        self.follows.append(derived)
        self._numbers = {row.tobytes(): number for number, row in enumerate(self.signatures.packed)}


@dataclass(frozen=True, slots=True, eq=False)
class _ReadWords:
    """Different words, and the number of the signature of each."""

    book: WordBook
    words: Words
    numbers: npt.NDArray[np.int32]

    def find(self, words: Words) -> npt.NDArray[np.int32]:
        """Return the numbers of words that are among these, and _UNREAD for others."""
        matches = pc.index_in(_mixed(words), value_set=_mixed(self.words))
        index = np.asarray(matches.fill_null(0))
        same = np.asarray(matches.is_valid()) & (self.words[index] == words).all(axis=1)
        return np.where(same, self.numbers[index], np.int32(_UNREAD))


def seen_signatures(predicates: tuple[Formula, ...]) -> SeenSignatures:
    """Return an empty set of signatures."""
    return SeenSignatures(signatures_of(predicates, np.zeros((0, len(predicates)), dtype=bool)))


def distinct(
    words: Words, answers: Sequence[Words] = ()
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first of each set of equal rows, and for each row the number of its set.

    >>> distinct(np.array([[1, 2], [3, 4], [1, 2]]))
    (array([0, 1]), array([0, 1, 0]))
    """
    rows = np.column_stack([words, *answers])
    encoded = _mixed(rows).dictionary_encode()
    groups = np.asarray(encoded.indices, dtype=np.intp)
    firsts = np.zeros(len(encoded.dictionary), dtype=np.intp)
    firsts[groups[::-1]] = np.arange(len(rows) - 1, -1, -1)
    if (rows[firsts[groups]] == rows).all():
        return firsts, groups
    # Two different rows have the same hash, which hardly ever happens.
    _, firsts, groups = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return firsts, groups.ravel()


def _mixed(rows: Words) -> pa.Array:
    """Return a hash of each row."""
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * _FACTOR
        mixed ^= mixed >> np.uint64(29)
    return pa.array(mixed.view(np.int64))
