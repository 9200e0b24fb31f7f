"""LIMIT: the first rows of each window, against sorting each window on its own."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.language_samples import query

from weft.finals.limiting import limited, selected_schema

Row = tuple[int, str | None, float | None, int]
"""End of the window in seconds, symbol, highest price, count."""
rows_of_windows = st.lists(
    st.tuples(
        st.integers(1, 3), st.none() | st.sampled_from("abcdé"),
        st.none() | st.sampled_from((0.0, -0.0, 1.5, float("nan"), float("-inf"))), st.integers(0, 3),
    ),
    max_size=30, unique_by=lambda row: row[:2],
)  # fmt: skip


def price(value: float | None, *, nulls: int) -> tuple[int, float]:
    """Return what a double is sorted by: NaN is the greatest; NULL is in the place that is given."""
    if value is None:
        return nulls, 0.0
    return (1, 0.0) if value != value else (0, value)


def kept(text: str, rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return what a query keeps of rows, given the values that it selects and goes by."""
    logical = query(f"SELECT symbol, max(price) AS p, count(*) AS n FROM trades [RANGE '1 s'] {text}")
    columns = [row[0] * 1_000_000 for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    counts = [row[3] for row in rows]
    by_slot: dict[str, list[Any]] = {"key0": columns[1], "aggregate0": columns[2], "aggregate1": counts}
    going_by = [key.expression for key in logical.order] + [by for one in logical.limits for by in one.by]
    hidden = [by_slot[str(expression)] for expression in going_by]
    schema = selected_schema(logical)
    arrays = [columns[0], columns[0], *columns[1:], counts, *hidden]
    table = pa.table([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
    found = limited(logical, table)
    assert found.schema.names == ["window_start", "window_end", "symbol", "p", "n"]
    return [(row["window_end"].second, row["symbol"], row["n"]) for row in found.to_pylist()]


def key(row: Row) -> tuple[bool, bytes]:
    return row[1] is not None, (row[1] or "").encode()


@given(rows=rows_of_windows, most=st.integers(1, 4))
def test_each_window_keeps_its_first_rows(rows: list[Row], most: int) -> None:
    found = kept(f"GROUP BY symbol ORDER BY n DESC, p NULLS LAST LIMIT {most}", rows)
    wanted: list[Row] = []
    for end in (1, 2, 3):
        own = [row for row in rows if row[0] == end]
        wanted += sorted(own, key=lambda row: (-row[3], price(row[2], nulls=2), key(row)))[:most]
    assert found == [(row[0], row[1], row[3]) for row in wanted]


@given(rows=rows_of_windows)
def test_limits_by_values_come_first(rows: list[Row]) -> None:
    found = kept("GROUP BY symbol ORDER BY p DESC LIMIT 1 BY n LIMIT 2", rows)
    wanted: list[Row] = []
    for end in (1, 2, 3):
        own = sorted((row for row in rows if row[0] == end), key=key)
        own.sort(key=lambda row: price(row[2], nulls=-1), reverse=True)
        firsts: dict[int, Row] = {}
        for row in own:
            firsts.setdefault(row[3], row)
        wanted += list(firsts.values())[:2]
    assert found == [(row[0], row[1], row[3]) for row in wanted]


@given(rows=rows_of_windows)
def test_without_order_rows_come_by_their_keys(rows: list[Row]) -> None:
    wanted: list[Row] = []
    for end in (1, 2, 3):
        wanted += sorted((row for row in rows if row[0] == end), key=key)[:2]
    assert kept("GROUP BY symbol LIMIT 2", rows) == [(row[0], row[1], row[3]) for row in wanted]


@pytest.mark.parametrize(
    ("written", "flags"),
    [("n", (False, True)), ("n ASC", (False, True)), ("n DESC", (True, False)),
     ("n NULLS LAST", (False, False)), ("n DESC NULLS FIRST", (True, True))],
)  # fmt: skip
def test_where_nulls_come_is_as_in_spark(written: str, flags: tuple[bool, bool]) -> None:
    text = (
        f"SELECT symbol, count(*) AS n FROM trades [RANGE '1 s'] GROUP BY symbol ORDER BY {written} LIMIT 1"
    )
    first = query(text).order[0]
    assert (first.descending, first.nulls_first) == flags
    assert str(first.expression) == "aggregate0"
