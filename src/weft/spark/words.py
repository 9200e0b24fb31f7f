"""Words as Spark columns, and the signatures of a batch's words (see weft.predicates.words).

Words are evaluated outside the method that aggregates rows: each part becomes a small method of its own, and
the JVM compiles them all. A barrier does that, an expression that Spark generates no code for.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.predicates import Formula
from weft.predicates.codebook import Bits
from weft.predicates.words import Learnt, WordBook, Words
from weft.spark.points import lookup_long

Looked = Callable[[Words], Column]
"""Looks a row's answer up in a table that has a number for each answer of an axis."""
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

    def numbers(
        self, book: WordBook, words: Words, learnt: Mapping[Hashable, Learnt]
    ) -> npt.NDArray[np.int32]:
        """Return the signature of each row of words by its number, −1 for the empty one."""
        firsts, groups = _distinct(words, [one.answers for one in learnt.values()])
        told = {key: Learnt(one.axis, one.answers[firsts]) for key, one in learnt.items()}
        bits = book.signatures(words[firsts], told)
        for one in self.follows:
            bits = np.column_stack([bits, one.column(self.predicates[: bits.shape[1]], bits)])
        if len(self._numbers) > max(_MOST_KEPT, 4 * len(bits)):
            self._numbers, self.bits = {}, self.bits[:0]
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
        return numbers[groups]

    def follow(self, one: Follows) -> None:
        """Tell one more predicate, which follows from others."""
        self.bits = np.column_stack([self.bits, one.column(self.predicates, self.bits)])
        self.predicates = (*self.predicates, one.predicate)
        self.follows.append(one)
        self._numbers = {row.tobytes(): n for n, row in enumerate(np.packbits(self.bits, axis=1))}


def seen_signatures(predicates: tuple[Formula, ...]) -> SeenSignatures:
    """Return that none were seen yet."""
    return SeenSignatures(predicates, np.zeros((0, len(predicates)), dtype=bool))


def _distinct(words: Words, answers: Sequence[Words]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first of each set of equal rows, and for each row the number of its set."""
    columns = [*words.T, *answers]
    codes = np.zeros(len(words), dtype=np.int64)
    for number, column in enumerate(columns):
        # One column after the other: sorting numbers is much faster than sorting rows.
        _, own = np.unique(column, return_inverse=True)
        codes = own.ravel() if not number else codes * (int(own.max(initial=0)) + 1) + own.ravel()
        if number:
            codes = np.unique(codes, return_inverse=True)[1].ravel()
    _, firsts, groups = np.unique(codes, return_index=True, return_inverse=True)
    return firsts, groups.ravel()
