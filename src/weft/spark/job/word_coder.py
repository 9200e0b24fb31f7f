"""Give each row of a relation its words in Spark, and read them back (see weft.predicates.words).

Words are evaluated outside the method that aggregates rows: each part becomes a small method of its own, and
the JVM compiles them all. A barrier does that, an expression that Spark generates no code for.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce

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
from weft.spark.job.points import condition, in_search_order, lookup_long
from weft.spark.job.seen_signatures import SeenSignatures, seen_signatures
from weft.spark.job.value_predicates import UNKNOWN, ValuePredicates
from weft.types import Kind

LookUp = Callable[[Words], Column]
"""Looks a row's answer up in a table that has a number for each answer of an axis."""


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
        searched: Mapping[Expression, tuple[Attribute, Column]],
        by_value: ValuePredicates,
    ) -> None:
        self._name, self._relation, self._translate = name, relation, translate
        self._searched, self._by_value = searched, by_value
        self._built: tuple[object, WordBook] | None = None
        self.seen: SeenSignatures = seen_signatures(relation.predicates)
        columns = map(by_value.expressions.get, tested_expressions(relation))
        self.columns = tuple(dict.fromkeys(column for column in columns if column is not None))
        """The columns whose values are looked up."""

    @cached_property
    def for_driver(self) -> DriverWords:
        """How the driver makes words: it evaluates all conditions itself, those on known values too."""
        attributes: dict[Hashable, Attribute] = {
            key: attribute for key, (attribute, _) in self._searched.items()
        }
        return DriverWords(self._book(self._axis), attributes, self.seen)

    @property
    def book(self) -> WordBook:
        """How predicates become words, by what is known now."""
        version = tuple(column.version for column in self.columns)
        if self._built is None or self._built[0] != version:
            axes: dict[Expression, Axis] = {}
            by_column = {column.key: column.axis() for column in self.columns}

            def axis_of(expression: Expression) -> Axis:
                if expression not in axes:
                    column = self._by_value.expressions.get(expression)
                    axes[expression] = self._axis(expression) if column is None else by_column[column.key]
                return axes[expression]

            self._built = version, self._book(axis_of)
        return self._built[1]

    def _book(self, axis_of: Callable[[Expression], Axis]) -> WordBook:
        # The axis of a predicate that is evaluated as a whole is whether it holds.
        whole = partial(Axis, positions=2, holds=lambda _: np.array([False, True]))
        return word_book(self._relation.predicates, axis_of, whole, bitwise=self.is_bitwise)

    def names(self) -> list[str]:
        """Return the names of the words."""
        return [f"{self._name}_{number}" for number in range(self.book.width)]

    def words(self, barrier: Column | None) -> list[Column]:
        """Return the words."""
        look_up = {axis.key: self._look_up(axis) for axis in self.book.axes}
        words = _word_columns(self.book, look_up, barrier)
        return [word.alias(name) for word, name in zip(words, self.names(), strict=True)]

    def wanted(self) -> Column:
        """Return whether a row satisfies any predicate, or has a value that is not known yet."""
        words = reduce(lambda any_of, name: any_of | (F.col(name) != 0), self.names(), F.lit(False))
        return self._or_unknown(words)

    def _or_unknown(self, condition: Column) -> Column:
        for column in self.columns:
            condition = condition | (F.col(column.answer_name) == UNKNOWN)
        return condition

    def copies(self, first: int) -> Column:
        """Return the fragments of a row, which is copied for each: the bytes of its words that are not 0."""
        unknown, names, copies = self._or_unknown(F.lit(False)), self.names(), []
        for number in range(self.book.bytes):
            word = F.col(names[number // BYTES])
            byte = F.shiftright(word, 8 * (number % BYTES)).bitwiseAND(F.lit(255)).cast("int")
            copies.append(F.when((byte != 0) | unknown, byte + F.lit(first + 256 * number)))
        return F.array(*copies)

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
        corrected = book.corrected(fragments, learnt)
        return np.where(corrected & 255 == 0, -1, corrected)

    def _learnt(self, missed: Mapping[str, pa.Array]) -> dict[Hashable, Learnt]:
        return {
            column.key: Learnt(column.axis(), column.answers(missed[column.name]))
            for column in self.columns
            if missed[column.name].null_count < len(missed[column.name])
        }

    def _axis(self, expression: Expression) -> Axis:
        if expression.type.kind is Kind.BOOLEAN:
            return Axis(expression, 3, _truths)
        attribute = self._searched[expression][0]

        def holds(formula: Formula) -> Bits:
            assert isinstance(formula, Test)
            return attribute.among(formula.values)

        return Axis(expression, attribute.positions, holds)

    def _look_up(self, axis: Axis) -> LookUp:
        key: Hashable = axis.key
        for column in self.columns:
            if column.key == key:
                return partial(lookup_long, index=F.col(column.answer_name))
        if key in self._searched:
            position = self._searched[key][1]  # type: ignore[index]
            return lambda table: lookup_long(in_search_order(table), position)
        if isinstance(key, Formula):
            return _by_condition(condition(key, self._translate))
        return _by_truth(self._translate(key))  # type: ignore[arg-type]


def tested_expressions(relation: Relation) -> list[Expression]:
    """Return what a relation's predicates test, each once."""
    return list(dict.fromkeys(test.expression for p in relation.predicates for test in tests(p)))


def _truths(formula: Formula) -> Bits:
    assert isinstance(formula, Test)
    return np.array([formula.values.has(0), formula.values.has(1), formula.values.null])


def _word_columns(book: WordBook, look_up: Mapping[Hashable, LookUp], barrier: Column | None) -> list[Column]:
    """Return the words of a row, given how each axis is looked up; the barrier, if any, is NULL."""
    words = [
        reduce(Column.__add__, [look_up[part.axis.key](part.codes << part.shift) for part in parts])
        for parts in book.fields
    ]
    for mask in book.masks:
        tables = [look_up[axis.key](table) for axis, table in mask.tables]
        word = reduce(Column.bitwiseAND, tables or [_long(mask.used)])
        if mask.flips and mask.tables:
            # As a table, because a literal would be part of the generated code.
            axis = mask.tables[0][0]
            flips = np.full(axis.positions, mask.flips, dtype=np.int64)
            word = word.bitwiseXOR(look_up[axis.key](flips))
        words.append(word)
    if barrier is None or not words:
        return words
    return [F.coalesce(barrier.cast("bigint"), words[0]), *words[1:]]


def _by_truth(value: Column) -> LookUp:
    """Look answers up by a boolean: false, true and NULL."""

    def look_up(table: Words) -> Column:
        no, yes, null = (_long(int(number)) for number in table)
        if table[0] == table[2]:
            return F.when(value, yes).otherwise(no)
        return F.when(value, yes).when(~value, no).otherwise(null)

    return look_up


def _by_condition(holds: Column) -> LookUp:
    """Look answers up by a condition: not true, and true."""
    return lambda table: F.when(holds, _long(int(table[1]))).otherwise(_long(int(table[0])))


def _long(number: int) -> Column:
    return F.lit(number).cast("bigint")
