"""Aggregates read off sketches: bags that a store keeps below a bounded size.

Rows reach sketches grouped by value, as they reach the bags of exact aggregates, on every version of Spark.
Queries that ask the same accuracy of the same expression share one sketch, whatever else they ask.
"""

import numpy as np
import pyarrow as pa

from weft.aggregates.aggregate import Aggregate, Arguments, ConstantRule, Constants, Partials, Types
from weft.aggregates.bags import Bags
from weft.aggregates.heaviest import Heaviest
from weft.aggregates.holistic import BAG_LIFT, SHARE, heaviest_first
from weft.aggregates.partial import Primitive, arrow_type
from weft.aggregates.ranges import Ranges
from weft.aggregates.registers import Registers, estimates, register_bits
from weft.aggregates.sample import ELEMENTS_PER_ACCURACY, Sample
from weft.expression import Call, Literal
from weft.types import BIGINT, INT, DataType, Kind, array_of, struct_of

DEVIATION = 0.05
"""The relative standard deviation of approx_count_distinct, unless a call says otherwise."""
ACCURACY = 10_000
"""The accuracy of approx_percentile, unless a call says otherwise."""
MOST_TRACKED = 10_000
"""How many values approx_top_k tracks, unless a call says otherwise."""
_FEWEST = 64
"""How many elements a sample has at most, however low the accuracy."""


def _ranges(partials: Partials) -> Ranges:
    """Return the ranges to read; each bag by itself, where they are merged already."""
    field = partials[0].fields[0]
    if isinstance(field, Bags):
        rows = np.arange(len(field))
        return Ranges(field, rows, rows + 1)
    ranges: Ranges = field
    return ranges


def _lift_count(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    bits = register_bits(float(constants[0]))  # type: ignore[arg-type]
    coupon = Call("coupon", (arguments[0], Literal(bits, INT)), INT)
    return (Primitive((BAG_LIFT,), (coupon,), Registers(bits), (INT,)),)


def _count(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    bits = register_bits(float(constants[0]))  # type: ignore[arg-type]
    return pa.array(estimates(_ranges(partials), bits))


def _lift_percentile(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    most = max(_FEWEST, ELEMENTS_PER_ACCURACY * int(constants[1]))  # type: ignore[arg-type]
    return (Primitive((BAG_LIFT,), arguments, Sample(most), (arguments[0].type,)),)


def _percentile(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    """Return the first value up to which there is a share of all values, for each share."""
    ranges, wanted = _ranges(partials), constants[0]
    shares = np.array(wanted if isinstance(wanted, tuple) else (wanted,), dtype=np.float64)
    total = ranges.totals
    rank = np.maximum(np.ceil(shares * total[:, None]).astype(np.int64) - 1, 0)
    codes = np.where(total[:, None] > 0, ranges.codes_at(rank), -1)
    values = ranges.source.values(codes.reshape(-1))
    if not isinstance(wanted, tuple):
        return values.cast(arrow_type(type))
    ends = pa.array(np.arange(len(ranges) + 1, dtype=np.int32) * len(shares))
    return pa.ListArray.from_arrays(ends, values, mask=pa.array(total == 0)).cast(arrow_type(type))


def _result_percentile(types: Types, constants: Constants) -> DataType | None:
    if not (types[0].is_numeric or types[0].is_time):
        return None
    return array_of(types[0]) if isinstance(constants[0], tuple) else types[0]


def _lift_top(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    most = max(map(int, constants))  # type: ignore[arg-type]
    return (Primitive((BAG_LIFT,), arguments, Heaviest(most), (arguments[0].type,)),)


def _top(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    k = int(constants[0])  # type: ignore[arg-type]
    pieces = [heaviest_first(bags, bags.counts, k, type) for bags in _ranges(partials).merged()]
    return pa.concat_arrays(pieces) if pieces else pa.array([], arrow_type(type))


def _result_top(types: Types, constants: Constants) -> DataType | None:
    return None if _is_odd(types) else array_of(struct_of(("item", types[0]), ("count", BIGINT)))


def _is_odd(types: Types) -> bool:
    return types[0].kind is Kind.OTHER or types[0].is_nested


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000


_DEVIATION = ConstantRule(
    takes="a relative standard deviation from 0.0008 to 0.39",
    check=lambda value: _is_number(value) and 0.0008 <= value <= 0.39,  # type: ignore[operator]
    default=DEVIATION,
)
_ACCURACY = ConstantRule(
    takes="an accuracy, a whole number from 1 to 1,000,000", check=_is_whole, default=ACCURACY
)
_K = ConstantRule(takes="a whole number from 1 to 1,000,000", check=_is_whole)
_TRACKED = ConstantRule(
    takes="how many values to track, a whole number from 1 to 1,000,000", check=_is_whole,
    default=MOST_TRACKED,
)  # fmt: skip
_PLAIN = "a number, string, boolean, date or time"
APPROXIMATE: tuple[Aggregate, ...] = (
    Aggregate(
        name="approx_count_distinct", result=lambda types, _: None if _is_odd(types) else BIGINT,
        lift=_lift_count, lower=_count, takes=_PLAIN, constants=(_DEVIATION,),
    ),
    Aggregate(
        name="approx_percentile", result=_result_percentile, lift=_lift_percentile, lower=_percentile,
        takes="a number, date or time", constants=(SHARE, _ACCURACY),
    ),
    Aggregate(
        name="approx_top_k", result=_result_top, lift=_lift_top, lower=_top, takes=_PLAIN,
        constants=(_K, _TRACKED),
    ),
)  # fmt: skip
"""Aggregates that are within a stated error, from partials of bounded size."""
