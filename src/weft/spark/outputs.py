"""Evaluate what a SELECT and HAVING compute from aggregates, by Spark like every other expression."""

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from weft.expression import Expression, Slot, SlotKind
from weft.spark.columns import Translator, Udf


def slot_column(slot: Slot) -> str:
    """Return the name of the column that holds a slot's values."""
    if slot.kind in (SlotKind.WINDOW_START, SlotKind.WINDOW_END):
        return str(slot.kind)
    return f"{slot.kind}{slot.index}"


FAILED = "failed"
"""The column that tells whether an output or HAVING failed in a row."""
_KEPT = "kept"


def evaluate(
    spark: SparkSession,
    rows: pa.Table,
    outputs: Sequence[Expression],
    having: Expression | None,
    functions: Mapping[str, Udf],
) -> tuple[pa.Table, pa.Table]:
    """Return the rows that pass HAVING, with columns query, window_start, window_end, output0…

    The second table has the column query of the rows in which anything failed.
    """
    translate = Translator(functions, slot=lambda slot: F.col(slot_column(slot)))
    kept = F.lit(True) if having is None else F.coalesce(translate(having), F.lit(False))
    asked = [*outputs, *([] if having is None else [having])]
    failures = [part for part in map(translate.failure, asked) if part is not None]
    computed: list[Column] = [
        translate(output).cast(str(output.type)).alias(f"output{place}")
        for place, output in enumerate(outputs)
    ]
    found = (
        spark.createDataFrame(rows)
        .select(
            "query", "window_start", "window_end", *computed,
            kept.alias(_KEPT), reduce(Column.__or__, failures, F.lit(False)).alias(FAILED),
        )
        .toArrow()
    )  # fmt: skip
    failed = found.filter(pc.fill_null(found[FAILED], False)).select(["query"])
    return found.filter(found[_KEPT]).drop_columns([_KEPT, FAILED]), failed
