"""Queries that join and leave between batches: what comes back, limits, and what no log may hold."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.deliveries import wait_until
from tests.unit.loop_samples import ALL, EMPTY, LONG, SHORT, Runs, rows
from tests.unit.pipeline_samples import MS, Row, asked, process

from weft import faultpoints
from weft.durability import checkpoint as checkpoint_module
from weft.durability.checkpoint import Checkpoint
from weft.durability.registry import QueryState
from weft.finals import answering
from weft.limits import Limits
from weft.notices import Failure
from weft.sinks import Delivery, ParquetSink
from weft.spark.input.schema_changes import SchemaWatch
from weft.state.clock import ALWAYS, RowCounts
from weft.state.report import BatchReport
from weft.storage import LocalFolder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Return a checkpoint to run on."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    yield Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint"))
    faultpoints.arm(None)


# A name that was used before.


@pytest.mark.parametrize("short", [SHORT, EMPTY], ids=["plain", "empty"])
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_name_that_is_used_again_repeats_no_window(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, restarted: bool, folded: bool, short: Any
) -> None:
    if folded:
        monkeypatch.setattr(checkpoint_module, "_SNAPSHOT_COMMITS", 1)
    runs.start(LONG)
    runs.batch(1, 12)
    runs.loop.membership.add(short.logical())
    runs.batch(23, 34, 41)
    runs.loop.membership.leave("short", None)
    before = runs.given("short")
    assert before
    if restarted:
        runs.start(LONG)
    runs.batch(46)
    runs.loop.membership.add(short.logical())
    runs.batch(55, 67)
    given = runs.given("short")
    assert len(given) == len(set(given))
    # What ended while it was away is answered by what the long one kept.
    assert given == list(range(before[0], 66, 5))


def test_a_name_that_a_workload_has_let_go_repeats_no_window(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 12, 23)
    runs.start(LONG)
    runs.loop.membership.add(SHORT.logical())
    runs.batch(31, 42)
    assert runs.given("short") == list(range(5, 41, 5))


def test_a_name_is_remembered_for_as_long_as_partials_reach_back(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 42)
    runs.loop.membership.leave("short", None)
    assert runs.ledger.registry.answered_through("short") == 42 * MS
    runs.batch(99)
    assert runs.ledger.registry.answered_through("short") == 42 * MS
    # Windows of 60 ms that are open now begin after 42.
    runs.batch(110)
    assert runs.ledger.registry.answered_through("short") == ALWAYS
    found = Checkpoint(runs.folder).recover()
    assert found is not None
    assert found.registry.answered_through("short") == ALWAYS


def test_a_name_is_not_forgotten_while_partials_are_only_not_asked_for(runs: Runs) -> None:
    longer = asked("longer", ALL, (80, 5))
    runs.start(LONG, SHORT, asked("other", ALL, (10, 5)))
    runs.batch(1, 12, 23, 42)
    before = runs.given("short")
    runs.loop.membership.leave("other", QueryState.PAUSED)
    for name in ("short", "long", "other"):
        runs.loop.membership.leave(name, None)
    # Nobody asks for partials now, but until the watermark moves they are at hand.
    runs.loop.membership.add(longer.logical())
    entry = runs.ledger.registry.get("longer")
    assert entry is not None
    assert entry.answered_through - 80 * MS + 1 < 42 * MS
    runs.start(live=[longer])
    runs.loop.membership.add(SHORT.logical())
    runs.batch(51)
    assert runs.given("short") == [*before, 45, 50]


# Limits, and what is said of them.


def test_sinks_write_while_the_last_files_are_compared(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.start(SHORT)
    delivery = Delivery(ParquetSink(LocalFolder(tmp_path / "out")))
    runs.ledger.deliveries = (delivery,)
    runs.offer(1, 12)
    written: list[int] = []

    def rest(*_: object) -> list[str]:
        wait_until(lambda: delivery.status.done == runs.ledger.number)
        written.append(delivery.status.done)
        return []

    monkeypatch.setattr(SchemaWatch, "rest", rest)
    assert runs.loop.stop(flush=True)
    assert written == [runs.ledger.number]


def test_a_query_with_too_many_groups_fails_alone(runs: Runs) -> None:
    keyed = asked("keyed", ALL, (20, 5), keyed=True)
    runs.start(SHORT, keyed, limits=Limits(groups_per_query=2))
    for number, time in enumerate((1, 11)):
        report = process(runs.pipeline, [Row(time * MS, "a", 1, 1), Row(time * MS, "b", 1, 1)])
        runs.ledger.commit(runs.pipeline.outcome(report), batch=number)
    entry = runs.ledger.registry.get("keyed")
    assert entry is not None
    assert entry.state == "running"
    broken: dict[str, Failure] = {}
    # A batch's groups are counted when its rows are merged with others: with the next batch at the latest.
    for number, time in enumerate((21, 33), 2):
        report = process(runs.pipeline, [Row(time * MS, "c", 1, 1), Row(time * MS, "a", 1, 1)])
        runs.ledger.commit(runs.pipeline.outcome(report), batch=number)
        broken |= report.broken
    assert {name: failure.text for name, failure in broken.items()} == {
        "keyed": "3 groups, more than the limit groups_per_query = 2; raise it with "
        "--limit groups_per_query=… or Engine(limits=Limits(groups_per_query=…))"
    }
    assert "keyed" not in report.results
    assert list(runs.pipeline.queries) == ["short"]
    entry = runs.ledger.registry.get("keyed")
    assert entry is not None
    assert (entry.state, entry.error) == ("failed", broken["keyed"].text)
    assert runs.given("short") == [5, 10, 15, 20, 25, 30]


def test_a_query_with_too_many_result_rows_fails_alone(runs: Runs) -> None:
    many = asked("many", ALL, (20, 1))
    runs.start(SHORT, many, limits=Limits(result_rows=11))
    runs.batch(1)
    runs.batch(12)
    assert len(runs.given("many")) == 11
    report = process(runs.pipeline, rows(24))
    assert {name: failure.text for name, failure in report.broken.items()} == {
        "many": "12 result rows in one batch, more than the limit result_rows = 11; raise it with "
        "--limit result_rows=… or Engine(limits=Limits(result_rows=…))"
    }
    assert list(report.results) == ["short"]
    assert list(runs.pipeline.queries) == ["short"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many windows were built with or without rows, call by call."""
    counts: list[int] = []
    real = answering.EmptyWindows.__init__

    def counted(windows: Any, *given: Any) -> None:
        real(windows, *given)
        counts.append(sum(map(len, windows._bare.values())))

    monkeypatch.setattr(answering.EmptyWindows, "__init__", counted)
    return counts


def test_empty_windows_are_built_only_if_they_are_answered(runs: Runs, built: list[int]) -> None:
    #     rows  0                                   1,000,000   1,000,007
    #     long                              [999,945 ───────────> 1,000,005)
    #     short                                     [999,945 ──> 999,965) …
    runs.start(LONG)
    runs.batch(0, 1_000_000)
    runs.loop.membership.add(EMPTY.logical())
    assert runs.given("short") == list(range(999_965, 1_000_001, 5))
    runs.loop.membership.leave("short", QueryState.PAUSED)
    runs.batch(1_000_007)
    runs.loop.membership.add(EMPTY.logical())
    # What ended meanwhile is not made up for, and its past is not built again.
    runs.batch(1_000_012)
    assert runs.given("short") == [*range(999_965, 1_000_001, 5), 1_000_010]
    assert sum(built) == len(runs.given("short"))


def test_more_empty_windows_than_the_limit_fail_alone_and_are_not_built(runs: Runs, built: list[int]) -> None:
    """A clock that was never set gives the first row: 57 years of windows, 5 ms apart, are due."""
    late = 1_800_000_000_000
    other = asked("other", ALL, (10, 10), suffix=f"LIFETIME '{100} ms' EMIT EMPTY")
    runs.start(LONG, EMPTY, other)
    runs.batch(0, late)
    entry = runs.ledger.registry.get("short")
    assert entry is not None
    assert (entry.state, entry.error) == (
        "failed",
        "360,000,000,000 result rows in one batch, more than the limit result_rows = 10,000,000; raise it "
        "with --limit result_rows=… or Engine(limits=Limits(result_rows=…))",
    )
    assert (runs.given("short"), runs.given("long")) == ([], list(range(5, 61, 5)))
    # Only ten of the other's lie within its lifetime.
    assert runs.given("other") == list(range(10, 101, 10))
    assert sum(built) == 10
    runs.start(LONG, EMPTY)
    runs.batch(late + 7)
    assert runs.given("long") == [*range(5, 61, 5), late + 5]
    assert list(runs.pipeline.queries) == ["long"]


def test_as_many_empty_windows_as_the_limit_allows_are_answered(runs: Runs) -> None:
    runs.start(LONG, EMPTY, limits=Limits(result_rows=20))
    runs.batch(0, 100)
    assert runs.given("short") == list(range(5, 101, 5))
    assert list(runs.pipeline.queries) == ["long", "short"]
    assert list(process(runs.pipeline, rows(205)).broken) == ["short"]


def test_the_log_tells_that_a_query_failed_but_not_with_what_values(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    runs.start(SHORT)
    error = "[CAST_INVALID_INPUT] The value 'sesame' of the type STRING cannot be cast"
    failure = Failure(kind="CAST_INVALID_INPUT", text=error)
    report = BatchReport(counts=RowCounts(), results={}, broken={"short": failure})
    with caplog.at_level(logging.DEBUG):
        runs.ledger.commit(runs.pipeline.outcome(report), batch=0)
    (record,) = [one for one in caplog.records if one.getMessage() == "query failed"]
    assert (vars(record)["query"], vars(record)["kind"]) == ("short", "CAST_INVALID_INPUT")
    assert not [one for one in caplog.records if "sesame" in str(vars(one))]
    # Whoever asks for the query is told.
    entry = runs.ledger.registry.get("short")
    assert entry is not None
    assert entry.error == error
