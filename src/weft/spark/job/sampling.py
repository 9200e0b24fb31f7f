"""A few rows of a batch, as the planner sees them: their positions in every attribute."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from weft.expression import Column as ColumnName
from weft.expression import Expression
from weft.expression import columns as columns_of
from weft.optimizer.plan import SharedPlan
from weft.optimizer.rules import evaluable
from weft.optimizer.statistics import Joins as JoinedTables
from weft.optimizer.statistics import Sample, assumed_positions, numbered
from weft.predicates import Attribute
from weft.query.logical import StreamDef
from weft.spark.columns import Udf, named
from weft.spark.input.rows import event_time
from weft.spark.input.tables import StaticTable
from weft.spark.job.calls import calls_in
from weft.spark.job.handover import Handover
from weft.spark.job.joins import Joins
from weft.spark.job.points import JoinedExpression, attributes_of

SAMPLED_ROWS = 2_048
_TIME = "__weft_time"
_Keys = tuple[JoinedTables, tuple[Expression, ...]]


def take_sample(
    batch: DataFrame,
    leaves: SharedPlan,
    stream: StreamDef,
    tables: Mapping[str, StaticTable],
    functions: Mapping[str, Udf],
) -> Sample:
    """Return the first rows of a batch; Spark reads no more than it needs for them.

    Registered functions are not called: rows are assumed to be spread evenly over their results.
    """
    joins = Joins(leaves.relations, tables, functions)
    attributes = attributes_of(leaves.relations)
    local = joins.local_tables()
    inputs = _inputs(leaves, stream, functions, Handover(joins=joins, looks_up=local is not None), attributes)
    if local is not None and inputs.handover.needs_joins:
        local = None
        inputs = _inputs(leaves, stream, functions, Handover(joins=joins, looks_up=False), attributes)
    rows = batch.limit(SAMPLED_ROWS).select(*(named(column.name) for column in stream.columns))
    rows = (joins.apply(rows) if local is None else rows).select(
        event_time(stream).alias(_TIME), *inputs.handover.fields()
    )
    sampled = rows.toArrow()
    times = sampled[_TIME].drop_null().to_numpy()
    evaluator = inputs.handover.evaluator(sampled, local or {})
    random = np.random.default_rng(1)
    return Sample(
        rows=sampled.num_rows,
        attributes=attributes,
        positions={
            joined: evaluator.positions(inputs.tested[joined], attribute.points)
            if joined in inputs.tested
            else assumed_positions(attribute, sampled.num_rows, random)
            for joined, attribute in attributes.items()
        },
        keys={key: _numbers(map(evaluator.values, parts)) for key, parts in inputs.keys.items()},
        values={name: _numbers([evaluator.values(value)]) for name, value in inputs.values.items()},
        # Before nearly all rows: a few stray ones are not where a stream begins.
        begin=int(np.quantile(times, 0.01, method="lower")) if len(times) else None,
    )


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The expressions to sample, over the columns that Spark hands over."""

    handover: Handover
    tested: Mapping[JoinedExpression, Expression]
    """What predicates test, except results of registered functions."""
    keys: Mapping[_Keys, Sequence[Expression]]
    """What rows are grouped by, except results of registered functions."""
    values: Mapping[str, Expression]
    """The columns by whose values predicates might be evaluated."""


def _inputs(
    leaves: SharedPlan,
    stream: StreamDef,
    functions: Mapping[str, Udf],
    handover: Handover,
    attributes: Mapping[JoinedExpression, Attribute],
) -> _Inputs:
    joins = handover.joins
    by_joins = {relation.joins: joins.translator(relation) for relation in leaves.relations}
    types = {column.name: column.type for column in stream.columns}
    all_keys = dict.fromkeys((leaf.joins, leaf.keys) for leaf in leaves.relations if leaf.keys)
    read = {name for _, tested in attributes if evaluable(tested) for name in columns_of(tested)}
    return _Inputs(
        handover=handover,
        tested={
            (tables, tested): handover.over(by_joins[tables], tested)
            for tables, tested in attributes
            if not any(calls_in([tested], functions))
        },
        keys={
            (tables, keys): [handover.over(by_joins[tables], key) for key in keys]
            for tables, keys in all_keys
            if not any(calls_in(keys, functions))
        },
        values={name: handover.over(joins.stream, ColumnName(name, types[name])) for name in sorted(read)},
    )


def _numbers(columns: Iterable[pa.Array]) -> npt.NDArray[np.int64]:
    """Return a number for each row, the same for rows that are equal in all columns."""
    whole = np.zeros(1, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        whole = numbered(whole * len(encoded.dictionary) + np.asarray(encoded.indices))
    # 0 stands for nothing: see Frequencies.
    return whole + 1
