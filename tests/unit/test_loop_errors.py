"""What cannot be made durable changes nothing, and a batch that is another than it was is refused."""

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from tests.unit.java_samples import failed_job
from tests.unit.loop_samples import ALL, LONG, SHORT, Runs, rows
from tests.unit.pipeline_samples import Batch, asked

from weft import faultpoints
from weft.durability import checkpoint as checkpoint_module
from weft.durability.registry import QueryState
from weft.errors import DamagedFile, EngineError
from weft.finals import answering
from weft.limits import Limits
from weft.state.report import BatchReport
from weft.storage import LocalFolder
from weft.stream.loop import Loop


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Return a checkpoint to run on."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    yield Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint"))
    faultpoints.arm(None)


# What cannot be made durable.


def test_a_full_disk_changes_nothing(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.batch(1, 12)
    clock, plan = runs.pipeline.clock, runs.pipeline.plan
    faultpoints.arm(",".join(f"commit.written:{nth}:error" for nth in range(1, 5)))
    third = asked("third", ALL, (10, 5))
    with pytest.raises(EngineError) as caught:
        runs.loop.membership.add(third.logical())
    problem, _, remedy = str(caught.value).partition(" (No space left on device")
    assert problem == "query third cannot be added: the checkpoint cannot be written"
    assert remedy.endswith(
        "; free space, or mend what keeps it from being written, and try again; nothing has changed"
    )
    assert isinstance(caught.value.__cause__, OSError)
    for state in (None, QueryState.PAUSED, QueryState.DROPPED):
        with pytest.raises(EngineError, match="query short cannot leave: the checkpoint cannot be written"):
            runs.loop.membership.leave("short", state)
    faultpoints.arm(None)
    assert {one.name: one.state for one in runs.ledger.registry} == {"long": "running", "short": "running"}
    assert (runs.pipeline.clock, runs.pipeline.plan.answers) == (clock, plan.answers)
    assert runs.given("third") == []
    runs.batch(23, 34)
    assert runs.given("short") == [5, 10, 15, 20, 25, 30]
    # And afterwards it can be done.
    runs.loop.membership.add(third.logical())
    runs.loop.membership.leave("short", QueryState.PAUSED)
    runs.start(LONG, SHORT, live=[third])
    assert {one.name: one.state for one in runs.ledger.registry} == {
        "long": "running", "short": "paused", "third": "running",
    }  # fmt: skip


def changes_of(loop: Loop) -> dict[str, Callable[[], object]]:
    """Return all that commits without a batch."""
    return {
        "add": lambda: loop.membership.add(asked("third", ALL, (10, 5)).logical()),
        "drop": lambda: loop.membership.leave("long", None),
        "pause": lambda: loop.membership.leave("long", QueryState.PAUSED),
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


def test_a_full_disk_while_windows_are_answered_consumes_nothing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.start(SHORT)
    runs.offer(1, 12)

    def full(*_: object) -> None:
        raise failed_job("java.io.IOException", "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(answering, "select", full)
        with pytest.raises(Py4JJavaError):
            runs.offer(23)
        with pytest.raises(EngineError) as caught:
            runs.loop.stop(flush=True)
    assert str(caught.value).startswith(
        "the stream stopped: a disk is full (java.io.IOException: No space left on device); nothing of "
        "batch 1 is consumed: free space"
    )
    assert str(caught.value).endswith(", and start it again")
    assert runs.given("short") == [5, 10]
    runs.start(SHORT)
    runs.offer(23)
    runs.loop.stop(flush=True)
    assert runs.given("short") == list(range(5, 41, 5))


def test_windows_stay_open_if_closing_them_all_fails(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.start(SHORT)
    runs.offer(1, 12)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(answering, "select", full)
        with pytest.raises(
            EngineError, match=r"the stream stopped: a disk is full \(OSError: .*start it again"
        ):
            runs.loop.stop(flush=True)
    assert runs.given("short") == [5, 10]
    runs.start(SHORT)
    runs.loop.stop(flush=True)
    assert runs.given("short") == list(range(5, 31, 5))


@pytest.mark.parametrize("point", ["commit.before", "commit.visible"])
def test_a_change_that_may_be_durable_though_its_commit_failed_stops_the_stream(
    runs: Runs, point: str
) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    faultpoints.arm(f"{point}:1:error")
    with pytest.raises(EngineError) as raised:
        runs.loop.membership.add(SHORT.logical())
    durable = point == "commit.visible"
    told = "only then it will show whether anything has changed" if durable else "nothing has changed"
    assert str(raised.value).endswith(told)
    assert runs.loop.sound is not durable
    if durable:
        with pytest.raises(EngineError, match="query long cannot leave: the stream has stopped"):
            runs.loop.membership.leave("long", None)
    runs.start(LONG, live=[SHORT])
    assert ("short" in runs.pipeline.queries) is durable


def test_a_query_that_fails_as_it_answers_its_past_is_not_added(runs: Runs) -> None:
    runs.start(LONG, limits=Limits(result_rows=1))
    for time in (1, 7, 12):
        runs.batch(time)
    with pytest.raises(EngineError, match=r"query short cannot be added: .* more than the limit result_rows"):
        runs.loop.membership.add(SHORT.logical())
    assert "short" not in runs.ledger.registry
    assert list(runs.pipeline.queries) == ["long"]
    runs.batch(16)
    assert runs.given("long") == [5, 10, 15]


def test_answers_to_a_query_that_joins_are_told_with_the_next_batch(runs: Runs) -> None:
    told: list[BatchReport] = []
    runs.start(LONG)
    runs.loop._on_batch = told.append
    runs.offer(1, 12)
    runs.loop.membership.add(SHORT.logical())
    assert [list(report.results) for report in told] == [["long"]]
    runs.offer(17)
    assert [list(report.results) for report in told] == [["long"], ["short"], ["long", "short"]]


def test_nobody_is_told_of_answers_to_a_query_that_has_left_meanwhile(runs: Runs) -> None:
    told: list[BatchReport] = []
    runs.start(LONG)
    runs.loop._on_batch = told.append
    runs.offer(1, 12)
    runs.loop.membership.add(SHORT.logical())
    runs.loop.membership.leave("short", None)
    # Its name is another's now, who has given nothing yet.
    runs.loop.membership.add(SHORT.logical())
    runs.offer(13)
    assert [list(report.results) for report in told] == [["long"], [], []]


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
    noted(runs, 0, "a")
    noted(runs, 1, "b")
    runs.start(SHORT)
    runs.offer(1, 12)
    runs.offer(23)
    spark = runs.folder.folder("spark")
    if lost in ("list", "last"):
        spark.folder("sources").folder("0").delete("1")
    if lost == "last":
        spark.folder("offsets").delete("1")
    if lost == "all":
        shutil.rmtree(runs.folder.path / "spark")
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
    runs.loop.membership.leave("short", None)
    left = runs.ledger.registry.answered_through("short")
    assert left > 0
    faultpoints.arm("registry.before:1:error")
    with pytest.raises(EngineError, match="query short cannot be added"):
        runs.loop.membership.add(SHORT.logical())
    assert (runs.ledger.registry.answered_through("short"), "short" in runs.ledger.registry) == (left, False)


def test_a_snapshot_that_fails_is_tried_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoint_module, "_SNAPSHOT_COMMITS", 2)
    runs.start(SHORT)
    faultpoints.arm("snapshot.before:1:error")
    with caplog.at_level(logging.WARNING, "weft"):
        runs.batch(1)
        runs.batch(12)
    assert "a snapshot cannot be written, and is tried again" in caplog.text
    assert runs.folder.folder("snapshots").names() == []
    runs.batch(23)
    assert runs.folder.folder("snapshots").names() == ["000000002"]
    assert runs.given("short") == [5, 10, 15, 20]


# What another thread did while one waited for a batch.


def test_a_query_cannot_join_twice(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    runs.loop.membership.add(SHORT.logical())
    with pytest.raises(EngineError, match="query short is running already"):
        runs.loop.membership.add(SHORT.logical())
    runs.offer(23, 34)
    assert len(runs.given("short")) == len(set(runs.given("short")))


@pytest.mark.parametrize("state", [QueryState.FAILED, QueryState.ENDED, None])
def test_what_is_over_is_not_paused(runs: Runs, state: QueryState | None) -> None:
    runs.start(LONG, SHORT)
    runs.loop.membership.leave("short", state)
    with pytest.raises(EngineError, match=f"query short is {state or 'gone'}: there is nothing to pause"):
        runs.loop.membership.leave("short", QueryState.PAUSED)
    known = runs.ledger.registry.get("short")
    assert (None if known is None else known.state) == state


@pytest.mark.parametrize("durable", [False, True])
def test_a_name_is_remembered_while_those_that_joined_keep_partials(runs: Runs, durable: bool) -> None:
    """Without a checkpoint, a query that joins makes no commit."""
    runs.start(LONG, SHORT, durable=durable)
    runs.offer(1, 22, 43)
    runs.loop.membership.add(asked("longest", ALL, (3600, 5)).logical())
    runs.loop.membership.leave("short", None)
    runs.offer(110)
    runs.loop.membership.add(SHORT.logical())
    runs.offer(121)
    ends = runs.given("short")
    assert len(ends) == len(set(ends))
    assert ends[-1] == 120


def test_no_window_is_closed_after_the_source_failed(runs: Runs) -> None:
    """Rows that were not read would be late when they come."""

    class Died:
        isActive = False

        def exception(self) -> StreamingQueryException:
            return StreamingQueryException("a file is gone")

    runs.start(SHORT)
    runs.offer(1, 12)
    query: Any = Died()
    runs.loop._query = query
    with pytest.raises(
        EngineError, match=r"the stream stopped: .*\(StreamingQueryException: a file is gone\)"
    ):
        runs.loop.stop(flush=True)
    assert runs.given("short") == [5, 10]
