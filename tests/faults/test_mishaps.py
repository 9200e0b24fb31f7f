"""Some of every kind of mishap, inside this process where that is enough."""

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults import conditions, oracle
from tests.faults.conditions import BOTH_WAYS, GONE, VANISHING
from tests.faults.events import Events, write_files
from tests.faults.gaps import EMPTIES, silent
from tests.faults.ground import broken_ground
from tests.faults.inside import run
from tests.faults.mischief import SPOIL, swap
from tests.faults.mishap import Outcome
from tests.faults.mishaps import MISHAPS
from tests.faults.site import Site, Spoilt
from tests.faults.trial import finish
from tests.faults.workload import STANDING
from weft.errors import WeftError
from weft.limits import Limits

_LIMIT = 2_000


def assert_exact(site: Site) -> None:
    verdict = site.judged()
    assert verdict.exact, verdict


@pytest.mark.parametrize("how", Spoilt)
def test_a_file_that_is_spoilt_after_it_was_listed_is_named(
    spark: SparkSession, tmp_path: Path, how: Spoilt
) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=2)
    write_files(site.input, Events(seed=41), 8)
    with pytest.raises(WeftError, match="No space left on device"):
        run(spark, site, fault="batch.begin:3:error")
    name = site.listed_ahead()[0]
    SPOIL[how](site.input / name, random.Random(41))
    site.set_spoilt({name: how})
    run(spark, site, flush=True)
    assert_exact(site)


def test_a_file_that_vanishes_at_work_is_named(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=2)
    (site.root / GONE).mkdir()
    write_files(site.input, Events(seed=42), 8)
    run(spark, site, flush=True, mutant=VANISHING)
    (gone,) = (site.root / GONE).iterdir()
    site.set_spoilt({gone.name: Spoilt.VANISHED})
    assert_exact(site)


def test_files_that_come_out_of_order_count_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=1)
    write_files(site.input, Events(seed=43), 10)
    for number in (2, 5, 8):
        swap(site.input, number)
    run(spark, site, flush=True)
    assert_exact(site)


def test_a_clock_that_jumps_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "_FIRST_JUMP_SECONDS", 0.1)
    monkeypatch.setattr(conditions, "_NEXT_JUMP_SECONDS", 0.2)
    site, events = Site.made(tmp_path / "site", files_per_batch=2), Events(seed=45, late=0.05, unusable=0.05)
    write_files(site.input, events, 14)
    run(spark, site, flush=True, mutant=BOTH_WAYS)
    assert_exact(site)


@pytest.mark.parametrize("above", [False, True])
def test_a_gap_is_filled_up_to_the_limit_and_beyond_it_one_query_fails_alone(
    spark: SparkSession, tmp_path: Path, above: bool
) -> None:
    site = silent(tmp_path / "site", seed=46, limit=_LIMIT, above=above)
    run(spark, site, flush=True, limits=Limits(result_rows=_LIMIT))
    verdict = oracle.judge(STANDING, site.events(), site.out)
    assert verdict.exact, verdict
    empties = oracle.judge((EMPTIES,), site.events(), site.out)
    assert empties.sound, empties
    assert empties.exact is not above


@pytest.mark.timeout(1200)
def test_a_machine_without_memory_and_an_engine_that_wakes_up_too_late_do_no_harm(tmp_path: Path) -> None:
    # A full scratch disk and a copy beside the original have tests of their own.
    with broken_ground(tmp_path / "site", seed=47) as ground:
        for kind in ("short of memory", "lost lease"):
            came = MISHAPS[kind](ground, random.Random(47))
            assert came.outcome is Outcome.STOPPED, came.problem or came
            assert ground.site.judged().sound, kind
        code, said = finish(ground.site)
        assert code == 0, said
        assert_exact(ground.site)
