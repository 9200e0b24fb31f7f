"""LIMIT: the first rows of each window, in the order of ORDER BY.

What rows are ordered and counted by is computed beside what is selected, in further columns, and dropped once
the rows are chosen. So queries that differ only in their limits are one program.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import arrow_type
from weft.expression import Expression
from weft.finals.results import result_schema
from weft.query.logical import LogicalQuery
from weft.state.groups import distinct_rows

Rows = npt.NDArray[np.intp]


def hidden(query: LogicalQuery) -> tuple[Expression, ...]:
    """Return what a query's rows are ordered and counted by."""
    by = (expression for limit in query.limits for expression in limit.by)
    return (*(key.expression for key in query.order), *by)


def selected_schema(query: LogicalQuery) -> pa.Schema:
    """Return the columns of a query's results, and after them those that are hidden."""
    schema = result_schema(query)
    for index, expression in enumerate(hidden(query)):
        schema = schema.append(pa.field(f"hidden {index}", arrow_type(expression.type)))
    return schema


def limited(query: LogicalQuery, selected: pa.Table) -> pa.Table:
    """Return the rows that a query's limits keep, by window and in order, given all that it selects."""
    if not query.limits:
        return selected
    width = 2 + len(query.outputs)
    end, further = selected["window_end"], selected.columns[width:]
    ranks = [
        _ranks(column, descending=key.descending, nulls_first=key.nulls_first)
        for key, column in zip(query.order, further, strict=False)
    ]
    windows = _ranks(end, descending=False, nulls_first=True)
    rows: Rows = np.lexsort((*reversed(ranks), windows))
    by = further[len(ranks) :]
    for limit in query.limits:
        groups = [end, *by[: len(limit.by)]]
        by = by[len(limit.by) :]
        table = pa.table({str(index): column for index, column in enumerate(groups)})
        rows = rows[_places(distinct_rows(table)[1][rows]) < limit.rows]
    columns = [column.take(pa.array(rows)) for column in selected.columns[:width]]
    return pa.Table.from_arrays(columns, schema=result_schema(query))


def _ranks(column: pa.ChunkedArray, *, descending: bool, nulls_first: bool) -> Rows:
    """Return numbers in the order of values: NaN is the greatest, there is one zero, text is bytes."""
    values = _comparable(column)
    known = values.dictionary_encode()
    sorting = np.asarray(pc.array_sort_indices(known.dictionary)).astype(np.intp)
    ranks = np.empty(len(sorting) + 1, dtype=np.intp)
    ranks[sorting] = np.arange(len(sorting))[:: -1 if descending else 1]
    ranks[-1] = -1 if nulls_first else len(sorting)
    found: Rows = ranks[np.asarray(known.indices.fill_null(len(sorting)))]
    return found


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """Return values of which equal ones are the same, and which Arrow orders as Spark does."""
    if pa.types.is_null(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    values = column.combine_chunks()
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _places(groups: Rows) -> Rows:
    """Return each row's place among those of its group, in the order of rows.

    >>> _places(np.array([7, 3, 7, 7, 3])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(groups, kind="stable")
    begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
    lengths = np.diff(np.append(begins, len(groups)))
    places = np.empty(len(groups), dtype=np.intp)
    places[order] = np.arange(len(groups)) - np.repeat(begins, lengths)
    return places
