"""Give each row of a relation its words: where each axis comes from in Spark, and how words are read back."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.predicates import Attribute, Formula, Test, tests
from weft.predicates.codebook import Bits
from weft.predicates.words import BYTES, Axis, Learnt, WordBook, Words, word_book
from weft.spark.columns import Translator
from weft.spark.job.asked_values import AskedValues
from weft.spark.job.known_values import UNKNOWN, KnownColumn
from weft.spark.job.points import condition, lookup_long
from weft.spark.job.words import (
    Looked,
    SeenSignatures,
    by_condition,
    by_position,
    by_truth,
    seen_signatures,
    word_columns,
)
from weft.types import Kind

Searched = Callable[[Words], Words]
"""Puts a table by position in the order in which it is looked up."""


def answer_name(column: KnownColumn) -> str:
    """Return the name of the column that holds a row's answer."""
    return f"__weft_value_{column.code_name}"


def missed_name(column: KnownColumn) -> str:
    """Return the name of the column that holds a row's value where it is not known yet."""
    return f"__weft_missed_{column.code_name}"


@dataclass(frozen=True, slots=True, eq=False)
class DriverWords:
    """The words of a relation where the driver groups rows."""

    book: WordBook
    attributes: Mapping[Hashable, Attribute]
    """The axes that are positions."""
    seen: SeenSignatures


class WordCoder:
    """The words of one relation."""

    def __init__(
        self,
        name: str,
        relation: Relation,
        translate: Translator,
        searched: Mapping[Expression, tuple[Attribute, Column, Searched]],
        asked: AskedValues,
    ) -> None:
        self._name, self._relation, self._translate = name, relation, translate
        self._searched, self._asked = searched, asked
        self._built: tuple[object, WordBook] | None = None
        self.seen: SeenSignatures = seen_signatures(relation.predicates)
        tested = [asked.expressions.get(one) for one in searched_expressions(relation)]
        self.columns = tuple(dict.fromkeys(one for one in tested if one is not None))
        """The columns whose values are looked up."""

    @cached_property
    def for_driver(self) -> DriverWords:
        """How the driver makes words: it evaluates conditions itself, whatever is known of values."""
        book = word_book(
            self._relation.predicates, self._axis, _axis_of_predicate, bitwise=not self._relation.shared
        )
        attributes: dict[Hashable, Attribute] = {key: one for key, (one, _, _) in self._searched.items()}
        return DriverWords(book, attributes, self.seen)

    @property
    def book(self) -> WordBook:
        """How predicates become words, by what is known now."""
        version = tuple(one.version for one in self.columns)
        if self._built is None or self._built[0] != version:
            axes: dict[Expression, Axis] = {}
            by_column = {one.key: one.axis() for one in self.columns}

            def axis_of(expression: Expression) -> Axis:
                if expression not in axes:
                    column = self._asked.expressions.get(expression)
                    axes[expression] = self._axis(expression) if column is None else by_column[column.key]
                return axes[expression]

            book = word_book(
                self._relation.predicates, axis_of, _axis_of_predicate, bitwise=not self._relation.shared
            )
            self._built = version, book
        return self._built[1]

    def names(self) -> list[str]:
        """Return the names of the words."""
        return [f"{self._name}_{number}" for number in range(self.book.width)]

    def words(self, barrier: Column | None) -> list[Column]:
        """Return the words."""
        looked = {axis.key: self._looked(axis) for axis in self.book.axes}
        several = word_columns(self.book, looked, barrier)
        return [word.alias(name) for word, name in zip(several, self.names(), strict=True)]

    def wanted(self) -> Column:
        """Return whether a row satisfies any predicate, or has a value of which that is not known yet."""
        any_word = F.lit(False)
        for name in self.names():
            any_word = any_word | (F.col(name) != 0)
        for column in self.columns:
            any_word = any_word | (F.col(answer_name(column)) == UNKNOWN)
        return any_word

    def copies(self, first: int) -> Column:
        """Return the fragments of a row, which is copied for each: the bytes of its words that are not 0."""
        unknown = F.lit(False)
        for column in self.columns:
            unknown = unknown | (F.col(answer_name(column)) == UNKNOWN)
        names, found = self.names(), []
        for number in range(self.book.bytes):
            word = F.col(names[number // BYTES])
            byte = F.shiftright(word, 8 * (number % BYTES)).bitwiseAND(F.lit(255)).cast("int")
            found.append(F.when((byte != 0) | unknown, byte + F.lit(first + 256 * number)))
        return F.array(*found)

    @property
    def is_bitwise(self) -> bool:
        """Whether a row is copied for each byte of its words."""
        return not self._relation.shared

    def read(self, words: Words, missed: Mapping[str, pa.Array], book: WordBook) -> Words:
        """Return the number of the signature of each row, −1 for none; missed values are known by now."""
        return self.seen.numbers(book, words, self._learnt(missed)).astype(np.int64)

    def corrected(self, fragments: Words, missed: Mapping[str, pa.Array], book: WordBook) -> Words:
        """Return the bytes of rows, −1 for those that turn out to be 0; missed values are known by now."""
        learnt = self._learnt(missed)
        if not learnt:
            return fragments
        found = book.corrected(fragments, learnt)
        return np.where(found & 255 == 0, -1, found)

    def _learnt(self, missed: Mapping[str, pa.Array]) -> dict[Hashable, Learnt]:
        return {
            column.key: Learnt(column.axis(), column.answers(missed[column.name]))
            for column in self.columns
            if missed[column.name].null_count < len(missed[column.name])
        }

    def _axis(self, expression: Expression) -> Axis:
        if expression.type.kind is Kind.BOOLEAN:
            return Axis(expression, 3, _holds)
        attribute = self._searched[expression][0]

        def among(formula: Formula) -> Bits:
            assert isinstance(formula, Test)
            return attribute.among(formula.values)

        return Axis(expression, attribute.positions, among)

    def _looked(self, axis: Axis) -> Looked:
        key: Hashable = axis.key
        for column in self.columns:
            if column.key == key:
                return by_position(F.col(answer_name(column)))
        if key in self._searched:
            _, position, order = self._searched[key]  # type: ignore[index]
            return lambda table: lookup_long(order(table), position)
        if isinstance(key, Formula):
            return by_condition(condition(key, self._translate))
        return by_truth(self._translate(key))  # type: ignore[arg-type]


def searched_expressions(relation: Relation) -> list[Expression]:
    """Return what a relation's predicates test, each once."""
    return list(dict.fromkeys(one.expression for p in relation.predicates for one in tests(p)))


def _holds(formula: Formula) -> Bits:
    assert isinstance(formula, Test)
    return np.array([formula.values.has(0), formula.values.has(1), formula.values.null])


def _axis_of_predicate(predicate: Formula) -> Axis:
    """Return the axis of a predicate that is evaluated as it stands."""
    return Axis(predicate, 2, lambda _: np.array([False, True]))
