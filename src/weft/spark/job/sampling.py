"""A few rows of a batch, as the planner sees them: their positions in every attribute."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame

from weft.expression import Call, Expression, walk
from weft.expression import Column as ColumnName
from weft.expression import columns as columns_of
from weft.optimizer.by_value import evaluable
from weft.optimizer.plan import SharedPlan
from weft.optimizer.statistics import Joins as JoinedTables
from weft.optimizer.statistics import Sample, assumed_positions, numbered
from weft.predicates import Attribute
from weft.query.logical import StreamDef
from weft.spark.columns import Udf, named
from weft.spark.input.tables import StaticTable
from weft.spark.input.times import event_time
from weft.spark.job.fragment_coder import Place, attributes_of
from weft.spark.job.handover import Handover
from weft.spark.job.joins import Joins

SAMPLED_ROWS = 2_048
_TIME = "__weft_time"


def take_sample(
    batch: DataFrame,
    leaves: SharedPlan,
    stream: StreamDef,
    tables: Mapping[str, StaticTable],
    functions: Mapping[str, Udf],
) -> Sample:
    """Return the first rows of a batch; Spark reads no further than it must for them.

    Registered functions are not called: rows are taken to be spread evenly over what they return.
    """
    joins = Joins(leaves.relations, tables, functions)
    found = attributes_of(leaves.relations)
    local = joins.local_tables()
    asked = _asked(leaves, stream, functions, Handover(joins=joins, looks_up=local is not None), found)
    if local is not None and asked.handover.needs_joins:
        local = None
        asked = _asked(leaves, stream, functions, Handover(joins=joins, looks_up=False), found)
    rows = batch.limit(SAMPLED_ROWS).select(*(named(column.name) for column in stream.columns))
    rows = (joins.apply(rows) if local is None else rows).select(
        event_time(stream).alias(_TIME), *asked.handover.fields()
    )
    taken = rows.toArrow()
    evaluator = asked.handover.evaluator(taken, local or {})
    chance = np.random.default_rng(1)
    return Sample(
        rows=taken.num_rows,
        attributes=found,
        positions={
            place: evaluator.positions(asked.searched[place], one.points)
            if place in asked.searched
            else assumed_positions(one, taken.num_rows, chance)
            for place, one in found.items()
        },
        keys={place: _numbers(map(evaluator.values, keys)) for place, keys in asked.grouped.items()},
        values={name: _numbers([evaluator.values(value)]) for name, value in asked.valued.items()},
        begin=_beginning(taken[_TIME].drop_null().to_numpy()),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of the sample, over the columns that Spark hands over."""

    handover: Handover
    searched: Mapping[Place, Expression]
    """What predicates test, but for what registered functions return."""
    grouped: Mapping[tuple[JoinedTables, tuple[Expression, ...]], Sequence[Expression]]
    """What rows are grouped by."""
    valued: Mapping[str, Expression]
    """The columns whose values predicates might be evaluated by."""


def _asked(
    leaves: SharedPlan,
    stream: StreamDef,
    functions: Mapping[str, Udf],
    handover: Handover,
    found: Mapping[Place, Attribute],
) -> _Asked:
    joins = handover.joins
    by_joins = {relation.joins: joins.translator(relation) for relation in leaves.relations}
    types = {column.name: column.type for column in stream.columns}
    return _Asked(
        handover=handover,
        searched={
            place: handover.over(by_joins[place[0]], one.expression)
            for place, one in found.items()
            if not _calls_any(one.expression, functions)
        },
        grouped={
            place: [handover.over(by_joins[place[0]], key) for key in place[1]]
            for place in _grouped(leaves, functions)
        },
        valued={name: handover.over(joins.stream, ColumnName(name, types[name])) for name in _valued(found)},
    )


def _numbers(columns: Iterable[pa.Array]) -> npt.NDArray[np.int64]:
    """Return a number for each row, the same where rows are alike in all columns."""
    whole = np.zeros(1, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        whole = numbered(whole * len(encoded.dictionary) + np.asarray(encoded.indices))
    # What stands for nothing is 0: see Frequencies.
    return whole + 1


def _valued(found: Mapping[Place, Attribute]) -> list[str]:
    """Return the columns whose values predicates might be evaluated by."""
    return sorted({name for _, one in found if evaluable(one) for name in columns_of(one)})


def _beginning(times: npt.NDArray[np.int64]) -> int | None:
    """Return when nearly all rows are later: a few strays are not where a stream begins."""
    return int(np.quantile(times, 0.01, method="lower")) if len(times) else None


def _grouped(
    leaves: SharedPlan, functions: Mapping[str, Udf]
) -> list[tuple[JoinedTables, tuple[Expression, ...]]]:
    """Return the keys that rows are grouped by, without those that only registered functions tell."""
    several = dict.fromkeys((one.joins, one.keys) for one in leaves.relations if one.keys)
    return [place for place in several if not any(_calls_any(key, functions) for key in place[1])]


def _calls_any(expression: Expression, functions: Mapping[str, Udf]) -> bool:
    return any(isinstance(node, Call) and node.function in functions for node in walk(expression))
