"""Static tables, joined to the stream once for all queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from weft.query.logical import Join, JoinKind
from weft.spark.columns import Translator


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table as it was read when the engine started."""

    frame: DataFrame


def join_tables(
    rows: DataFrame, joins: Sequence[Join], tables: Sequence[DataFrame], translate: Translator
) -> DataFrame:
    """Join numbered tables so that no row of the stream is lost: those without a partner fail `matched`."""
    for join, table in zip(joins, tables, strict=True):
        rows = rows.join(F.broadcast(table), _condition(join, translate), "left")
    return rows


def numbered(join: Join, table: StaticTable, translate: Translator) -> DataFrame:
    """Return the table under its alias, its rows of equal key numbered from 0."""
    frame = table.frame
    renamed = frame.select(*(F.col(f"`{name}`").alias(f"{join.alias}.{name}") for name in frame.columns))
    keys = [translate(right) for _, right in join.on]
    number = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(0))) - 1
    return renamed.withColumn(_copy(join), number).persist()


def _condition(join: Join, translate: Translator) -> Column:
    pairs = [translate(left) == translate(right) for left, right in join.on]
    return reduce(Column.__and__, pairs)


def _copy(join: Join) -> str:
    return f"__weft_copy_{join.alias}"


def matched(joins: Sequence[Join]) -> list[Column]:
    """Return the conditions under which a row has all the partners that its inner joins ask for."""
    return [F.col(f"`{_copy(join)}`").isNotNull() for join in joins if join.kind is JoinKind.INNER]


def first_copy(joins: Sequence[Join]) -> Column:
    """Return whether a joined row is the first of its stream row, so that rows read can be counted."""
    copies = [F.coalesce(F.col(f"`{_copy(join)}`"), F.lit(0)) == 0 for join in joins]
    return reduce(Column.__and__, copies) if copies else F.lit(True)
