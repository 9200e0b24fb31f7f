"""Groups have small numbers, whatever their keys hold."""

from decimal import Decimal
from math import isnan, nan
from struct import pack, unpack
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.state.groups import GroupIndex

TYPES = (pa.string(), pa.float64(), pa.int64())
keys = st.tuples(
    st.none() | st.sampled_from(("", "a", "b")),
    st.none() | st.sampled_from((0.0, -0.0, 1.5, nan, float("inf"))),
    st.none() | st.sampled_from((0, 1, -(2**63))),
)
Key = tuple[str | None, float | None, int | None]


def table(rows: list[Key]) -> pa.Table:
    columns = [pa.array([row[place] for row in rows], type) for place, type in enumerate(TYPES)]
    return pa.table(columns, names=["symbol", "price", "n"])


def canonical(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make keys comparable: all NaNs are one."""
    return tuple("NaN" if isinstance(one, float) and isnan(one) else one for one in key)


def rows_of(found: pa.Table) -> list[tuple[Any, ...]]:
    return [canonical(tuple(row.values())) for row in found.to_pylist()]


@settings(max_examples=50)
@given(st.lists(st.lists(keys, max_size=8), max_size=4))
def test_equal_keys_have_one_number_across_batches(batches: list[list[Key]]) -> None:
    index = GroupIndex(TYPES)
    numbers: dict[tuple[Any, ...], int] = {}
    for rows in batches:
        ids = index.ids(table(rows)).tolist()
        for key, number in zip(map(canonical, rows), ids, strict=True):
            assert numbers.setdefault(key, number) == number
    assert sorted(numbers.values()) == list(range(len(numbers)))
    assert len(index) == len(numbers)
    found = rows_of(index.values(np.array(list(numbers.values()), dtype=np.int64)))
    assert found == list(numbers)


@settings(max_examples=50)
@given(st.lists(keys, min_size=1, max_size=12), st.data())
def test_keeping_some_numbers_them_anew(rows: list[Key], data: st.DataObject) -> None:
    index = GroupIndex(TYPES)
    ids = np.unique(index.ids(table(rows)))
    kept = np.array(sorted(data.draw(st.sets(st.sampled_from(ids.tolist()), min_size=1))), dtype=np.int64)
    before = rows_of(index.values(kept))
    renamed = index.keep(kept)
    assert sorted(renamed.tolist()) == list(range(len(kept)))
    assert rows_of(index.values(renamed)) == before
    assert len(index) == len(kept)
    # A forgotten group that comes again is new; a kept one is not.
    again = index.ids(table(rows))
    assert rows_of(index.values(again)) == list(map(canonical, rows))


def test_all_nans_are_one_group_and_null_is_another() -> None:
    (odd,) = unpack("<d", pack("<Q", 0x7FF8_0000_0000_1234))
    index = GroupIndex([pa.float64()])
    ids = index.ids(pa.table({"x": pa.array([nan, None, odd, 0.0, -0.0, None])}))
    assert ids.tolist() == [0, 1, 0, 2, 2, 1]


def test_decimals_and_times_are_keys_too() -> None:
    index = GroupIndex([pa.decimal128(38, 2), pa.timestamp("us", "UTC"), pa.bool_()])
    row = (Decimal("1.50"), 1_000, True)
    columns = [pa.array([one, one, None], type) for one, type in zip(row, index._schema.types, strict=True)]
    assert index.ids(pa.table(columns, names=["a", "b", "c"])).tolist() == [0, 0, 1]


def test_without_keys_all_rows_are_one_group() -> None:
    index = GroupIndex([])
    nothing = pa.table({"x": [1, 2, 3]}).select([])
    assert index.ids(nothing).tolist() == [0, 0, 0]
    assert len(index) == 1
    assert not index.grouped
    assert index.keep(np.array([0])).tolist() == [0]
