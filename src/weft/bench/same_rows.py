"""Whether two tables of results have the same rows: doubles to 1e-9, all else exactly."""

import numpy as np
import pyarrow as pa

_TOLERANCE = 1e-9


def differences(name: str, expected: pa.Table, found: pa.Table) -> list[str]:
    """Say how the rows of a query differ from what they should be; nothing if they do not.

    >>> one = pa.table({"k": ["a", "b"], "v": [1.0, 2.0]})
    >>> differences("q", one, one.take([1, 0]))
    []
    >>> differences("q", one, one.slice(1))
    ['q: 1 rows where plain Spark has 2']
    """
    if found.num_rows != expected.num_rows:
        return [f"{name}: {found.num_rows} rows where plain Spark has {expected.num_rows}"]
    close = [one.name for one in expected.schema if pa.types.is_floating(one.type)]
    exact = [column for column in expected.column_names if column not in close]
    order = [(column, "ascending") for column in exact]
    left, right = (table.sort_by(order) if order else table for table in (found, expected))
    said = [f"{name}: {column} differs" for column in exact if not left[column].equals(right[column])]
    for column in () if said else close:
        values, others = (table[column].to_numpy() for table in (left, right))
        if not np.allclose(values, others, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True):
            said.append(f"{name}: {column} differs")
    return said
