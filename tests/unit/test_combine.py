"""Combining partials: the laws, and each combiner against a slow twin."""

import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from math import comb, inf, isnan, nan, sqrt
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import BINARY, FLOAT, decimal_type, lifted, values

from weft.aggregates import (
    ADD,
    BAG,
    COMBINES,
    GREATEST,
    LEAST,
    MOMENTS,
    Combine,
    Partial,
    Primitive,
    aggregate,
    combine,
    concatenate,
    count_of,
    empty,
)
from weft.aggregates.chosen import EARLIEST, LATEST
from weft.aggregates.logic import BIT_AND, BIT_OR, BIT_XOR, MULTIPLY
from weft.aggregates.moments import COMOMENTS, SHAPE
from weft.expression import Column
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, DataType

DECIMAL = decimal_type(38, 10)
combine_module = sys.modules["weft.aggregates.combine"]
ORDERED = (BIGINT, DOUBLE, FLOAT, DECIMAL, STRING, BINARY, BOOLEAN, DATE, TIMESTAMP)
Range = tuple[int, int]


def primitive(how: Combine, type: DataType) -> Primitive:
    """Return the primitive of a combiner over a column."""
    column = (Column("x", type),)
    if how is MOMENTS:
        return Primitive(("count", "avg", "var_pop"), column, how, (BIGINT, DOUBLE, DOUBLE))
    lift = {ADD: "sum", LEAST: "min", GREATEST: "max", MULTIPLY: "product"}.get(how, how.name)
    return Primitive((lift,), column, how, (type,))


def lift(name: str, *arguments: Column) -> Primitive:
    """Return the primitive of an aggregate that has one."""
    function = aggregate(name)
    assert function is not None
    (one,) = function.lift(arguments, (False,))
    return one


TIME, PAIR = Column("time", BIGINT), (Column("x", DOUBLE), Column("y", DOUBLE))
CHOSEN = tuple(
    lift(name, Column("x", type), *others)
    for type in (BIGINT, STRING, DECIMAL)
    for name, others in (
        ("first", (TIME, Column("y", DOUBLE))), ("last", (TIME, Column("y", STRING))),
        ("min_by", (Column("y", STRING),)), ("max_by", (Column("y", DOUBLE),)),
    )
)  # fmt: skip
"""What chooses one row, by columns of any types."""
EXACT = (
    count_of(Column("x", BIGINT)),
    primitive(ADD, DECIMAL),
    *(primitive(how, type) for how in (LEAST, GREATEST) for type in ORDERED),
    *(primitive(how, BIGINT) for how in (BIT_AND, BIT_OR, BIT_XOR)),
    *CHOSEN,
)
SHAPE_OF, PAIRS_OF = lift("skewness", PAIR[0]), lift("corr", *PAIR)
ROUNDING = (
    primitive(ADD, DOUBLE),
    primitive(MOMENTS, DOUBLE),
    primitive(MULTIPLY, DOUBLE),
    SHAPE_OF,
    PAIRS_OF,
)
any_primitive = st.sampled_from(ROUNDING) | st.sampled_from(EXACT)


def tame(one: Primitive) -> st.SearchStrategy[Any]:
    """Draw values whose sums can be told within 1e-9: neither sums nor squares leave the range of doubles."""
    if one in CHOSEN:
        columns = {column.name: values(column.type) for column in one.arguments if isinstance(column, Column)}
        return st.fixed_dictionaries(columns)
    if one == PAIRS_OF:
        number = st.none() | st.integers(-1000, 1000).map(float) | st.sampled_from((0.1, nan, inf))
        return st.fixed_dictionaries({"x": number, "y": number})
    if one == SHAPE_OF:
        return st.none() | st.integers(-1000, 1000).map(float) | st.sampled_from((0.1, nan, inf))
    if one.combine is MULTIPLY:
        return st.none() | st.floats(1e-3, 1e3) | st.sampled_from((0.0, -1.5, nan, inf))
    (argument,) = one.arguments
    if one in ROUNDING:
        return st.none() | st.floats(-1e6, 1e6) | st.sampled_from((-0.0, nan, inf, -inf))
    if one.combine is ADD and argument.type == DECIMAL:
        return st.none() | st.decimals(-(10**20), 10**20, places=10)
    return values(argument.type)


def read(partial: Partial, row: int = 0) -> tuple[Any, ...] | None:
    """Return one partial as plain values, None where it saw no value."""
    if not partial.valid_mask()[row]:
        return None
    fields = [field[row : row + 1].tolist()[0] for field in partial.fields]
    means = MEANS.get(partial.types, 0)
    if not all(abs(mean) < inf for mean in fields[1 : 1 + means]):
        # No variance follows from a mean that is not a number: which it is does not matter.
        fields[1:] = [nan] * (len(fields) - 1)
    return tuple(fields)


MEANS = {(BIGINT, *[DOUBLE] * fields): means for fields, means in ((2, 1), (4, 1), (5, 2))}
"""How many means the moments have."""


def same(left: tuple[Any, ...] | None, right: tuple[Any, ...] | None, *, scale: float = 0.0) -> bool:
    """Compare partials: exactly, or doubles to within 1e-9 of `scale`, the size of what was added."""
    if left is None or right is None:
        return left is right
    return all(_same(a, b, scale) for a, b in zip(left, right, strict=True))


def _same(left: Any, right: Any, scale: float) -> bool:
    if isinstance(left, float) and isnan(left):
        return bool(isnan(right))
    return bool(left == right or abs(left - right) <= 1e-9 * scale) if scale else bool(left == right)


def merge(one: Primitive, *partials: Partial) -> Partial:
    """Combine partials of one row each into one."""
    return combine(one, concatenate(partials), np.array([0]), np.array([len(partials)]))


def scale_of(one: Primitive, rows: Sequence[Any]) -> float:
    """Return how large the terms of a sum are; exact primitives have no tolerance."""
    if one not in ROUNDING:
        return 0.0
    if one in (SHAPE_OF, PAIRS_OF):
        return 1e6
    sizes = [abs(row) for row in rows if row is not None and abs(row) < inf]
    return float(max([1.0, *sizes]) ** (len(rows) if one.combine is MULTIPLY else 2))


# The laws.


@settings(max_examples=120)
@given(one=any_primitive, data=st.data())
def test_combining_is_associative_and_commutative(one: Primitive, data: st.DataObject) -> None:
    rows = [data.draw(tame(one)) for _ in range(3)]
    a, b, c = (lifted(one, [[row]]) for row in rows)
    scale = scale_of(one, rows)
    assert same(read(merge(one, merge(one, a, b), c)), read(merge(one, a, merge(one, b, c))), scale=scale)
    assert same(read(merge(one, a, b, c)), read(merge(one, c, a, b)), scale=scale)


@settings(max_examples=100)
@given(one=any_primitive, data=st.data())
def test_a_partial_of_no_input_changes_nothing(one: Primitive, data: st.DataObject) -> None:
    row = data.draw(tame(one))
    partial, nothing = lifted(one, [[row]]), empty(one, 1)
    for merged in (merge(one, partial, nothing), merge(one, nothing, partial), merge(one, partial)):
        assert same(read(merged), read(partial))
    assert read(merge(one, nothing, nothing)) in (None, (0,))


# The slow twins.

OVERLAPPING = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=12)


@st.composite
def ranges(draw: st.DrawFn, rows: int) -> list[Range]:
    """Draw ranges of rows that may overlap, in any order; none is empty."""
    drawn = draw(OVERLAPPING)
    return [(lo % rows, min(rows, lo % rows + length)) for lo, length in drawn]


@settings(max_examples=300)
@given(one=any_primitive, data=st.data(), worth=st.sampled_from((0, 4)))
def test_ranges_combine_as_their_rows_do_one_by_one(one: Primitive, data: st.DataObject, worth: int) -> None:
    rows = data.draw(st.lists(tame(one), min_size=1, max_size=20))
    chosen = data.draw(ranges(len(rows)))
    lo, hi = (np.array(bound) for bound in zip(*chosen, strict=True))
    partial = lifted(one, [[row] for row in rows])
    with pytest.MonkeyPatch.context() as patch:
        # 0: rows are combined in pieces even where that does not pay.
        patch.setattr(combine_module, "_WORTH_PIECES", worth)
        found = combine(one, partial, lo, hi)
    for place, (begin, end) in enumerate(chosen):
        slow = reduce(_slow[one.combine], (read(partial, row) for row in range(begin, end)))
        assert same(read(found, place), slow, scale=scale_of(one, rows[begin:end]))


def _slow_add(left: Any, right: Any) -> Any:
    return (left[0] + right[0],)


def _slow_least(left: Any, right: Any) -> Any:
    if isinstance(left[0], float) and (isnan(left[0]) or isnan(right[0])):
        return right if isnan(left[0]) else left
    return min(left, right)


def _slow_greatest(left: Any, right: Any) -> Any:
    if isinstance(left[0], float) and (isnan(left[0]) or isnan(right[0])):
        return left if isnan(left[0]) else right
    return max(left, right)


def _slow_moments(left: Any, right: Any) -> Any:
    count = left[0] + right[0]
    parts = (*left, *right)
    if not all(abs(part) < inf for part in parts):
        return count, nan, nan
    (n, m, v), (k, o, w) = (tuple(map(Fraction, map(float, part))) for part in (left, right))
    mean = (n * m + k * o) / (n + k)
    squares = n * (v + (m - mean) ** 2) + k * (w + (o - mean) ** 2)
    return count, float(mean), float(squares / (n + k))


def _slow_product(left: Any, right: Any) -> Any:
    return (left[0] * right[0],)


def _power(known: Sequence[Fraction], power: int, distance: Fraction) -> Fraction:
    """Return a moment around another mean; `known` are those around the own one, from the 0th."""
    return sum(
        comb(power, own) * known[own] * distance ** (power - own) for own in range(power + 1)
    ) + Fraction(0)


def _slow_shape(left: Any, right: Any) -> Any:
    count = left[0] + right[0]
    if not all(abs(part) < inf for part in (*left, *right)):
        return count, *[nan] * 4
    parts = [(Fraction(n), *map(Fraction, map(float, rest))) for n, *rest in (left, right)]
    mean = sum(n * m for n, m, *_ in parts) / count
    moments = []
    for power in (2, 3, 4):
        total = Fraction(0)
        for n, m, v, skew, peak in parts:
            root = Fraction(sqrt(v))
            known = (Fraction(1), Fraction(0), v, skew * root**3, (peak + 3) * v**2)
            total += n * _power(known, power, m - mean)
        moments.append(float(total / count))
    squares = moments[0] or 1.0
    return count, float(mean), moments[0], moments[1] / squares**1.5, moments[2] / squares**2 - 3


def _slow_comoments(left: Any, right: Any) -> Any:
    count = left[0] + right[0]
    if not all(abs(part) < inf for part in (*left, *right)):
        return count, *[nan] * 5
    parts = [(Fraction(n), *map(Fraction, map(float, rest))) for n, *rest in (left, right)]
    x, y = (sum(part[0] * part[own] for part in parts) / count for own in (1, 2))
    squares = [
        sum(n * (known + a * b) for n, known, a, b in terms) / count
        for terms in (
            [(n, vx, mx - x, mx - x) for n, mx, my, vx, vy, c in parts],
            [(n, vy, my - y, my - y) for n, mx, my, vx, vy, c in parts],
            [(n, c, mx - x, my - y) for n, mx, my, vx, vy, c in parts],
        )
    ]
    return count, float(x), float(y), *map(float, squares)


def _row_rank(row: Any) -> Any:
    """Order chosen rows: by what they are chosen by, then by the other columns, NULL first."""
    *others, first = row
    pairs = zip(others[1::2], others[::2], strict=True)
    columns = ((known, (value != value, 0 if value != value else value)) for known, value in pairs)
    return ((first != first, 0 if first != first else first), *columns)


def _nulls_skipped(merge: Any) -> Any:
    def slow(left: Any, right: Any) -> Any:
        return right if left is None else left if right is None else merge(left, right)

    return slow


_slow = {
    ADD: _nulls_skipped(_slow_add),
    LEAST: _nulls_skipped(_slow_least),
    GREATEST: _nulls_skipped(_slow_greatest),
    MOMENTS: _nulls_skipped(_slow_moments),
    BIT_AND: _nulls_skipped(lambda left, right: (left[0] & right[0],)),
    BIT_OR: _nulls_skipped(lambda left, right: (left[0] | right[0],)),
    BIT_XOR: _nulls_skipped(lambda left, right: (left[0] ^ right[0],)),
    MULTIPLY: _nulls_skipped(_slow_product),
    SHAPE: _nulls_skipped(_slow_shape),
    COMOMENTS: _nulls_skipped(_slow_comoments),
    EARLIEST: _nulls_skipped(lambda left, right: min(left, right, key=_row_rank)),
    LATEST: _nulls_skipped(lambda left, right: max(left, right, key=_row_rank)),
}


def test_every_way_to_merge_is_tested() -> None:
    tested = {one.combine for one in (*EXACT, *ROUNDING)}
    # Bags have tests of their own.
    assert tested == set(_slow) == set(COMBINES.values()) - {BAG}


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
    st.data(),
)
def test_whole_numbers_add_up_though_the_running_sum_wraps(rows: list[int], data: st.DataObject) -> None:
    chosen = data.draw(ranges(len(rows)))
    lo, hi = (np.array(bound) for bound in zip(*chosen, strict=True))
    partial = Partial((np.array(rows, dtype=np.int64),), None, (BIGINT,))
    found = combine(primitive(ADD, BIGINT), partial, lo, hi).fields[0].tolist()
    totals = [0, *accumulate(rows)]
    for sum_, (begin, end) in zip(found, chosen, strict=True):
        exact = totals[end] - totals[begin]
        assert sum_ == (exact + 2**63) % 2**64 - 2**63
        if -(2**63) <= exact < 2**63:
            assert sum_ == exact


def test_no_ranges_give_no_partials() -> None:
    for one in (*EXACT, *ROUNDING):
        nothing = np.empty(0, dtype=np.intp)
        assert len(combine(one, lifted(one, [[None], [None]]), nothing, nothing)) == 0


def test_adding_infinities_is_no_cause_for_warnings() -> None:
    one = primitive(ADD, DOUBLE)
    assert read(merge(one, lifted(one, [[inf]]), lifted(one, [[-inf]]))) == pytest.approx((nan,), nan_ok=True)
    assert read(merge(one, lifted(one, [[1.7e308]]), lifted(one, [[1.7e308]]))) == (inf,)


# Moments whose mean is large: sums of squares would lose every digit that matters.


def exact_variance(rows: Sequence[float]) -> float:
    exact = [Fraction(row) for row in rows]
    middle = sum(exact) / len(exact)
    return float(sum((one - middle) ** 2 for one in exact) / len(exact))


def combined_variance(slices: Sequence[Sequence[float]]) -> float:
    one = primitive(MOMENTS, DOUBLE)
    merged = combine(one, lifted(one, slices), np.array([0]), np.array([len(slices)]))
    return float(merged.fields[2][0])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("count", [2, 10, 3_000])
def test_variance_of_slices_of_one_row_is_right_to_1e_12(count: int, seed: int) -> None:
    # Mean 1e9, deviation 1e-3. Each slice's mean is exact, and so is its distance from the window's mean
    # (two nearby doubles); the error that the window's mean has itself is taken out again. What is left is
    # the rounding of sums of positive terms: count · 2^−53 at worst, which is 4e-13 here.
    chance = Random(seed)
    rows = [chance.gauss(1e9, 1e-3) for _ in range(count)]
    assert combined_variance([[row] for row in rows]) == pytest.approx(exact_variance(rows), rel=1e-12, abs=0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("size", [10, 100, 1_000])
def test_variance_of_longer_slices_is_as_right_as_their_means(size: int, seed: int) -> None:
    # A slice's mean comes from Spark as a double: near 1e9 it is off by up to 2^−24 = 6e-8, or 6e-5 of the
    # deviation. Over slices these errors e cancel to 2·Σ(mean − M)·e/k, a few 1e-6 of the variance.
    chance = Random(seed)
    slices = [[chance.gauss(1e9, 1e-3) for _ in range(size)] for _ in range(2_000 // size)]
    rows = [row for some in slices for row in some]
    assert combined_variance(slices) == pytest.approx(exact_variance(rows), rel=1e-5, abs=0)


def test_a_constant_has_no_variance_however_large() -> None:
    for value in (0.1, 1e9 + 0.1, 1e150, -3.3e-200):
        assert combined_variance([[value]] * 7) == 0.0
