"""Values that a batch showed and nobody knew: which they are, and whose failures they are."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expression import Expression
from weft.spark.job.asked_values import AskedValues
from weft.spark.job.word_coder import missed_name


def missed_values(asked: AskedValues, result: pa.Table) -> dict[str, pa.Array]:
    """Return the values by column, each once."""
    found = {
        name: pc.unique(result[missed_name(column)].combine_chunks()).drop_null()
        for name, column in asked.columns.items()
    }
    return {name: values for name, values in found.items() if len(values)}


def count_failures(
    asked: AskedValues,
    tested: Mapping[str, tuple[Expression, ...]],
    result: pa.Table,
    counted: npt.NDArray[np.bool_],
    rows: str,
) -> pa.Table:
    """Count the failures of calls for values that are known by now.

    All rows of a group have one value, so that either none of them failed or all did. `tested` are, for each
    column of failures, the operations that it counts; `counted` are the groups of first copies, and `rows` is
    the column that counts their rows.
    """
    for name, sites in tested.items():
        failed = np.zeros(len(result), dtype=bool)
        for site in sites:
            column = asked.failing.get(site)
            if column is None:
                continue
            answers = column.answers(result[missed_name(column)].combine_chunks())
            failed |= (answers >= 0) & (column.failed(site)[answers] == 1)
        if (failed & counted).any():
            counts = np.where(failed & counted, np.asarray(result[rows]), np.asarray(result[name]))
            result = result.set_column(result.column_names.index(name), name, pa.array(counts))
    return result
