"""Rows of a stream as blocks, and the same rows as plain Python groups."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from tests.unit.aggregate_samples import decimal_type, lifted, one_element

from weft.aggregates import ADD, BAG, MOMENTS, Bags, Primitive, count_of
from weft.aggregates import GREATEST as GREATEST_OF
from weft.aggregates import LEAST as LEAST_OF
from weft.aggregates.holistic import TIMED_BAG_LIFT
from weft.durability.stored_names import WRITERS, encoded
from weft.expression import Column
from weft.predicates import Test
from weft.predicates.signatures import signatures_of
from weft.predicates.values import IS_TRUE
from weft.state.driver_store import DriverStore
from weft.state.store import Block
from weft.types import BIGINT, BOOLEAN, DOUBLE, STRING

MONEY = decimal_type(38, 2)


class Row(NamedTuple):
    """A row whose slice is known already."""

    start: int
    key: str | None
    n: int | None
    name: str | None
    fee: Decimal | None
    x: float | None = None


COUNT = count_of(None)
TOTAL = Primitive(("sum",), (Column("n", BIGINT),), ADD, (BIGINT,))
FIRST = Primitive(("min",), (Column("name", STRING),), LEAST_OF, (STRING,))
FEES = Primitive(("sum",), (Column("fee", MONEY),), ADD, (MONEY,))
SPREAD = Primitive(("count", "avg", "var_pop"), (Column("n", DOUBLE),), MOMENTS, (BIGINT, DOUBLE, DOUBLE))
HEAT = Primitive(("sum",), (Column("x", DOUBLE),), ADD, (DOUBLE,))
LEAST = Primitive(("min",), (Column("x", DOUBLE),), LEAST_OF, (DOUBLE,))
MOST = Primitive(("max",), (Column("x", DOUBLE),), GREATEST_OF, (DOUBLE,))
LOWEST = Primitive(("min",), (Column("n", BIGINT),), LEAST_OF, (BIGINT,))
HIGHEST = Primitive(("max",), (Column("n", BIGINT),), GREATEST_OF, (BIGINT,))
EXACT = (COUNT, TOTAL, FIRST, FEES)
NAMES = Primitive(("bag",), (Column("name", STRING),), BAG, (STRING,))
HEATS = Primitive(("bag",), (Column("x", DOUBLE),), BAG, (DOUBLE,))
BAGS = (NAMES, HEATS)
TAPE = Primitive((TIMED_BAG_LIFT,), (Column("name", STRING), Column("n", BIGINT)), BAG, (STRING,))
"""Names in the order of n."""
WEIGHED = Primitive(("bag",), (Column("x", DOUBLE), Column("n", BIGINT)), BAG, (DOUBLE,))
"""Heats with their sums of n."""


class Asked(str):
    """A predicate by the name of what it asks, which is a column's where it is stored."""


cast(dict[Any, Any], WRITERS)[Asked] = lambda name: encoded(Test(Column(name, BOOLEAN), IS_TRUE))
PREDICATES: dict[Any, Callable[[Row], bool]] = {
    "all": lambda row: True,
    "positive": lambda row: row.n is not None and row.n > 0,
    "even": lambda row: row.n is not None and row.n % 2 == 0,
    "named": lambda row: row.name is not None,
    "cheap": lambda row: row.fee is not None and row.fee < 0,
    "none": lambda row: False,
}
"""Predicates are any values; these are names of what they ask."""

rows = st.lists(
    st.builds(
        Row,
        start=st.integers(-4, 8).map(lambda slice: slice * 1000),
        key=st.none() | st.sampled_from("abc"),
        n=st.none() | st.integers(-100, 100),
        name=st.none() | st.text("xyz", max_size=2),
        fee=st.none() | st.decimals(-(10**30), 10**30, places=2),
        x=st.none() | st.floats(-1e6, 1e6) | st.sampled_from((float("inf"), -float("inf"), float("nan"))),
    ),
    max_size=15,
)


def values_of(primitive: Primitive, group: Sequence[Row]) -> list[Any]:
    """Return what a primitive is computed over."""
    if not primitive.arguments:
        return [True] * len(group)
    names = list(map(str, primitive.arguments))
    if len(names) > 1:
        return [{name: getattr(row, name) for name in names} for row in group]
    return [getattr(row, names[0]) for row in group]


def grouped(several: Sequence[Row], *, keyed: bool) -> dict[tuple[str | None, int], list[Row]]:
    """Group rows by key and slice."""
    found = defaultdict(list)
    for row in several:
        found[row.key if keyed else None, row.start].append(row)
    return dict(found)


def signature(row: Row, predicates: Iterable[Any]) -> frozenset[Any]:
    """Return which of the predicates a row satisfies."""
    return frozenset(one for one in predicates if PREDICATES[one](row))


def block(
    several: Sequence[Row], primitives: Sequence[Primitive] = EXACT, *, keyed: bool = True,
    predicates: Sequence[Any] = ("all",),
) -> Block:  # fmt: skip
    """Return rows as the block that a batch would give to a relation with some predicates."""
    groups = defaultdict(list)
    for row in several:
        groups[row.key if keyed else None, row.start, signature(row, predicates)].append(row)
    keys = pa.table({"key": pa.array([key for key, _, _ in groups], pa.string())})
    partials = {one: lifted(one, [values_of(one, group) for group in groups.values()]) for one in primitives}
    known = list(dict.fromkeys(found for _, _, found in groups))
    bits = np.array([[one in found for one in predicates] for found in known], dtype=bool)
    return Block(
        starts=np.array([start for _, start, _ in groups], dtype=np.int64),
        keys=keys if keyed else keys.select([]),
        fragments=np.array([known.index(found) for _, _, found in groups], dtype=np.int32),
        signatures=signatures_of(
            tuple(map(Asked, predicates)), bits.reshape(len(known), len(predicates))
        ),
        partials=partials,
        rows=len(several),
    )  # fmt: skip


def state_of(*blocks: Block, keyed: bool = True) -> DriverStore:
    """Return a state that took in the blocks."""
    state = DriverStore([pa.string()] if keyed else [])
    for one in blocks:
        state.add(one)
    return state


def shards(state: DriverStore) -> dict[tuple[str | None, int, frozenset[Any]], tuple[Any, ...]]:
    """Return a state as plain values: the fields of each primitive by key, slice and signature."""
    runs = state.runs()
    primitives = list(dict.fromkeys(one for run in runs for one in run.partials))
    predicates = list(state.fragments.predicates)
    bits = state.fragments.bits(predicates, np.arange(len(state.fragments)))
    known = dict(zip(predicates, bits, strict=True))
    found = {}
    for run in runs:
        keys: list[str | None] = [None] * len(run)
        if state.groups.grouped:
            keys = state.groups.values(run.key).column(0).to_pylist()
        partials = [run.partial(one) for one in primitives]
        for row, (key, start) in enumerate(zip(keys, run.start.tolist(), strict=True)):
            place = key, start, frozenset(one for one, bits in known.items() if bits[run.fragment[row]])
            assert place not in found
            found[place] = tuple(
                tuple(_plain(field, row) for field in partial.fields) if partial.valid_mask()[row] else None
                for partial in partials
            )
    return found


def contents(state: DriverStore) -> dict[tuple[str | None, int], tuple[Any, ...]]:
    """Return a state of one fragment as plain values: the fields of each primitive by key and slice."""
    found = shards(state)
    assert len({fragment for _, _, fragment in found}) <= 1
    return {(key, start): fields for (key, start, _), fields in found.items()}


def _plain(field: Any, row: int) -> Any:
    """Return one value of a field; a bag as a Counter of what is equal for equal values."""
    if not isinstance(field, Bags):
        return field[row]
    bag = field[row : row + 1]
    return Counter(
        dict(zip(map(one_element, bag.values(bag.codes).to_pylist()), bag.counts.tolist(), strict=True))
    )
