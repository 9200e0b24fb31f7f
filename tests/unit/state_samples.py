"""Rows of a stream as blocks, and the same rows as plain Python groups."""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.unit.aggregate_samples import decimal_type, lifted

from weft.aggregates import Combine, Primitive, count_of
from weft.expression import Column
from weft.runtime.state import Block, RelationState
from weft.types import BIGINT, DOUBLE, STRING

MONEY = decimal_type(38, 2)


class Row(NamedTuple):
    """A row whose slice is known already."""

    start: int
    key: str | None
    n: int | None
    name: str | None
    fee: Decimal | None


COUNT = count_of(None)
TOTAL = Primitive(("sum",), Column("n", BIGINT), Combine.ADD, (BIGINT,))
FIRST = Primitive(("min",), Column("name", STRING), Combine.LEAST, (STRING,))
FEES = Primitive(("sum",), Column("fee", MONEY), Combine.ADD, (MONEY,))
SPREAD = Primitive(
    ("count", "avg", "var_pop"), Column("n", DOUBLE), Combine.MOMENTS, (BIGINT, DOUBLE, DOUBLE)
)
EXACT = (COUNT, TOTAL, FIRST, FEES)

rows = st.lists(
    st.builds(
        Row,
        start=st.integers(-4, 8).map(lambda slice: slice * 1000),
        key=st.none() | st.sampled_from("abc"),
        n=st.none() | st.integers(-100, 100),
        name=st.none() | st.text("xyz", max_size=2),
        fee=st.none() | st.decimals(-(10**30), 10**30, places=2),
    ),
    max_size=15,
)


def values_of(primitive: Primitive, group: Sequence[Row]) -> list[Any]:
    """Return what a primitive is computed over."""
    if primitive.argument is None:
        return [True] * len(group)
    return [getattr(row, str(primitive.argument)) for row in group]


def grouped(several: Sequence[Row], *, keyed: bool) -> dict[tuple[str | None, int], list[Row]]:
    """Group rows by key and slice."""
    found = defaultdict(list)
    for row in several:
        found[row.key if keyed else None, row.start].append(row)
    return dict(found)


def block(several: Sequence[Row], primitives: Sequence[Primitive] = EXACT, *, keyed: bool = True) -> Block:
    """Return rows as the block that a batch would give."""
    groups = grouped(several, keyed=keyed)
    keys = pa.table({"key": pa.array([key for key, _ in groups], pa.string())})
    partials = {one: lifted(one, [values_of(one, group) for group in groups.values()]) for one in primitives}
    starts = np.array([start for _, start in groups], dtype=np.int64)
    kept = keys if keyed else keys.select([])
    return Block(starts=starts, keys=kept, partials=partials, rows=len(several))


def state_of(*blocks: Block, keyed: bool = True) -> RelationState:
    """Return a state that took in the blocks."""
    state = RelationState([pa.string()] if keyed else [])
    for one in blocks:
        state.add(one)
    return state


def contents(state: RelationState) -> dict[tuple[str | None, int], tuple[Any, ...]]:
    """Return a state as plain values: the fields of each primitive by key and slice."""
    state.settle()
    keys: list[str | None] = [None] * len(state.group)
    if state.groups.grouped:
        keys = state.groups.values(state.group).column(0).to_pylist()
    found = {}
    for row, (key, start) in enumerate(zip(keys, state.start.tolist(), strict=True)):
        fields = []
        for partial in state.partials.values():
            valid = partial.valid_mask()[row]
            fields.append(tuple(field[row] for field in partial.fields) if valid else None)
        assert (key, start) not in found
        found[key, start] = tuple(fields)
    return found
