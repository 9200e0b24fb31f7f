"""Benches on Spark: the data is what it says, and a small bench runs from end to end."""

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench.churn import run_churn
from weft.bench.dataset import Dataset
from weft.bench.events import make_events
from weft.bench.fragments import collect, run_fragments
from weft.bench.market import make_market
from weft.bench.memory_run import Task, observe
from weft.bench.predicates import Quantity
from weft.bench.runs import Input, run_scan
from weft.bench.slices import run_slices
from weft.bench.trades import HOUR_MS, NOON_MS, make_trades
from weft.bench.windows import run_windows
from weft.bench.workloads import Predicates

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


def test_disorder_stays_within_its_bound(spark: SparkSession, tmp_path: Path) -> None:
    late = make_trades(spark, tmp_path, rows=20_000, files=1, disorder_s=2.0)
    times = pq.read_table(late.folder)["time"].cast("int64").to_numpy()
    behind = np.maximum.accumulate(times) - times
    assert 1_500_000 < behind.max() <= 2_000_000


def test_events_keep_their_rate(spark: SparkSession, tmp_path: Path) -> None:
    events = make_events(spark, tmp_path, rows=50_000, rate=10_000, files=2)
    times = pq.read_table(events.folder)["time"].cast("int64").to_numpy()
    assert events.span_ms == 5_000
    assert np.bincount((times - NOON_MS * 1000) // 1_000_000).tolist() == [10_000] * 5


def test_a_scan_reads(spark: SparkSession, trades: Dataset) -> None:
    assert run_scan(Input(spark=spark, dataset=trades, files_per_trigger=2), ("time", "vol")) > 0


def test_a_small_bench_of_slices(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    shown = Console(file=io.StringIO(), width=120)
    (result,) = run_slices(
        console=shown, queries=(4,), rows=4_000, batches=3, measured=1, repeats=1, warmups=0, tiny_batches=4,
        data=folder, json=tmp_path / "slices.json", plot=tmp_path / "slices.png",
    )  # fmt: skip
    figures = result.figures
    assert figures.rows_equal is True
    assert (figures.compared_queries, figures.compared_rows) == (4, figures.windows)
    assert (figures.rows, figures.partial_ops, figures.batches) == (4_000, 4_000, 3)
    assert json.loads((tmp_path / "slices.json").read_text())["queries"] == 4
    assert (tmp_path / "slices.png").stat().st_size > 0


@pytest.mark.parametrize("workload", Predicates)
def test_a_small_bench_of_predicates(
    spark: SparkSession, folder: Path, tmp_path: Path, workload: Predicates
) -> None:
    shown = Console(file=io.StringIO(), width=120)
    (result,) = run_fragments(
        console=shown, workload=workload, queries=(4,), rows=2_000, batches=2, measured=1, repeats=1,
        warmups=0, tiny_batches=4, adds=1, data=folder, json=tmp_path / "it.json", plot=tmp_path / "it.png",
    )  # fmt: skip
    assert result.figures.rows_equal is True
    assert (result.figures.rows, result.figures.batches, result.change.adds) == (2_000, 2, 1)
    told = json.loads((tmp_path / "it.json").read_text())
    assert told["k"] >= 1
    assert 0 < told["alpha"] < 4
    assert (tmp_path / "it.png").stat().st_size > 0


def test_a_small_bench_of_queries_that_come_and_go(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    result = run_churn(
        console=Console(file=io.StringIO(), width=120), queries=4, operations=8, rows=2_000, batches=3,
        repeats=1, warmups=0, memory_batches=8, check="all", data=folder, json=tmp_path / "it.json",
        plot=tmp_path / "it.png",
    )  # fmt: skip
    assert result.operations == 8
    assert result.compared.equal is True
    assert result.compared.queries > 4
    assert result.memory is not None
    assert [one.batch for one in result.memory.samples] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert {one.queries for one in result.memory.samples} == {4}
    assert json.loads((tmp_path / "it.json").read_text())["memory"]["python_mb"]["mean"] > 1
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
    shown = Console(file=io.StringIO(), width=120)
    result = run_windows(
        console=shown, queries=(1, 20), rows=4_000, rate=400, batches=2, repeats=1, warmups=0, data=folder
    )
    assert [one.queries for one in result.sizes] == [1, 20]
    assert result.sizes[1].windows > result.sizes[0].windows > 0


def test_retained_state_is_watched(spark: SparkSession, folder: Path) -> None:
    task = Task(rows=4_000, hours=1, batches=4, queries=4, data=str(folder), cores=2, heap="2g", seed=1)
    dataset = make_trades(spark, folder, rows=4_000, files=4)
    observed = observe(spark, dataset, task)
    assert (observed.rows, observed.batches) == (4_000, 4)
    assert 0 < observed.last_retained <= observed.most_retained
    assert observed.jvm_rss_mb > observed.jvm_live_mb > 0
