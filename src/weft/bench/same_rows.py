"""Whether two sets of result rows are the same: exact but for doubles, never deduplicated."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.bench.records import Record, concatenated, pooled_by
from weft.engine import Engine

TOLERANCE = 1e-9
"""By how much doubles may differ, relative to the larger."""


def read_rows(path: Path) -> pa.Table | None:
    """Return the rows of a Parquet file or of a folder of them; None if there is no file."""
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]) if files else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Record):
    """What was compared and how it came out."""

    queries: int = pooled_by(sum, default=0)
    rows: int = pooled_by(sum, default=0)
    differences: tuple[str, ...] = pooled_by(concatenated, default=())

    @property
    def equal(self) -> bool | None:
        """Whether all rows are equal; None when nothing was compared."""
        return not self.differences if self.queries else None


NOT_COMPARED = Comparison()


def compare_rows(name: str, weft: pa.Table | None, other: pa.Table | None) -> Comparison:
    """Compare Weft's rows of a query with another's."""
    problem = difference(name, weft, other)
    rows = 0 if other is None else other.num_rows
    return Comparison(queries=1, rows=rows, differences=() if problem is None else (problem,))


def compare_with_plain(engine: Engine, names: Iterable[str]) -> Comparison:
    """Compare an engine's rows of some queries with plain Spark's."""
    compared = [compare_rows(name, engine.results(name), engine.run_plain(name)) for name in names]
    return Comparison.pooled([NOT_COMPARED, *compared])


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
    left, right = (_normalized(table, inexact) for table in (weft, other))
    for column in weft.column_names:
        differs = _differ(left[column], right[column], exact=column not in inexact)
        if differs.any():
            index = int(np.flatnonzero(differs)[0])
            got, expected = (table[column][index].as_py() for table in (left, right))
            return f"{name}: {column} is {got!r}, expected {expected!r} ({int(differs.sum()):,} rows differ)"
    return None


def _normalized(table: pa.Table, inexact: set[str]) -> pa.Table:
    """Return the rows in order, with one type for each kind of value."""
    for index, field in enumerate(table.schema):
        column = table[field.name]
        if field.name in inexact:
            column = column.cast(pa.float64())
        elif pa.types.is_timestamp(field.type):
            column = microseconds(column)
        elif pa.types.is_integer(field.type):
            column = column.cast(pa.int64())
        table = table.set_column(index, field.name, column)
    # What is exact identifies a row; doubles decide only between rows that are alike in all else.
    names = sorted(table.column_names, key=lambda name: (name in inexact, name))
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


def _differ(left: pa.ChunkedArray, right: pa.ChunkedArray, *, exact: bool) -> npt.NDArray[np.bool_]:
    nulls, other_nulls = (np.asarray(pc.is_null(column)) for column in (left, right))
    if exact:
        same = np.asarray(pc.fill_null(pc.equal(left, right), False))
    else:
        values, others = (np.asarray(pc.fill_null(column, 0.0)) for column in (left, right))
        with np.errstate(invalid="ignore"):
            size = np.maximum(np.abs(values), np.abs(others))
            same = (np.abs(values - others) <= TOLERANCE * size) | (values == others)
        same |= np.isnan(values) & np.isnan(others)
        same &= ~nulls & ~other_nulls
    return np.asarray(~same & ~(nulls & other_nulls))


def microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as whole numbers."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
