"""The queries of `weft bench dashboards`, the flights under them, and the figures made of a run."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from rich.console import Console

from weft.bench.contenders import stream_columns
from weft.bench.dashboards import (
    Dashboards,
    Workload,
    computes,
    keeping_text,
    plain_text,
    read_dashboards,
    sample,
)
from weft.bench.dashboards_figures import Contender, DashboardsResult, Mode
from weft.bench.duck import duck_sql
from weft.bench.flights import YEAR_ROWS, make_flights, make_live_flights, make_tables, read_flights
from weft.bench.flights import main as write_example
from weft.bench.records import Seconds
from weft.errors import SourceError
from weft.expression import Call, Slot, SlotKind
from weft.query import CreateStream, CreateTable, bind, parse, parse_select
from weft.query.logical import LogicalQuery, NamedExpression
from weft.window import Window

MINUTE_MS, DAY_MS = 60_000, 86_400_000


@pytest.fixture(scope="module")
def dashboards() -> Workload:
    return read_dashboards()


def names(queries: Sequence[LogicalQuery]) -> list[str]:
    return [query.name for query in queries]


def plain(query: LogicalQuery) -> LogicalQuery:
    """Return the query without HAVING, its outputs just its keys and aggregates."""
    keys = [
        NamedExpression(name=key.name, expression=Slot(SlotKind.KEY, index, key.expression.type))
        for index, key in enumerate(query.keys)
    ]
    calls = [
        NamedExpression(name=f"aggregate{index}", expression=Slot(SlotKind.AGGREGATE, index, call.type))
        for index, call in enumerate(query.aggregates)
    ]
    return replace(query, outputs=(*keys, *calls), having=None)


# The workload


def test_there_are_300_queries_with_names_of_their_own(dashboards: Workload) -> None:
    assert len(dashboards.queries) == len(set(names(dashboards.queries))) == 300


def test_no_two_queries_mean_the_same(dashboards: Workload) -> None:
    alike: dict[object, list[str]] = defaultdict(list)
    for query in dashboards.queries:
        # By whatever names and in whatever order its columns come.
        outputs = frozenset(str(resolved(query, output.expression)) for output in query.outputs)
        having = None if query.having is None else str(resolved(query, query.having))
        keys = frozenset(str(key.expression) for key in query.keys)
        joins = tuple((join.table, join.kind, join.on) for join in query.joins)
        alike[query.window, joins, query.predicate, keys, outputs, having].append(query.name)
    assert [found for found in alike.values() if len(found) > 1] == []


def resolved(query: LogicalQuery, expression: object) -> object:
    """Return an expression with its slots replaced by what they stand for, as text."""
    if isinstance(expression, Slot):
        if expression.kind is SlotKind.AGGREGATE:
            return str(query.aggregates[expression.index])
        return str(query.keys[expression.index].expression if expression.kind is SlotKind.KEY else expression)
    args = getattr(expression, "args", None)
    if args is None:
        return str(expression)
    return (getattr(expression, "function", ""), *(resolved(query, argument) for argument in args))


@pytest.mark.parametrize(("size", "least", "most"), [(4, 1, 3), (16, 6, 10), (60, 28, 36), (300, 150, 180)])
def test_half_of_each_prefix_have_having_or_arithmetic(
    dashboards: Workload, size: int, least: int, most: int
) -> None:
    assert least <= sum(map(computes, dashboards.queries[:size])) <= most


@pytest.mark.parametrize(("size", "tables"), [(4, 1), (16, 3), (60, 4)])
def test_each_prefix_is_a_mix(dashboards: Workload, size: int, tables: int) -> None:
    queries = dashboards.queries[:size]
    assert len({join.table for query in queries for join in query.joins}) >= tables
    assert any(query.having is not None for query in queries)
    assert any(query.having is None for query in queries)
    assert len({query.window for query in queries}) >= min(size, 12)
    assert any(query.window.slide_ms < query.window.range_ms for query in queries)
    assert any(query.window.slide_ms == query.window.range_ms for query in queries)


def test_windows_reach_from_minutes_to_a_week(dashboards: Workload) -> None:
    windows = {query.window for query in dashboards.queries}
    assert min(window.slide_ms for window in windows) == MINUTE_MS
    assert max(window.slide_ms for window in windows) >= DAY_MS
    assert max(window.range_ms for window in windows) == 7 * DAY_MS
    assert any(window.offset_ms for window in windows)
    assert any(window.range_ms % window.slide_ms for window in windows)


def test_every_result_is_known_by_its_window_and_keys(dashboards: Workload) -> None:
    for query in dashboards.queries:
        shown = {output.expression for output in query.outputs}
        for index, key in enumerate(query.keys):
            assert Slot(SlotKind.KEY, index, key.expression.type) in shown, query.name


def test_queries_without_arithmetic_are_cut_from_their_text(dashboards: Workload) -> None:
    for query in dashboards.queries:
        cut = bind(parse_select(plain_text(query), name=query.name), dashboards.catalog)
        wanted = plain(query)
        assert not computes(cut)
        assert replace(cut, outputs=wanted.outputs) == wanted, query.name
        shown = {str(output.expression) for output in wanted.outputs}
        assert {str(output.expression) for output in cut.outputs} == shown


def test_a_having_that_keeps_all_is_evaluated_still(dashboards: Workload) -> None:
    for query in dashboards.queries:
        kept = bind(parse_select(keeping_text(query), name=query.name), dashboards.catalog)
        assert kept.outputs == query.outputs
        assert (kept.having is None) == (query.having is None), query.name
        if query.having is not None and kept.having is not None:
            assert isinstance(kept.having, Call)
            assert (kept.having.function, kept.having.args[0]) == ("or", query.having), query.name
            assert str(kept.having.args[1]).endswith("> 0)")


def test_every_query_is_translated_to_duckdb(dashboards: Workload) -> None:
    for query in dashboards.queries:
        assert duck_sql(query, time="time").startswith("SELECT make_timestamp(window_us - ")


def test_a_sample_is_evenly_spread_and_has_no_gaps_between_windows(dashboards: Workload) -> None:
    queries = dashboards.queries[:10]
    assert names(sample(queries, 5)) == names(queries[::2])
    assert names(sample(queries, 50)) == names(queries)
    hopping = replace(queries[0], window=Window(range_ms=1, slide_ms=2))
    assert sample([hopping, queries[1]], 2) == [queries[1]]


def test_a_scan_reads_what_queries_read(dashboards: Workload) -> None:
    [query] = [query for query in dashboards.queries if query.name == "delay_in_rain"]
    assert stream_columns([query]) == ["dep_delay", "origin", "time", "time_hour"]


def test_a_workload_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"other\.sql; name one with --workload"):
        read_dashboards(tmp_path / "other.sql")


# The flights


def test_the_workload_declares_the_columns_that_are_written(tmp_path: Path, dashboards: Workload) -> None:
    flights = make_flights(tmp_path, rows=100, files=1)
    tables = make_tables(tmp_path)
    for statement in parse(";".join([flights.statement(1), *(table.statement() for table in tables)])):
        assert isinstance(statement, CreateStream | CreateTable)
        declared = {one.name: one for one in (*dashboards.catalog.streams, *dashboards.catalog.tables)}
        assert statement.definition.columns == declared[statement.definition.name].columns


def test_flights_come_in_the_order_of_their_scheduled_departure() -> None:
    flights = read_flights()
    assert flights.num_rows == YEAR_ROWS
    times = flights["time"].cast(pa.int64()).to_numpy()
    assert (times[1:] >= times[:-1]).all()
    # 1 January, 5:15 in New York.
    assert flights["time"][0].as_py().isoformat() == "2013-01-01T10:15:00+00:00"
    assert pc.all(pc.equal(pc.minute(flights["time"]), flights["minute"])).as_py()
    assert flights["dep_time"].null_count == 8255
    assert flights["tailnum"].null_count == 2512


def test_files_hold_the_flights_in_order(tmp_path: Path) -> None:
    whole = make_flights(tmp_path, rows=1000, files=3)
    live = make_live_flights(tmp_path, batch_rows=300, batches=3)
    assert (whole.rows, whole.files, live.rows, live.files) == (1000, 3, 900, 3)
    for dataset, sizes in ((whole, [333, 333, 334]), (live, [300] * 3)):
        paths = sorted(dataset.folder.iterdir(), key=lambda path: path.stat().st_mtime)
        tables = [pa.parquet.read_table(path) for path in paths]
        assert [table.num_rows for table in tables] == sizes
        assert pa.concat_tables(tables).equals(read_flights().slice(0, dataset.rows))


def test_the_example_s_files_are_where_its_workload_looks(tmp_path: Path, dashboards: Workload) -> None:
    write_example(tmp_path / "data")
    write_example(tmp_path / "data")
    for declared in (*dashboards.catalog.streams, *dashboards.catalog.tables):
        assert declared.source is not None
        folder = tmp_path / dict(declared.source.options)["path"]
        columns = pa.parquet.read_schema(next(folder.glob("*.parquet"))).names
        assert columns == [column.name for column in declared.columns]


# The figures


def figures(mode: Mode = Mode.REPLAY, queries: int = 60, **runs: tuple[float, ...]) -> DashboardsResult:
    return DashboardsResult(
        bench=Dashboards(console=Console(file=StringIO())),
        cores=2,
        mode=mode,
        queries=queries,
        computing=queries // 2,
        rows=1000,
        batches=4,
        runs_s={Contender[name]: Seconds(seconds, (7.5,)) for name, seconds in runs.items()},
        results={Contender.WEFT: 500, Contender.KEEPING: 11_000_000},
        stages_s={Contender.WEFT: {"plan": 1.0}},
        batch_sample=60,
        streaming_sample=3,
    )


def test_medians_are_over_all_rounds_with_their_spread() -> None:
    found = figures(WEFT=(1.0, 4.0, 2.0), DUCKDB=(1.0, 1.0, 4.0))
    assert found.seconds(Contender.WEFT) == 2.0
    assert found.spread(Contender.WEFT) == 1.5
    assert found.ratio(Contender.WEFT, Contender.DUCKDB) == 2.0
    assert found.ratio_by_pairs(Contender.WEFT, Contender.DUCKDB) == 1.0
    assert found.ratio(Contender.WEFT, Contender.SPARK_BATCH) is None
    assert found.results_per_s() == 250


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (16, {"with / without HAVING and arithmetic": True}),
        (60, {"Weft / DuckDB": True, "Weft / Spark batch": False,
              "with / without HAVING and arithmetic": True, "results/s, Weft": False,
              "results/s, Weft, HAVING keeps all rows": True}),
        (300, {"Weft / DuckDB": False, "with / without HAVING and arithmetic": True, "results/s, Weft": False,
               "results/s, Weft, HAVING keeps all rows": True}),
    ],
)  # fmt: skip
def test_bars_of_a_replay(queries: int, expected: dict[str, bool]) -> None:
    found = figures(
        queries=queries, WEFT=(2.0,), DUCKDB=(1.0,), PLAIN=(5.0,), KEEPING=(5.5,), SPARK_BATCH=(4.0,)
    )
    assert {bar.name: bar.met for bar in found.bars} == expected


def test_the_bar_of_a_live_run() -> None:
    [bar] = figures(Mode.LIVE, WEFT=(1.0,), ONE_STREAM=(0.4,), PLAIN=(0.1,)).bars
    assert (bar.name, bar.value, bar.met) == ("Weft's batch / one streaming query's", 2.5, False)
    assert figures(Mode.LIVE, queries=16, WEFT=(1.0,), ONE_STREAM=(0.4,)).bars == ()


def test_the_first_run_is_shown_beside_those_that_count() -> None:
    console = Console(record=True, width=160, file=StringIO())
    figures(WEFT=(1.0, 4.0, 2.0), DUCKDB=(1.0, 1.0, 4.0)).show(console)
    shown = console.export_text()
    assert "after 1 that warm up" in shown
    assert re.search(r"Weft +│ +2\.00 │ +±75 % │ +7\.50 │", shown), shown
