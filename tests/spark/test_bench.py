"""Benches on Spark: the data is what it says, and a small bench runs from end to end."""

import io
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench import observers
from weft.bench.aggregates import Aggregates
from weft.bench.bench import Bench
from weft.bench.changes import newest_rows
from weft.bench.churn import Churn
from weft.bench.dataset import NOON_MS, Dataset
from weft.bench.fragments import Fragments, Shards, Workload, collect
from weft.bench.memory import Task, observe
from weft.bench.observers import ObserversBench
from weft.bench.options import PAPER_ROWS, Check
from weft.bench.predicates import Quantity
from weft.bench.runs import Input, ordinary, run_query, run_scan, run_weft
from weft.bench.signatures import Run, count_signatures
from weft.bench.slices import Slices
from weft.bench.trades import HOUR_MS, make_market, make_trades
from weft.bench.ways import PaperFigures, ways_of
from weft.bench.windows import Windows, make_events
from weft.bench.workloads import Predicates, paper_queries
from weft.optimizer.slices import Slicing

ROWS = 200_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def trades(spark: SparkSession, folder: Path) -> Dataset:
    return make_trades(spark, folder, rows=ROWS, files=4)


def test_volumes_follow_the_papers_statistics(trades: Dataset) -> None:
    volumes = pq.read_table(trades.folder, columns=["vol"])["vol"].to_numpy()
    common = Counter(volumes.tolist()).most_common(15)
    assert common[0][0] == 100
    assert common[0][1] / ROWS == pytest.approx(0.5, abs=0.01)
    assert sum(count for _, count in common) / ROWS == pytest.approx(0.9, abs=0.01)
    assert (volumes.min(), volumes.max()) == (10, 1_600_000)
    assert len(np.unique(volumes)) < 2_000


def test_symbols_and_prices_look_like_a_market(trades: Dataset) -> None:
    table = pq.read_table(trades.folder, columns=["symbol", "price"])
    symbols = Counter(table["symbol"].to_pylist())
    prices = table["price"].to_numpy()
    assert 6_000 < len(symbols) <= 8_000
    (_, first), (_, second) = symbols.most_common(2)
    assert first / second == pytest.approx(1.7, abs=0.2)
    assert prices.min() > 1
    assert np.array_equal(prices, np.round(prices, 2))


def test_files_are_stretches_of_the_hour_in_order(trades: Dataset) -> None:
    paths = sorted(trades.folder.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in paths] == [f"part-{number:05d}.parquet" for number in range(4)]
    times = np.concatenate([pq.read_table(path)["time"].cast("int64").to_numpy() for path in paths])
    assert (np.diff(times) >= 0).all()
    assert times[0] >= NOON_MS * 1000
    assert times[-1] < (NOON_MS + HOUR_MS) * 1000


def test_data_is_made_once_and_the_same_however_it_is_cut(
    spark: SparkSession, trades: Dataset, tmp_path: Path
) -> None:
    before = [path.stat().st_ctime_ns for path in sorted(trades.folder.iterdir())]
    make_trades(spark, trades.folder.parent, rows=ROWS, files=4)
    assert before == [path.stat().st_ctime_ns for path in sorted(trades.folder.iterdir())]
    again = make_trades(spark, tmp_path, rows=ROWS, files=1)
    assert pq.read_table(again.folder).equals(pq.read_table(trades.folder))
    assert [path.name for path in tmp_path.iterdir()] == [again.folder.name]


def test_events_keep_their_rate(spark: SparkSession, tmp_path: Path) -> None:
    events = make_events(spark, tmp_path, rows=50_000, rate=10_000, files=2)
    times = pq.read_table(events.folder)["time"].cast("int64").to_numpy()
    assert events.span_ms == 5_000
    assert np.bincount((times - NOON_MS * 1000) // 1_000_000).tolist() == [10_000] * 5


def test_orders_are_filled_by_several_trades(trades: Dataset) -> None:
    table = pq.read_table(trades.folder, columns=["symbol", "price", "vol"])
    columns = [table[name].to_pylist() for name in table.column_names]
    filled = list(zip(*columns, strict=True))
    changes = [number for number in range(1, ROWS) if filled[number] != filled[number - 1]]
    # Orders of one, two and five trades; few neighbours are alike by chance.
    assert {number % 8 for number in changes} == {0, 1, 3}
    assert len(changes) == pytest.approx(3 * ROWS / 8, rel=0.05)


def test_sharing_saves_as_many_operations_as_in_the_paper(spark: SparkSession, folder: Path) -> None:
    # STS 6.4.2: 65,278,107 shared and 120,679,022 unshared operations of 256 queries that have
    # neither a window nor a predicate in common, 1 : 1.85.
    tables = make_market(spark, folder)
    dataset = make_trades(spark, folder, rows=PAPER_ROWS, files=4)
    given = Input(spark=spark, dataset=dataset, files_per_trigger=2, tables=tables)
    market = collect(given)
    run = Run(begin_ms=NOON_MS, end_ms=NOON_MS + HOUR_MS, rows=PAPER_ROWS)
    for seed in (1, 2):
        counted = count_signatures(Workload(given, Predicates.LOW, market, seed).queries(256), market, run)
        assert counted.times_fewer == pytest.approx(1.85, abs=0.1)


def test_everyone_has_a_checkpoint_beside_the_data(
    spark: SparkSession, trades: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Input(spark=spark, dataset=trades, files_per_trigger=2)
    kept: list[list[str]] = []
    remove = shutil.rmtree

    def look_and_remove(path: Path, *, ignore_errors: bool) -> None:
        kept.append(_names(path))
        remove(path)

    monkeypatch.setattr("weft.bench.runs.shutil.rmtree", look_and_remove)
    query = paper_queries(1)[0]
    assert run_scan(given, ("time", "vol")) > 0
    assert run_query(given, query) > 0
    assert run_weft(given, [query]).seconds > 0
    scan, alone, weft = kept
    assert {"offsets", "commits"} <= set(scan)
    assert {"offsets", "commits", "state"} <= set(alone)
    assert {"commits", "spark"} <= set(weft)


def _names(folder: Path) -> list[str]:
    """Return what is in a checkpoint; Weft's has a folder for each stream."""
    return [path.name for path in sorted(folder.rglob("*"))]


def test_ordinary_queries_find_tables_in_memory(spark: SparkSession, trades: Dataset, folder: Path) -> None:
    given = Input(spark=spark, dataset=trades, files_per_trigger=2, tables=make_market(spark, folder))
    query = Workload(given, Predicates.FRAGMENTS, collect(given), 1).queries(1)[0]

    def plan() -> str:
        with given.folder() as checkpoint:
            writer = ordinary(given, query).writeStream.format("noop").outputMode("append")
            writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            running = writer.start()
            running.awaitTermination()
            return str(running._jsq.explainInternal(False))

    assert "InMemoryTableScan" not in plan()
    with given.persisted():
        assert plan().count("InMemoryTableScan") == 2
    assert "InMemoryTableScan" not in plan()


def small(bench: type[Bench[Any]], folder: Path, **others: Any) -> Any:
    """Return a quick bench."""
    quick = bench(
        console=Console(file=io.StringIO(), width=120), queries=(4,), rows=(4_000,), batches=2, measured=1,
        repeats=1, warmups=0, tiny_batches=4, adds=1, data=folder,
    )  # fmt: skip
    return replace(quick, **others)


def test_a_small_bench_of_slices(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    paths = {"json": tmp_path / "slices.json", "plot": tmp_path / "slices.png"}
    (result,) = small(Slices, folder, slicing=Slicing.PANED, **paths).run()
    figures = result.figures
    assert result.rows_equal is True
    assert (figures.compared.queries, figures.compared.rows) == (4, figures.run.windows)
    assert (figures.run.rows, figures.run.partial_ops, figures.run.batches) == (4_000, 4_000, 2)
    for timed in (figures.weft, figures.without_checkpoint, figures.ordinary, figures.scan):
        assert len(timed.runs) == 1
    assert json.loads((tmp_path / "slices.json").read_text())["queries"] == 4
    assert (tmp_path / "slices.png").stat().st_size > 0
    assert not list(folder.glob(".run-*"))


@pytest.mark.parametrize("workload", Predicates)
def test_a_small_bench_of_predicates(
    spark: SparkSession, folder: Path, tmp_path: Path, workload: Predicates
) -> None:
    paths = {"json": tmp_path / "it.json", "plot": tmp_path / "it.png"}
    if workload is Predicates.FRAGMENTS:
        bench = small(Fragments, folder, rows=(2_000,), **paths)
    else:
        bench = small(Shards, folder, rows=(2_000,), low=workload is Predicates.LOW, **paths)
    assert bench.workload is workload
    (result,) = bench.run()
    assert result.rows_equal is True
    assert (result.figures.run.rows, result.figures.run.batches, result.change.adds) == (2_000, 2, 1)
    assert result.change_without_checkpoint.adds == 1
    told = json.loads((tmp_path / "it.json").read_text())
    assert told["k"] >= 1
    assert 0 < told["alpha"] < 4
    assert (tmp_path / "it.png").stat().st_size > 0


def test_newest_rows_are_those_of_the_files_read(spark: SparkSession, folder: Path) -> None:
    dataset = make_trades(spark, folder, rows=2_000, files=5)
    newest = newest_rows(Input(spark=spark, dataset=dataset, files_per_trigger=2))
    paths = sorted(dataset.folder.iterdir())
    last = [pq.read_table(path)["time"].cast("int64").to_numpy().max() for path in paths]
    assert newest == [last[1], last[3], last[4]]


def test_a_small_bench_of_queries_that_come_and_go(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    asked = small(
        Churn, folder, rows=(2_000,), batches=4, check=Check.ALL, json=tmp_path / "it.json",
        plot=tmp_path / "it.png", operations=8, memory_batches=8,
    )  # fmt: skip
    (result,) = asked.run()
    assert (result.operations, result.batches) == (8, 4)
    assert len(result.durable.calls.runs) == len(result.without_checkpoint.calls.runs) == 8
    assert result.compared.equal is True
    assert result.compared.queries > 4
    assert result.memory is not None
    assert [one.batch for one in result.memory.samples] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {one.queries for one in result.memory.samples} == {4}
    assert json.loads((tmp_path / "it.json").read_text())["memory"]["python_mb"]["mean"] > 1
    assert (tmp_path / "it.png").stat().st_size > 0


def test_a_small_bench_of_aggregates(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    kinds = ("percentile", "mixed")
    asked = small(Aggregates, folder, queries=(1, 4), rows=(2_000,), kinds=kinds, json=tmp_path / "it.json")
    (result,) = asked.run()
    assert [(one.kind, one.queries) for one in result.sizes] == [(kind, n) for kind in kinds for n in (1, 4)]
    assert all(one.results > 0 for one in result.sizes)
    for one in result.sizes:
        assert min(*one.weft.runs, *one.ordinary.runs, *one.duck.runs) > 0
    # Three queries of four are compared, and the one.
    assert (result.passed, result.compared.queries) == (True, 8)
    told = json.loads((tmp_path / "it.json").read_text())
    assert [size["kind"] for size in told["sizes"]] == [one.kind for one in result.sizes]


def test_a_small_bench_of_subscribers(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observers, "_SLEEP_SECONDS", 0.01)
    asked = small(ObserversBench, folder, rows=(2_000,), batches=4, json=tmp_path / "it.json")
    (result,) = asked.run()
    assert result.batches == 4
    assert result.slept >= 1
    assert result.raised >= 1
    assert min(*result.alone.runs, *result.beside.runs) > 0
    told = json.loads((tmp_path / "it.json").read_text())
    assert told["throughput"] == result.throughput
    assert told["raised"] == result.raised


@pytest.mark.parametrize("figure", [13, 16])
def test_a_small_bench_of_every_way(spark: SparkSession, folder: Path, tmp_path: Path, figure: int) -> None:
    asked = small(
        PaperFigures, folder, rows=(2_000,), check=Check.ALL, plot=tmp_path / "it.png", figures=(figure,)
    )
    (result,) = asked.run()
    assert [one.way for one in result.taken] == [
        way.name for way in ways_of(None if figure == 13 else Predicates.LOW)
    ]
    assert all(one.seconds.runs and one.run.final_ops > 0 for one in result.taken)
    # With one query alone each, a way of Figure 13 that does not share is compared by that query only.
    assert (result.passed, result.compared.queries) == (True, 10 if figure == 13 else 20)
    by_way = {one.way: one for one in result.taken}
    if figure == 13:
        assert (
            by_way["unshared paired"].run.partial_ops
            == 4 * by_way["shared paired"].run.partial_ops
            == 4 * 2_000
        )
    else:
        assert by_way["separate"].run.relations == 4
    assert by_way["shared paned" if figure == 13 else "joint, paned"].run.final_ops >= (
        by_way["shared paired" if figure == 13 else "joint"].run.final_ops
    )
    assert (tmp_path / "it.png").stat().st_size > 0


def test_the_market_is_like_a_market(spark: SparkSession, trades: Dataset, folder: Path) -> None:
    tables = make_market(spark, folder)
    close, index = (pq.read_table(table.folder) for table in tables)
    assert sorted(close["symbol"].to_pylist()) == sorted(index["symbol"].to_pylist())
    assert len(set(close["symbol"].to_pylist())) == close.num_rows == 8_000
    all_, small, large = (index[name].to_numpy() for name in ("r3000", "r2000", "r1000"))
    assert (small.sum(), large.sum()) == (2_000, 1_000)
    assert not (small & large).any()
    assert np.array_equal(all_, small | large)
    market = collect(Input(spark=spark, dataset=trades, files_per_trigger=2, tables=tables))
    assert len(market) == ROWS
    assert market.r1000.mean() > 4 * market.r2000.mean()
    changes = market.quantity(Quantity.CHANGE)
    assert np.quantile(changes, 0.05) < 0.01
    assert 0.07 < np.quantile(changes, 0.95) < changes.max() < 0.12
    before = [table.folder.stat().st_ctime_ns for table in tables]
    assert [table.folder.stat().st_ctime_ns for table in make_market(spark, folder)] == before


def test_a_small_bench_of_windows(spark: SparkSession, folder: Path) -> None:
    (result,) = small(Windows, folder, queries=(1, 20), seeds=(1, 2), rate=400).run()
    assert [one.queries for one in result.sizes] == [1, 20]
    assert result.sizes[1].run.windows > result.sizes[0].run.windows > 0
    assert [len(one.durable.runs) for one in result.sizes] == [2, 2]


@pytest.mark.parametrize("durable", [True, False])
def test_retained_state_is_watched(spark: SparkSession, folder: Path, durable: bool) -> None:
    task = Task(
        rows=4_000,
        hours=1,
        batches=4,
        queries=4,
        data=folder,
        cores=2,
        heap="2g",
        seed=1,
        durable=durable,
    )
    dataset = make_trades(spark, folder, rows=4_000, files=4)
    observed = observe(spark, dataset, task)
    assert (observed.rows, observed.batches) == (4_000, 4)
    assert 0 < observed.last_retained <= observed.most_retained
    assert observed.jvm_rss_mb > observed.jvm_live_mb > 0
