"""Whether two runs gave a query the same rows: doubles to 1e-9, all else byte for byte.

Rows are compared as multisets, never deduplicated: a row that one run has twice is a difference.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable
from typing import Any

import pyarrow as pa

TOLERANCE = 1e-9
_SHOWN = 3
Rows = dict[tuple[Hashable, ...], list[tuple[float | None, ...]]]
"""By what must be equal to the byte, the doubles of each row."""


def differences(name: str, expected: pa.Table, found: pa.Table, *, keys: Collection[str] = ()) -> list[str]:
    """Say how the rows of a query differ, in a few lines; doubles among `keys` are taken byte for byte.

    >>> one = pa.table({"k": [0.0], "v": [2.0]})
    >>> differences("q", one, pa.table({"k": [0.0], "v": [2.0 + 1e-12]}), keys=["k"])
    []
    >>> differences("q", one, pa.table({"k": [-0.0], "v": [2.0]}), keys=["k"])
    ['q: 0 rows k=0x0.0p+0, not 1', 'q: 1 rows k=-0x0.0p+0, not 0']
    """
    columns, others = ([(one.name, one.type) for one in table.schema] for table in (expected, found))
    if columns != others:
        return [f"{name}: columns {_listed(others)}, not {_listed(columns)}"]
    close = [column for column, type in columns if pa.types.is_floating(type) and column not in keys]
    exact = [column for column, _ in columns if column not in close]
    wanted, given = (_rows(table, exact, close) for table in (expected, found))
    said = []
    for identity in dict.fromkeys([*wanted, *given]):
        must, are = wanted.get(identity, []), given.get(identity, [])
        row = " ".join(f"{column}={value}" for column, value in zip(exact, identity, strict=True))
        if len(must) != len(are):
            said.append(f"{name}: {len(are)} rows {row}, not {len(must)}")
        elif left := _unmatched(must, are):
            said.append(f"{name}: row {row} has {dict(zip(close, left[1], strict=True))}, not {left[0]}")
    return said if len(said) <= _SHOWN else [*said[:_SHOWN], f"{name}: and {len(said) - _SHOWN} more"]


def _listed(columns: list[tuple[str, pa.DataType]]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns)


def _rows(table: pa.Table, exact: list[str], close: list[str]) -> Rows:
    found: Rows = defaultdict(list)
    for row in table.to_pylist():
        found[tuple(_hashed(row[column]) for column in exact)].append(tuple(row[column] for column in close))
    return found


def _hashed(value: Any) -> Hashable:
    # NaN does not equal itself, and zeros of both signs are equal.
    return value.hex() if isinstance(value, float) else str(value) if value is not None else None


def _unmatched(
    wanted: list[tuple[float | None, ...]], given: list[tuple[float | None, ...]]
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]] | None:
    """Pair rows that agree; return the first that has no partner, and one that is left."""
    left = list(given)
    for row in wanted:
        partner = next((place for place, other in enumerate(left) if all(map(_alike, row, other))), None)
        if partner is None:
            return row, left[0]
        del left[partner]
    return None


def _alike(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE) or (math.isnan(one) and math.isnan(other))
