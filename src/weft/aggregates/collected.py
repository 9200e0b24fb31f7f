"""Values of a group one after the other: in the order of event time, or each once."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.aggregate import Aggregate, Arguments, ConstantRule, Constants, Partials, Types
from weft.aggregates.bags import Bags
from weft.aggregates.combine import BAG
from weft.aggregates.holistic import TIMED_BAG_LIFT, bag_of
from weft.aggregates.partial import Primitive, arrow_type
from weft.types import DataType, Kind, array_of

MOST_COLLECTED = 10_000
"""How many elements a list has at the most, unless a call says otherwise."""


def _timed_bag(arguments: Arguments, constants: Constants) -> tuple[Primitive, ...]:
    value, time, *_ = arguments
    return (Primitive((TIMED_BAG_LIFT,), (value, time), BAG, (value.type,)),)


def _lists(bags: Bags, most: int, *, each_once: bool) -> pa.ListArray:
    """Return the first elements of each bag, in order."""
    counts = np.ones_like(bags.counts) if each_once else bags.counts
    before = np.concatenate(([0], np.cumsum(counts)))
    rank = before[:-1] - before[bags.begins[:-1]][bags.owner]
    times = np.clip(most - rank, 0, counts)
    ends = np.concatenate(([0], np.cumsum(times)))[bags.begins]
    return pa.ListArray.from_arrays(
        pa.array(ends.astype(np.int32)), bags.values(np.repeat(bags.codes, times))
    )


def _collect(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    lists = _lists(partials[0].fields[0], int(constants[0]), each_once=False)  # type: ignore[arg-type]
    return lists.cast(arrow_type(type))


def _collect_set(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    lists = _lists(partials[0].fields[0], int(constants[0]), each_once=True)  # type: ignore[arg-type]
    return lists.cast(arrow_type(type))


def _join(partials: Partials, type: DataType, constants: Constants) -> pa.Array:
    """Return the first elements of each bag as one text; NULL of a bag that is empty."""
    delimiter, most = constants
    bags: Bags = partials[0].fields[0]
    lists = _lists(bags, int(most), each_once=False)  # type: ignore[arg-type]
    joined = pc.binary_join(lists, str(delimiter))
    return pc.if_else(pa.array(bags.sizes > 0), joined, pa.scalar(None, joined.type)).cast(arrow_type(type))


def _array(types: Types, constants: Constants) -> DataType | None:
    return None if types[0].kind is Kind.OTHER or types[0].is_nested else array_of(types[0])


def _is_number_of_elements(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1_000_000


_MOST = ConstantRule(
    takes="a number of elements from 1 to 1,000,000", check=_is_number_of_elements, default=MOST_COLLECTED
)
_DELIMITER = ConstantRule(takes="a string", check=lambda value: isinstance(value, str), default="")
_PLAIN = "a number, string, boolean, date or time"
COLLECTED: tuple[Aggregate, ...] = (
    Aggregate(
        name="collect_list", result=_array, lift=_timed_bag, lower=_collect, takes=_PLAIN, constants=(_MOST,),
        by_time=True,
    ),
    Aggregate(
        name="collect_set", result=_array, lift=lambda arguments, _: (bag_of(arguments),), lower=_collect_set,
        takes=_PLAIN, constants=(_MOST,),
    ),
    Aggregate(
        name="string_agg", lift=_timed_bag, lower=_join, takes="a string", constants=(_DELIMITER, _MOST),
        result=lambda types, _: types[0] if types[0].kind is Kind.STRING else None, by_time=True,
    ),
)  # fmt: skip
"""Aggregates that return many values."""
