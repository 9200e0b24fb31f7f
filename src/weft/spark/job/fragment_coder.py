"""Give each row its fragment in every relation, as Spark columns.

A binary search finds each attribute's position, once per row however many queries test it. The positions'
codes, which are looked up, add up to a cell of the relation's grid, and each cell belongs to one fragment
(weft.predicates.codebook). A relation with one predicate has one fragment, and its predicate is evaluated as
a whole. Where the grid would be too large, or predicates are evaluated by value, a row has words instead
(weft.predicates.words). Rows are then grouped by words beside the relation's one number, and only words that
occur are resolved to signatures.

    row ─search→ positions ─look up, add→ cell ─look up→ fragment, or none: F0
                           ─look up→ words

Fragments of all relations are numbered in one row, from 1. 0 stands for good rows that are in no fragment of
the first relation, and negative numbers for rows that are late or set aside, so that all rows can be counted
in one copy.

Numbers are part of the code that Spark generates (see weft.spark.job.constants). So that queries can join and
leave without new code, numbers that depend on how many constants and fragments there are leave room for more:
see weft.spark.job.points.
"""

import json
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.optimizer.roots import fits_grid
from weft.predicates import TRUE, Attribute, Codebook, Formula, codebook, cuts_of
from weft.predicates.codebook import Codes
from weft.predicates.signatures import Signatures, signatures_of
from weft.predicates.words import WordBook, byte_signatures
from weft.spark.columns import named
from weft.spark.job.joins import Joins
from weft.spark.job.points import (
    JoinedExpression,
    attributes_of,
    condition,
    in_search_order,
    lookup,
    position,
    room,
)
from weft.spark.job.seen_signatures import Follows
from weft.spark.job.value_predicates import UNKNOWN, ValuePredicates
from weft.spark.job.word_coder import WordCoder, tested_expressions
from weft.types import Kind

IN_NO_FRAGMENT = 0
"""The fragment number of good rows that are in no fragment of the first relation."""
UNWANTED = -100
"""The fragment number of a copy that is in no fragment of another relation."""
_FEW_PARTS = 12
"""With at most this many look-ups, words are evaluated in the method that aggregates rows."""
_MANY_PARTS = 32
"""With more look-ups, words of a row take Spark 3 to 5 µs, and the driver less."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The fragments of one relation among those of the job."""

    first: int
    signatures: Signatures

    @property
    def predicates(self) -> tuple[Formula, ...]:
        """The predicates that rows of the fragments may satisfy."""
        return self.signatures.predicates

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first + len(self.signatures)

    @property
    def bound(self) -> int:
        """The first number that may be another relation's."""
        fragments = len(self.signatures)
        return self.first + (room(fragments) if fragments > 1 else fragments)


class FragmentCoder:
    """Code the rows of a job by fragment."""

    def __init__(
        self, relations: Sequence[Relation], joins: Joins, by_value: ValuePredicates | None = None
    ) -> None:
        self._relations, self._joins, self._translator = relations, joins, joins.translator
        self._by_value = by_value or ValuePredicates()
        with_words = {
            index
            for index, relation in enumerate(relations)
            if any(tested in self._by_value.expressions for tested in tested_expressions(relation))
            or (len(relation.predicates) > 1 and not fits_grid(cuts_of(relation.predicates)))
        }
        self._searched = self._attributes(with_words)
        self._names = {searched: f"__weft_position{n}" for n, searched in enumerate(self._searched)}
        self.word_coders = {index: self._word_coder(index, relations[index]) for index in sorted(with_words)}
        """How rows get their words, by relations that have any: results have words to be resolved then."""
        self.codebooks = tuple(
            None if index in with_words else self._codebook(relation)
            for index, relation in enumerate(relations)
        )
        """From positions to fragments; None for relations with one predicate, or with words."""
        self.coded = self._number()
        """The fragments as Spark numbers them: one for each relation that has words."""
        self.numbered = self.coded
        """The fragments as results are read."""

    @property
    def repeats_rows(self) -> bool:
        """Whether a row may be in several fragments."""
        return len(self._relations) > 1 or not self._first_is_shared

    @property
    def _first_is_shared(self) -> bool:
        return not self._relations or self._relations[0].shared

    @property
    def first_counts(self) -> bool:
        """Whether rows are counted in the groups of the first relation."""
        return bool(self._relations) and self._first_is_shared

    def counting_end(self, *, coded: bool = False) -> int:
        """Return the end of the fragment numbers of the first copies of rows.

        As results are read, or, if `coded`, as Spark numbers them.
        """
        numbered = self.coded if coded else self.numbered
        return numbered[0].bound if self.first_counts else IN_NO_FRAGMENT + 1

    def _attributes(self, with_words: Collection[int]) -> dict[JoinedExpression, Attribute]:
        """Return the attributes that are searched: of words, those that are no booleans."""
        coded = [
            (relation, index in with_words)
            for index, relation in enumerate(self._relations)
            if index in with_words or len(relation.predicates) > 1
        ]
        by_cells = attributes_of([relation for relation, has_words in coded if not has_words])
        return {
            searched: attribute
            for searched, attribute in attributes_of([relation for relation, _ in coded]).items()
            if searched in by_cells or attribute.expression.type.kind is not Kind.BOOLEAN
        }

    def _word_coder(self, index: int, relation: Relation) -> WordCoder:
        searched: dict[Expression, tuple[Attribute, Column]] = {}
        for (joins, expression), attribute in self._searched.items():
            if joins != relation.joins or expression.type.kind is Kind.BOOLEAN:
                continue
            table_column = self._joins.table_of(relation, expression)
            name = self._names[joins, expression]
            index_column = F.col(name)
            if table_column is not None:
                self._joins.derive(
                    table_column[0], name, partial(_table_position, attribute, table_column[1])
                )
                index_column = F.nvl(index_column, F.lit(2 * room(len(attribute.points) + 1)))
            searched[expression] = attribute, index_column
        return WordCoder(
            f"__weft_word{index}", relation, self._translator(relation), searched, self._by_value
        )

    def searches(self) -> list[Column]:
        """Return where values may be among the known ones, to be selected beside the row's columns."""
        return [column.search().alias(column.search_name) for column in self._by_value.columns.values()]

    def words(self, barrier: Column) -> list[Column]:
        """Return the words of all relations that have any, to be selected after the positions.

        Many are evaluated behind the barrier: see weft.spark.job.word_coder.
        """
        coders = self.word_coders.values()
        many = sum(coder.book.parts for coder in coders) > _FEW_PARTS
        return [word for coder in coders for word in coder.words(barrier if many else None)]

    @property
    def has_many_words(self) -> bool:
        """Whether rows have so many words that Spark is slow to make them."""
        return sum(coder.for_driver.book.parts for coder in self.word_coders.values()) > _MANY_PARTS

    def word_uses(self) -> list[list[tuple[Hashable, Column, int]]]:
        """Return, for each word that rows are grouped by, the columns that relations keep in it."""
        names = {index: coder.names() for index, coder in self.word_coders.items() if not coder.is_bitwise}
        widest = max(map(len, names.values()), default=0)
        return [
            [(own[n], F.col(own[n]), index) for index, own in names.items() if n < len(own)]
            for n in range(widest)
        ]

    def missed(self, good: Column) -> list[Column]:
        """Return the values of good rows that are not known yet, by which they are grouped."""
        return [
            F.when(good & (F.col(column.answer_name) == UNKNOWN), named(column.name)).alias(
                column.missed_name
            )
            for column in self._by_value.columns.values()
        ]

    def positions(self) -> list[Column]:
        """Return the position of each attribute's value, to be selected beside the row's columns."""
        by_joins = {relation.joins: relation for relation in self._relations}
        return [
            position(attribute, self._translator(by_joins[joins])(expression)).alias(
                self._names[joins, expression]
            )
            for (joins, expression), attribute in self._searched.items()
            if self._joins.table_of(by_joins[joins], expression) is None
        ] + [column.answer().alias(column.answer_name) for column in self._by_value.columns.values()]

    def column(self, bad: Column, own: Sequence[Column]) -> Column:
        """Return the numbers of a row's fragments: one, or an exploded array if rows are repeated.

        NULL and UNWANTED among them stand for relations in which the row has no fragment, and are to be
        dropped. (Removing them from the array first would cost ten times as much: Spark interprets functions
        with a lambda.) `bad` is NULL for good rows, and `own` are the fragments of each relation.
        """
        if not self._first_is_shared or not own:
            first, rest = F.lit(IN_NO_FRAGMENT), own
        else:
            first, rest = F.coalesce(own[0], F.lit(IN_NO_FRAGMENT)), own[1:]
        counted = F.coalesce(bad, first)
        if not self.repeats_rows:
            return counted
        others = [
            (F.when(bad.isNull(), fragment), relation.shared)
            for fragment, relation in zip(rest, self._relations[len(own) - len(rest) :], strict=True)
        ]
        single = F.array(counted, *(fragment for fragment, shared in others if shared))
        empty = F.array().cast("array<int>")
        lists = [F.coalesce(fragments, empty) for fragments, shared in others if not shared]
        return F.explode(F.concat(single, *lists) if lists else single)

    def _codebook(self, relation: Relation) -> Codebook | None:
        if len(relation.predicates) == 1:
            return None
        own = {
            expression: attribute
            for (joins, expression), attribute in self._searched.items()
            if joins == relation.joins
        }
        return codebook(relation.predicates, own)

    def _number(self) -> tuple[Numbered, ...]:
        numbered, first = list[Numbered](), IN_NO_FRAGMENT + 1
        for index, (relation, book) in enumerate(zip(self._relations, self.codebooks, strict=True)):
            predicates = len(relation.predicates)
            if index in self.word_coders:
                bitwise = self.word_coders[index].is_bitwise
                signatures = byte_signatures(predicates) if bitwise else np.zeros((1, predicates), dtype=bool)
            elif book is not None and relation.shared:
                signatures = book.signatures
            else:
                signatures = np.eye(predicates, dtype=bool)
            numbered.append(Numbered(first, signatures_of(relation.predicates, signatures)))
            first = numbered[-1].bound
        return tuple(numbered)

    def fragment(self, index: int, taken: Column | None) -> Column:
        """Return the fragment of a row in a relation, or the array of its fragments.

        NULL, UNWANTED and, in the first relation, IN_NO_FRAGMENT stand for none.
        """
        relation, book, own = self._relations[index], self.codebooks[index], self.coded[index]
        words, holds = self.word_coders.get(index), None
        if words is not None and words.is_bitwise:
            fragment = words.copies(own.first)
        elif words is not None or book is None:
            if words is not None:
                holds = words.wanted()
            elif relation.predicates != (TRUE,):
                (predicate,) = relation.predicates
                holds = condition(predicate, self._translator(relation))
            conditions = [column for column in (taken, holds) if column is not None]
            number = F.lit(own.first)
            return F.when(reduce(Column.__and__, conditions), number) if conditions else number
        elif relation.shared:
            nothing = IN_NO_FRAGMENT if index == 0 else UNWANTED
            numbers = np.where(book.fragments >= 0, book.fragments + own.first, nothing)
            fragment = lookup(numbers, self._cell(index, book))
        else:
            fragment = F.get(_members(book, own.first), self._cell(index, book))
        return fragment if taken is None else F.when(taken, fragment)

    def missed_names(self) -> list[str]:
        """Return the names of the columns of values that are not known yet."""
        return [column.missed_name for column in self._by_value.columns.values()]

    def resolve_words(
        self, result: pa.Table, name: str, words: Sequence[str], books: Mapping[int, WordBook]
    ) -> pa.Table:
        """Return a result with fragments numbered by the signatures of their words; all values are known now.

        `name` is the column of fragments, `words` are those of words.
        """
        fragment = np.asarray(result[name])
        columns = self._by_value.columns.values()
        missed = {column.name: result[column.missed_name].combine_chunks() for column in columns}
        table = np.array([pc.fill_null(result[word], 0).to_numpy() for word in words], dtype=np.int64)
        table = table.reshape(len(words), len(result)).T
        resolved: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]] = []
        for index, coded in enumerate(self.coded):
            rows = np.flatnonzero((fragment >= coded.first) & (fragment < coded.bound))
            numbers = (fragment[rows] - coded.first).astype(np.int64)
            if index in self.word_coders:
                coder, own_rows = self.word_coders[index], pa.array(rows)
                own_missed = {column: values.take(own_rows) for column, values in missed.items()}
                if coder.is_bitwise:
                    numbers = coder.corrected(numbers, own_missed, books[index])
                else:
                    numbers = coder.read(table[rows, : books[index].width], own_missed, books[index])
            resolved.append((rows, numbers))
        renumbered = fragment.copy()
        for index, ((rows, numbers), own) in enumerate(zip(resolved, self.number_again(), strict=True)):
            nothing = IN_NO_FRAGMENT if index == 0 and self._first_is_shared else UNWANTED
            renumbered[rows] = np.where(numbers < 0, nothing, numbers + own.first)
        result = result.set_column(result.column_names.index(name), name, pa.array(renumbered))
        return result.filter(pa.array(renumbered > UNWANTED))

    def number_again(self) -> tuple[Numbered, ...]:
        """Number all fragments, those of words by the signatures that have occurred so far."""
        numbered, first = list[Numbered](), IN_NO_FRAGMENT + 1
        for index, before in enumerate(self.numbered):
            own = replace(before, first=first)
            if index in self.word_coders and not self.word_coders[index].is_bitwise:
                own = Numbered(first, self.word_coders[index].seen.signatures)
            numbered.append(own)
            first = own.bound
        self.numbered = tuple(numbered)
        return self.numbered

    def extend(self, relation: int, follows: Follows) -> Numbered:
        """Add a predicate that follows from others of a relation to its fragments."""
        own = self.numbered[relation]
        longer = Numbered(own.first, follows.added_to(own.signatures))
        if relation in self.word_coders and not self.word_coders[relation].is_bitwise:
            seen = self.word_coders[relation].seen
            seen.follow(follows)
            longer = Numbered(own.first, seen.signatures)
        self.numbered = (*self.numbered[:relation], longer, *self.numbered[relation + 1 :])
        return longer

    def _cell(self, index: int, book: Codebook) -> Column:
        """Return the cell of a row; the share of a table's columns is computed in the table."""
        relation = self._relations[index]
        added: list[Column] = []
        by_table: dict[int, list[tuple[str, Attribute, Codes]]] = {}
        for attribute, share in zip(book.attributes, book.shares, strict=True):
            table_column = self._joins.table_of(relation, attribute.expression)
            if table_column is not None:
                by_table.setdefault(table_column[0], []).append((table_column[1], attribute, share))
            else:
                index_column = F.col(self._names[relation.joins, attribute.expression])
                added.append(lookup(in_search_order(share), index_column))
        for table, columns in by_table.items():
            name = f"__weft_cell{index}_{table}"
            self._joins.derive(table, name, partial(_table_part, columns))
            without_partner = np.array([sum(int(share[-1]) for _, _, share in columns)])
            part = F.col(name)
            added.append(F.nvl(part, lookup(without_partner, F.when(part.isNull(), F.lit(0)))))
        return reduce(Column.__add__, added) if added else F.lit(0)


def _members(book: Codebook, first: int) -> Column:
    """Return, for each cell, the predicates that it satisfies, as fragments of one predicate each."""
    lists = [(first + np.flatnonzero(row)).tolist() for row in book.signatures]
    cells = [lists[fragment] if fragment >= 0 else [] for fragment in book.fragments.tolist()]
    return F.from_json(F.lit(json.dumps(cells)), "array<array<int>>")


def _table_position(attribute: Attribute, name: str, column: Callable[[str], Column]) -> Column:
    return position(attribute, column(name))


def _table_part(columns: Sequence[tuple[str, Attribute, Codes]], column: Callable[[str], Column]) -> Column:
    """Return the share of a table's columns in the number of the grid's cell."""
    parts = [
        lookup(in_search_order(share), position(attribute, column(name)))
        for name, attribute, share in columns
    ]
    return reduce(Column.__add__, parts)
