"""From finals to each query's own results."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from weft.expression import Slot
from weft.optimizer.plan import Answer
from weft.runtime.programs import Program
from weft.runtime.results import result_schema
from weft.spark.columns import Udf
from weft.spark.outputs import evaluate, slot_column

_WINDOW = ["window_start", "window_end"]


def select(
    spark: SparkSession, program: Program, rows: pa.Table, functions: Mapping[str, Udf]
) -> tuple[pa.Table, npt.NDArray[np.int32]]:
    """Return what a program's SELECT makes of its finals, and the query of each row in which it failed.

    Plain columns need no Spark, and cannot fail.
    """
    slots = [output for output in program.outputs if isinstance(output, Slot)]
    if program.having is not None or len(slots) < len(program.outputs):
        shown, failed = evaluate(spark, rows, program.outputs, program.having, functions)
        return shown, np.asarray(failed["query"])
    names = ["query", *_WINDOW, *map(slot_column, slots)]
    columns = [f"output{place}" for place in range(len(slots))]
    renamed = pa.table([rows[name] for name in names], names=[*names[:3], *columns])
    return renamed, np.empty(0, dtype=np.int32)


def by_query(rows: pa.Table, answers: Sequence[Answer]) -> Iterator[tuple[str, pa.Table]]:
    """Cut results into those of each query, under the names that it gave its columns."""
    if not rows.num_rows:
        return
    number = np.asarray(rows["query"])
    order = np.argsort(number, kind="stable")
    rows = rows.drop_columns(["query"])
    if (np.diff(number) < 0).any():
        rows = rows.take(pa.array(order))
    renamed: dict[tuple[object, ...], pa.Table] = {}
    present, starts = np.unique(number[order], return_index=True)
    for query, begin, end in zip(present, starts, [*starts[1:], len(number)], strict=True):
        asked = answers[query].query
        names = [output.name for output in asked.outputs]
        note = result_schema(asked).metadata
        shape = (*names, str(note))
        if shape not in renamed:
            renamed[shape] = rows.rename_columns([*_WINDOW, *names]).replace_schema_metadata(note)
        yield asked.name, renamed[shape].slice(begin, end - begin)
