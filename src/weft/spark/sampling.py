"""A few rows of a batch, as the planner sees them: their positions in every attribute."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.expression import Call, Expression, walk
from weft.expression import columns as columns_of
from weft.optimizer.plan import Relation, SharedPlan
from weft.optimizer.statistics import Joins as JoinedTables
from weft.optimizer.statistics import Sample, assumed_positions
from weft.optimizer.values import evaluable
from weft.predicates import Attribute
from weft.query.logical import StreamDef
from weft.spark.columns import Udf, named
from weft.spark.fragments import Place, attributes_of, search, search_answer
from weft.spark.joins import Joins
from weft.spark.tables import StaticTable
from weft.spark.times import event_time
from weft.types import Kind

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
    searched = {place: one for place, one in found.items() if not _calls_any(one.expression, functions)}
    by_joins = {relation.joins: relation for relation in leaves.relations}
    fields = [
        _answer(attribute, joins.translator(by_joins[tables_])(attribute.expression)).alias(f"a{number}")
        for number, ((tables_, _), attribute) in enumerate(searched.items())
    ]
    grouped = _grouped(leaves, functions)
    fields += [
        F.xxhash64(*map(joins.translator(relation), relation.keys)).alias(f"k{number}")
        for number, relation in enumerate(grouped.values())
    ]
    valued = _valued(found)
    fields += [F.xxhash64(named(name)).alias(f"v{number}") for number, name in enumerate(valued)]
    columns = [named(column.name) for column in stream.columns]
    times = event_time(stream).alias(_TIME)
    rows = joins.apply(batch.limit(SAMPLED_ROWS).select(*columns)).select(*fields, times).toArrow()
    positions: dict[Place, npt.NDArray[np.integer]] = {
        place: _positions(attribute, rows[f"a{number}"].to_pylist())
        for number, (place, attribute) in enumerate(searched.items())
    }
    chance = np.random.default_rng(1)
    for place in found.keys() - searched.keys():
        positions[place] = assumed_positions(found[place], rows.num_rows, chance)
    values = {name: np.asarray(rows[f"v{number}"]) for number, name in enumerate(valued)}
    keys = {place: np.asarray(rows[f"k{number}"]) for number, place in enumerate(grouped)}
    begin = _beginning(rows[_TIME].drop_null().to_numpy())
    return Sample(
        rows=rows.num_rows, attributes=found, positions=positions, keys=keys, values=values, begin=begin
    )


def _valued(found: Mapping[Place, Attribute]) -> list[str]:
    """Return the columns whose values predicates might be evaluated by."""
    return sorted({name for _, one in found if evaluable(one) for name in columns_of(one)})


def _beginning(times: npt.NDArray[np.int64]) -> int | None:
    """Return when nearly all rows are later: a few strays are not where a stream begins."""
    return int(np.quantile(times, 0.01, method="lower")) if len(times) else None


def _answer(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands, or a boolean as it is: to ask it twice would double the code."""
    return value if attribute.expression.type.kind is Kind.BOOLEAN else search(attribute, value)


def _positions(attribute: Attribute, answers: list[int | None]) -> npt.NDArray[np.int64]:
    """Turn the search's answers, or booleans, into positions: see weft.predicates.codebook."""
    last = attribute.positions - 1
    if attribute.expression.type.kind is Kind.BOOLEAN:
        answers = [None if one is None else search_answer(attribute.points, int(one)) for one in answers]
    return np.array(
        [last if one is None else 2 * one + 1 if one >= 0 else -2 * (one + 1) for one in answers],
        dtype=np.int64,
    )


def _grouped(
    leaves: SharedPlan, functions: Mapping[str, Udf]
) -> dict[tuple[JoinedTables, tuple[Expression, ...]], Relation]:
    return {
        (relation.joins, relation.keys): relation
        for relation in leaves.relations
        if relation.keys and not any(_calls_any(key, functions) for key in relation.keys)
    }


def _calls_any(expression: Expression, functions: Mapping[str, Udf]) -> bool:
    return any(isinstance(node, Call) and node.function in functions for node in walk(expression))
