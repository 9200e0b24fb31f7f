"""Signatures of a batch's words: numbered once, whatever came before, and never taken for one another."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import predicate
from tests.unit.test_words import of_boolean, searched, whole

import weft.predicates as wp
from weft.expression import Expression
from weft.predicates.words import Axis, WordBook, Words, word_book
from weft.spark.job import seen_signatures as seen_words
from weft.spark.job.seen_signatures import distinct, seen_signatures
from weft.types import Kind

FORMULAS = tuple(
    wp.canonical(predicate(text)) for text in ("n > 1", "n > 5 AND ok", "price < 3", "n = 2 OR price > 7")
)
small = st.integers(min_value=-2, max_value=2)


def book() -> WordBook:
    attributes = wp.attributes(FORMULAS)

    def axis_of(expression: Expression) -> Axis:
        if expression.type.kind is Kind.BOOLEAN:
            return of_boolean(expression)
        return searched(attributes[expression])

    return word_book(FORMULAS, axis_of, whole)


def possible(book: WordBook) -> Words:
    """Return the words of all rows that a book tells apart: one for each combination of answers."""
    places = {axis.key: place for place, axis in enumerate(book.axes)}
    found = []
    for answers in product(*(range(axis.positions) for axis in book.axes)):
        row = [
            sum(int(f.codes[answers[places[f.axis.key]]]) << f.shift for f in some) for some in book.fields
        ]
        for mask in book.masks:
            word = -1
            for axis, table in mask.tables:
                word &= int(table[answers[places[axis.key]]])
            row.append(word ^ mask.flips)
        found.append(row)
    return np.array(found, dtype=np.int64)


def only_sums(rows: Words) -> pa.Array:
    """Return the same number for many rows that differ."""
    return pa.array(rows.sum(axis=1) % 3)


MIXED = [seen_words._mixed, only_sums]


@pytest.mark.parametrize("mixed", MIXED)
@given(rows=st.lists(st.tuples(small, small, small)))
@settings(max_examples=50)
def test_rows_are_one_set_where_they_are_equal(
    mixed: Callable[[Words], pa.Array], rows: list[tuple[int, int, int]]
) -> None:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen_words, "_mixed", mixed)
        firsts, groups = distinct(table)
    assert sorted({rows[first] for first in firsts}) == sorted(set(rows))
    assert len(firsts) == len(set(rows))
    assert [rows[firsts[group]] for group in groups] == rows
    assert all(rows.index(rows[first]) == first for first in firsts)


@pytest.mark.parametrize("mixed", MIXED)
@given(batches=st.lists(st.lists(st.integers(min_value=0, max_value=10_000), max_size=30), max_size=6))
@settings(max_examples=50)
def test_numbers_stand_for_signatures_however_often_words_come(
    mixed: Callable[[Words], pa.Array], batches: list[list[int]]
) -> None:
    own, seen = book(), seen_signatures(FORMULAS)
    words = possible(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seen_words, "_mixed", mixed)
        for batch in batches:
            some = words[np.array(batch, dtype=np.intp) % len(words)]
            numbers, bits = seen.numbers(own, some, {}), own.signatures(some, {}).bits
            assert ((numbers == -1) == ~bits.any(axis=1)).all()
            assert (seen.signatures.bits[numbers[numbers >= 0]] == bits[numbers >= 0]).all()
    assert len(np.unique(seen.signatures.bits, axis=0)) == len(seen.signatures)
