"""From rows to the fragments of a relation, in the driver.

The counterpart of weft.spark.job.fragment_coder where the driver groups rows:

    row ─search→ positions ─look up, add→ cell ─look up→ fragment, or none
                           ─look up→ words ─read→ signature

Fragments are numbered from 0 in each relation.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from weft.arrays import Numbers, Rows
from weft.expression import Expression
from weft.predicates import TRUE, Attribute, Codebook, Formula, Test, evaluate
from weft.predicates.codebook import Bits
from weft.predicates.words import BYTES, Axis, WordBook, Words
from weft.spark.job.seen_signatures import SeenSignatures

if TYPE_CHECKING:
    from weft.spark.job.folding import RowTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """The fragments of a relation with several predicates."""

    book: Codebook
    attributes: tuple[Attribute, ...]
    """Those of the book, over the rows' own columns."""
    shared: bool
    """Whether a row is in one fragment; otherwise it is in one for each predicate that it satisfies."""

    def find(self, rows: "RowTable") -> tuple[Rows, Numbers]:
        """Return the rows that are in a fragment, each once for every fragment, and these."""
        cell = np.zeros(len(rows), dtype=np.intp)
        for attribute, share in zip(self.attributes, self.book.shares, strict=True):
            cell += share[rows.positions(attribute)]
        fragments = self.book.fragments[cell]
        taken = np.flatnonzero(fragments >= 0)
        if self.shared:
            return taken, fragments[taken].astype(np.int64)
        index, predicate = np.nonzero(self.book.signatures[fragments[taken]])
        return taken[index], predicate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lone:
    """The fragment of a relation with one predicate."""

    predicate: Formula
    attributes: Mapping[Expression, Attribute]
    """By the expressions that the predicate tests: the same over the rows' own columns."""

    def find(self, rows: "RowTable") -> tuple[Rows, Numbers]:
        """Return the rows that satisfy the predicate, and their fragment."""
        if self.predicate == TRUE:
            taken: Rows = np.arange(len(rows))
        else:
            taken = np.flatnonzero(self.holds(rows))
        return taken, np.zeros(len(taken), dtype=np.int64)

    def holds(self, rows: "RowTable") -> Bits:
        """Return for each row whether it satisfies the predicate."""

        def passes(test: Test) -> Bits:
            attribute = self.attributes[test.expression]
            return attribute.satisfy(test.values, rows.positions(attribute))

        return np.broadcast_to(evaluate(self.predicate, passes, 1), len(rows))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worded:
    """The fragments of a relation whose rows have words."""

    book: WordBook
    inputs: Mapping[Hashable, Attribute | Expression | Lone]
    """By the keys of axes: what gives a row's answer."""
    shared: bool
    """Whether a row is in one fragment; otherwise it is in one for each byte of its words that is not 0."""
    seen: SeenSignatures

    def find(self, rows: "RowTable") -> tuple[Rows, Numbers]:
        """Return the rows that are in a fragment, each once for every fragment, and these."""
        words = self._words(rows)
        if self.shared:
            numbers = self.seen.numbers(self.book, words, {})
            taken = np.flatnonzero(numbers >= 0)
            return taken, numbers[taken].astype(np.int64)
        by_byte = [_in_byte(words[:, number // BYTES], number) for number in range(self.book.bytes)]
        return tuple(map(np.concatenate, zip(*by_byte, strict=True)))  # type: ignore[return-value]

    def _words(self, rows: "RowTable") -> Words:
        """Return the words of all rows."""
        words = np.empty((self.book.width, len(rows)), dtype=np.int64)
        for word, fields in zip(words, self.book.fields, strict=False):
            tables = [(part.axis, part.codes << part.shift) for part in fields]
            word[:] = self._looked_up(rows, tables, np.add)
        for word, mask in zip(words[len(self.book.fields) :], self.book.masks, strict=True):
            word[:] = self._looked_up(rows, mask.tables, np.bitwise_and) if mask.tables else mask.used
            if mask.tables:
                word ^= mask.flips
        return words.T

    def _looked_up(self, rows: "RowTable", tables: Sequence[tuple[Axis, Words]], join: np.ufunc) -> Words:
        """Return the entries of tables for the answers of each row, joined.

        Where answers are known by value of a column, entries are joined by value before they are looked up.
        """
        joined: dict[int, tuple[Numbers | None, Words]] = {}
        for axis, table in tables:
            answers, values = self._answers(rows, axis)
            entries, before = table[answers], joined.get(id(values))
            joined[id(values)] = values, entries if before is None else join(before[1], entries)
        return reduce(
            join, (entries if values is None else entries[values] for values, entries in joined.values())
        )

    def _answers(self, rows: "RowTable", axis: Axis) -> tuple[Numbers, Numbers | None]:
        """Return answers by row, or by value with the number of each row's value."""
        given_by = self.inputs[axis.key]
        if isinstance(given_by, Attribute):
            return rows.positions(given_by), None
        if isinstance(given_by, Lone):
            return given_by.holds(rows).astype(np.int64), None
        return rows.truths(given_by)  # type: ignore[return-value]


def _in_byte(word: Words, number: int) -> tuple[Rows, Numbers]:
    """Return the rows with a byte of the words that is not 0, and their fragments: see `byte_signatures`."""
    values = (word >> 8 * (number % BYTES)) & 255
    taken = np.flatnonzero(values)
    return taken, values[taken] + 256 * number
