"""Evaluate what a SELECT and HAVING compute from aggregates, by Spark like every other expression."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from weft.expression import Expression, Slot, SlotKind
from weft.spark.columns import Translator, Udf


def slot_column(slot: Slot) -> str:
    """Return the name of the column that holds a slot's values."""
    if slot.kind in (SlotKind.WINDOW_START, SlotKind.WINDOW_END):
        return str(slot.kind)
    return f"{slot.kind}{slot.index}"


def evaluate(
    spark: SparkSession,
    rows: pa.Table,
    outputs: Sequence[Expression],
    having: Expression | None,
    functions: Mapping[str, Udf],
) -> pa.Table:
    """Return the rows that pass HAVING, with columns query, window_start, window_end, output0…"""
    translate = Translator(functions, slot=lambda slot: F.col(slot_column(slot)))
    frame = spark.createDataFrame(rows)
    if having is not None:
        frame = frame.where(translate(having))
    kept: list[Column] = [F.col("query"), F.col("window_start"), F.col("window_end")]
    computed = [
        translate(output).cast(str(output.type)).alias(f"output{place}")
        for place, output in enumerate(outputs)
    ]
    return frame.select(*kept, *computed).toArrow()
