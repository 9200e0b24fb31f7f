"""SELECT and HAVING over finals: many readers at once against each row on its own."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG

from weft.aggregates import Partial
from weft.finals import thresholds
from weft.finals.readings import Reader, program_of
from weft.finals.selecting import Finals, ReadRows, Selected
from weft.finals.selecting import select as select_rows
from weft.optimizer.plan import answer, leaf
from weft.query import bind, parse_select
from weft.state.groups import GroupIndex

Row = tuple[str, int, float | None, int]
"""Symbol, end of the window, sum of prices, count."""
Test = Callable[[Row, float], bool]


def greatest(value: float | None) -> tuple[int, float]:
    """Return what a double compares by in Spark: NaN is greater than everything, and equal to itself."""
    assert value is not None
    return (1, 0.0) if value != value else (0, value)


CONDITIONS: dict[str, Test] = {
    "count(*) > {}": lambda row, limit: row[3] > limit,
    "{} >= count(*)": lambda row, limit: limit >= row[3],
    "sum(price) < {}": lambda row, limit: row[2] is not None and greatest(row[2]) < (0, limit),
    "sum(price) <= {}": lambda row, limit: row[2] is not None and greatest(row[2]) <= (0, limit),
    "sum(price) >= {} AND count(*) <> 3": lambda row, limit: (
        row[2] is not None and greatest(row[2]) >= (0, limit) and row[3] != 3
    ),
    "NOT sum(price) > {}": lambda row, limit: row[2] is not None and not greatest(row[2]) > (0, limit),
    "count(*) = {} OR symbol = 'b'": lambda row, limit: row[3] == limit or row[0] == "b",
    "count(*) + 1 > {} AND sum(price) IS NOT NULL": lambda row, limit: (
        row[3] + 1 > limit and row[2] is not None
    ),
}
rows_of_ask = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(1, 5),
        st.none() | st.sampled_from((0.0, -0.0, 1.0, 2.0, float("nan"), float("inf"), -float("inf"))),
        st.integers(0, 4),
    ),
    max_size=8,
)  # fmt: skip


def reader(name: str, condition: str | None) -> Reader:
    having = "" if condition is None else f"HAVING {condition}"
    select = "SELECT symbol, sum(price) AS total, count(*) * 2 AS twice"
    text = f"{select} FROM trades [RANGE '1 s'] GROUP BY symbol {having}"
    query = bind(parse_select(text, name=name), CATALOG)
    answered = answer(query, leaf(query))
    program, parameters = program_of(answered)
    return Reader(answer=answered, program=program, parameters=parameters)


def read_rows(asks: Sequence[Sequence[Row]], readers: Sequence[Sequence[Reader]]) -> ReadRows:
    """Return finals with the rows of each ask, after one that is somebody else's."""
    several = [("c", 9, 9.0, 9), *(row for ask in asks for row in ask)]
    program = readers[0][0].program
    primitives = {str(one): one for _, ones, *_ in program.aggregates for one in ones}
    total, count = primitives["sum(price)"], primitives["count(*)"]
    groups = GroupIndex([pa.string()])
    key = groups.ids(pa.table({"symbol": [row[0] for row in several]}))
    end = np.array([row[1] * 1_000_000 for row in several])
    valid = np.array([row[2] is not None for row in several])
    sums = Partial((np.array([0.0 if row[2] is None else row[2] for row in several]),), valid, total.types)
    counts = Partial((np.array([row[3] for row in several]),), None, count.types)
    finals = Finals(groups.values, key, end - 1_000_000, end, {total: sums, count: counts})
    bounds = np.concatenate(([0], np.cumsum([len(ask) for ask in asks])))
    return ReadRows(
        program=program, finals=finals, rows=slice(1, len(several)), bounds=bounds, readers=readers
    )


def told(selected: Selected, name: str) -> list[str]:
    rows: list[dict[str, Any]] = [row for table in selected.tables.get(name, ()) for row in table.to_pylist()]
    return sorted(repr((row["symbol"], row["window_end"].second, row["total"], row["twice"])) for row in rows)


@pytest.mark.parametrize("few", [0, 4, 100])
@pytest.mark.parametrize("condition", CONDITIONS)
@settings(max_examples=25)
@given(asks=st.lists(rows_of_ask, min_size=1, max_size=4), seed=st.integers(0, 1 << 30))
def test_each_reader_gets_the_rows_that_pass_its_own_threshold(
    condition: str, few: int, asks: list[list[Row]], seed: int
) -> None:
    chance = Random(seed)
    limits = [[chance.randint(-1, 4) for _ in range(chance.randint(1, 6))] for _ in asks]
    readers = [
        [reader(f"q{ask}_{turn}", condition.format(limit)) for turn, limit in enumerate(several)]
        for ask, several in enumerate(limits)
    ]
    assert len({one.program for several in readers for one in several}) == 1
    selected = Selected()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "_FEW_READERS", few)
        select_rows(read_rows(asks, readers), selected)
    for ask, several in enumerate(limits):
        for turn, limit in enumerate(several):
            wanted = [row for row in asks[ask] if CONDITIONS[condition](row, limit)]
            assert told(selected, f"q{ask}_{turn}") == sorted(
                repr((row[0], row[1], row[2], row[3] * 2)) for row in wanted
            )
    assert not selected.failures


@given(asks=st.lists(rows_of_ask, min_size=1, max_size=4))
def test_without_having_every_reader_gets_every_row(asks: list[list[Row]]) -> None:
    readers = [[reader(f"q{ask}", None), reader(f"r{ask}", None)] for ask in range(len(asks))]
    selected = Selected()
    select_rows(read_rows(asks, readers), selected)
    for ask, rows in enumerate(asks):
        wanted = sorted(repr((row[0], row[1], row[2], row[3] * 2)) for row in rows)
        assert told(selected, f"q{ask}") == told(selected, f"r{ask}") == wanted


def test_rows_that_fail_are_counted_for_whoever_reads_them() -> None:
    def failing(name: str, limit: int) -> Reader:
        text = (
            "SELECT symbol, sum(price) AS total, 1 / count(*) AS share FROM trades [RANGE '1 s'] "
            f"GROUP BY symbol HAVING sum(price) > {limit}"
        )
        query = bind(parse_select(text, name=name), CATALOG)
        answered = answer(query, leaf(query))
        program, parameters = program_of(answered)
        return Reader(answer=answered, program=program, parameters=parameters)

    asks: list[list[Row]] = [[("a", 1, 1.0, 0), ("b", 1, 5.0, 2)], [("a", 1, 1.0, 4)]]
    selected = Selected()
    select_rows(read_rows(asks, [[failing("p", 0), failing("q", 3)], [failing("r", 0)]]), selected)
    # A result that HAVING would drop has failed all the same.
    assert selected.failures == {"p": 1, "q": 1}
    assert [table["share"].to_pylist() for table in selected.tables["p"]] == [[None, 0.5]]
    assert [table["share"].to_pylist() for table in selected.tables["q"]] == [[0.5]]
