"""Signatures packed into words: the same as predicates evaluated row by row."""

import tracemalloc
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import predicate
from tests.unit.test_codebook import position, seeds
from tests.unit.test_predicates import Row, atoms, contains, random_rows, trees, value
from tests.unit.test_predicates import holds as formula_holds

import weft.predicates as wp
from weft.expression import Expression, columns
from weft.predicates import signatures as signatures_module
from weft.predicates.codebook import Bits
from weft.predicates.words import WORD_BITS, Axis, Learnt, WordBook, Words, word_book
from weft.types import BOOLEAN, Kind

NULL, UNKNOWN, FIRST = 0, 1, 2
predicates_of_any_size = st.lists(
    trees(atoms(("n", "price", "fee", "ok", "symbol")), 4), min_size=1, max_size=12
)


def searched(attribute: wp.Attribute) -> Axis:
    """Return the axis of an attribute's positions."""

    def holds(formula: wp.Formula) -> Bits:
        assert isinstance(formula, wp.Test)
        return attribute.among(formula.values)

    return Axis(attribute.expression, attribute.positions, holds)


def of_boolean(expression: Expression) -> Axis:
    """Return the axis of a boolean: false, true and NULL."""

    def holds(formula: wp.Formula) -> Bits:
        assert isinstance(formula, wp.Test)
        return np.array([contains(formula.values, one, BOOLEAN) for one in (False, True, None)])

    return Axis(expression, 3, holds)


def by_value(key: Hashable, known: Sequence[Row]) -> Axis:
    """Return the axis of a column whose value is known for some rows, NULL first."""

    def holds(formula: wp.Formula) -> Bits:
        assert isinstance(formula, wp.Test)
        told = [
            contains(formula.values, value(formula.expression, row), formula.expression.type) for row in known
        ]
        return np.array([told[0], False, *told[1:]])

    return Axis(key, len(known) + 1, holds, unknown=UNKNOWN, alone=True)


def whole(formula: wp.Formula) -> Axis:
    """Return the axis of a predicate that stands for itself."""
    return Axis(formula, 2, lambda _: np.array([False, True]))


def words_of(book: WordBook, answers: Callable[[Axis], Words], rows: int) -> Words:
    """Return the words of rows, as Spark would compute them."""
    found = []
    for some in book.fields:
        found.append(sum((one.codes[answers(one.axis)] << one.shift for one in some), np.zeros(rows, int)))
    for mask in book.masks:
        word = np.full(rows, mask.used, dtype=np.int64)
        for axis, table in mask.tables:
            word &= table[answers(axis)]
        found.append(word ^ mask.flips)
    return np.array(found, dtype=np.int64).reshape(len(found), rows).T


def satisfied(formulas: Sequence[wp.Formula], rows: Sequence[Row]) -> list[list[bool]]:
    return [[formula_holds(one, row) for one in formulas] for row in rows]


@given(predicates_of_any_size, seeds)
@settings(max_examples=150, deadline=None)
def test_words_tell_which_predicates_a_row_satisfies(predicates: list[Expression], seed: int) -> None:
    formulas, rows = [wp.canonical(one) for one in predicates], random_rows(seed, 30)
    known = wp.attributes(formulas)
    booleans = {one for one in known if one.type.kind is Kind.BOOLEAN}
    axes = {one: of_boolean(one) if one in booleans else searched(known[one]) for one in known}
    book = word_book(formulas, axes.__getitem__, whole)

    def answers(axis: Axis) -> Words:
        if axis.key in booleans:
            told = [value(axis.key, row) for row in rows]  # type: ignore[arg-type]
            return np.array([(False, True, None).index(one) for one in told])  # type: ignore[arg-type]
        if axis.key in known:
            return np.array([position(known[axis.key], row) for row in rows])  # type: ignore[index]
        return np.array([int(formula_holds(axis.key, row)) for row in rows])  # type: ignore[arg-type]

    words = words_of(book, answers, len(rows))
    wanted = satisfied(formulas, rows)
    with pytest.MonkeyPatch.context() as patch:
        # A few rows at a time.
        patch.setattr(signatures_module, "_UNPACKED", seed % 100)
        told = book.signatures(words, {})
    assert told.bits.tolist() == wanted
    # F0 is where no word has a bit, and only there.
    assert (words == 0).all(axis=1).tolist() == [not any(one) for one in wanted]
    assert (words >= 0).all()


@given(predicates_of_any_size, seeds, st.integers(0, 12))
@settings(max_examples=150, deadline=None)
def test_values_not_known_beforehand_are_told_afterwards(
    predicates: list[Expression], seed: int, count: int
) -> None:
    formulas, rows = [wp.canonical(one) for one in predicates], random_rows(seed, 30)
    symbols = {row["symbol"]: row for row in rows if row["symbol"] is not None}
    nothing: Row = {**rows[0], "symbol": None}
    before = [nothing, *list(symbols.values())[:count]]
    after = [nothing, *symbols.values()]
    known = wp.attributes(formulas)
    one_column = {one for one in known if columns(one) == {"symbol"}}
    early, late = by_value("symbol", before), by_value("symbol", after)
    axes = {one: early if one in one_column else searched(known[one]) for one in known}
    book = word_book(formulas, axes.__getitem__, whole)

    def of_value(row: Row, several: Sequence[Row]) -> int:
        values = [one["symbol"] for one in several]
        place = values.index(row["symbol"]) if row["symbol"] in values else None
        return UNKNOWN if place is None else NULL if place == 0 else place - 1 + FIRST

    def answers(axis: Axis) -> Words:
        if axis.key == "symbol":
            return np.array([of_value(row, before) for row in rows])
        if axis.key in known:
            return np.array([position(known[axis.key], row) for row in rows])  # type: ignore[index]
        return np.array([int(formula_holds(axis.key, row)) for row in rows])  # type: ignore[arg-type]

    words = words_of(book, answers, len(rows))
    missed = np.array([of_value(row, before) == UNKNOWN for row in rows])
    found = np.where(missed, [of_value(row, after) for row in rows], -1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signatures_module, "_UNPACKED", seed % 100)
        assert book.signatures(words, {"symbol": Learnt(late, found)}).bits.tolist() == satisfied(
            formulas, rows
        )


def test_words_grow_by_bits_and_not_by_cells() -> None:
    texts = [f"symbol LIKE '%{letter}{other}%'" for letter in "abcdefghij" for other in "abcdefghij"]
    formulas = [wp.canonical(predicate(text)) for text in texts]
    axes = {one: of_boolean(one) for one in wp.attributes(formulas)}
    assert word_book(formulas, axes.__getitem__, whole).width == -(-len(texts) // WORD_BITS)


@pytest.mark.parametrize(
    ("text", "fields", "masks"),
    [
        ("n > 5", 1, 0),
        ("n > 5 AND price < 2", 0, 1),
        ("n > 5 OR price < 2", 0, 1),
        ("n > 5 AND price < 2 OR ok", 1, 1),
        ("TRUE", 0, 1),
        ("FALSE", 0, 0),
    ],
)
def test_what_tests_one_thing_is_a_field_and_what_tests_several_a_bit(
    text: str, fields: int, masks: int
) -> None:
    formulas = [wp.canonical(predicate(text))]
    axes = {one: searched(attribute) for one, attribute in wp.attributes(formulas).items()}
    book = word_book(formulas, axes.__getitem__, whole)
    assert (len(book.fields), len(book.masks)) == (fields, masks)


def test_many_predicates_are_read_off_words_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    formulas = [wp.canonical(predicate(f"n > {number} AND price < {number}")) for number in range(200)]
    axes = {one: searched(attribute) for one, attribute in wp.attributes(formulas).items()}
    book = word_book(formulas, axes.__getitem__, whole)
    words = np.random.default_rng(1).integers(0, 1 << 62, (50_000, book.width))
    monkeypatch.setattr(signatures_module, "_UNPACKED", 1 << 20)
    tracemalloc.start()
    told = book.signatures(words, {})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # As a byte for each bit they would be 10 MB, and as many for the atoms.
    assert told.packed.nbytes == 50_000 * 25
    assert most < 8_000_000
