"""A disk that is full where results go: they wait, it is told, and once there is room they come."""

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from tests.faults.conditions import PROMPT
from tests.faults.disk import full_for_parquet, small_disk
from tests.faults.events import Events, write_files
from tests.faults.inside import engine_of, run
from tests.faults.mutants import planted
from tests.faults.site import Site
from weft import Engine
from weft.sinks import DeliveryStatus, MemorySink


def wait_until(true: Callable[[], bool]) -> None:
    deadline = monotonic() + 120
    while not true():
        assert monotonic() < deadline, "it never came true"
        sleep(0.02)


def sink(engine: Engine, name: str) -> DeliveryStatus:
    return next(one for one in engine.status().sinks if one.sink == name)


def test_a_full_disk_holds_back_that_sink_until_there_is_room(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=4), Events(seed=26)
    site.out.mkdir()
    engine = engine_of(spark, site)
    with small_disk(site.out) as mounted, planted(PROMPT):
        engine.start(out=site.out, checkpoint=site.checkpoint, sinks=[MemorySink()], keep=False)
        for number, room in enumerate((0, 8_192)):
            write_files(site.input, events, 8, first=16 * number)
            engine.process_available()
            wait_until(lambda: not sink(engine, "parquet").behind)
            with full_for_parquet(site.out, mounted=mounted, but_bytes=room):
                write_files(site.input, events, 8, first=16 * number + 8)
                # The stream goes on, and so does the other sink.
                engine.process_available()
                wait_until(lambda: sink(engine, "parquet").error is not None)
                wait_until(lambda: not sink(engine, "memory").behind)
                held = sink(engine, "parquet")
                assert "No space left on device" in str(held.error)
                assert held.behind > 0
                assert site.judged().sound
            # The last results are there a moment before the error is gone.
            wait_until(lambda: not sink(engine, "parquet").behind and sink(engine, "parquet").error is None)
        engine.stop(flush=True)
        verdict = site.judged()
        assert verdict.exact, verdict


def test_what_a_full_disk_held_back_comes_after_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("weft.stream.loop._STOP_SECONDS", 0.5)
    site, events = Site.made(tmp_path / "site", files_per_batch=4), Events(seed=27)
    site.out.mkdir()
    with small_disk(site.out) as mounted:
        write_files(site.input, events, 12)
        # A start on a full disk is refused: it is full once the stream runs, when nothing is written yet.
        engine = engine_of(spark, site)
        engine.start(out=site.out, checkpoint=site.place, late=site.late, follow=False, keep=False)
        with full_for_parquet(site.out, mounted=mounted), caplog.at_level(logging.WARNING, "weft"):
            engine.wait()
            engine.stop()
        assert "results wait for a sink" in caplog.text
        assert not [*site.out.glob("*/[!.]*.parquet")]
        run(spark, site, flush=True)
        verdict = site.judged()
        assert verdict.exact, verdict
