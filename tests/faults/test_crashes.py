"""Errors, replays and damaged files, with restarts inside one process."""

import random
from pathlib import Path
from traceback import format_exc

import pytest
from pyspark.sql import SparkSession

from tests.faults import damage
from tests.faults.conditions import FULL_IN_A_BATCH
from tests.faults.damage import DAMAGES, TO_SPARK, Damaged, Outcome
from tests.faults.disk import filled, small_disk
from tests.faults.events import Events, write_files
from tests.faults.grave_mutants import Run
from tests.faults.inside import run
from tests.faults.mutants import MUTANTS, forget_both, shown
from tests.faults.site import Site
from weft.errors import WeftError

AT_EVERY_BATCH = (
    "batch.begin", "batch.aggregated", "commit.before", "commit.written", "commit.visible",
    "deliver.before", "deliver.partly", "deliver.after", "delivered.noted", "prune.before", "spark.returning",
)  # fmt: skip


def test_an_error_at_any_point_costs_nothing_but_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=2), Events(seed=21)
    for number, point in enumerate(AT_EVERY_BATCH):
        write_files(site.input, events, 3, first=3 * number)
        # Some are mended by trying again.
        said = problem(spark, site, fault=f"{point}:{1 + number % 2}:error")
        assert not said or "No space left on device" in said
        verdict = site.judged()
        assert verdict.sound, f"after {point}: {verdict}"
    run(spark, site, flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict


def problem(spark: SparkSession, site: Site, *, flush: bool = False, fault: str | None = None) -> str:
    """Run, and return what was told to be wrong."""
    try:
        run(spark, site, flush=flush, fault=fault)
    except WeftError as error:
        return str(error)
    return ""


def test_a_batch_that_comes_again_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=2), Events(seed=22)
    for number in range(3):
        write_files(site.input, events, 6, first=6 * number)
        run(spark, site, flush=number == 2)
        forget_both(site)
    run(spark, site, flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict


def test_a_damaged_checkpoint_is_mended_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=1), Events(seed=23)
    write_files(site.input, events, 18)  # Two snapshots, so that commits were removed.
    run(spark, site)
    write_files(site.input, events, 4, first=18)
    chance = random.Random(23)
    some = [(path, chance.choice(list(DAMAGES))) for path in damage.chosen(site, chance)]
    gone = [(path, "remove") for path in damage.newest(site)]
    assert bad(spark, site, tmp_path, [*gone, *some]) == []


def test_damaged_notes_of_spark_are_mended_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=1), Events(seed=29)
    write_files(site.input, events, 6)
    run(spark, site)
    write_files(site.input, events, 4, first=6)
    cases = [(path, how) for path in damage.of_spark(site) for how in TO_SPARK]
    assert bad(spark, site, tmp_path, cases) == []


def bad(spark: SparkSession, site: Site, root: Path, cases: list[tuple[Path, str]]) -> list[str]:
    """Damage files, each in a copy of a site; say what was made of them and should not have been."""
    found = [
        damaged(spark, site, root / f"copy-{number}", path, how)
        for number, (path, how) in enumerate(dict.fromkeys(cases))
    ]
    return [f"{one.how} {one.file}: {one.why}" for one in found if one.outcome is Outcome.BAD]


def test_a_full_disk_stops_the_engine_and_room_lets_it_go_on(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site", files_per_batch=2), Events(seed=25)
    with small_disk(site.checkpoint) as mounted:
        write_files(site.input, events, 6)
        run(spark, site)
        for number, room in enumerate((0, 16_384)):
            write_files(site.input, events, 4, first=6 + 4 * number)
            if mounted:
                with filled(site.checkpoint, but_bytes=room):
                    said = problem(spark, site)
            else:
                said = problem(spark, site, fault="commit.before:1:error")
            assert "No space left on device" in said
            assert site.judged().sound
        run(spark, site, flush=True)
        verdict = site.judged()
        assert verdict.exact, verdict


def damaged(spark: SparkSession, site: Site, root: Path, path: Path, how: str) -> Damaged:
    """Damage a file in a copy of a site, and see what comes of it."""
    file = str(path.relative_to(site.checkpoint))
    copy = site.copied(root)
    damage.do(how, copy.checkpoint / file)
    try:
        said = problem(spark, copy, flush=True)
    except Exception:
        said = format_exc()  # No way to tell anybody.
    return damage.outcome(file, how, refused=bool(said), said=said, verdict=copy.judged())


def test_all_rows_are_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=2)
    events = Events(seed=24, late=0.1, unusable=0.05)
    for number, fault in enumerate(("commit.written:2:error", "commit.visible:2:error", None)):
        write_files(site.input, events, 6, first=6 * number)
        try:
            clock = run(spark, site, fault=fault)
        except WeftError:
            forget_both(site)
    counts, read = clock.counts, site.read()
    assert read.late.num_rows > 0
    assert read.unusable.num_rows > 0
    assert (counts.good, counts.late, counts.quarantined) == (
        read.good.num_rows, read.late.num_rows, read.unusable.num_rows,
    )  # fmt: skip
    run(spark, site, flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict


def whole(spark: SparkSession) -> Run:
    """Return what runs an engine with a planted bug, and says what it failed with."""

    def runs(site: Site, mutant: str | None, flush: bool) -> str:
        try:
            run(spark, site, flush=flush, mutant=mutant)
        except WeftError as error:
            return str(error)
        return ""

    return runs


@pytest.mark.parametrize("name", [None, *MUTANTS])
def test_every_planted_bug_is_seen(spark: SparkSession, tmp_path: Path, name: str | None) -> None:
    failure, verdict = shown(name, Site.made(tmp_path / "site"), whole(spark))
    if name is None:
        assert not failure
        assert verdict.exact, verdict
    else:
        assert MUTANTS[name].caught(failure, verdict), f"{MUTANTS[name].says}: {failure} {verdict}"


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.trial is not None])
def test_without_its_bug_an_engine_refuses_what_would_do_harm(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    site, trial = Site.made(tmp_path / "site"), MUTANTS[name].trial
    assert trial is not None
    assert trial(site, whole(spark), None)
    assert site.judged().sound


def test_a_full_disk_in_a_batch_is_blamed_on_no_query(spark: SparkSession, tmp_path: Path) -> None:
    site, events = Site.made(tmp_path / "site"), Events(seed=11)
    write_files(site.input, events, 10)
    assert "No space left on device" in whole(spark)(site, FULL_IN_A_BATCH, False)
    run(spark, site, flush=True)
    verdict = site.judged()
    assert verdict.exact, verdict
