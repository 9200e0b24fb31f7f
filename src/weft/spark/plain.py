"""Each query as ordinary Spark: a batch query of its own, with Spark's own windows and aggregates.

This is what `--sharing none` runs. It shares no code with slices, partials and finals, so that it can verify
them.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from time import time

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.aggregates import Constant
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
    results = grouped(_windowed(rows, query.window), query, bounds, translate)
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
    rows: DataFrame, query: LogicalQuery, window: Iterable[Column], translate: Translator, *,
    checked: bool = True,
) -> DataFrame:  # fmt: skip
    """Return the keys and aggregates of each window, in columns that `slot_column` names.

    If `checked`, no sum can overflow on its way to a total that fits.
    """
    keys = [translate(key.expression).alias(f"key{index}") for index, key in enumerate(query.keys)]
    calls = [
        aggregate_column(call, index, checked=checked).alias(f"aggregate{index}")
        for index, call in enumerate(query.aggregates)
    ]
    rows = rows.withColumns(aggregate_inputs(query, translate))
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


def aggregate_inputs(query: LogicalQuery, translate: Translator) -> dict[str, Column]:
    """Return the arguments of all aggregates, by the names under which `aggregate_column` reads them."""
    inputs: dict[str, Column] = {}
    for index, call in enumerate(query.aggregates):
        values = [translate(argument) for argument in call.arguments]
        if call.filter is not None:
            values = [F.when(translate(call.filter), value) for value in values or [F.lit(1)]]
        inputs |= {f"__plain_value{index}_{place}": value for place, value in enumerate(values)}
    return inputs


def aggregate_column(call: AggregateCall, index: int, *, checked: bool = True) -> Column:
    """Return an aggregate as Spark's own, as text over its inputs; raise an error where Spark has none."""
    count = len(call.arguments) or (0 if call.filter is None else 1)
    names = [f"__plain_value{index}_{place}" for place in range(count)] or ["1"]
    if call.function in ("sum", "avg") and not checked:
        return F.call_function(call.function, F.col(names[0]))
    if call.function == "product":
        # It has no name in SQL.
        return F.product(F.col(names[0]))
    template = _TEXTS.get(call.function, "{name}({all})")
    if not template:
        raise EngineError(f"{call.function} has no counterpart in ordinary Spark")
    if call.function.startswith("sum") and call.type.kind is Kind.BIGINT:
        template = template.replace("try_sum(", "sum(").replace("{x}", "CAST({x} AS DECIMAL(38,0))")
        template = f"try_cast({template} AS BIGINT)"
    constants = [*map(_text, call.constants), "", ""]
    ties = ", ".join([*names[1:], names[0]])
    # Spark counts 0.0 and -0.0 as two values there, and as one wherever it groups.
    zero = " + 0.0D" if call.arguments and call.arguments[0].type.is_fractional else ""
    text = template.format(
        name=call.function, x=names[0], y=names[-1] if count < 3 else names[1], zero=zero,
        p=constants[0], q=constants[1],
        all=", ".join([*names, *constants[:-2]]), columns=", ".join(names), ties=ties,
        order="DESC" if constants[1] == "true" else "ASC",
        known=f" AND {names[0]} IS NOT NULL" if constants[0] == "true" else "",
    )  # fmt: skip
    return F.expr(text)


def _text(constant: Constant) -> str:
    match constant:
        case tuple():
            return f"array({', '.join(map(_text, constant))})"
        case str():
            escaped = constant.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case bool():
            return repr(constant).lower()
        case float():
            return f"{constant!r}D"
    return repr(constant)


_IN_TIME = (
    "transform(array_sort(collect_list(struct({y} AS t, {x} AS x)) FILTER (WHERE {x} IS NOT NULL)), e -> e.x)"
)
_TEXTS: Mapping[str, str] = {
    "sum": "try_sum({x})",
    "avg": "try_avg({x})",
    "count_distinct": "count(DISTINCT {columns})",
    "sum_distinct": "try_sum(DISTINCT {x})",
    "avg_distinct": "try_avg(DISTINCT {x})",
    "percentile_cont": "percentile_cont({p}) WITHIN GROUP (ORDER BY {x} {order})",
    "percentile_disc": "percentile_disc({p}) WITHIN GROUP (ORDER BY {x} {order})",
    "mode": "mode({x}{zero}, true)",
    "any_value": "min({x})",
    # Spark's own take whichever row comes first, or any of several.
    "first": "min_by({x}, struct({ties})) FILTER (WHERE {y} IS NOT NULL{known})",
    "last": "max_by({x}, struct({ties})) FILTER (WHERE {y} IS NOT NULL{known})",
    "min_by": "min_by({x}, struct({y}, {x})) FILTER (WHERE {y} IS NOT NULL)",
    "max_by": "max_by({x}, struct({y}, {x})) FILTER (WHERE {y} IS NOT NULL)",
    "collect_list": f"slice({_IN_TIME}, 1, {{p}})",
    "collect_set": "slice(array_sort(collect_set({x})), 1, {p})",
    "string_agg": f"CASE WHEN count({{x}}) > 0 THEN array_join(slice({_IN_TIME}, 1, {{q}}), {{p}}) END",
    "top_k": "",
    "histogram": "",
}
"""Aggregates that Spark writes in another way than `name(arguments, constants)`; none at all, if empty."""
