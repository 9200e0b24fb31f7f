"""Words as Spark columns, and the signatures of a batch's words (see weft.predicates.words).

Words are evaluated outside the method that aggregates rows: each part becomes a small method of its own, and
the JVM compiles them all. A barrier does that, an expression that Spark generates no code for.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.predicates import Formula
from weft.predicates.codebook import Bits
from weft.predicates.words import Learnt, WordBook, Words
from weft.spark.job.points import lookup_long

Looked = Callable[[Words], Column]
"""Looks a row's answer up in a table that has a number for each answer of an axis."""
_UNREAD = -2
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern in its bits."""
_MOST_KEPT = 1 << 16
"""Signatures of earlier batches are kept up to so many; beyond it, only if most of them still occur."""


def word_columns(book: WordBook, looked: Mapping[Hashable, Looked], barrier: Column | None) -> list[Column]:
    """Return the words of a row, given how each axis is looked up; the barrier, if any, is NULL."""
    words = [
        _joined(Column.__add__, [looked[one.axis.key](one.codes << one.shift) for one in some])
        for some in book.fields
    ]
    for mask in book.masks:
        tables = [looked[axis.key](table) for axis, table in mask.tables]
        word = _joined(Column.bitwiseAND, tables or [_long(mask.used)])
        if mask.flips and mask.tables:
            # As a table, because a literal would be part of the generated code.
            axis = mask.tables[0][0]
            flips = np.full(axis.positions, mask.flips, dtype=np.int64)
            word = word.bitwiseXOR(looked[axis.key](flips))
        words.append(word)
    if barrier is None or not words:
        return words
    return [F.coalesce(barrier.cast("bigint"), words[0]), *words[1:]]


def _joined(join: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    return reduce(join, parts)


def by_position(position: Column) -> Looked:
    """Look answers up by a column that holds their numbers."""
    return lambda table: lookup_long(table, position)


def by_truth(value: Column) -> Looked:
    """Look answers up by a boolean: false, true and NULL."""

    def looked(table: Words) -> Column:
        no, yes, null = (_long(int(number)) for number in table)
        if table[0] == table[2]:
            return F.when(value, yes).otherwise(no)
        return F.when(value, yes).when(~value, no).otherwise(null)

    return looked


def by_condition(holds: Column) -> Looked:
    """Look answers up by a condition: not true, and true."""
    return lambda table: F.when(holds, _long(int(table[1]))).otherwise(_long(int(table[0])))


def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")


@dataclass(frozen=True, slots=True)
class Follows:
    """A predicate that follows from others of its relation."""

    predicate: Formula
    sources: tuple[Formula, ...]
    patterns: Collection[int]
    """It holds where the bits of the sources, the first one lowest, are one of these."""

    def column(self, predicates: Sequence[Formula], bits: Bits) -> Bits:
        """Return which fragments satisfy it."""
        codes = np.zeros(len(bits), dtype=np.int64)
        for order, source in enumerate(self.sources):
            codes |= bits[:, predicates.index(source)].astype(np.int64) << order
        found: Bits = np.isin(codes, list(self.patterns))
        return found


@dataclass(slots=True)
class SeenSignatures:
    """The signatures that a relation's words turned out to have, numbered as they came."""

    predicates: tuple[Formula, ...]
    bits: Bits
    follows: list[Follows] = field(default_factory=list)
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _read: "_ReadWords | None" = None
    """What words of the last batch meant: most come again."""

    def numbers(
        self, book: WordBook, words: Words, learnt: Mapping[Hashable, Learnt]
    ) -> npt.NDArray[np.int32]:
        """Return the signature of each row of words by its number, −1 for the empty one."""
        firsts, groups = distinct(words, [one.answers for one in learnt.values()])
        if learnt:
            told = {key: Learnt(one.axis, one.answers[firsts]) for key, one in learnt.items()}
            return self._numbered(book.signatures(words[firsts], told))[groups]
        if len(self._numbers) > max(_MOST_KEPT, 4 * len(firsts)):
            self._forget()
        different = words[firsts]
        known = None if self._read is None or self._read.book is not book else self._read.find(different)
        numbers = np.full(len(different), _UNREAD, dtype=np.int32) if known is None else known
        fresh = np.flatnonzero(numbers == _UNREAD)
        numbers[fresh] = self._numbered(book.signatures(different[fresh], {}))
        if len(different):
            self._read = _ReadWords(book, different, numbers)
        return numbers[groups]

    def _numbered(self, bits: Bits) -> npt.NDArray[np.int32]:
        """Return the number of each signature, −1 for the empty one."""
        for one in self.follows:
            bits = np.column_stack([bits, one.column(self.predicates[: bits.shape[1]], bits)])
        packed = np.packbits(bits, axis=1)
        width, data = packed.shape[1], packed.tobytes()
        numbers, fresh = np.empty(len(bits), dtype=np.int32), []
        nothing = bytes(width)
        for row in range(len(bits)):
            key = data[row * width : (row + 1) * width]
            if key == nothing:
                numbers[row] = -1
                continue
            known = len(self._numbers)
            number = numbers[row] = self._numbers.setdefault(key, known)
            if number == known:
                fresh.append(row)
        if fresh:
            self.bits = np.concatenate([self.bits, bits[fresh]])
        return numbers

    def _forget(self) -> None:
        self._numbers, self.bits, self._read = {}, self.bits[:0], None

    def follow(self, one: Follows) -> None:
        """Tell one more predicate, which follows from others."""
        self.bits = np.column_stack([self.bits, one.column(self.predicates, self.bits)])
        self.predicates = (*self.predicates, one.predicate)
        self.follows.append(one)
        self._numbers = {row.tobytes(): n for n, row in enumerate(np.packbits(self.bits, axis=1))}


@dataclass(frozen=True, slots=True, eq=False)
class _ReadWords:
    """Different words, and the number of the signature of each."""

    book: WordBook
    words: Words
    numbers: npt.NDArray[np.int32]

    def find(self, words: Words) -> npt.NDArray[np.int32]:
        """Return the numbers of words that are among these, and _UNREAD for others."""
        places = pc.index_in(_mixed(words), value_set=_mixed(self.words))
        place = np.asarray(places.fill_null(0))
        same = np.asarray(places.is_valid()) & (self.words[place] == words).all(axis=1)
        return np.where(same, self.numbers[place], np.int32(_UNREAD))


def seen_signatures(predicates: tuple[Formula, ...]) -> SeenSignatures:
    """Return that none were seen yet."""
    return SeenSignatures(predicates, np.zeros((0, len(predicates)), dtype=bool))


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
    # Two rows have come to one number, which hardly ever happens.
    _, found, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return found, which.ravel()


def _mixed(rows: Words) -> pa.Array:
    """Return a number for each row: the same for equal rows, and hardly ever for others."""
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * _FACTOR
        mixed ^= mixed >> np.uint64(29)
    return pa.array(mixed.view(np.int64))
