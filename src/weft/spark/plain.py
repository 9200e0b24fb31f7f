"""Each query as ordinary Spark: a batch query of its own, with Spark's own windows and aggregates.

This is what `--sharing none` runs. It shares no code with slices, partials and finals, so that it can verify
them.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from time import time

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.errors import EngineError
from weft.expression import Slot
from weft.query.logical import AggregateCall, JoinKind, LogicalQuery, StreamDef
from weft.spark.columns import Translator, Udf, named
from weft.spark.input.rows import event_time
from weft.spark.input.tables import StaticTable
from weft.types import Kind
from weft.window import Window

_TIME = "__plain_time"


def run_plain(
    rows: DataFrame,
    stream: StreamDef,
    query: LogicalQuery,
    tables: Mapping[str, StaticTable],
    functions: Mapping[str, Udf],
) -> pa.Table:
    """Return the query's results over all rows of a static DataFrame."""
    if query.emit_empty:
        raise EngineError(f"query {query.name}: EMIT EMPTY has no counterpart in ordinary Spark")
    translate = Translator(functions)
    rows = rows.withColumn(_TIME, event_time(stream)).where(F.col(_TIME).isNotNull())
    if stream.skew_ms is not None:
        rows = rows.where(F.col(_TIME) <= int(time() * 1_000_000) + stream.skew_ms * 1000)
    rows = counted(rows, query, {name: table.frame for name, table in tables.items()}, translate)
    bounds = F.col("window_start"), F.col("window_end")
    results = grouped(_windowed(rows, query.window), query, bounds, translate, _aggregate)
    after = Translator(functions, slot=slot_column)
    if query.having is not None:
        results = results.where(after(query.having))
    outputs = [
        after(output.expression).cast(str(output.expression.type)).alias(output.name)
        for output in query.outputs
    ]
    return results.select("window_start", "window_end", *outputs).toArrow()


def counted(
    rows: DataFrame, query: LogicalQuery, tables: Mapping[str, DataFrame], translate: Translator
) -> DataFrame:
    """Return the rows that a query counts, joined with its tables."""
    for join in query.joins:
        table = tables[join.table]
        renamed = table.select(*(named(name).alias(f"{join.alias}.{name}") for name in table.columns))
        pairs = [translate(left) == translate(right) for left, right in join.on]
        how = "inner" if join.kind is JoinKind.INNER else "left"
        rows = rows.join(renamed, reduce(Column.__and__, pairs), how)
    return rows if query.predicate is None else rows.where(translate(query.predicate))


def grouped(
    rows: DataFrame, query: LogicalQuery, window: Iterable[Column], translate: Translator,
    aggregate: Callable[[AggregateCall, Column], Column],
) -> DataFrame:  # fmt: skip
    """Return the keys and aggregates of each window, in columns that `slot_column` names."""
    keys = [translate(key.expression).alias(f"key{index}") for index, key in enumerate(query.keys)]
    calls = []
    for index, call in enumerate(query.aggregates):
        value = F.lit(1) if call.argument is None else translate(call.argument)
        if call.filter is not None:
            value = F.when(translate(call.filter), value)
        calls.append(aggregate(call, value).alias(f"aggregate{index}"))
    return rows.groupBy(*window, *keys).agg(*(calls or [F.count(F.lit(1))]))


def slot_column(slot: Slot) -> Column:
    """Return the column of a slot over groups."""
    return F.col(str(slot.kind) if slot.kind.startswith("window") else f"{slot.kind}{slot.index}")


def _windowed(rows: DataFrame, window: Window) -> DataFrame:
    """Return a copy of each row for each of its windows."""
    if window.slide_ms <= window.range_ms:
        # Spark's offset is that of windows' starts, Weft's that of their ends.
        offset_ms = (window.offset_ms - window.range_ms) % window.slide_ms
        lengths = [f"{length} milliseconds" for length in (window.range_ms, window.slide_ms, offset_ms)]
        rows = rows.withColumn("__plain_window", F.window(F.timestamp_micros(_TIME), *lengths))
        start, end = F.col("__plain_window.start"), F.col("__plain_window.end")
    else:
        # There are gaps between windows, which Spark has not: a row has one window or none.
        slide, range_us, offset = window.slide_ms * 1000, window.range_ms * 1000, window.offset_ms * 1000
        last = F.col(_TIME) - F.pmod(F.col(_TIME) - offset, F.lit(slide)) + slide
        rows = rows.withColumn("__plain_end", last).where(F.col(_TIME) >= F.col("__plain_end") - range_us)
        start, end = F.timestamp_micros(F.col("__plain_end") - range_us), F.timestamp_micros("__plain_end")
    return rows.withColumns({"window_start": start, "window_end": end})


def _aggregate(call: AggregateCall, value: Column) -> Column:
    if call.function == "sum" and call.type.kind is Kind.BIGINT:
        return F.sum(value.cast("decimal(38,0)")).try_cast("bigint")
    if call.function in ("sum", "avg"):
        return F.call_function(f"try_{call.function}", value)
    return F.call_function(call.function, value)
