"""Give each row its fragment in every relation, natively.

A binary search finds each attribute's position, once per row however many queries test it. What the
positions mean to a relation's predicates is looked up: the positions' codes add up to a cell of the
relation's grid, and the cell names the fragment (weft.predicates.codebook). A relation with one predicate has
one fragment, and its predicate is evaluated as it stands. Where the grid would be too large, or predicates
are evaluated by value, a row has words instead (weft.predicates.words), which are grouped by beside the
relation's one number; what they mean is read from those that occur.

    row ─search→ positions ─look up, add→ cell ─look up→ fragment, or none: F0
                           ─look up→ words

Fragments of all relations are numbered in one row, from 1. 0 stands for good rows that are in no fragment of
the first relation, and negative numbers for rows that are late or set aside, so that all rows can be counted
in one copy.

Numbers are part of the code that Spark generates (see weft.spark.job.constants). So that queries come and go
without new code, those that depend on how many constants and fragments there are leave room for more: they
change only when the next power of two is reached.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.internal import InternalFunction

from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.optimizer.roots import fits_grid
from weft.predicates import TRUE, Attribute, Codebook, Formula, attributes, codebook, cuts_of
from weft.predicates.codebook import Codes
from weft.predicates.values import Point
from weft.predicates.words import WordBook, byte_signatures
from weft.query.logical import Join
from weft.spark.columns import named
from weft.spark.job.asked_values import AskedValues, KnownValues
from weft.spark.job.joins import Joins
from weft.spark.job.known_values import UNKNOWN, KnownColumn
from weft.spark.job.points import comparable, condition, lookup, points_array
from weft.spark.job.word_coder import (
    DriverWords,
    Searched,
    WordCoder,
    answer_name,
    missed_name,
    searched_expressions,
)
from weft.spark.job.words import Follows
from weft.types import Kind

NOBODYS = 0
"""The fragment number of good rows that the first relation has no use for."""
UNWANTED = -100
"""The fragment number of a copy that another relation has no use for."""
_LEAST_ROOM = 64
_FEW_PARTS = 12
"""Up to so many look-ups, words are as well evaluated in the method that aggregates rows."""
_MANY_PARTS = 32
"""With more look-ups than these, words of a row take Spark 3 to 5 µs, and the driver less."""
_Number = TypeVar("_Number", np.int32, np.int64)
Place = tuple[tuple[Join, ...], Expression]
"""An expression, and the tables that are joined where it is evaluated."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """The fragments of one relation among those of the job."""

    first: int
    predicates: tuple[Formula, ...]
    signatures: npt.NDArray[np.bool_]
    """For each fragment and predicate, whether the one satisfies the other."""

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first + len(self.signatures)

    @property
    def bound(self) -> int:
        """The first number that may be another relation's."""
        several = len(self.signatures)
        return self.first + (_room(several) if several > 1 else several)


class FragmentCoder:
    """Code the rows of a job by fragment."""

    def __init__(self, relations: Sequence[Relation], joins: Joins, asked: AskedValues | None = None) -> None:
        self._relations, self._joins, self._translator = relations, joins, joins.translator
        self._asked = asked or AskedValues({}, {}, {}, {}, KnownValues())
        worded = [self._needs_words(one) for one in relations]
        self._searched = self._attributes(worded)
        self._names = {place: f"__weft_position{number}" for number, place in enumerate(self._searched)}
        self._words = {
            index: self._word_coder(index, relation)
            for index, relation in enumerate(relations)
            if worded[index]
        }
        self.codebooks = tuple(
            None if words else self._codebook(relation)
            for relation, words in zip(relations, worded, strict=True)
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

    @property
    def counting_end(self) -> int:
        """The fragment numbers below it are those of the first copy of each row, as results are read."""
        return self.numbered[0].bound if self.first_counts else NOBODYS + 1

    @property
    def coded_counting_end(self) -> int:
        """The same as Spark numbers them."""
        return self.coded[0].bound if self.first_counts else NOBODYS + 1

    def _needs_words(self, relation: Relation) -> bool:
        tested = searched_expressions(relation)
        if any(one in self._asked.expressions for one in tested):
            return True
        return len(relation.predicates) > 1 and not fits_grid(cuts_of(relation.predicates))

    def _attributes(self, worded: Sequence[bool]) -> dict[Place, Attribute]:
        """Return the attributes that are searched: of words, those that are no booleans."""
        several = zip(self._relations, worded, strict=True)
        found = attributes_of([one for one, words in several if words or len(one.predicates) > 1])
        by_cells = attributes_of(
            [
                one
                for one, words in zip(self._relations, worded, strict=True)
                if not words and len(one.predicates) > 1
            ]
        )
        return {
            place: attribute
            for place, attribute in found.items()
            if place in by_cells or attribute.expression.type.kind is not Kind.BOOLEAN
        }

    def _word_coder(self, index: int, relation: Relation) -> WordCoder:
        searched: dict[Expression, tuple[Attribute, Column, Searched]] = {}
        for (joins, expression), attribute in self._searched.items():
            if joins != relation.joins or expression.type.kind is Kind.BOOLEAN:
                continue
            held = self._joins.table_of(relation, expression)
            name = self._names[joins, expression]
            position = F.col(name)
            if held is not None:
                self._joins.derive(held[0], name, partial(_table_position, attribute, held[1]))
                position = F.nvl(position, F.lit(2 * _room(len(attribute.points) + 1)))
            searched[expression] = attribute, position, _in_search_order
        return WordCoder(f"__weft_word{index}", relation, self._translator(relation), searched, self._asked)

    @property
    def version(self) -> object:
        """What the columns depend on, besides the plan."""
        return self._asked.version

    def searches(self) -> list[Column]:
        """Return where values may stand among those known, to be selected beside the row's columns."""
        return [one.search().alias(_search_name(one)) for one in self._asked.columns.values()]

    def words(self, barrier: Column) -> list[Column]:
        """Return the words of all relations that have any, to be selected after the positions.

        Many are evaluated behind the barrier: see weft.spark.job.words.
        """
        many = sum(coder.book.parts for coder in self._words.values()) > _FEW_PARTS
        return [word for coder in self._words.values() for word in coder.words(barrier if many else None)]

    @property
    def has_many_words(self) -> bool:
        """Whether rows have so many words that Spark is slow to make them."""
        return sum(coder.for_driver.book.parts for coder in self._words.values()) > _MANY_PARTS

    def word_uses(self) -> list[list[tuple[Hashable, Column, int]]]:
        """Return, for each word that rows are grouped by, the columns that relations keep in it."""
        names = {index: coder.names() for index, coder in self._words.items() if not coder.is_bitwise}
        widest = max(map(len, names.values()), default=0)
        return [
            [(own[place], F.col(own[place]), index) for index, own in names.items() if place < len(own)]
            for place in range(widest)
        ]

    def missed(self, good: Column) -> list[Column]:
        """Return the values of good rows that are not known yet, by which they are grouped."""
        return [
            F.when(good & (F.col(answer_name(one)) == UNKNOWN), named(one.name)).alias(missed_name(one))
            for one in self._asked.columns.values()
        ]

    def positions(self) -> list[Column]:
        """Return where each attribute's value stands, to be selected beside the row's columns."""
        by_joins = {relation.joins: relation for relation in self._relations}
        return [
            _position(attribute, self._translator(by_joins[joins])(expression)).alias(
                self._names[joins, expression]
            )
            for (joins, expression), attribute in self._searched.items()
            if self._joins.table_of(by_joins[joins], expression) is None
        ] + [
            one.answer(F.col(_search_name(one))).alias(answer_name(one))
            for one in self._asked.columns.values()
        ]

    def column(self, bad: Column, own: Sequence[Column]) -> Column:
        """Return the numbers of a row's fragments: one, or an exploded array if rows are repeated.

        NULL and UNWANTED among them stand for relations that have no use for the row, and are to be dropped.
        (Taking them out of the array first would cost ten times as much: Spark interprets functions with a
        lambda.)
        `bad` is NULL for good rows, and `own` are the fragments of each relation.
        """
        if not self._first_is_shared or not own:
            first, rest = F.lit(NOBODYS), own
        else:
            first, rest = F.coalesce(own[0], F.lit(NOBODYS)), own[1:]
        counted = F.coalesce(bad, first)
        if not self.repeats_rows:
            return counted
        others = [F.when(bad.isNull(), one) for one in rest]
        kinds = [relation.shared for relation in self._relations[len(own) - len(rest) :]]
        each = F.array(counted, *(one for one, shared in zip(others, kinds, strict=True) if shared))
        nothing = F.array().cast("array<int>")
        lists = [F.coalesce(one, nothing) for one, shared in zip(others, kinds, strict=True) if not shared]
        return F.explode(F.concat(each, *lists) if lists else each)

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
        found: list[Numbered] = []
        first = NOBODYS + 1
        for index, (relation, book) in enumerate(zip(self._relations, self.codebooks, strict=True)):
            several = len(relation.predicates)
            signatures = (
                book.signatures if book is not None and relation.shared else np.eye(several, dtype=bool)
            )
            if index in self._words:
                bitwise = self._words[index].is_bitwise
                signatures = byte_signatures(several) if bitwise else np.zeros((1, several), dtype=bool)
            found.append(Numbered(first, relation.predicates, signatures))
            first = found[-1].bound
        return tuple(found)

    def fragment(self, index: int, taken: Column | None) -> Column:
        """Return the fragment of a row in a relation, or the array of its fragments.

        NULL, UNWANTED and, in the first relation, NOBODYS stand for none.
        """
        relation, book, own = self._relations[index], self.codebooks[index], self.coded[index]
        if index in self._words and self._words[index].is_bitwise:
            copies = self._words[index].copies(own.first)
            return copies if taken is None else F.when(taken, copies)
        if index in self._words:
            any_word = self._words[index].wanted()
            return F.when(any_word if taken is None else taken & any_word, F.lit(own.first))
        if book is None:
            (predicate,) = relation.predicates
            holds = None if predicate == TRUE else condition(predicate, self._translator(relation))
            wanted = [one for one in (taken, holds) if one is not None]
            number = F.lit(own.first)
            return F.when(reduce(Column.__and__, wanted), number) if wanted else number
        cell = self._cell(index, book)
        if relation.shared:
            nothing = NOBODYS if index == 0 else UNWANTED
            known = np.where(book.fragments >= 0, book.fragments + own.first, nothing)
            looked_up = lookup(known, cell)
        else:
            looked_up = F.get(_members(book, own.first), cell)
        return looked_up if taken is None else F.when(taken, looked_up)

    def missed_names(self) -> list[str]:
        """Return the names of those columns."""
        return [missed_name(one) for one in self._asked.columns.values()]

    @property
    def has_words(self) -> bool:
        """Whether results are to be settled before they are read."""
        return bool(self._words)

    def word_books(self) -> dict[int, WordBook]:
        """Return the books that words are made by now, to read the same words by."""
        return {index: coder.book for index, coder in self._words.items()}

    def settled(
        self, result: pa.Table, name: str, words: Sequence[str], books: Mapping[int, WordBook]
    ) -> pa.Table:
        """Return a result with fragments numbered by what their words mean; missed values are known by now.

        `name` is the column of fragments, `words` are those of words.
        """
        fragment = np.asarray(result[name])
        missed = {one.name: result[missed_name(one)].combine_chunks() for one in self._asked.columns.values()}
        several = [pc.fill_null(result[word], 0).to_numpy() for word in words]
        table = np.array(several, dtype=np.int64).reshape(len(words), len(result)).T
        found: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.int64]]] = []
        for index, coded in enumerate(self.coded):
            rows = np.flatnonzero((fragment >= coded.first) & (fragment < coded.bound))
            numbers = (fragment[rows] - coded.first).astype(np.int64)
            if index in self._words:
                coder, mine = self._words[index], pa.array(rows)
                some = {column: values.take(mine) for column, values in missed.items()}
                if coder.is_bitwise:
                    numbers = coder.corrected(numbers, some, books[index])
                else:
                    numbers = coder.read(table[rows, : books[index].width], some, books[index])
            found.append((rows, numbers))
        renamed = fragment.copy()
        for index, ((rows, numbers), own) in enumerate(zip(found, self.number_again(), strict=True)):
            nothing = NOBODYS if index == 0 and self._first_is_shared else UNWANTED
            renamed[rows] = np.where(numbers < 0, nothing, numbers + own.first)
        place = result.column_names.index(name)
        return result.set_column(place, name, pa.array(renamed)).filter(pa.array(renamed > UNWANTED))

    def number_again(self) -> tuple[Numbered, ...]:
        """Number all fragments, those of words by the signatures that have occurred so far."""
        numbered, first = list[Numbered](), NOBODYS + 1
        for index, before in enumerate(self.numbered):
            own = replace(before, first=first)
            if index in self._words and not self._words[index].is_bitwise:
                seen = self._words[index].seen
                own = Numbered(first, seen.predicates, seen.bits)
            numbered.append(own)
            first = own.bound
        self.numbered = tuple(numbered)
        return self.numbered

    def driver_words(self, index: int) -> DriverWords | None:
        """Return how the driver gives rows of a relation their words; None if they have none."""
        return self._words[index].for_driver if index in self._words else None

    def extend(self, relation: int, follows: Follows) -> Numbered:
        """Have a relation's fragments tell a predicate that follows from others of it."""
        own = self.numbered[relation]
        bits = np.column_stack([own.signatures, follows.column(own.predicates, own.signatures)])
        longer = Numbered(own.first, (*own.predicates, follows.predicate), bits)
        if relation in self._words and not self._words[relation].is_bitwise:
            seen = self._words[relation].seen
            seen.follow(follows)
            longer = Numbered(own.first, seen.predicates, seen.bits)
        self.numbered = tuple(longer if one is own else one for one in self.numbered)
        return longer

    def _cell(self, index: int, book: Codebook) -> Column:
        """Return the cell of a row; what a table's columns add to it is found in the table."""
        relation = self._relations[index]
        added: list[Column] = []
        by_table: dict[int, list[tuple[str, Attribute, Codes]]] = {}
        for attribute, share in zip(book.attributes, book.shares, strict=True):
            held = self._joins.table_of(relation, attribute.expression)
            if held is not None:
                by_table.setdefault(held[0], []).append((held[1], attribute, share))
            else:
                position = F.col(self._names[relation.joins, attribute.expression])
                added.append(lookup(_in_search_order(share), position))
        for table, columns in by_table.items():
            name = f"__weft_cell{index}_{table}"
            self._joins.derive(table, name, partial(_table_part, columns))
            without_partner = np.array([sum(int(share[-1]) for _, _, share in columns)])
            found = F.col(name)
            added.append(F.nvl(found, lookup(without_partner, F.when(found.isNull(), F.lit(0)))))
        return reduce(Column.__add__, added) if added else F.lit(0)


def attributes_of(relations: Sequence[Relation]) -> dict[Place, Attribute]:
    """Return the attributes that relations test, with the tables that each reads."""
    by_joins: dict[tuple[Join, ...], list[Formula]] = {}
    for relation in relations:
        by_joins.setdefault(relation.joins, []).extend(relation.predicates)
    return {
        (joins, expression): attribute
        for joins, formulas in by_joins.items()
        for expression, attribute in attributes(formulas).items()
    }


def _search_name(column: KnownColumn) -> str:
    return f"__weft_search_{column.code_name}"


def _table_position(attribute: Attribute, name: str, column: Callable[[str], Column]) -> Column:
    return _position(attribute, column(name))


def _table_part(columns: Sequence[tuple[str, Attribute, Codes]], column: Callable[[str], Column]) -> Column:
    """Return what a table's columns add to the number of the grid's cell."""
    parts = [
        lookup(_in_search_order(share), _position(attribute, column(name)))
        for name, attribute, share in columns
    ]
    return reduce(Column.__add__, parts)


def _position(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands: the search's answers −(m + 1) … m − 1, moved above 0, and NULL last."""
    middle = _room(len(attribute.points) + 1)
    return F.nvl(search(attribute, value) + middle, F.lit(2 * middle))


def search(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands among the points, as Java's binary search tells it: NULL for NULL.

    i for the value of point i itself, −(i + 1) for those between point i − 1 and point i.
    """
    type = attribute.expression.type
    if type.kind is Kind.BOOLEAN:
        no, yes = (search_answer(attribute.points, point) for point in (0, 1))
        return F.when(value, yes).when(~value, no)
    if not attribute.points:
        return F.when(value.isNotNull(), F.lit(-1))
    return InternalFunction.array_binary_search(points_array(attribute.points, type), comparable(value, type))


def search_answer(points: Sequence[Point], value: Point) -> int:
    """Return what the search would answer."""
    place = bisect_left(points, value)
    return place if place < len(points) and points[place] == value else -(place + 1)


def _in_search_order(by_position: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return shares where `_position` looks for them: −(m + 1) … m − 1 around the middle, and NULL last.

    >>> shares = np.array([10, 11, 12, 13, 14, 99])  # points a, b: below a, a, between, b, above b; NULL
    >>> _in_search_order(shares)[[61, 62, 63, 64, 65, 128]]
    array([14, 12, 10, 11, 13, 99])
    """
    below, points = by_position[:-1:2][::-1], by_position[1:-1:2]
    middle = _room(len(below))
    placed = np.zeros(2 * middle + 1, dtype=by_position.dtype)
    placed[middle - len(below) : middle] = below
    placed[middle : middle + len(points)] = points
    placed[-1] = by_position[-1]
    return placed


def _room(several: int) -> int:
    """Return how many there may be before numbers change: a power of two.

    >>> _room(1), _room(64), _room(65)
    (64, 64, 128)
    """
    return max(_LEAST_ROOM, 1 << (several - 1).bit_length())


def _members(book: Codebook, first: int) -> Column:
    """Return, for each cell, the predicates that it satisfies, as fragments of one predicate each."""
    lists = [(first + np.flatnonzero(row)).tolist() for row in book.signatures]
    cells = [lists[fragment] if fragment >= 0 else [] for fragment in book.fragments.tolist()]
    return F.from_json(F.lit(json.dumps(cells)), "array<array<int>>")
