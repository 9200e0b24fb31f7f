"""Whether two sets of rows are the same: what must be told apart, and what must not."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.bench.equality import difference, read_rows

ROWS = pa.table({"key": ["a", "b", None], "n": [1, 2, 3], "x": [0.5, None, -2.0]})


def changed(**columns: object) -> pa.Table:
    return pa.table({**{name: ROWS[name] for name in ROWS.column_names}, **columns})


def test_rows_in_another_order_are_the_same() -> None:
    assert difference("q", ROWS.take([2, 0, 1]), ROWS) is None


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (changed(key=["a", "b", "c"]), "key is"),
        (changed(n=[1, 2, 4]), "n is 3, expected 4"),
        (changed(x=[0.5, None, None]), "x is -2.0, expected None"),
        (changed(x=[0.5, 0.0, -2.0]), "x is None, expected 0.0"),
        (changed(x=[0.5 * (1 + 3e-9), None, -2.0]), "x is 0.5"),
        (changed(x=[float("nan"), None, -2.0]), "x is 0.5, expected nan"),
        (ROWS.rename_columns(["key", "n", "y"]), "columns"),
        (ROWS.slice(0, 2), "3 rows, expected 2"),
        (None, "3 rows, expected 0"),
    ],
)
def test_what_differs_is_told(other: pa.Table | None, told: str) -> None:
    found = difference("q", ROWS, other)
    assert found is not None
    assert found.startswith("q: ")
    assert told in found


def test_a_row_twice_is_not_a_row_once() -> None:
    twice, other = ROWS.take([0, 0, 1]), ROWS.take([0, 1, 1])
    assert difference("q", twice, other) == "q: key is 'a', expected 'b' (1 rows differ)"


def test_values_are_compared_across_types() -> None:
    at = datetime(2013, 1, 1, tzinfo=UTC)
    weft = pa.table(
        {
            "at": pa.array([at], pa.timestamp("us", "UTC")),
            "n": pa.array([7], pa.int32()),
            "p": pa.array([Decimal("33.33333333333333")]),
        }
    )
    duck = pa.table({"at": pa.array([at.replace(tzinfo=None)], pa.timestamp("ns")), "n": [7], "p": [100 / 3]})
    assert difference("q", weft, duck) is None
    assert difference("q", weft, duck.set_column(2, "p", [[33.3]])) is not None


def test_doubles_agree_to_a_billionth() -> None:
    assert difference("q", ROWS, changed(x=[0.5 * (1 + 5e-10), None, -2.0])) is None


def test_a_query_without_rows_may_have_no_file(tmp_path: Path) -> None:
    assert read_rows(tmp_path) is None
    pq.write_table(ROWS.slice(0, 0), tmp_path / "empty.parquet")
    assert difference("q", None, read_rows(tmp_path / "empty.parquet")) is None
    pq.write_table(ROWS, tmp_path / "full.parquet")
    found = read_rows(tmp_path)
    assert found is not None
    assert found.num_rows == 3


def rows(*values: tuple[int, int, float]) -> pa.Table:
    start, end, value = zip(*values, strict=True)
    moments = [pa.array(times).cast(pa.timestamp("us", "UTC")) for times in (start, end)]
    return pa.table([*moments, pa.array(value)], names=["window_start", "window_end", "value"])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (rows((5, 9, 2.0), (0, 4, 1.0 + 1e-12)), None),
        (rows((0, 4, 1.0)), "1 rows, expected 2"),
        (rows((0, 4, 1.0), (0, 4, 1.0), (5, 9, 2.0)), "3 rows"),
        (rows((0, 4, 1.0), (0, 4, 1.0)), "window_start is"),
        (rows((0, 4, 1.0), (5, 8, 2.0)), "window_end is"),
        (rows((0, 4, 1.0), (5, 9, 2.0 + 1e-8)), "2.00000001"),
        (rows((0, 4, 1.0), (5, 9, float("nan"))), "nan"),
    ],
)
def test_a_difference_is_seen(found: pa.Table, said: str | None) -> None:
    difference_ = difference("q", found, rows((0, 4, 1.0), (5, 9, 2.0)))
    assert (said is None) == (difference_ is None)
    assert said is None or (difference_ is not None and said in difference_)
