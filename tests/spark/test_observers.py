"""Functions that are told of results while a stream runs: none holds it, and each may change the engine."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.test_live_queries import SLIDING, TUMBLING, more, running
from tests.spark.trades import Feed, counted, ends, stream, windows
from weft.state.report import BatchReport

MOMENTS = (1, 12, 23, 34)


def test_one_that_sleeps_and_one_that_raises_hold_nobody(
    spark: SparkSession, feed: Feed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asleep, heard = threading.Event(), list[float]()

    def sleep(rows: pa.Table) -> None:
        asleep.set()
        awake.wait(60)

    def fail(rows: pa.Table) -> None:
        raise ValueError(str(rows["n"]))

    awake = threading.Event()
    with caplog.at_level(logging.WARNING, "weft"), running(spark, feed, TUMBLING) as engine:
        query = engine.queries["q0"]
        for call in (sleep, fail, lambda rows: heard.extend(ends(rows))):
            query.subscribe(call)
        for moment in MOMENTS:
            feed.at(moment)
        while not asleep.wait(0.1) or len(heard) < 3:
            assert engine.wait(0.05) is False
        # Far less than the minute of the one that sleeps.
        began = monotonic()
        late = engine.add(SLIDING, name="late")
        engine.pause("late")
        assert (monotonic() - began < 30, late.state) == (True, "paused")
        awake.set()
        engine.process_available()
        assert heard == [10, 20, 30]
        assert counted(query.results()) == {10: 1, 20: 1, 30: 1}
        [notice, *_] = engine.status().streams["trades"].notices
        assert notice.words.startswith("a subscriber of query q0 failed (ValueError); it is called again")
    assert [vars(record)["kind"] for record in caplog.records if "subscriber" in record.message] == [
        "ValueError", "ValueError",
    ]  # fmt: skip


def in_another_thread(change: Callable[[], object]) -> None:
    """Wait for a change that another thread makes."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(change).result(60)


@pytest.mark.parametrize("by", [lambda change: change(), in_another_thread], ids=["itself", "another"])
@pytest.mark.parametrize("observer", ["subscriber", "on_batch"])
def test_an_observer_may_change_queries(
    spark: SparkSession, feed: Feed, by: Callable[[Callable[[], object]], None], observer: str
) -> None:
    engines, added = list[weft.Engine](), threading.Event()

    def add() -> None:
        engines[0].add(SLIDING, name="late")
        engines[0].remove("q1")
        added.set()

    def change() -> None:
        if not added.is_set():
            by(add)

    options = {"on_batch": lambda stream, report: change()} if observer == "on_batch" else {}
    with running(spark, feed, TUMBLING, TUMBLING, **options) as engine:
        engines.append(engine)
        if observer == "subscriber":
            engine.queries["q0"].subscribe(lambda rows: change())
        more(engine, feed, 1)
        more(engine, feed, 12)
        assert added.wait(60)
        assert list(engine.queries) == ["q0", "late"]
        more(engine, feed, 23, 34, 61)
        since = 20.0 if (first := engine.queries["late"].first_window) is None else first[0].second
        expected = windows((1, 12, 23, 34, 61), range=20, slide=5, until=61, since=since)
        assert counted(engine.results("late")) == expected


def test_an_observer_may_stop_the_engine(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    heard: list[list[float]] = []
    feed.at(1)
    for moment in (12, 23):
        with running(spark, feed, TUMBLING, checkpoint=tmp_path / "state") as engine:

            def stop(rows: pa.Table, engine: weft.Engine = engine) -> None:
                heard.append(ends(rows))
                engine.stop()

            engine.queries["q0"].subscribe(stop)
            feed.at(moment)
            assert engine.wait(60)
            # It waits for the one that is under way.
            engine.stop()
        assert (engine.status().streams["trades"].notices, engine.wait(1)) == ((), True)
    assert heard == [[10], [20]]


def test_batches_are_told_in_order_and_all_before_a_run_returns(spark: SparkSession, feed: Feed) -> None:
    told: list[tuple[int, list[str]]] = []

    def note(stream: str, report: BatchReport) -> None:
        threading.Event().wait(0.3)
        told.append((report.counts.read, sorted(report.results)))

    for number in range(4):
        feed.at(*(1 + 11 * number,) * (number + 1))
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    engine.add(TUMBLING, name="q")
    engine.run(on_batch=note)
    assert told == [(1, []), (2, ["q"]), (3, ["q"]), (4, ["q"]), (0, ["q"])]
