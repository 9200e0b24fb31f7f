"""Queries that join and leave between batches: what lasts, what is undone, and what no log may hold."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.pipeline_samples import MS, Batch, Row, asked, plain_pipeline, process, results

from weft import faultpoints
from weft.errors import DamagedFile, EngineError
from weft.limits import Limits
from weft.runtime import checkpoint as checkpoint_module
from weft.runtime.checkpoint import Checkpoint
from weft.runtime.clock import RowCounts
from weft.runtime.ledger import Ledger, registered, restore
from weft.runtime.loop import Loop
from weft.runtime.pipeline import BatchReport, Pipeline
from weft.runtime.registry import QueryState, Registry
from weft.runtime.rejoining import rejoin
from weft.storage import LocalFolder

ALL = ("vol > 0", lambda row: row.vol is not None and row.vol > 0)
LONG = asked("long", ALL, (60, 5))
SHORT = asked("short", ALL, (20, 5))
EMPTY = asked("short", ALL, (20, 5), suffix="EMIT EMPTY")


def rows(*times: int) -> list[Row]:
    """Return rows of some milliseconds."""
    return [Row(time * MS, "a", 1, 1) for time in times]


class Kept:
    """Reports that were committed, as sinks see them."""

    def __init__(self) -> None:
        self.name, self.done = "kept", -1
        self.reports: list[BatchReport] = []

    def resume(self, after: int, *, origin: str = "") -> None:
        self.done = after

    def deliver(self, commit: int, given: Any) -> None:
        self.reports.append(BatchReport(counts=RowCounts(), results=given))

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Runs:
    """Run after run on one checkpoint, without Spark."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: LocalFolder) -> None:
        self._patch, self.folder = patch, folder
        self.sink = Kept()
        self.pipeline: Pipeline
        self.ledger: Ledger
        self.loop: Loop

    def start(self, *workload: Any, live: Sequence[Any] = (), **options: Any) -> None:
        """Begin a run with the queries of a workload; those that were added live are known by name."""
        checkpoint = Checkpoint(self.folder)
        recovered = checkpoint.recover()
        self.pipeline = plain_pipeline(self._patch, **options)
        registry = Registry() if recovered is None else recovered.registry
        known = {one.name: one.logical() for one in live}
        watermark = None if recovered is None else recovered.last.clock.watermark
        found = rejoin(
            [one.logical() for one in workload], registry, lambda name, _: known[name], watermark=watermark
        )
        for query in found.running.values():
            self.pipeline.add(query)
        if recovered is not None:
            restore(self.pipeline, found.running, recovered)
        for query in found.new:
            registry.put(registered(self.pipeline.queries[query.name], commit=0, added_live=False))
        self.ledger = Ledger(
            registry=registry, checkpoint=checkpoint, recovered=recovered, inline=[self.sink]
        )
        frame: Any = SimpleNamespace(sparkSession=None)
        self.loop = Loop(self.pipeline, frame, self.ledger)

    def batch(self, *times: int) -> None:
        """Process and commit a batch."""
        report = process(self.pipeline, rows(*times))
        self.ledger.commit(self.pipeline, report, batch=self.ledger.batch + 1)

    def offer(self, *times: int) -> None:
        """Have the loop handle a batch, as Spark does."""
        batch: Any = Batch(rows(*times))
        self.loop._handle(batch, self.ledger.batch + 1)

    def given(self, name: str) -> list[int]:
        """Return the ends, in milliseconds, of all windows that a query gave in any run."""
        return [end // MS for (end, _), _ in results(self.sink.reports, name)]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Return a checkpoint to run on."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    yield Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint"))
    faultpoints.arm(None)


# A name that was used before.


@pytest.mark.parametrize("short", [SHORT, EMPTY], ids=["plain", "empty"])
@pytest.mark.parametrize("folded", [False, True])
def test_a_name_that_is_used_again_repeats_no_window(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, folded: bool, short: Any
) -> None:
    if folded:
        monkeypatch.setattr(checkpoint_module, "_SNAPSHOT_COMMITS", 1)
    runs.start(LONG)
    runs.batch(1, 12)
    runs.loop.add(short.logical())
    runs.batch(23, 34, 41)
    runs.loop.leave("short", None)
    before = runs.given("short")
    assert before
    runs.start(LONG)
    runs.batch(46)
    runs.loop.add(short.logical())
    runs.batch(55, 67)
    given = runs.given("short")
    assert len(given) == len(set(given))
    # What ended while it was away is answered by what the long one kept.
    assert given == list(range(before[0], 66, 5))


def test_a_name_that_a_workload_has_let_go_repeats_no_window(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 12, 23)
    runs.start(LONG)
    runs.loop.add(SHORT.logical())
    runs.batch(31, 42)
    assert runs.given("short") == list(range(5, 41, 5))


def test_a_name_is_remembered_for_as_long_as_partials_reach_back(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 42)
    runs.loop.leave("short", None)
    assert runs.ledger.registry.left("short") == 42 * MS
    runs.batch(99)
    assert runs.ledger.registry.left("short") == 42 * MS
    # Windows of 60 ms that are open now begin after 42.
    runs.batch(110)
    assert runs.ledger.registry.left("short") is None
    found = Checkpoint(runs.folder).recover()
    assert found is not None
    assert found.registry.left("short") is None


def test_a_name_is_not_forgotten_while_partials_are_only_not_asked_for(runs: Runs) -> None:
    longer = asked("longer", ALL, (80, 5))
    runs.start(LONG, SHORT, asked("other", ALL, (10, 5)))
    runs.batch(1, 12, 23, 42)
    before = runs.given("short")
    runs.loop.leave("other", QueryState.PAUSED)
    for name in ("short", "long", "other"):
        runs.loop.leave(name, None)
    # Nobody asks for partials now, but until the watermark moves they are at hand.
    first = runs.loop.add(longer.logical()).first_start
    assert first is not None
    assert first < 42 * MS
    runs.start(live=[longer])
    runs.loop.add(SHORT.logical())
    runs.batch(51)
    assert runs.given("short") == [*before, 45, 50]


# What cannot be made durable.


def test_a_full_disk_changes_nothing(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 12)
    clock, plan = runs.pipeline.clock, runs.pipeline.plan
    faultpoints.arm(",".join(f"commit.written:{nth}:error" for nth in range(1, 5)))
    third = asked("third", ALL, (10, 5))
    with pytest.raises(EngineError) as caught:
        runs.loop.add(third.logical())
    problem, _, remedy = str(caught.value).partition(" (No space left on device")
    assert problem == "query third cannot be added: the checkpoint cannot be written"
    assert remedy.endswith(
        "; free space, or mend what keeps it from being written, and try again; nothing has changed"
    )
    assert isinstance(caught.value.__cause__, OSError)
    for state in (None, QueryState.PAUSED, QueryState.DROPPED):
        with pytest.raises(EngineError, match="query short cannot leave: the checkpoint cannot be written"):
            runs.loop.leave("short", state)
    faultpoints.arm(None)
    assert {one.name: one.state for one in runs.ledger.registry} == {"long": "running", "short": "running"}
    assert (runs.pipeline.clock, runs.pipeline.plan.answers) == (clock, plan.answers)
    assert runs.given("third") == []
    runs.batch(23, 34)
    assert runs.given("short") == [5, 10, 15, 20, 25, 30]
    # And afterwards it can be done.
    runs.loop.add(third.logical())
    runs.loop.leave("short", QueryState.PAUSED)
    runs.start(LONG, SHORT, live=[third])
    assert {one.name: one.state for one in runs.ledger.registry} == {
        "long": "running", "short": "paused", "third": "running",
    }  # fmt: skip


def changes_of(loop: Loop) -> dict[str, Callable[[], object]]:
    """Return all that commits without a batch."""
    return {
        "add": lambda: loop.add(asked("third", ALL, (10, 5)).logical()),
        "drop": lambda: loop.leave("long", None),
        "pause": lambda: loop.leave("long", QueryState.PAUSED),
        "idle": loop._watch_idle,
    }


@pytest.mark.parametrize("change", ["add", "drop", "pause", "idle"])
def test_a_batch_that_could_not_be_committed_leaves_nothing_in_later_commits(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    runs.start(LONG, SHORT, delay_ms=2)
    runs.offer(1, 12)
    faultpoints.arm("commit.written:1:error")
    with pytest.raises(OSError, match="No space left"):
        runs.offer(23, 34, 45)
    monkeypatch.setattr(Loop, "active", True)
    runs.loop._idle_seconds = 0.0
    if change == "idle":
        changes_of(runs.loop)[change]()
    else:
        with pytest.raises(EngineError, match=r"the stream has stopped \(.*No space left.*; start it again"):
            changes_of(runs.loop)[change]()
    runs.start(LONG, SHORT, delay_ms=2)
    runs.offer(23, 34, 45)
    runs.offer(56)
    assert runs.given("short") == list(range(5, 51, 5))


def test_a_stop_tells_of_an_error_that_nobody_was_told_of(runs: Runs) -> None:
    runs.start(SHORT)
    faultpoints.arm("commit.written:1:error")
    with pytest.raises(OSError, match="No space left"):
        runs.offer(1, 12)
    with pytest.raises(EngineError, match=r"the stream stopped: .*No space left"):
        runs.loop.stop(flush=True)
    assert runs.given("short") == []
    # Once is enough.
    runs.loop.stop()


def test_a_query_that_fails_as_it_answers_its_past_is_not_added(runs: Runs) -> None:
    runs.start(LONG, limits=Limits(result_rows=1))
    for time in (1, 7, 12):
        runs.batch(time)
    with pytest.raises(EngineError, match=r"query short cannot be added: .* more than the limit result_rows"):
        runs.loop.add(SHORT.logical())
    assert "short" not in runs.ledger.registry
    assert list(runs.pipeline.queries) == ["long"]
    runs.batch(16)
    assert runs.given("long") == [5, 10, 15]


def test_answers_to_a_query_that_joins_are_told_with_the_next_batch(runs: Runs) -> None:
    told: list[BatchReport] = []
    runs.start(LONG)
    runs.loop._on_batch = told.append
    runs.offer(1, 12)
    runs.loop.add(SHORT.logical())
    assert [list(report.results) for report in told] == [["long"]]
    runs.offer(17)
    assert [list(report.results) for report in told] == [["long"], ["short"], ["long", "short"]]


# Spark's own notes.


def noted(runs: Runs, batch: int, *files: str) -> None:
    """Write what Spark notes of a batch of files."""
    spark = runs.folder.folder("spark")
    spark.folder("offsets").write(
        str(batch), f'v1\n{{"batchTimestampMs":{batch}}}\n{{"logOffset":{batch}}}'.encode()
    )
    listed = "\n".join(f'{{"path":"{file}"}}' for file in files)
    spark.folder("sources").folder("0").write(str(batch), listed.encode())


@pytest.mark.parametrize("lost", ["nothing", "list", "last", "all"])
def test_a_batch_of_a_known_number_that_is_another_is_refused(runs: Runs, lost: str) -> None:
    noted(runs, 0, "a"), noted(runs, 1, "b")
    runs.start(SHORT)
    runs.offer(1, 12)
    runs.offer(23)
    spark = runs.folder.folder("spark")
    if lost in ("list", "last"):
        spark.folder("sources").folder("0").delete("1")
    if lost == "last":
        spark.folder("offsets").delete("1")
    if lost == "all":
        runs.folder.delete("spark")
    if lost == "list":
        spark.folder("sources").folder("0").write("1", b'{"path":"c"}')
    runs.start(SHORT)
    batch: Any = Batch(rows(34))
    if lost == "nothing":
        runs.loop._handle(batch, 1)
        runs.offer(34)
        assert runs.given("short") == list(range(5, 31, 5))
        return
    with pytest.raises(DamagedFile, match=r"Spark's notes in .*spark are not those of then"):
        runs.loop._handle(batch, 0 if lost == "all" else 1)
    assert runs.given("short") == list(range(5, 21, 5))


def test_an_add_that_fails_leaves_what_was_known_of_the_name(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 12)
    runs.loop.leave("short", None)
    left = runs.ledger.registry.left("short")
    assert left is not None
    faultpoints.arm("registry.before:1:error")
    with pytest.raises(EngineError, match="query short cannot be added"):
        runs.loop.add(SHORT.logical())
    assert (runs.ledger.registry.left("short"), "short" in runs.ledger.registry) == (left, False)


def test_a_snapshot_that_fails_is_tried_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoint_module, "_SNAPSHOT_COMMITS", 2)
    runs.start(SHORT)
    faultpoints.arm("snapshot.before:1:error")
    with caplog.at_level(logging.WARNING, "weft.runtime"):
        runs.batch(1)
        runs.batch(12)
    assert "a snapshot cannot be written, and is tried again" in caplog.text
    assert runs.folder.folder("snapshots").names() == []
    runs.batch(23)
    assert runs.folder.folder("snapshots").names() == ["000000002"]
    assert runs.given("short") == [5, 10, 15, 20]


# Limits, and what is said of them.


def test_a_query_with_too_many_groups_fails_alone(runs: Runs) -> None:
    keyed = asked("keyed", ALL, (20, 5), keyed=True)
    runs.start(SHORT, keyed, limits=Limits(groups_per_query=2))
    for number, time in enumerate((1, 11)):
        report = process(runs.pipeline, [Row(time * MS, "a", 1, 1), Row(time * MS, "b", 1, 1)])
        runs.ledger.commit(runs.pipeline, report, batch=number)
    entry = runs.ledger.registry.get("keyed")
    assert entry is not None
    assert entry.state == "running"
    broken: dict[str, str] = {}
    # A batch's groups are counted when its rows are merged with others: with the next batch at the latest.
    for number, time in enumerate((21, 33), 2):
        report = process(runs.pipeline, [Row(time * MS, "c", 1, 1), Row(time * MS, "a", 1, 1)])
        runs.ledger.commit(runs.pipeline, report, batch=number)
        broken |= report.broken
    assert broken == {
        "keyed": "3 groups, more than the limit groups_per_query = 2; raise it with "
        "--limit groups_per_query=… or Engine(limits=Limits(groups_per_query=…))"
    }
    assert "keyed" not in report.results
    assert list(runs.pipeline.queries) == ["short"]
    entry = runs.ledger.registry.get("keyed")
    assert entry is not None
    assert (entry.state, entry.error) == ("failed", broken["keyed"])
    assert runs.given("short") == [5, 10, 15, 20, 25, 30]


def test_a_query_with_too_many_result_rows_fails_alone(runs: Runs) -> None:
    many = asked("many", ALL, (20, 1))
    runs.start(SHORT, many, limits=Limits(result_rows=11))
    runs.batch(1)
    runs.batch(12)
    assert len(runs.given("many")) == 11
    report = process(runs.pipeline, rows(24))
    assert report.broken == {
        "many": "12 result rows in one batch, more than the limit result_rows = 11; raise it with "
        "--limit result_rows=… or Engine(limits=Limits(result_rows=…))"
    }
    assert list(report.results) == ["short"]
    assert list(runs.pipeline.queries) == ["short"]


def test_the_log_tells_that_a_query_failed_but_not_with_what_values(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    runs.start(SHORT)
    error = "[CAST_INVALID_INPUT] The value '4711' of the type STRING cannot be cast"
    report = BatchReport(counts=RowCounts(), results={}, broken={"short": error})
    with caplog.at_level(logging.DEBUG):
        runs.ledger.commit(runs.pipeline, report, batch=0)
    (record,) = [one for one in caplog.records if one.getMessage() == "query failed"]
    assert (vars(record)["query"], vars(record)["kind"]) == ("short", "CAST_INVALID_INPUT")
    assert not [one for one in caplog.records if "4711" in str(vars(one))]
    # Whoever asks for the query is told.
    entry = runs.ledger.registry.get("short")
    assert entry is not None
    assert entry.error == error
