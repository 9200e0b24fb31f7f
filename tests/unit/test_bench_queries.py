"""The workload of `weft bench queries`, and how its figures are shown."""

import re
from io import StringIO

import pytest
from rich.console import Console

from weft.bench.queries import ManyQueries, QueriesResult, QueriesSize, Timing, many_queries
from weft.query import bind, parse_select
from weft.query.logical import Catalog, ColumnDef, StreamDef
from weft.types import BIGINT, DOUBLE, STRING, TIMESTAMP

COLUMNS = {"time": TIMESTAMP, "symbol": STRING, "price": DOUBLE, "vol": BIGINT}


@pytest.mark.parametrize("count", [1, 100, 3_000])
def test_no_two_queries_have_the_same_window_or_threshold(count: int) -> None:
    several = many_queries(count, seed=3)
    assert len(several) == count
    windows = {re.search(r"\[.*\]", sql).group() for sql in several.values()}  # type: ignore[union-attr]
    thresholds = {re.search(r"vol > (\d+)", sql).group(1) for sql in several.values()}  # type: ignore[union-attr]
    assert (len(windows), len(thresholds)) == (count, count)


def test_every_query_can_be_bound() -> None:
    columns = tuple(ColumnDef(name=name, type=type) for name, type in COLUMNS.items())
    catalog = Catalog(streams=(StreamDef(name="trades", columns=columns, time="time", delay_ms=0),))
    for name, sql in many_queries(8, seed=1).items():
        assert bind(parse_select(sql, name=name), catalog).stream == "trades"


def test_a_seed_gives_the_same_queries_and_another_gives_others() -> None:
    assert many_queries(50, seed=1) == many_queries(50, seed=1)
    assert many_queries(50, seed=1) != many_queries(50, seed=2)


def test_each_number_of_queries_is_a_column() -> None:
    taken = Timing(wall_s=2.0, driver_s=0.25)
    results = [
        QueriesSize(
            queries=count, seed=1, read=taken, explain=taken, first_plan_s=3.0, first_batch_s=9.0,
            later_plan_s=0.007, later_batch_s=1.0, add=taken, add_plan_s=0.4, remove=taken, remove_plan_s=0.0,
        )
        for count in (100, 10_000)
    ]  # fmt: skip
    shown = StringIO()
    console = Console(width=200, file=shown)
    QueriesResult(bench=ManyQueries(console=console), sizes=tuple(results)).show(console)
    told = shown.getvalue()
    assert "10,000 queries" in told
    assert told.count("2.00 (0.25)") == 8
    assert told.count("0.007") == 2
