"""Bags of values: each operation against a slow twin, a Counter for each bag."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import decimal_type, values
from tests.unit.test_combine import ranges

from weft.aggregates import BAG, Bags, Partial, Primitive, arrow_type, bags, combine, concatenate, empty
from weft.aggregates.bags import encoded, whole_or_double
from weft.expression import Column
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

BINARY, NTZ = DataType(Kind.BINARY), DataType(Kind.TIMESTAMP_NTZ)
WIDE = decimal_type(38, 10)
FEW: dict[DataType, tuple[Any, ...]] = {
    INT: (0, 1, -1, 2**31 - 1),
    BIGINT: (0, 7, -(2**63), 2**63 - 1),
    DOUBLE: (0.0, -0.0, 1.5, nan, inf, -inf, -1e300),
    STRING: ("", "a", "ü", b"\xff", b"\xc3", "ab"),
    BINARY: (b"", b"\x00", b"\xff\xfe"),
    WIDE: (Decimal(0), Decimal("0.5"), Decimal(10**27), Decimal("-0.0000000001")),
    DATE: (date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)),
    TIMESTAMP: (datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 1, 2, 3, 4, UTC)),
    BOOLEAN: (True, False),
}
"""Few values of each type, so that they repeat; other values are drawn beside them."""
Twin = list[Counter[Any]]
Element = tuple[int, Any]


def elements(type: DataType) -> st.SearchStrategy[list[Any]]:
    """Draw values that are not NULL."""
    others = values(type).filter(lambda value: value is not None)
    return st.lists(st.sampled_from(FEW[type]) | others, max_size=12)


def array(type: DataType, given: Sequence[Any]) -> pa.Array:
    """Return values as Spark hands them over; texts need not be UTF-8."""
    if type == STRING:
        return pa.array([own if isinstance(own, bytes) else own.encode() for own in given], pa.binary()).view(
            pa.string()
        )
    return pa.array(given, arrow_type(type))


def name(value: Any) -> Any:
    """Return what is equal for values that are one element: there is one zero and one NaN."""
    if isinstance(value, float):
        return "NaN" if isnan(value) else value + 0.0
    return value.encode() if isinstance(value, str) else value


def rank(value: Any) -> Any:
    """Order elements as Spark does."""
    return (1, 0) if value == "NaN" else (0, value)


def cut(given: Sequence[Any], places: Sequence[int]) -> list[Sequence[Any]]:
    """Cut values into groups."""
    bounds = [0, *sorted(place % (len(given) + 1) for place in places), len(given)]
    return [given[begin:end] for begin, end in pairwise(bounds)]


def made(type: DataType, groups: Sequence[Sequence[Any]], backwards: bool = False) -> Bags:
    """Return a bag for each group of values."""
    codes, dictionary = encoded(array(type, [value for group in groups for value in group]))
    owner = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    if backwards:
        owner, codes = owner[::-1], codes[::-1]
    return bags(owner, len(groups), codes, dictionary)


def twin(groups: Sequence[Sequence[Any]]) -> Twin:
    return [Counter(map(name, group)) for group in groups]


def read(found: Bags) -> Twin:
    """Return bags as Counters, having checked that they keep what they promise."""
    known = found.dictionary
    texts = known.view(pa.binary()) if pa.types.is_string(known.type) else known
    values = [name(value) for value in texts.to_pylist()]
    assert [rank(value) for value in values] == sorted(map(rank, set(values)))
    assert found.begins[0] == 0
    assert found.begins[-1] == len(found.codes) == len(found.counts)
    assert (found.counts > 0).all()
    result = []
    for begin, end in pairwise(found.begins.tolist()):
        codes = found.codes[begin:end].tolist()
        assert codes == sorted(set(codes))
        result.append(Counter({values[code]: int(found.counts[begin + at]) for at, code in enumerate(codes)}))
    assert len(result) == len(found) == len(found.sizes)
    return result


typed = st.sampled_from(list(FEW))


@st.composite
def grouped(draw: st.DrawFn) -> tuple[DataType, list[Sequence[Any]]]:
    """Draw a type, and groups of values of it."""
    type = draw(typed)
    return type, cut(draw(elements(type)), draw(st.lists(st.integers(0, 12), max_size=4)))


@settings(max_examples=150)
@given(grouped(), st.booleans())
def test_bags_count_values(of: tuple[DataType, list[Sequence[Any]]], backwards: bool) -> None:
    type, groups = of
    assert read(made(type, groups, backwards)) == twin(groups)


@settings(max_examples=100)
@given(grouped(), st.data())
def test_rows_are_taken(of: tuple[DataType, list[Sequence[Any]]], data: st.DataObject) -> None:
    type, groups = of
    column, wanted = made(type, groups), twin(groups)
    chosen = data.draw(st.lists(st.integers(0, len(groups) - 1), max_size=6))
    assert read(column[np.array(chosen, dtype=np.intp)]) == [wanted[row] for row in chosen]
    mask = np.array([row in chosen for row in range(len(groups))])
    assert read(column[mask]) == [bag for bag, kept in zip(wanted, mask, strict=True) if kept]
    part = slice(*sorted(data.draw(st.tuples(*[st.integers(-2, len(groups) + 1)] * 2))))
    assert read(column[part]) == wanted[part]
    assert read(column[part][::-1]) == wanted[part][::-1]
    assert read(column[part].compact()) == wanted[part]


@settings(max_examples=100)
@given(typed, st.data())
def test_columns_are_joined_though_their_dictionaries_differ(type: DataType, data: st.DataObject) -> None:
    several = [
        cut(data.draw(elements(type)), data.draw(st.lists(st.integers(0, 12), max_size=2)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    column = Bags.joined([made(type, groups) for groups in several])
    wanted = [bag for groups in several for bag in twin(groups)]
    assert read(column) == wanted
    # Columns that share a dictionary keep it.
    assert read(Bags.joined([column, column[:1], Bags.empty(1, column.dictionary.type)])) == [
        *wanted, wanted[0], Counter(),
    ]  # fmt: skip
    again = Bags.joined([column, column])
    assert read(again) == wanted * 2


@settings(max_examples=100)
@given(grouped(), st.data())
def test_ranges_hold_together_what_their_bags_hold(
    of: tuple[DataType, list[Sequence[Any]]], data: st.DataObject
) -> None:
    type, groups = of
    chosen = data.draw(ranges(len(groups)))
    lo, hi = (np.array(bound) for bound in zip(*chosen, strict=True))
    wanted = [sum(twin(groups)[begin:end], Counter()) for begin, end in chosen]
    assert read(made(type, groups).merged(lo, hi)) == wanted


@settings(max_examples=100)
@given(grouped(), st.integers(0, 12))
def test_bags_come_back_from_arrow(of: tuple[DataType, list[Sequence[Any]]], place: int) -> None:
    type, groups = of
    column = made(type, groups)
    stored = column.to_arrow()
    again = Bags.from_arrow(pa.chunked_array([stored]))
    assert again.dictionary.type == column.dictionary.type
    assert read(again) == twin(groups)
    place %= len(groups) + 1
    chunks = pa.chunked_array([stored.slice(0, place), stored.slice(place)])
    assert read(Bags.from_arrow(chunks)) == twin(groups)


def test_values_that_no_bag_holds_are_forgotten_when_they_are_many() -> None:
    column = made(BIGINT, [[number] for number in range(100)])
    assert len(column[:50].compact().dictionary) == 100
    assert column[98:].compact().dictionary.to_pylist() == [98, 99]
    assert len(column[:0].compact().dictionary) == 0


def test_memory_does_not_grow_with_values_that_are_gone() -> None:
    column = made(BIGINT, [[0]])
    for number in range(1, 200):
        column = Bags.joined([column, made(BIGINT, [[number]])])[-2:]
    assert read(column) == [Counter([198]), Counter([199])]
    assert len(column.dictionary) < 20


# Elements with an order of their own, and with weights.


@settings(max_examples=100)
@given(st.data(), st.booleans())
def test_elements_have_an_order_and_weights_that_add_up(data: st.DataObject, wide: bool) -> None:
    span = 2**62 if wide else 100
    element = st.tuples(
        st.integers(0, 2),
        st.sampled_from("ab"),
        st.integers(0, 2),
        st.integers(-span, span),
        st.integers(1, 3),
    )
    drawn = data.draw(st.lists(element, max_size=10))
    owner, texts, order, weights, counts = ([row[place] for row in drawn] for place in range(5))
    codes, dictionary = encoded(pa.array(texts, pa.string()))
    column = bags(
        np.array(owner, dtype=np.intp), 3, codes, dictionary, counts=np.array(counts, dtype=np.int64),
        order=np.array(order, dtype=np.int64), weights=np.array(weights, dtype=np.int64),
    )  # fmt: skip
    wanted = _ordered_twin(drawn, 3)
    assert _ordered(column) == wanted
    assert _ordered(Bags.from_arrow(pa.chunked_array([column.to_arrow()]))) == wanted
    assert _ordered(column[np.array([2, 0])]) == [wanted[2], wanted[0]]
    assert _ordered(Bags.joined([column[:1], column[1:]])) == wanted
    whole = column.merged(np.array([0]), np.array([3]))
    assert _ordered(whole) == _ordered_twin([(0, *rest) for _, *rest in drawn], 1)


def _ordered_twin(drawn: Sequence[Any], rows: int) -> list[list[Any]]:
    found: list[dict[Any, list[int]]] = [{} for _ in range(rows)]
    for owner, text, order, weight, count in drawn:
        element = found[owner].setdefault((order, text), [0, 0])
        element[0] += count
        element[1] += weight
    return [[(*own, *bag[own]) for own in sorted(bag)] for bag in found]


def _ordered(column: Bags) -> list[list[Any]]:
    texts = column.dictionary.to_pylist()
    orders = [0] * len(column.codes) if column.order is None else column.order.tolist()
    weights = [0] * len(column.codes) if column.weights is None else column.weights.tolist()
    every = list(
        zip(orders, [texts[code] for code in column.codes], column.counts.tolist(), weights, strict=True)
    )
    return [every[begin:end] for begin, end in pairwise(column.begins.tolist())]


def test_weights_wider_than_64_bits_add_up_and_come_back() -> None:
    codes, dictionary = encoded(pa.array(["a"] * 4))
    weights = np.array([2**62] * 4, dtype=np.int64)
    column = bags(np.zeros(4, dtype=np.intp), 1, codes, dictionary, weights=weights)
    again = Bags.from_arrow(pa.chunked_array([column.to_arrow()]))
    assert again.weights is not None
    assert again.weights.tolist() == [2**64]
    nothing = Bags.from_arrow(pa.chunked_array([again[:0].to_arrow()]))
    assert _ordered(Bags.joined([nothing, again])) == [[(0, "a", 4, 2**64)]]


def test_sums_of_weights_are_doubles_or_exact() -> None:
    whole = whole_or_double(pa.chunked_array([pa.array([Decimal(2**70), None], pa.decimal128(29, 0))]))
    assert whole.tolist() == [2**70, 0]
    assert whole_or_double(pa.chunked_array([pa.array([1.5, None])])).tolist() == [1.5, 0.0]
    assert whole_or_double(pa.chunked_array([pa.array([7, None])])).tolist() == [7, 0]


# The laws of combining.


def primitive(type: DataType) -> Primitive:
    return Primitive(("bag",), (Column("x", type),), BAG, (type,))


def partial(type: DataType, groups: Sequence[Sequence[Any]]) -> Partial:
    return Partial((made(type, groups),), None, (type,))


def merged(one: Primitive, *parts: Partial) -> Partial:
    whole = concatenate(parts)
    return combine(one, whole, np.array([0]), np.array([len(whole)]))


@settings(max_examples=100)
@given(typed, st.data())
def test_merges_of_merges_are_merges_of_all(type: DataType, data: st.DataObject) -> None:
    one, drawn = primitive(type), [data.draw(elements(type)) for _ in range(3)]
    a, b, c = (partial(type, [values]) for values in drawn)
    wanted = [reduce(Counter.__add__, twin(drawn))]
    nothing = empty(one, 1)
    for whole in (
        merged(one, a, b, c),
        merged(one, c, merged(one, b, a)),
        merged(one, merged(one, a, b), nothing, c),
        merged(one, nothing, a, b, c),
    ):
        assert read(whole.fields[0]) == wanted
        assert whole.valid is None
    assert read(merged(one, nothing, nothing).fields[0]) == [Counter()]


@pytest.mark.parametrize("type", FEW, ids=str)
def test_empty_bags_have_the_type_of_all_others(type: DataType) -> None:
    # Dictionaries of different types cannot be joined.
    whole = concatenate([empty(primitive(type), 2), partial(type, [[FEW[type][0]]])])
    assert read(whole.fields[0]) == [Counter(), Counter(), Counter([name(FEW[type][0])])]


def test_encoded_values_are_in_sparks_order() -> None:
    cases: tuple[tuple[DataType, Callable[[], list[Any]]], ...] = (
        (DOUBLE, lambda: [-inf, 0.0, 1.0, inf, nan]),
        (STRING, lambda: [b"", b"Z", b"a", "é".encode(), b"\xff"]),
        (BOOLEAN, lambda: [False, True]),
    )
    for type, ordered in cases:
        codes, dictionary = encoded(array(type, ordered()[::-1]))
        assert codes.tolist() == list(range(len(ordered())))[::-1]
        texts = dictionary.view(pa.binary()) if type == STRING else dictionary
        assert list(map(name, texts.to_pylist())) == list(map(name, ordered()))
