"""Restored copies, copies beside the original, and sinks taken back: no rows but those of one history."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

import pytest
from pyspark.sql import SparkSession

from tests.faults.conditions import PROMPT
from tests.faults.events import Events, path_of, write_files
from tests.faults.inside import engine_of, run
from tests.faults.mutants import planted
from tests.faults.site import Site
from weft import Engine
from weft.durability.past import Rewind
from weft.errors import Fenced


def everything(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, but for the one that is locked."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".weft.lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def site_with_copy(spark: SparkSession, tmp_path: Path) -> tuple[Site, Events]:
    """Return a site after two runs, with a copy of its checkpoint of the time between them."""
    site, events = Site.made(tmp_path / "site", files_per_batch=2), Events(seed=41)
    write_files(site.input, events, 12)
    run(spark, site)
    shutil.copytree(site.checkpoint, tmp_path / "copy")
    write_files(site.input, events, 12, first=12)
    run(spark, site)
    return site, events


def restore(site: Site, copy: Path) -> None:
    shutil.rmtree(site.checkpoint)
    shutil.copytree(copy, site.checkpoint)


@pytest.mark.parametrize("input_gone", [False, True])
def test_an_older_copy_is_refused_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, input_gone: bool
) -> None:
    site, events = site_with_copy(spark, tmp_path)
    shutil.copytree(site.checkpoint, tmp_path / "newest")
    before = everything(site.out)
    restore(site, tmp_path / "copy")
    if input_gone:
        for number in range(12, 24):
            path_of(site.input, number).rename(tmp_path / path_of(site.input, number).name)
    for _ in range(2):
        with pytest.raises(Fenced, match=r"sink parquet .* has results through commit \d+ of incarnation 2"):
            run(spark, site)
        assert everything(site.out) == before
    # The newest goes on, as if nothing had been.
    restore(site, tmp_path / "newest")
    if input_gone:
        for number in range(12, 24):
            (tmp_path / path_of(site.input, number).name).rename(path_of(site.input, number))
    write_files(site.input, events, 4, first=24)
    run(spark, site, flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict


@pytest.mark.parametrize("input_gone", [False, True])
def test_sinks_are_taken_back_to_an_older_copy_if_that_is_wanted(
    spark: SparkSession, tmp_path: Path, input_gone: bool
) -> None:
    site, events = site_with_copy(spark, tmp_path)
    restore(site, tmp_path / "copy")
    if input_gone:
        for number in range(12, 24):
            path_of(site.input, number).unlink()
    before, shown = everything(site.out), list[Rewind]()

    def refuse(rewinds: Sequence[Rewind]) -> bool:
        shown.extend(rewinds)
        return False

    with pytest.raises(Exception, match="nothing was changed"):
        engine_of(spark, site).start(out=site.out, checkpoint=site.place, rewind=refuse, keep=False)
    assert everything(site.out) == before
    [rewind] = shown
    assert (rewind.sink, rewind.stream) == ("parquet", "events")
    assert sum(one.rows for one in rewind.surplus) > 0
    engine = engine_of(spark, site)
    with planted(PROMPT):
        engine.start(
            out=site.out, checkpoint=site.place, late=site.late, rewind=True, keep=False, follow=False
        )
        engine.wait()
        engine.stop()
    write_files(site.input, events, 4, first=24)
    run(spark, site, flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict


def test_of_an_original_and_its_copy_one_ends(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=2), Events(seed=42)
    write_files(site.input, events, 12)
    with planted(PROMPT):
        original = engine_of(spark, site)
        original.start(out=site.out, checkpoint=site.checkpoint, late=site.late, keep=False)
        original.process_available()
        copied = tmp_path / "copied"
        shutil.copytree(site.checkpoint, copied)
        # One session does not run two streams of one name of Spark's.
        (copied / "events/spark/metadata").unlink()
        (copied / "events/spark/.metadata.crc").unlink()
        copy = engine_of(spark, site)
        copy.start(out=site.out, checkpoint=copied, late=tmp_path / "late", keep=False)
        write_files(site.input, events, 6, first=12)
        ended, goes_on = first_to_end(original, copy)
        with pytest.raises(Fenced, match=r"through commit \d+ of incarnation \d"):
            ended.wait(1)
        # Its next batch fails as well, and that is no news.
        write_files(site.input, events, 2, first=18)
        await_end_of_one_stream(spark)
        ended.stop()
        goes_on.process_available()
        goes_on.stop(flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict


def await_end_of_one_stream(spark: SparkSession) -> None:
    deadline = monotonic() + 60
    while len(spark.streams.active) > 1:
        assert monotonic() < deadline, "both streams go on"
        sleep(0.05)


def first_to_end(*engines: Engine) -> tuple[Engine, Engine]:
    """Return of two engines the one that a sink refuses, and the other: whoever delivers first goes on."""
    deadline = monotonic() + 120
    while monotonic() < deadline:
        for engine, other in (engines, engines[::-1]):
            if any("does not know them" in str(sink.error) for sink in engine.status().sinks):
                return engine, other
        sleep(0.05)
    raise AssertionError("both go on")
