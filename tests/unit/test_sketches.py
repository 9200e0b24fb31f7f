"""Sketches are within their stated errors on adversarial data, and bounded, however rows are cut."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.language_samples import TRADES, query

from weft.aggregates import (
    SKETCHES,
    Bags,
    Partial,
    Primitive,
    Ranges,
    aggregate,
    bags,
    concatenate,
    kept,
    materialized,
    merged,
)
from weft.aggregates.aggregate import Constants
from weft.aggregates.bags import encoded
from weft.aggregates.registers import RANK_BITS, Registers, estimates, register_bits
from weft.durability.stored_names import Unknown, primitive_name, read_primitive
from weft.errors import TypeMismatch
from weft.expression import Column
from weft.optimizer.explain import explain
from weft.optimizer.plan import leaf
from weft.optimizer.rules import optimize
from weft.types import BIGINT, INT

CASES = 1_000
CONSTANTS: list[tuple[str, Constants]] = [
    ("approx_count_distinct", (0.3,)), ("approx_percentile", ((0.1, 0.9), 100)), ("approx_top_k", (3, 5)),
]  # fmt: skip
"""Sketches and constants of them."""
Values = npt.NDArray[np.int64]
X = Column("x", BIGINT)


def partial_of(primitive: Primitive, values: Values) -> Partial:
    """Return what a batch gives of one slice and group."""
    codes, dictionary = encoded(pa.array(values))
    column = bags(np.zeros(len(values), dtype=np.intp), 1, codes, dictionary)
    return kept(primitive, Partial((column,), None, primitive.types))


def stored(primitive: Primitive, batches: Sequence[Values]) -> Partial:
    """Return what a store keeps of a slice that gets several batches."""
    whole = partial_of(primitive, batches[0])
    for batch in batches[1:]:
        both = concatenate([whole, partial_of(primitive, batch)])
        whole = merged(primitive, both, np.array([0]), np.array([2]))
    return whole


def window(primitive: Primitive, slices: Sequence[Sequence[Values]]) -> Partial:
    """Return a window over slices, as finals read it."""
    whole = concatenate([stored(primitive, batches) for batches in slices])
    ranges = Ranges(whole.fields[0], np.array([0]), np.array([len(slices)]))
    return Partial((ranges,), None, primitive.types)


def cut(values: Values, pieces: int, chance: np.random.Generator) -> list[Values]:
    """Cut values into pieces of uneven lengths, none of which is empty."""
    bounds = np.sort(chance.choice(np.arange(1, len(values)), min(pieces, len(values)) - 1, replace=False))
    return [values[begin:end] for begin, end in pairwise([0, *bounds.tolist(), len(values)])]


def zooming(number: int, chance: np.random.Generator) -> Values:
    """Return values from the ends inward: each is next to the median of those to come."""
    steps = np.arange(number) // 2
    return np.where(np.arange(number) % 2 == 0, steps, 2 * number - steps)


SHAPES: dict[str, Callable[[int, np.random.Generator], Values]] = {
    "random": lambda number, chance: chance.integers(0, 1 << 40, number),
    "rising": lambda number, chance: np.arange(number),
    "falling": lambda number, chance: -np.arange(number),
    "zooming": zooming,
    "sawtooth": lambda number, chance: np.arange(number) % 97 * number + np.arange(number),
    "skewed": lambda number, chance: chance.zipf(1.3, number) % (1 << 40),
    "few": lambda number, chance: chance.integers(0, 5, number),
    "powers": lambda number, chance: 1 << chance.integers(0, 62, number),
}
"""Orders and distributions of values, some of them chosen to harm sketches."""


def shares_within(cases: Callable[[int], bool]) -> float:
    """Return the share of all cases that are within the stated error."""
    return sum(map(cases, range(CASES))) / CASES


def draw(case: int, most: int = 2_000) -> tuple[Values, list[list[Values]], np.random.Generator]:
    """Return all values of a case, and the same in slices and batches."""
    chance = np.random.default_rng(case)
    shape = list(SHAPES.values())[case % len(SHAPES)]
    values = shape(int(chance.integers(2, most)), chance)
    slices = cut(values, int(chance.integers(1, 8)), chance)
    return values, [cut(own, int(chance.integers(1, 12)), chance) for own in slices], chance


# approx_percentile: an error of rank of at most 1 / accuracy, in 95 % of cases.


def test_percentiles_are_within_their_error_of_rank() -> None:
    function = aggregate("percentile_approx")
    assert function is not None

    def within(case: int) -> bool:
        values, slices, chance = draw(case)
        accuracy, share = int(chance.integers(10, 120)), float(chance.random())
        (primitive,) = function.lift((X,), (share, accuracy))
        (found,) = function.lower([window(primitive, slices)], BIGINT, (share, accuracy)).to_pylist()
        below, through = (values < found).mean(), (values <= found).mean()
        return bool(found in values and below - 1 / accuracy <= share <= through + 1 / accuracy)

    assert shares_within(within) >= 0.95


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_are_bounded_and_keep_the_number_of_rows(shape: str) -> None:
    chance = np.random.default_rng(7)
    values = SHAPES[shape](50_000, chance)
    (primitive,) = leaf(
        query("SELECT approx_percentile(vol, 0.5, 30) AS m FROM trades [RANGE '1 min']")
    ).primitives
    whole = stored(primitive, cut(values, 200, chance))
    assert int(whole.fields[0].counts.sum()) == len(values)
    assert int(whole.fields[0].sizes.max()) <= 120


def test_a_small_sample_is_exact() -> None:
    function = aggregate("approx_percentile")
    assert function is not None
    constants = ((0.0, 0.5, 0.51, 1.0), 10_000)
    (primitive,) = function.lift((X,), constants)
    values = np.array([4, 1, 3, 2])
    lowered = function.lower(
        [window(primitive, [[values], [values[:0], values]])],
        function.result((BIGINT,), constants),
        constants,
    )
    assert lowered.to_pylist() == [[1, 2, 3, 4]]


@given(st.lists(st.lists(st.integers(0, 20), max_size=8), min_size=1, max_size=8), st.data())
def test_values_at_ranks_of_ranges_are_those_of_merged_bags(
    rows: list[list[int]], data: st.DataObject
) -> None:
    codes, dictionary = encoded(pa.array([value for row in rows for value in row], pa.int64()))
    owner = np.repeat(np.arange(len(rows)), list(map(len, rows)))
    column = bags(owner, len(rows), codes, dictionary)
    lo = data.draw(st.integers(0, len(rows) - 1))
    hi = data.draw(st.integers(lo + 1, len(rows)))
    whole = sorted(value for row in rows[lo:hi] for value in row)
    ranges = Ranges(column, np.full(len(whole), lo), np.full(len(whole), hi))
    assert column.dictionary.take(pa.array(ranges.codes_at(np.arange(len(whole))))).to_pylist() == whole


# approx_count_distinct: a relative error of at most two deviations, in 95 % of cases.


def coupons(values: Values, bits: int) -> Values:
    """Return coupons of good hashes of the values."""
    hashes = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    rest = (hashes >> np.uint64(bits)) | np.uint64(1 << (64 - bits))
    rank = np.bitwise_count(~rest & (rest - np.uint64(1))).astype(np.int64) + 1
    return (hashes & np.uint64((1 << bits) - 1)).astype(np.int64) << RANK_BITS | rank


def test_distinct_counts_are_within_two_deviations() -> None:
    def within(case: int) -> bool:
        values, slices, chance = draw(case)
        deviation = float(chance.uniform(0.01, 0.2))
        bits = register_bits(deviation)
        primitive = Primitive(("bag",), (X,), Registers(bits), (INT,))
        sketched = [[coupons(batch, bits) for batch in batches] for batches in slices]
        (found,) = estimates(window(primitive, sketched).fields[0], bits)
        distinct = len(np.unique(values))
        return bool(abs(found - distinct) <= max(2 * deviation * distinct, 0.5))

    assert shares_within(within) >= 0.95


@pytest.mark.parametrize("number", [0, 1, 2, 10, 100])
def test_few_distinct_values_are_counted_almost_exactly(number: int) -> None:
    primitive = Primitive(("bag",), (X,), Registers(14), (INT,))
    found = estimates(window(primitive, [[coupons(np.arange(number), 14)]]).fields[0], 14)
    assert found.tolist() == pytest.approx([number], rel=0.03)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.data())
def test_registers_of_overlapping_ranges_are_those_of_merged_coupons(
    sizes: list[int], data: st.DataObject
) -> None:
    bits, begin = 4, np.cumsum([0, *sizes])
    primitive = Primitive(("bag",), (X,), Registers(bits), (INT,))
    rows = [partial_of(primitive, coupons(np.arange(a, b), bits)) for a, b in pairwise(begin.tolist())]
    column: Bags = concatenate(rows).fields[0]
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, len(sizes) - 1), st.integers(1, 20)), min_size=1, max_size=9)
    )
    lo, length = np.array(pairs).T
    hi = np.minimum(lo + length, len(sizes))
    alone = [
        int(
            estimates(
                Ranges(
                    Registers(bits).kept((column.merged(lo[i : i + 1], hi[i : i + 1]),))[0],
                    np.array([0]),
                    np.array([1]),
                ),
                bits,
            )[0]
        )
        for i in range(len(lo))
    ]
    assert estimates(Ranges(column, lo, hi), bits).tolist() == alone


# approx_top_k: no count is too high, nor too low by more than rows / (tracked + 1): always.


@pytest.mark.parametrize("case", range(0, CASES, 20))
def test_counts_of_frequent_values_are_within_their_error(case: int) -> None:
    function = aggregate("approx_top_k")
    assert function is not None
    values, slices, chance = draw(case)
    constants = (int(chance.integers(1, 30)), int(chance.integers(1, 60)))
    (primitive,) = function.lift((X,), constants)
    own = window(primitive, slices)
    assert int(own.fields[0].source.sizes.max()) <= max(constants)
    (found,) = function.lower([own], function.result((BIGINT,), constants), constants).to_pylist()
    error = len(values) / (max(constants) + 1)
    true = dict(zip(*map(list, np.unique(values, return_counts=True)), strict=True))
    for item in found:
        assert true[item["item"]] - error <= item["count"] <= true[item["item"]]
    listed = {item["item"] for item in found}
    least = min((item["count"] for item in found), default=0) if len(found) == constants[0] else 0
    assert all(count <= least + error for value, count in true.items() if value not in listed)


# Ranges and the bags that they become are read alike.


@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=8), min_size=1, max_size=8), st.data())
def test_ranges_are_read_as_the_bags_that_they_hold(several: list[list[int]], data: st.DataObject) -> None:
    name, constants = data.draw(st.sampled_from(CONSTANTS))
    function = aggregate(name)
    assert function is not None
    type = function.result((BIGINT,), constants)
    (primitive,) = function.lift((X,), constants)
    whole = concatenate([partial_of(primitive, _lifted(primitive, values)) for values in several])
    starts = st.integers(0, len(several) - 1)
    lo = np.array(data.draw(st.lists(starts, max_size=9)), dtype=np.intp)
    hi = np.array([data.draw(st.integers(begin + 1, len(several))) for begin in lo.tolist()], dtype=np.intp)
    ranges = Partial((Ranges(whole.fields[0], lo, hi),), None, primitive.types)
    merged_bags = materialized(primitive, ranges)
    assert isinstance(merged_bags.fields[0], Bags)
    assert materialized(primitive, merged_bags) is merged_bags
    read, wanted = (function.lower([own], type, constants) for own in (ranges, merged_bags))
    assert read.equals(wanted)


def _lifted(primitive: Primitive, values: list[int]) -> Values:
    own = np.array(values, dtype=np.int64)
    return coupons(own, primitive.combine.bits) if isinstance(primitive.combine, Registers) else own


# What queries share, what is stored, what is refused.


def primitives(select: str) -> list[Primitive]:
    return list(leaf(query(f"SELECT {select} FROM trades [RANGE '1 min']")).primitives)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("approx_percentile(vol, 0.5)", "percentile_approx(vol, array(0.1, 0.9), 10000)", True),
        ("approx_percentile(vol, 0.5)", "approx_percentile(vol, 0.5, 100)", False),
        ("approx_count_distinct(vol)", "approx_count_distinct(vol, 0.05)", True),
        ("approx_count_distinct(vol)", "approx_count_distinct(vol, 0.01)", False),
        ("approx_top_k(vol, 3)", "approx_top_k(vol, 10)", True),
    ],
)
def test_what_asks_the_same_of_the_same_expression_shares_one_sketch(
    one: str, other: str, same: bool
) -> None:
    assert (primitives(f"{one} AS a") == primitives(f"{other} AS a")) is same


@pytest.mark.parametrize(
    "call", ["approx_percentile(vol, 0.5)", "approx_count_distinct(vol)", "approx_top_k(vol, 3)"]
)
def test_sketches_are_read_back_by_their_names(call: str) -> None:
    (primitive,) = primitives(f"{call} AS a")
    assert read_primitive(primitive_name(primitive)) == primitive
    assert str(primitive.combine.parameters[0]) in primitive_name(primitive)


def test_stored_names_of_sketches() -> None:
    found = [primitive_name(Primitive(("bag",), (X,), make(5), (INT,))) for make in SKETCHES.values()]
    column = '["column","x","bigint"]'
    assert found == [
        f'["primitive",["bag"],{column},["{name}",5],["int"]]' for name in ("registers", "sample", "heaviest")
    ]


def test_a_sketch_of_a_later_version_is_refused() -> None:
    name = primitive_name(Primitive(("bag",), (X,), Registers(5), (INT,)))
    with pytest.raises(Unknown, match="theta"):
        read_primitive(name.replace("registers", "theta"))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("approx_count_distinct(vol, 0.4)", "from 0.0008 to 0.39"),
        ("approx_percentile(vol, 1.5)", "from 0 to 1"),
        ("approx_percentile(vol, 0.5, 0)", "from 1 to 1,000,000"),
        ("approx_percentile(vol > 5, 0.5)", "takes a number, date or time, found boolean"),
        ("approx_top_k(vol, 0)", "whole number from 1"),
    ],
)
def test_what_sketches_do_not_take_is_refused(call: str, problem: str) -> None:
    with pytest.raises(TypeMismatch, match=problem):
        primitives(f"{call} AS a")


@pytest.mark.parametrize(
    ("call", "rate", "proposed"),
    [
        ("count(DISTINCT vol)", 1_000.0, "approx_count_distinct(vol)"),
        ("percentile(vol, 0.9)", 1_000.0, "approx_percentile(vol, p)"),
        ("top_k(vol, 3)", 1_000.0, "approx_top_k(vol, k)"),
        ("count(DISTINCT vol)", 100.0, None),
        ("top_k(vol, 3, sum(n))", 1_000.0, None),
        ("approx_count_distinct(vol)", 1_000.0, None),
    ],
)
def test_explain_proposes_a_sketch_for_many_values(call: str, rate: float, proposed: str | None) -> None:
    plan = optimize([query(f"SELECT {call} AS a FROM trades [RANGE '1 hour' SLIDE '1 min']")])
    text = explain(TRADES, plan, rows_per_second=rate)
    assert ("has a bounded size" in text) is (proposed is not None)
    if proposed is not None:
        assert f"holds up to 3,600,000 values over 1 h; {proposed} has a bounded size" in text
