"""What predicates become: one formula for all that mean the same, its words, its codes and fragments."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import predicate
from tests.unit.test_predicates import (
    COLUMNS,
    Row,
    atoms,
    contains,
    holds,
    point,
    random_rows,
    trees,
    value,
)

import weft.predicates as wp
from weft.expression import Expression, Scalar
from weft.predicates.codebook import NO_FRAGMENT, AttributeKind, distinct_rows
from weft.types import DOUBLE


def grid_size(formulas: list[wp.Formula]) -> int:
    """Return how many cells the grid of some predicates has at most."""
    return prod(one.positions for one in wp.attributes(formulas).values())


def formula(text: str) -> wp.Formula:
    return wp.canonical(predicate(text))


# Each rewrite by name.

SAME = {
    "order of parts": ("5 < n AND vol = 1", "vol = 1 AND n > 5"),
    "order of alternatives": ("n > 5 OR ok OR vol = 1", "vol = 1 OR (n > 5 OR ok)"),
    "constant on the left": ("5 >= n", "n <= 5"),
    "not between": ("NOT (n BETWEEN 1 AND 5)", "n < 1 OR n > 5"),
    "between": ("n BETWEEN 1 AND 5", "n <= 5 AND 1 <= n"),
    "in": ("n IN (1, 2)", "n = 2 OR n = 1"),
    "not in": ("n NOT IN (1, 2)", "n <> 1 AND n <> 2"),
    "in with NULL is true nowhere else": ("n IN (1, NULL)", "n = 1"),
    "not in with NULL is never true": ("n NOT IN (1, NULL)", "n = NULL"),
    "never true": ("n > NULL", "FALSE"),
    "empty range": ("n > 7 AND n < 3", "FALSE"),
    "no value": ("n = 5 AND n IS NULL", "FALSE"),
    "always": ("n IS NULL OR n IS NOT NULL", "TRUE"),
    "double negation": ("NOT NOT n > 5", "n > 5"),
    "double negation of a function": ("NOT NOT midcap(symbol)", "midcap(symbol)"),
    "De Morgan, and": ("NOT (ok AND midcap(symbol))", "NOT ok OR NOT midcap(symbol)"),
    "De Morgan, or": ("NOT (n > 5 OR ok)", "n <= 5 AND NOT ok"),
    "negated comparison": ("NOT n < 5", "n >= 5"),
    "weaker bound": ("n > 5 AND n > 7", "n > 7"),
    "stronger bound": ("n > 5 OR n > 7", "n > 5"),
    "bounds that overlap": ("n BETWEEN 1 AND 5 OR n BETWEEN 3 AND 9", "n BETWEEN 1 AND 9"),
    "hole": ("n < 5 OR n > 5", "n <> 5"),
    "all but NULL": ("n < 5 OR n >= 5", "n IS NOT NULL"),
    "part twice": ("midcap(symbol) AND n > 1 AND midcap(symbol)", "n > 1 AND midcap(symbol)"),
    "neutral constants": ("n > 1 AND TRUE OR FALSE", "n > 1"),
    "decisive constant": ("n > 1 OR TRUE", "TRUE"),
    "is not null": ("n IS NOT NULL", "NOT (n IS NULL)"),
    "not distinct": ("n IS NOT DISTINCT FROM 5", "n = 5"),
    "distinct": ("n IS DISTINCT FROM 5", "n <> 5 OR n IS NULL"),
    "distinct from NULL": ("n IS DISTINCT FROM NULL", "n IS NOT NULL"),
    "boolean = true": ("ok = TRUE", "ok"),
    "boolean = false": ("ok = FALSE", "NOT ok"),
    "boolean <> true": ("ok <> TRUE", "NOT ok"),
    "is true": ("ok IS TRUE", "ok"),
    "is not true": ("ok IS NOT TRUE", "ok IS NULL OR NOT ok"),
    "unknown comparison": ("(n > 5) IS NULL", "n IS NULL"),
    "unknown and": ("(n > 5 AND n < 9) IS NULL", "n IS NULL"),
    "case": ("CASE WHEN n > 5 THEN TRUE ELSE FALSE END", "n > 5"),
    "case turned round": ("CASE WHEN n > 5 THEN FALSE ELSE TRUE END", "n IS NULL OR n <= 5"),
    "case of ranges": ("CASE WHEN n > 9 THEN FALSE WHEN n > 5 THEN TRUE END", "n > 5 AND n <= 9"),
    "simple case": ("CASE n WHEN 1 THEN TRUE WHEN 2 THEN FALSE ELSE TRUE END", "n <> 2 OR n IS NULL"),
    "if": ("IF(n > 5, ok, FALSE)", "n > 5 AND ok"),
    "columns turned round": ("n > vol", "vol < n"),
    "equal columns": ("n = vol", "vol = n"),
    "constant arithmetic": ("n > 60 * 1000", "n > 60000"),
    "decimal constant": ("n = 5.00", "n = 5"),
    "wider constant": ("n = 5L", "n = 5"),
    "no such whole number": ("n = 5.5", "FALSE"),
    "between whole numbers": ("n > 5.5", "n > 5"),
    "beyond the type, above": ("tiny < 1000", "tiny IS NOT NULL"),
    "beyond the type, below": ("tiny < -1000", "FALSE"),
    "finer decimal": ("fee > 5.009", "fee > 5.00"),
    "negative zero": ("price = -0.0d", "price = 0.0d"),
    "text as a day": ("day = '2026-01-31'", "day = DATE '2026-01-31'"),
    "zones": ("time = TIMESTAMP '2026-01-31 01:00:00+01:00'", "time = '2026-01-31 00:00:00'"),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_texts_that_mean_the_same_become_one_formula(one: str, other: str) -> None:
    assert wp.canonical(predicate(one)) == wp.canonical(predicate(other))
    assert hash(wp.canonical(predicate(one))) == hash(wp.canonical(predicate(other)))


NOTHING_KNOWN: dict[str, Scalar] = dict.fromkeys(COLUMNS)
APART = [
    ("n < 5", "n <= 5", {"n": 5}),
    ("n > 5", "vol > 5", {"n": 6}),
    ("n = 1 AND ok", "n = 1 OR ok", {"n": 1}),
    ("NOT (n = 1)", "n IS NULL OR n <> 1", {}),
    ("n <> 1", "n IS DISTINCT FROM 1", {}),
    ("n > 5 OR n <= 5", "TRUE", {}),
    ("NOT ok", "ok IS NOT TRUE", {}),
    ("ok OR NOT ok", "TRUE", {}),
    ("n NOT IN (1, NULL)", "n NOT IN (1)", {"n": 2}),
    ("n NOT IN (1, 2)", "NOT coalesce(n IN (1, 2), FALSE)", {}),
    ("NOT (n > vol)", "n <= vol OR n IS NULL OR vol IS NULL", {"vol": 1}),
    ("NOT (n > 5 AND ok)", "n <= 5 OR ok IS NOT TRUE", {"n": 6}),
    ("CASE WHEN n > 5 THEN FALSE ELSE TRUE END", "n <= 5", {}),
    ("CASE WHEN ok THEN FALSE ELSE TRUE END", "NOT ok", {}),
    ("(n > 5 OR ok) IS NULL", "n IS NULL OR ok IS NULL", {"n": 6}),
    ("(CASE WHEN ok THEN n ELSE 2 END) IS NULL", "ok AND n = 2", {"ok": True}),
    ("n <=> NULL", "n = NULL", {}),
    ("price = 0.1f", "price = 0.1d", {"price": 0.1}),
    ("vol = 9007199254740993", "vol = 9007199254740993e0", {"vol": 2**53}),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "witness"), APART)
def test_texts_that_differ_on_a_row_stay_apart(one: str, other: str, witness: dict[str, Scalar]) -> None:
    formulas = [wp.canonical(predicate(text)) for text in (one, other)]
    assert formulas[0] != formulas[1]
    row = NOTHING_KNOWN | witness
    first, second = (holds(formula, row) for formula in formulas)
    assert first != second


# Formulas in words, as explain shows them.

WORDS = [
    ("n > 5", "n > 5"),
    ("5 <= n", "n >= 5"),
    ("NOT n = 5", "n <> 5"),
    ("n BETWEEN 1 AND 5", "n >= 1 and n <= 5"),
    ("n NOT BETWEEN 1 AND 5", "n < 1 or n > 5"),
    ("n IN (2, 1)", "n in (1, 2)"),
    ("n NOT IN (2, 1)", "n not in (1, 2)"),
    ("n IS NULL", "n is null"),
    ("n IS NOT NULL", "n is not null"),
    ("n IS DISTINCT FROM 5", "n is null or n <> 5"),
    ("n < 1 OR n IS NULL", "n is null or n < 1"),
    ("n = 1 OR n > 5", "n >= 1 and n <= 1 or n > 5"),
    ("vol = 1 AND 5 < n", "n > 5 and vol = 1"),
    ("vol = 1 OR 5 < n", "n > 5 or vol = 1"),
    ("(n < 1 OR n > 5) AND vol = 1", "(n < 1 or n > 5) and vol = 1"),
    ("n = 1 AND (ok OR vol = 1)", "n = 1 and (ok or vol = 1)"),
    ("n = 1 OR ok AND vol = 1", "n = 1 or (ok and vol = 1)"),
    ("ok", "ok"),
    ("ok = FALSE", "not ok"),
    ("ok IS NULL", "ok is null"),
    ("ok IS NOT NULL", "ok is not null"),
    ("ok IS NOT FALSE", "ok is null or ok"),
    ("NOT n > vol", "not (vol < n)"),
    ("NOT symbol LIKE 'A%'", "not like(symbol, 'A%')"),
    ("midcap(symbol) AND vol > 100", "midcap(symbol) and vol > 100"),
    ("symbol IN ('it''s', 'B')", "symbol in ('B', 'it''s')"),
    ("fee >= 12.5", "fee >= 12.50"),
    ("fee > 12.505", "fee > 12.50"),
    ("price < 0.5", "price < 0.5"),
    ("price < -0.0d", "price < 0.0"),
    ("ratio < 0.5", "cast(ratio as double) < 0.5"),
    ("n > 5e0", "cast(n as double) > 5.0"),
    ("day < '2026-01-31'", "day < DATE '2026-01-31'"),
    ("time > '2026-01-31 12:00:00.5'", "time > TIMESTAMP '2026-01-31 12:00:00.500000'"),
    ("n + 1 > 5", "(n + 1) > 5"),
    ("n > 7 AND n < 3", "false"),
    ("n IS NULL OR n IS NOT NULL", "true"),
]


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_a_formula_in_words(text: str, words: str) -> None:
    assert str(formula(text)) == words


# Sets of values.

places = st.builds(wp.Cut, st.integers(-3, 3), st.booleans())
sets = st.builds(
    wp.Values,
    st.booleans(),
    st.lists(places, unique=True, max_size=6).map(lambda cuts: tuple(sorted(cuts))),
    st.booleans(),
)
PROBES: list[float | None] = [None, *(half / 2 for half in range(-8, 9))]


def members(values: wp.Values) -> list[bool]:
    """Say of each value, those between the cuts too, whether it is in the set."""
    return [contains(values, probe, DOUBLE) for probe in PROBES]


@given(sets, sets)
@settings(deadline=None)
def test_sets_join_value_by_value(one: wp.Values, two: wp.Values) -> None:
    pairs = list(zip(members(one), members(two), strict=True))
    assert members(one | two) == [a or b for a, b in pairs]
    assert members(one & two) == [a and b for a, b in pairs]
    assert members(~one) == [not a for a, _ in pairs]
    assert members(one.without_null()) == [False, *members(one)[1:]]
    # Sets with the same members are equal, so the rest of the algebra is compared as such.
    assert (one == two) == (members(one) == members(two))
    assert one | two == two | one
    assert ~(one | two) == ~one & ~two
    assert ~~one == one
    assert one & (one | two) == one
    assert (one & ~one).is_empty
    assert (one | ~one).is_everything


@given(sets)
@settings(deadline=None)
def test_stretches_are_the_set_in_pieces(one: wp.Values) -> None:
    pieces = wp.Values(null=one.null)
    for low, high in one.stretches():
        piece = wp.Values(lowest=low is None, cuts=tuple(cut for cut in (low, high) if cut is not None))
        assert (piece & pieces).is_empty or one.null
        pieces |= piece
    assert pieces == one


# Codes and fragments.

sets_of_predicates = st.lists(trees(atoms(("n", "price", "fee", "ok", "symbol")), 3), min_size=1, max_size=5)
seeds = st.integers(0, 10**6)
LARGEST_GRID = 2_000


def position(attribute: wp.Attribute, row: Row) -> int:
    """Return where a row stands among the constants of an attribute."""
    found = value(attribute.expression, row)
    if found is None:
        return 2 * len(attribute.points) + 1
    place = point(found, attribute.expression.type)
    if place != place:  # NaN, beyond infinity
        return 2 * len(attribute.points)
    below = sum(one < place for one in attribute.points)  # type: ignore[operator]
    return 2 * below + (place in attribute.points)


def fragments(book: wp.Codebook, rows: list[Row]) -> list[int]:
    positions = [np.array([position(one, row) for row in rows]) for one in book.attributes]
    if not positions:
        return [int(book.fragments[0])] * len(rows)
    cells = sum(share[where] for share, where in zip(book.shares, positions, strict=True))
    return [int(one) for one in book.fragments[cells]]


@given(sets_of_predicates, seeds)
@settings(max_examples=120, deadline=None)
def test_a_row_is_in_the_fragment_of_the_predicates_it_satisfies(
    predicates: list[Expression], seed: int
) -> None:
    formulas = [wp.canonical(one) for one in predicates]
    assume(grid_size(formulas) <= LARGEST_GRID)
    book = wp.codebook(formulas)
    rows = random_rows(seed, 30)
    for row, fragment in zip(rows, fragments(book, rows), strict=True):
        satisfied = [value(one, row) is True for one in predicates]
        found = [False] * len(predicates) if fragment == NO_FRAGMENT else list(book.signatures[fragment])
        assert found == satisfied
    assert len({one.tobytes() for one in book.signatures}) == len(book.signatures)
    assert book.signatures.any(axis=1).all()
    assert len(book.fragments) <= grid_size(formulas)
    assert set(book.fragments.tolist()) - {NO_FRAGMENT} == set(range(len(book.signatures)))


@given(sets_of_predicates, sets_of_predicates, seeds)
@settings(max_examples=50, deadline=None)
def test_attributes_with_more_cuts_give_the_same_fragments(
    predicates: list[Expression], others: list[Expression], seed: int
) -> None:
    formulas = [wp.canonical(one) for one in predicates]
    assume(grid_size(formulas) <= LARGEST_GRID)
    known = wp.attributes([*formulas, *(wp.canonical(one) for one in others)])
    own, wider = wp.codebook(formulas), wp.codebook(formulas, known)
    assert wider.attributes == tuple(known[one.expression] for one in own.attributes)
    rows = random_rows(seed, 30)
    assert fragments(own, rows) == fragments(wider, rows)
    assert own.signatures.tolist() == wider.signatures.tolist()
    assert len(own.fragments) == len(wider.fragments)


def test_the_fragments_of_figure_7() -> None:
    # Example 1 of STS: three predicates, eight fragments; F5 satisfies p1 and p3, for 5 is 101 in bits.
    book = wp.codebook([formula("n > 1"), formula("price < 2"), formula("ok")])
    named = [int("".join(str(int(bit)) for bit in signature), 2) for signature in book.signatures]
    assert sorted(named) == [1, 2, 3, 4, 5, 6, 7]
    readers = [{named[one] for one in np.flatnonzero(book.signatures[:, query])} for query in range(3)]
    assert readers == [{4, 5, 6, 7}, {2, 3, 6, 7}, {1, 3, 5, 7}]

    rows: list[Row] = [
        {"n": n, "price": price, "ok": ok, "vol": 10**number}
        for number, (n, price, ok) in enumerate(product([1, 2], [2.0, 1.0], [False, True]))
    ]
    # Row i lies in fragment i, so that the sum of `vol` tells by its digits which fragments went into it.
    found = fragments(book, rows)
    assert [0 if one == NO_FRAGMENT else named[one] for one in found] == [0, 1, 2, 3, 4, 5, 6, 7]
    partials = [sum(int(str(row["vol"])) for row, at in zip(rows, found, strict=True) if at == one)
                for one in range(len(named))]  # fmt: skip
    finals = (book.signatures.T.astype(int) @ np.array(partials)).tolist()
    assert finals == [11110000, 11001100, 10101010]


@pytest.mark.parametrize(
    ("texts", "kind", "points", "positions", "codes"),
    [
        (["symbol = 'B'", "symbol IN ('A', 'C')"], AttributeKind.CATEGORY, 3, 8, 3),
        (["symbol <> 'B'", "symbol IS NULL"], AttributeKind.CATEGORY, 1, 4, 3),
        (["symbol = 'B'", "symbol > 'D'"], AttributeKind.INTERVAL, 2, 6, 3),
        (["n > 5", "n > 9"], AttributeKind.INTERVAL, 2, 6, 3),
        (["n IS NULL"], AttributeKind.CATEGORY, 0, 2, 2),
        (["ok", "NOT ok", "ok IS NOT NULL"], AttributeKind.BIT, 1, 4, 3),
        (["n > vol"], AttributeKind.BIT, 1, 4, 2),
    ],
)
def test_positions_that_no_predicate_tells_apart_share_a_code(
    texts: list[str], kind: AttributeKind, points: int, positions: int, codes: int
) -> None:
    book = wp.codebook([formula(text) for text in texts])
    (attribute,) = book.attributes
    assert (attribute.kind, len(attribute.points), attribute.positions) == (kind, points, positions)
    assert len(set(book.shares[0].tolist())) == codes == len(book.fragments)


def test_all_other_categories_have_one_code() -> None:
    book = wp.codebook([formula("symbol = 'B'"), formula("symbol IN ('A', 'C')")])
    (shares,) = book.shares
    below, a, between, b, between_too, c, above, null = shares.tolist()
    assert below == between == between_too == above == null
    assert len({below, a, b}) == 3
    assert a == c


def test_a_set_tells_the_positions_of_an_attribute() -> None:
    (attribute,) = wp.attributes([formula("n > 5"), formula("n <= 9")]).values()
    (one,) = wp.tests(formula("n > 5 AND n < 9"))
    #                                             < 5    5      between  9     > 9    NULL
    assert attribute.among(one.values).tolist() == [False, False, True, False, False, False]
    (two,) = wp.tests(formula("n IS NULL OR n = 9"))
    assert attribute.among(two.values).tolist() == [False, False, False, True, False, True]


@given(sets_of_predicates)
@settings(max_examples=80, deadline=None)
def test_many_sets_tell_the_positions_that_each_tells(predicates: list[Expression]) -> None:
    several = [one for predicate in predicates for one in wp.tests(wp.canonical(predicate))]
    for attribute in wp.attributes(several).values():
        sets = [one.values for one in several if one.expression == attribute.expression]
        expected = np.array([attribute.among(values) for values in sets])
        packed = attribute.among_all(sets)
        told = np.unpackbits(packed, axis=1, count=len(sets), bitorder="little").T.astype(bool)
        assert told.tolist() == expected.tolist()
        positions = np.arange(attribute.positions)[::-1]
        for values, own in zip(sets, expected, strict=True):
            assert attribute.satisfy(values, positions).tolist() == own[positions].tolist()


def test_a_predicate_that_tests_nothing_is_told_beside_those_that_do() -> None:
    book = wp.codebook([formula("n > 5"), wp.TRUE, formula("n > 7")])
    rows: list[Row] = [{"n": 5}, {"n": 6}, {"n": 8}]
    told = [book.signatures[one].tolist() for one in fragments(book, rows)]
    assert told == [[False, True, False], [True, True, False], [True, True, True]]


def test_codebooks_without_attributes() -> None:
    assert wp.codebook([]).fragments.tolist() == [NO_FRAGMENT]
    assert wp.codebook([wp.FALSE]).signatures.shape == (0, 1)
    always = wp.codebook([wp.TRUE, wp.FALSE])
    assert (always.fragments.tolist(), always.signatures.tolist()) == ([0], [[True, False]])


def test_more_predicates_than_bits_in_a_byte() -> None:
    book = wp.codebook([formula(f"n >= {bound}") for bound in range(20)])
    rows: list[Row] = [{"n": bound} for bound in range(-1, 20)]
    found = fragments(book, rows)
    assert found[0] == NO_FRAGMENT
    counts = [int(book.signatures[one].sum()) for one in found[1:]]
    assert counts == list(range(1, 21))


@given(st.lists(st.binary(min_size=2, max_size=2), min_size=1, max_size=20))
@settings(deadline=None)
def test_distinct_rows(texts: list[bytes]) -> None:
    firsts, numbers = distinct_rows(np.array([list(text) for text in texts], dtype=np.uint8))
    assert [texts[firsts[number]] for number in numbers] == texts
    assert sorted(firsts.tolist()) == sorted(texts.index(text) for text in set(texts))
