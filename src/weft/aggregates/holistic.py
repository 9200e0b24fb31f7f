"""Aggregates that need all values of a group: kept as bags, which all of them share (SYNC 2.1).

A bag holds how often each value occurred. Distinct counts, percentiles, modes and top k of one expression are
read off the same bags, whatever their constants.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.aggregate import Aggregate, Arguments, ConstantRule, Constants, Partials, Types
from weft.aggregates.bags import Bags
from weft.aggregates.combine import BAG
from weft.aggregates.partial import Objects, Partial, Primitive, arrow_type, decode, to_arrow
from weft.aggregates.sums import LIMB, LIMB_MASK, cast_to, lower_avg, lower_sum, result_avg, result_sum
from weft.expression import Call, Expression, Literal
from weft.types import BIGINT, DOUBLE, INT, MAX_PRECISION, STRING, DataType, Kind, array_of, struct_of

Numbers = npt.NDArray[np.int64]
BAG_LIFT = "bag"
"""The lift of bags: rows are grouped by the value, too."""

TIMED_BAG_LIFT = "timed_bag"
"""The lift of bags in the order of event time: rows are grouped by the value and the time."""


def bag_of(arguments: Arguments) -> Primitive:
    """Return the primitive that keeps how often each value occurs, and the sum of a second argument."""
    return Primitive((BAG_LIFT,), arguments, BAG, (arguments[0].type,))


def _lift_bag(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    value, *weights = arguments
    return (bag_of((value, *map(_weight, weights))),)


def _weight(argument: Expression) -> Expression:
    """Return a weight such that Spark's sums cannot overflow."""
    if argument.type.is_fractional:
        return cast_to(argument, DOUBLE)
    return cast_to(argument, DataType(Kind.DECIMAL, 19, 0) if argument.type.kind is Kind.BIGINT else BIGINT)


def _lift_count(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    """Lift several columns as one text: their lengths, then their values, unless any is NULL."""
    if len(arguments) == 1:
        return _lift_bag(arguments, constants)
    # There is one zero.
    numbers = [
        Call("+", (value, Literal(0.0, DOUBLE)), DOUBLE) if value.type.is_fractional else value
        for value in arguments
    ]
    texts = [cast_to(value, STRING) for value in numbers]
    lengths = [cast_to(Call("length", (text,), INT), STRING) for text in texts]
    parts = [
        part for pair in zip(lengths, texts, strict=True) for part in (pair[0], Literal(":", STRING), pair[1])
    ]
    return (bag_of((Call("concat", tuple(parts), STRING),)),)


def _bags(partials: Partials) -> Bags:
    bags: Bags = partials[0].fields[0]
    return bags


def _count_distinct(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    return pa.array(_bags(partials).sizes)


def _sums(partials: Partials) -> tuple[list[Partial], Bags]:
    """Return the sums of distinct values, as partials of a sum."""
    bags, type = _bags(partials), partials[0].types[0]
    values = decode(pa.chunked_array([bags.dictionary]), type)[bags.codes]
    valid = bags.sizes > 0
    if type.kind is Kind.BIGINT:
        limbs = (bags.added(part) for part in (values >> LIMB, values & LIMB_MASK))
        return [Partial((limb,), valid, (BIGINT,)) for limb in limbs], bags
    of = DOUBLE if type.is_fractional else BIGINT
    if type.kind is Kind.DECIMAL:
        of = DataType(Kind.DECIMAL, min(type.precision + 10, MAX_PRECISION), type.scale)
    return [Partial((bags.added(values),), valid, (of,))], bags


def _sum_distinct(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    return lower_sum(_sums(partials)[0], type)


def _avg_distinct(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    sums, bags = _sums(partials)
    return lower_avg([*sums, Partial((bags.sizes,), None, (BIGINT,))], type)


def _element_at(bags: Bags, rank: Numbers) -> npt.NDArray[np.intp]:
    """Return the element that holds a rank of each bag; a rank of one without elements is anything."""
    through = np.cumsum(bags.counts)
    before = np.concatenate(([0], through))[bags.begins[:-1]]
    found = np.searchsorted(through, before + rank, side="right")
    return np.minimum(found, max(len(through) - 1, 0))


def _totals(bags: Bags) -> Numbers:
    """Return how many values each bag holds, repeated ones included."""
    total: Numbers = np.diff(np.concatenate(([0], np.cumsum(bags.counts)))[bags.begins])
    return total


def _interpolated(bags: Bags, numbers: Objects, total: Numbers, p: float, *, descending: bool) -> Objects:
    """Return the value at a share of the way from the first to the last, between neighbours if need be."""
    position = (total - 1) * p
    lower, upper = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    ranks = (total - 1 - lower, total - 1 - upper) if descending else (lower, upper)
    low, high = (numbers[bags.codes[_element_at(bags, np.maximum(rank, 0))]] for rank in ranks)
    with np.errstate(all="ignore"):
        between = (upper - position) * low + (position - lower) * high
    return np.where((lower == upper) | (low == high), low, between)


def _discrete(bags: Bags, numbers: Objects, total: Numbers, p: float, *, descending: bool) -> Objects:
    """Return the first value up to which there is a share of all values."""
    rank = np.maximum(np.ceil(p * total).astype(np.int64) - 1, 0)
    return numbers[bags.codes[_element_at(bags, np.maximum(total - 1 - rank, 0) if descending else rank)]]


def _percentile(
    at: Callable[..., Objects], *, fixed: float | None = None
) -> Callable[[Partials, DataType, Constants], pa.Array]:
    def lower(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
        bags, of = _bags(partials), partials[0].types[0]
        total = _totals(bags)
        valid = total > 0
        wanted = fixed if fixed is not None else constants[0]
        descending = len(constants) > 1 and bool(constants[1])
        shares = wanted if isinstance(wanted, tuple) else (wanted,)
        if not len(bags.codes):
            columns = [np.zeros(len(bags)) for _ in shares]
        else:
            numbers = _as_doubles(bags, of)
            columns = [at(bags, numbers, total, float(share), descending=descending) for share in shares]
        if not isinstance(wanted, tuple):
            return to_arrow(columns[0], valid, DOUBLE)
        flat = pa.array(np.stack(columns, axis=1).reshape(-1) if columns else np.empty(0))
        ends = pa.array(np.arange(len(bags) + 1, dtype=np.int32) * len(shares))
        return pa.ListArray.from_arrays(ends, flat, mask=pa.array(~valid)).cast(arrow_type(type))

    return lower


def _as_doubles(bags: Bags, type: DataType) -> Objects:
    """Return the values of the dictionary as Spark casts them to doubles."""
    if type.kind is Kind.DECIMAL:
        return np.array([float(value) for value in bags.dictionary.to_pylist()], dtype=np.float64)
    numbers: Objects = np.asarray(bags.dictionary).astype(np.float64)
    return numbers


def _mode(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    """Return the most frequent value, and of several the least."""
    bags = _bags(partials)
    codes = np.full(len(bags), -1, dtype=np.int64)
    filled = np.flatnonzero(bags.sizes)
    if len(filled):
        most = np.zeros(len(bags), dtype=np.int64)
        most[filled] = np.maximum.reduceat(bags.counts, bags.begins[filled])
        best = np.flatnonzero(bags.counts == most[bags.owner])
        # Elements are in the order of their values.
        owners, firsts = np.unique(bags.owner[best], return_index=True)
        codes[owners] = bags.codes[best[firsts]]
    return bags.values(codes)


def _top(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    bags = _bags(partials)
    weights = bags.counts if bags.weights is None else bags.weights
    return heaviest_first(bags, weights, int(constants[0]), type)  # type: ignore[arg-type]


def heaviest_first(bags: Bags, weights: npt.NDArray[Any], k: int, type: DataType) -> pa.Array:
    """Return the k heaviest values with their weights, heaviest first, and of equals the least first."""
    # NaN is the greatest of Spark's doubles.
    is_number = weights == weights
    order = np.lexsort((bags.codes, -weights, is_number, bags.owner))
    sizes = np.minimum(bags.sizes, k)
    begins = np.concatenate(([0], np.cumsum(sizes)))
    kept = order[np.arange(begins[-1]) + np.repeat(bags.begins[:-1] - begins[:-1], sizes)]
    fields = [bags.values(bags.codes[kept]), _numbers(weights[kept])]
    elements = pa.StructArray.from_arrays(fields, [field.name for field in arrow_type(type).value_type])
    return pa.ListArray.from_arrays(pa.array(begins.astype(np.int32)), elements).cast(arrow_type(type))


def _numbers(weights: npt.NDArray[Any]) -> pa.Array:
    """Return weights as 64-bit numbers; NULL for one that is wider."""
    if weights.dtype != object:
        return pa.array(weights)
    return pa.array([weight if -(1 << 63) <= weight < 1 << 63 else None for weight in weights], pa.int64())


def _result_top(types: Types, constants: Constants) -> DataType | None:
    if types[0].kind is Kind.OTHER or not all(type.is_integer or type.is_fractional for type in types[1:]):
        return None
    weight = ("count", BIGINT) if len(types) == 1 else ("sum", BIGINT if types[1].is_integer else DOUBLE)
    return array_of(struct_of(("value", types[0]), weight))


def _result_percentile(types: Types, constants: Constants) -> DataType | None:
    if not types[0].is_numeric:
        return None
    return array_of(DOUBLE) if constants and isinstance(constants[0], tuple) else DOUBLE


def _histogram(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    """Return how many values lie in each interval of a width that holds any, by its lower end."""
    bags, width = _bags(partials), constants[0]
    assert isinstance(width, int | float)
    numbers = _as_doubles(bags, partials[0].types[0])
    with np.errstate(all="ignore"):
        starts = np.floor(numbers / width) * width
    distinct, interval = np.unique(starts, return_inverse=True)
    owner, codes = bags.owner, interval[bags.codes]
    new = np.ones(len(codes), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (codes[1:] != codes[:-1])
    firsts = np.flatnonzero(new)
    counts = np.add.reduceat(bags.counts, firsts) if len(firsts) else bags.counts
    begins = np.searchsorted(owner[firsts], np.arange(len(bags) + 1)).astype(np.int32)
    elements = pa.StructArray.from_arrays(
        [pa.array(distinct[codes[firsts]]), pa.array(counts)], ["start", "count"]
    )
    return pa.ListArray.from_arrays(pa.array(begins), elements).cast(arrow_type(type))


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 10_000


def _is_width(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_INTERVALS = array_of(struct_of(("start", DOUBLE), ("count", BIGINT)))
SHARE = ConstantRule(takes="a number from 0 to 1, or an array of those", check=_is_share, many=True)
_DESCENDING = ConstantRule(takes="ASC or DESC", check=lambda value: isinstance(value, bool))
_PLAIN = "a number, string, boolean, date or time"


def _plain(result: DataType | None) -> Callable[[Types, Constants], DataType | None]:
    def rule(types: Types, constants: Constants) -> DataType | None:
        if any(type.kind is Kind.OTHER for type in types):
            return None
        return types[0] if result is None else result

    return rule


HOLISTIC: tuple[Aggregate, ...] = (
    Aggregate(
        name="count_distinct", result=_plain(BIGINT), lift=_lift_count, lower=_count_distinct,
        takes="numbers, strings, booleans, dates or times", most=100, sketch="approx_count_distinct",
    ),
    Aggregate(
        name="sum_distinct", result=lambda types, _: result_sum(types[0]),
        lift=_lift_bag, lower=_sum_distinct,
        takes="a number", can_overflow=True,
    ),
    Aggregate(
        name="avg_distinct", result=lambda types, _: result_avg(types[0]),
        lift=_lift_bag, lower=_avg_distinct,
        takes="a number", can_overflow=True,
    ),
    Aggregate(
        name="percentile", result=_result_percentile, lift=_lift_bag, lower=_percentile(_interpolated),
        takes="a number", constants=(SHARE,), sketch="approx_percentile",
    ),
    Aggregate(
        name="percentile_cont", result=_result_percentile, lift=_lift_bag, lower=_percentile(_interpolated),
        takes="a number", constants=(SHARE, _DESCENDING), within_group=True,
        sketch="approx_percentile",
    ),
    Aggregate(
        name="percentile_disc", result=_result_percentile, lift=_lift_bag, lower=_percentile(_discrete),
        takes="a number", constants=(SHARE, _DESCENDING), within_group=True,
        sketch="approx_percentile",
    ),
    Aggregate(
        name="median", result=_result_percentile, lift=_lift_bag, lower=_percentile(_interpolated, fixed=0.5),
        takes="a number", sketch="approx_percentile",
    ),
    Aggregate(
        name="mode", result=_plain(None), lift=_lift_bag, lower=_mode, takes=_PLAIN,
        sketch="approx_top_k",
    ),
    Aggregate(
        name="top_k", result=_result_top, lift=_lift_bag, lower=_top, takes=_PLAIN, weighted=True,
        sketch="approx_top_k",
        constants=(ConstantRule(takes="a whole number from 1 to 10,000", check=_is_whole),),
    ),
    Aggregate(
        name="histogram", lift=_lift_bag, lower=_histogram, takes="a number",
        result=lambda types, _: _INTERVALS if types[0].is_numeric else None,
        constants=(ConstantRule(takes="a width above 0", check=_is_width),),
    ),
)  # fmt: skip
"""Aggregates over bags."""
