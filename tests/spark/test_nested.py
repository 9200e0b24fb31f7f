"""Elements, fields and sizes are Spark's, and whole arrays and structs pass through Spark as they are."""

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.nested_samples import COUNTS, as_array, same
from weft.evaluation import Evaluator
from weft.expression import Call, Expression, Literal, Slot, SlotKind
from weft.spark.columns import Translator
from weft.spark.job.outputs import OutputRows, evaluate
from weft.types import BIGINT, BOOLEAN, INT, STRING, array_of

TOP = Slot(SlotKind.AGGREGATE, 0, COUNTS)
LISTS = Slot(SlotKind.AGGREGATE, 1, array_of(array_of(STRING)))
INDEX = Slot(SlotKind.AGGREGATE, 2, BIGINT)
PAIR = Slot(SlotKind.AGGREGATE, 3, COUNTS.element)
A, B, NONE = {"value": 'it\'s "ü"\n', "count": 1}, {"value": None, "count": 2}, None
ROWS: list[tuple[Any, Any, Any, Any]] = [
    ([A, B, NONE], [["x", None], None, []], index, pair)
    for index, pair in zip(
        (0, 1, 2, 3, -1, -3, -4, 2**32, -(2**63), None), [A, B, NONE, A, B] * 2, strict=True
    )
] + [([], [], 0, A), (None, None, 1, None)]
EXPRESSIONS: list[Expression] = [
    TOP, LISTS, PAIR, Call("size", (TOP,), INT), Call("is_null", (PAIR,), BOOLEAN),
    Call("field", (PAIR, Literal("value", STRING)), STRING),
    *(
        Call(function, (slot, index), slot.type.element)
        for function in ("subscript", "get", "element_at")
        for slot in (TOP, LISTS)
        for index in (INDEX, Literal(0, INT), Literal(1, INT), Literal(-1, INT), Literal(2**32, BIGINT))
    ),
    *(
        Call("field", (Call(function, (TOP, INDEX), COUNTS.element), Literal("count", STRING)), BIGINT)
        for function in ("subscript", "get", "element_at")
    ),
]  # fmt: skip


COLUMNS = {
    slot: as_array(slot.type, list(values))
    for slot, values in zip((TOP, LISTS, INDEX, PAIR), zip(*ROWS, strict=True), strict=True)
}


def test_values_and_failures_are_sparks(spark: SparkSession) -> None:
    whole = pa.table(
        {str(slot): pa.array(column.to_pylist(), column.type) for slot, column in COLUMNS.items()}
    )
    translate = Translator(slot=lambda slot: F.col(str(slot)))
    wanted = spark.createDataFrame(whole).select(
        *(translate(one).cast(str(one.type)).alias(f"v{at}") for at, one in enumerate(EXPRESSIONS)),
        *(F.lit(False if failed is None else failed).alias(f"f{at}")
          for at, failed in enumerate(map(translate.failure, EXPRESSIONS))),
    ).toArrow()  # fmt: skip
    evaluator = Evaluator(COLUMNS, len(ROWS))
    for at, expression in enumerate(EXPRESSIONS):
        found = evaluator.values(expression)
        assert found.type == wanted[f"v{at}"].type, str(expression)
        assert same(found.to_pylist(), wanted[f"v{at}"].to_pylist()), str(expression)
        failed = evaluator.failed(expression)
        told = [False] * len(ROWS) if failed is None else failed.tolist()
        assert told == wanted[f"f{at}"].to_pylist(), str(expression)


def test_slices_of_finals_pass_through_spark(spark: SparkSession) -> None:
    outputs = [TOP, LISTS, PAIR]
    part = OutputRows(columns=COLUMNS, rows=len(ROWS), outputs=outputs, having=None)
    [computed] = evaluate(spark, [part], {})
    for slot, output in zip(outputs, computed.outputs, strict=True):
        assert same(output.to_pylist(), COLUMNS[slot].to_pylist())
