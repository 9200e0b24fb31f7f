"""The shape of a query's results."""

import pyarrow as pa

from weft.aggregates import arrow_type
from weft.errors import EngineError
from weft.expression import Slot, SlotKind
from weft.query.grouping import GROUPING
from weft.query.logical import LogicalQuery
from weft.sinks import with_keys


def not_kept() -> EngineError:
    """Return the error for results that were not kept."""
    return EngineError("results are not kept in memory; start the engine with keep=True")


def result_schema(query: LogicalQuery) -> pa.Schema:
    """Return the columns of a query's results: the window's bounds, then what it selects.

    If it selects all its keys, and grouping_id() if it has grouping sets, the metadata of the schema names
    the columns that identify a row of a window.
    """
    moment = pa.timestamp("us", "UTC")
    outputs = [(output.name, arrow_type(output.expression.type)) for output in query.outputs]
    schema = pa.schema([("window_start", moment), ("window_end", moment), *outputs])
    names = {
        output.expression.index: output.name
        for output in query.outputs
        if isinstance(output.expression, Slot) and output.expression.kind is SlotKind.KEY
    }
    identity = list(names.values())
    if query.sets:
        # A key that is NULL is not an absent one.
        identity += [output.name for output in query.outputs if output.expression == GROUPING][:1]
    complete = len(identity) == len(query.keys) + bool(query.sets)
    return with_keys(schema, identity) if complete else schema
