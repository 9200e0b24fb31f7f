"""Grouping sets: partials of all keys merged by fewer, against adding up rows."""

from collections import Counter
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.language_samples import query

from weft.aggregates import Partial
from weft.expression import Slot, SlotKind
from weft.finals.readings import program_of, readings
from weft.finals.regrouping import Regrouping
from weft.optimizer.plan import answer, leaf
from weft.state.groups import GroupIndex
from weft.state.running_query import RunningQuery
from weft.state.store import Combined, PartialStore
from weft.types import BIGINT

Group = tuple[str | None, float | None, int]
"""Symbol, price and the end of the window."""
TEXT = "SELECT count(*) AS c FROM trades [RANGE '1 s'] WHERE n > {} GROUP BY CUBE(symbol, price)"
groups = st.tuples(
    st.none() | st.sampled_from("ab"),
    st.none() | st.sampled_from((0.0, 1.5, float("nan"))),
    st.integers(1, 2),
)


class Keys:
    """As much of a store as is needed here."""

    def __init__(self) -> None:
        self.index = GroupIndex([pa.float64(), pa.string()])

    def keys(self, numbers: Any) -> pa.Table:
        return self.index.values(numbers)


@given(
    pieces=st.lists(st.tuples(st.integers(0, 1), st.dictionaries(groups, st.integers(1, 9))), max_size=5),
)
def test_groups_of_fewer_keys_add_up_those_of_all(pieces: list[tuple[int, dict[Group, int]]]) -> None:
    # Two asks, each in several pieces; keys of a grouping are in an order of its own: price, symbol.
    queries = [replace(query(TEXT.format(number)), name=f"q{number}") for number in range(2)]
    answers = [answer(one, leaf(one)) for one in queries]
    [reading] = readings(answers, {one.name: RunningQuery(query=one) for one in queries})
    program, _ = program_of(answers[0])
    [(_, [count], *_)] = program.aggregates
    store = Keys()
    regrouping = Regrouping(reading, cast(PartialStore, store))
    wanted: dict[tuple[int, tuple[str | None, str], int], Counter[Any]] = {}
    for ask, counted in pieces:
        if not counted:
            continue
        rows = list(counted)
        table = pa.table({"p": pa.array([r[1] for r in rows], pa.float64()),
                          "s": pa.array([r[0] for r in rows], pa.string())})  # fmt: skip
        key, end = store.index.ids(table), np.array([r[2] for r in rows]) * 1_000_000
        counts = Partial((np.array([counted[r] for r in rows]),), None, count.types)
        zeros = np.zeros(len(rows), dtype=np.intp)
        piece = Combined(ask=zeros, key=key, end=end, partials={count: counts}, operations=0)
        # Every set but that of all keys merges each row once.
        assert regrouping.add(np.array([ask]), piece) == 3 * len(rows)
        for symbol, price, at in rows:
            for bits, own in (("01", (symbol, "")), ("10", (None, repr(price))), ("11", (None, ""))):
                wanted.setdefault((ask, own, int(bits, 2)), Counter())[at] += counted[symbol, price, at]
    found: dict[tuple[int, tuple[str | None, str], int], Counter[Any]] = {}
    for asks, order, finals in regrouping.finals():
        columns = [
            finals.column(program, Slot(kind, index, BIGINT)).to_pylist()
            for kind, index in (
                (SlotKind.KEY, 0), (SlotKind.KEY, 1), (SlotKind.GROUPING, 0), (SlotKind.AGGREGATE, 0)
            )
        ]  # fmt: skip
        ends = finals.column(program, Slot(SlotKind.WINDOW_END, 0, BIGINT)).to_pylist()
        for ask, symbol, price, bits, counted_rows, at in zip(
            asks[order].tolist(), *columns, ends, strict=True
        ):
            own = symbol, "" if bits & 1 else repr(price)
            totals = found.setdefault((ask, own, bits), Counter())
            # Each group is there once.
            assert at.second not in totals
            totals[at.second] = counted_rows
    assert found == wanted
