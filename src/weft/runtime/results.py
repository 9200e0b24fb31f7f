"""The shape of a query's results."""

import pyarrow as pa

from weft.aggregates import arrow_type
from weft.query.logical import LogicalQuery


def result_schema(query: LogicalQuery) -> pa.Schema:
    """Return the columns of a query's results: the window's bounds, then what it selects."""
    moment = pa.timestamp("us", "UTC")
    outputs = [(output.name, arrow_type(output.expression.type)) for output in query.outputs]
    return pa.schema([("window_start", moment), ("window_end", moment), *outputs])
