"""The same input gives the same rows, however it is cut, shuffled and interrupted, and whoever else asks."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.faults.conditions import PROMPT
from tests.faults.mutants import forget_both, planted
from tests.faults.site import Site
from tests.spark import awkward
from tests.spark.alike import differences
from tests.spark.awkward import DOUBLE_KEYS, QUERIES, STREAM, Row, cut, neighbours, shuffled, site_of
from weft.state.clock import Clock
from weft.state.report import BatchReport

ROWS = awkward.rows_of(1_500, seed=41, seconds=120)
TIMELY = [row for row in ROWS if not row.late]
PROBES = ("odd", "by_ratio", "joined")
"""The queries that are also run alone."""
Answers = dict[str, pa.Table]


def engine_of(spark: SparkSession, site: Site) -> weft.Engine:
    """Return an engine with a site's workload."""
    engine = weft.Engine(spark)
    engine.load(site.workload.read_text(), base=site.root)
    return engine


def run(spark: SparkSession, site: Site, *, stop_after: int | None = None) -> Clock:
    """Answer a site's queries to the end of its input and close all windows, or stop after some batches."""
    engine, batches = engine_of(spark, site), 0

    def count(stream: str, report: BatchReport) -> None:
        nonlocal batches
        batches += 1
        if batches == stop_after:
            engine.stop_later()

    with planted(PROMPT):
        engine.run(out=site.out, checkpoint=site.checkpoint, flush=True, keep=False, on_batch=count)
    return engine.clock(STREAM)


def written(site: Site) -> Answers:
    """Return the rows of all queries on the disk."""
    return {name: pq.read_table(site.out / name) for name in QUERIES}


def all_differences(expected: Answers, found: Answers) -> list[str]:
    """Say how the rows of queries differ."""
    return [
        line
        for name, rows in expected.items()
        for line in differences(name, rows, found[name], keys=DOUBLE_KEYS)
    ]


def assert_read(clock: Clock, rows: list[Row]) -> None:
    """Fail unless each row was taken for what it is: in this cut, rows that are to be late are late."""
    times = [row.values["time"] for row in rows if not row.late]
    found = clock.counts
    assert found.read == len(rows)
    assert found.late == sum(row.late for row in rows)
    assert found.no_time == times.count(None)
    assert found.future == sum(time is not None and time.year > 2100 for time in times)


@pytest.fixture(scope="module")
def at_once(_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Return the rows of all queries when the input is one batch."""
    site = site_of(tmp_path_factory.mktemp("same") / "once", cut(TIMELY, 5, seed=1), files_per_batch=5)
    assert_read(run(_session, site), TIMELY)
    found = written(site)
    assert min(table.num_rows for table in found.values()) >= 10
    return found


def test_many_batches_give_the_rows_of_one(spark: SparkSession, at_once: Answers, tmp_path: Path) -> None:
    site = site_of(tmp_path / "many", cut(ROWS, 20, seed=2), files_per_batch=1)
    assert_read(run(spark, site), ROWS)
    assert site.newest_batch() == 19
    assert all_differences(at_once, written(site)) == []


def test_rows_shuffled_within_the_delay_give_the_same_rows(
    spark: SparkSession, at_once: Answers, tmp_path: Path
) -> None:
    rows = shuffled(ROWS, seed=3)
    assert rows != ROWS
    site = site_of(tmp_path / "shuffled", cut(rows, 12, seed=4), files_per_batch=2)
    assert_read(run(spark, site), ROWS)
    assert all_differences(at_once, written(site)) == []


def test_stops_and_batches_that_come_again_change_no_row(
    spark: SparkSession, at_once: Answers, tmp_path: Path
) -> None:
    rows = shuffled(ROWS, seed=5)
    site = site_of(tmp_path / "stopped", cut(rows, 9, seed=6), files_per_batch=1)
    for stop_after in (1, 3):
        run(spark, site, stop_after=stop_after)
        assert site.newest_batch() < 8, "the input was used up before the last run"
        forget_both(site)
    assert_read(run(spark, site), ROWS)
    assert all_differences(at_once, written(site)) == []
    # A run over nothing new gives nothing new.
    forget_both(site)
    run(spark, site)
    assert all_differences(at_once, written(site)) == []


def test_a_query_alone_gives_the_rows_it_gives_among_a_thousand(spark: SparkSession, tmp_path: Path) -> None:
    files = cut(TIMELY[:600], 2, seed=7)
    others = neighbours(1_000, seed=8)
    among = answered(spark, site_of(tmp_path / "among", files, files_per_batch=1, queries=others | QUERIES))
    for name in PROBES:
        one = {name: QUERIES[name]}
        alone = answered(spark, site_of(tmp_path / name, files, files_per_batch=1, queries=one))
        assert alone[name].num_rows > 10
        assert all_differences(alone, among) == []


def answered(spark: SparkSession, site: Site) -> Answers:
    """Return the rows of all queries of a site, from memory."""
    engine = engine_of(spark, site)
    engine.run()
    return {name: query.results() for name, query in engine.queries.items()}


ROW = {"window_end": [10], "ratio": [0.0], "s": [2.0], "n": [3]}
UNLIKE = {
    "a row too few": pa.table(ROW).slice(0, 0),
    "a row twice": pa.concat_tables([pa.table(ROW)] * 2),
    "another type": pa.table(ROW | {"n": pa.array([3], pa.int32())}),
    "another number": pa.table(ROW | {"n": [4]}),
    "another zero as key": pa.table(ROW | {"ratio": [-0.0]}),
    "NULL": pa.table(ROW | {"s": pa.array([None], pa.float64())}),
    "NaN": pa.table(ROW | {"s": [float("nan")]}),
    "a double that is too far off": pa.table(ROW | {"s": [2.0 + 1e-8]}),
}


@pytest.mark.parametrize("case", UNLIKE)
def test_the_comparison_sees_what_differs(case: str) -> None:
    one, other = pa.table(ROW), UNLIKE[case]
    assert differences("q", one, one, keys=DOUBLE_KEYS) == []
    assert differences("q", other, other, keys=DOUBLE_KEYS) == []
    assert differences("q", one, other, keys=DOUBLE_KEYS)
    assert differences("q", other, one, keys=DOUBLE_KEYS)
