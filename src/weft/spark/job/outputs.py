"""What only Spark can evaluate of SELECT and HAVING: registered functions, all in one job a batch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.expression import Expression, Slot
from weft.spark.columns import Translator, Udf

_PART, _ROW, _KEPT, _FAILED = "part", "row", "kept", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRows:
    """Rows of finals, and the expressions to evaluate over them."""

    columns: Mapping[Slot, pa.Array]
    rows: int
    outputs: Sequence[Expression]
    having: Expression | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """Spark's results for some rows, in their order."""

    outputs: Sequence[pa.Array]
    kept: pa.Array
    """Whether HAVING holds."""
    failed: pa.Array
    """Whether an output or HAVING failed."""


def evaluate(
    spark: SparkSession, parts: Sequence[OutputRows], functions: Mapping[str, Udf]
) -> Sequence[Computed]:
    """Evaluate the outputs and HAVING of all parts, in one job."""
    frames = [_frame(spark, number, part, functions) for number, part in enumerate(parts)]
    table = _together(frames).toArrow().sort_by([(_PART, "ascending"), (_ROW, "ascending")])
    computed, begin = [], 0
    for part in parts:
        rows = table.slice(begin, part.rows)
        begin += part.rows
        names = _names(part.outputs)
        outputs, (kept, failed) = (
            [rows[name].combine_chunks() for name in columns] for columns in (names, (_KEPT, _FAILED))
        )
        computed.append(Computed(outputs=outputs, kept=kept, failed=failed))
    return computed


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames.

    By halves: Spark analyses a whole union whenever another frame is added to it.
    """
    if len(frames) == 1:
        return frames[0]
    middle = len(frames) // 2
    left, right = _together(frames[:middle]), _together(frames[middle:])
    return left.unionByName(right, allowMissingColumns=True)


def _frame(spark: SparkSession, number: int, part: OutputRows, functions: Mapping[str, Udf]) -> DataFrame:
    """Return a part's rows with what is computed from them."""
    names = {slot: f"slot{order}" for order, slot in enumerate(part.columns)}
    translate = Translator(functions, slot=lambda slot: F.col(names[slot]))
    having = part.having
    kept = F.lit(True) if having is None else F.coalesce(translate(having), F.lit(False))
    expressions = [*part.outputs, *([] if having is None else [having])]
    failures = [failure for failure in map(translate.failure, expressions) if failure is not None]
    failed = F.coalesce(reduce(Column.__or__, failures, F.lit(False)), F.lit(False))
    columns = {name: _unsliced(part.columns[slot]) for slot, name in names.items()}
    rows = pa.table({_ROW: pa.array(range(part.rows), pa.int64()), **columns})
    return spark.createDataFrame(rows).select(
        F.lit(number).alias(_PART), _ROW, kept.alias(_KEPT), failed.alias(_FAILED),
        *(
            translate(output).cast(str(output.type)).alias(name)
            for name, output in zip(_names(part.outputs), part.outputs, strict=True)
        ),
    )  # fmt: skip


def _unsliced(column: pa.Array) -> pa.Array:
    """Copy an array of arrays or structs: Spark fails if it is a slice of a longer one."""
    if not pa.types.is_nested(column.type):
        return column
    return column.take(pa.array(range(len(column)), pa.int64()))


def _names(outputs: Sequence[Expression]) -> list[str]:
    """Return names for outputs, the same as in other parts with outputs of the same types."""
    used: Counter[str] = Counter()
    names = []
    for output in outputs:
        type = str(output.type)
        names.append(f"{type} {used[type]}")
        used[type] += 1
    return names
