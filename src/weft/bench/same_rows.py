"""Whether two sets of result rows are the same: exact but for doubles, never deduplicated."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.engine import Engine

TOLERANCE = 1e-9
"""By how much doubles may differ, relative to the larger."""


def read_rows(path: Path) -> pa.Table | None:
    """Return the rows of a Parquet file or of a folder of them; None if there is no file."""
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]) if files else None


def differences_from_plain(engine: Engine, names: Iterable[str]) -> tuple[str, ...]:
    """Say how an engine's rows of some queries differ from plain Spark's."""
    compared = (difference(name, engine.results(name), engine.run_plain(name)) for name in names)
    return tuple(text for text in compared if text is not None)


def difference(name: str, weft: pa.Table | None, other: pa.Table | None) -> str | None:
    """Say how Weft's rows of a query differ from another's; None if they do not."""
    counts = [0 if table is None else table.num_rows for table in (weft, other)]
    if counts[0] != counts[1]:
        return f"{name}: {counts[0]:,} rows, expected {counts[1]:,}"
    if weft is None or other is None or not counts[0]:
        return None
    if weft.column_names != other.column_names:
        return f"{name}: columns {weft.column_names}, expected {other.column_names}"
    # Decimals are doubles in DuckDB.
    inexact = {
        field.name
        for table in (weft, other)
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
    }
    left, right = (_ordered(_comparable(table, inexact), inexact) for table in (weft, other))
    for column in weft.column_names:
        compare = _doubles_differ if column in inexact else _differ
        differs = compare(left[column], right[column])
        if differs.any():
            index = int(np.flatnonzero(differs)[0])
            got, expected = (table[column][index].as_py() for table in (left, right))
            return f"{name}: {column} is {got!r}, expected {expected!r} ({int(differs.sum()):,} rows differ)"
    return None


def _comparable(table: pa.Table, inexact: set[str]) -> pa.Table:
    """Return the columns in one type for each kind of value."""
    return pa.table({name: _one_type(table[name], name in inexact) for name in table.column_names})


def _one_type(column: pa.ChunkedArray, inexact: bool) -> pa.ChunkedArray:
    if inexact:
        return column.cast(pa.float64())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column


def _ordered(table: pa.Table, inexact: set[str]) -> pa.Table:
    # What is exact identifies a row; doubles decide only between rows that are alike in all else.
    exact = [name for name in table.column_names if name not in inexact]
    order = [(name, "ascending") for name in (*exact, *sorted(inexact))]
    return table.take(pc.sort_indices(table, sort_keys=order)).combine_chunks()


def _differ(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    same = pc.fill_null(pc.equal(left, right), False)
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return ~np.asarray(pc.or_(same, both_null))


def _doubles_differ(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    nulls = [np.asarray(pc.is_null(column)) for column in (left, right)]
    values, others = (np.asarray(pc.fill_null(column, 0.0)) for column in (left, right))
    with np.errstate(invalid="ignore"):
        size = np.maximum(np.abs(values), np.abs(others))
        near = (np.abs(values - others) <= TOLERANCE * size) | (values == others)
    near |= np.isnan(values) & np.isnan(others)
    return np.asarray((nulls[0] != nulls[1]) | ~near)
