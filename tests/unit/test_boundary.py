"""Changes of queries from many threads wait for the boundary between two batches, and become one commit."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.loop_samples import ALL, LONG, SHORT, Runs
from tests.unit.pipeline_samples import asked

from weft import faultpoints
from weft.durability.registry import QueryState
from weft.errors import EngineError
from weft.limits import Limits
from weft.storage import LocalFolder
from weft.stream.boundary import Change, Halt

MANY = [asked(f"many{number}", ALL, (10 + 5 * (number % 8), 5)) for number in range(40)]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Return a checkpoint to run on."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    yield Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint"))
    faultpoints.arm(None)


def adding(runs: Runs, query: Any, *, halted: Callable[[], bool] = lambda: False) -> Change:
    """Return a change with which a query joins."""
    return Change(query.name, lambda: runs.loop.membership.add(query.logical()), stream="s", halted=halted)


def leaving(runs: Runs, name: str, state: QueryState | None = None) -> Change:
    """Return a change with which a query leaves."""
    return Change(name, lambda: runs.loop.membership.leave(name, state), stream="s")


def commits(runs: Runs) -> int:
    return len(runs.folder.folder("commits").names())


def states(runs: Runs) -> dict[str, str]:
    return {one.name: str(one.state) for one in runs.ledger.registry}


@contextmanager
def batch_under_way(runs: Runs) -> Iterator[None]:
    """Hold the boundary, as a batch does."""
    with runs.loop._lock:
        yield


def until_waiting(runs: Runs, count: int) -> None:
    """Wait until so many changes wait."""
    deadline = time.monotonic() + 20
    while len(runs.loop._boundary._waiting) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_all_that_wait_from_many_threads_are_one_commit(runs: Runs) -> None:
    runs.start(LONG, SHORT)
    runs.offer(1, 12)
    before = commits(runs)
    changes = [*(adding(runs, query) for query in MANY), leaving(runs, "short", QueryState.PAUSED)]
    with ThreadPoolExecutor(len(changes)) as pool:
        with batch_under_way(runs):
            futures = [pool.submit(runs.loop.carry_out, [change]) for change in changes]
            until_waiting(runs, len(changes))
        for future in futures:
            future.result(20)
    assert commits(runs) == before + 1
    assert [change.error for change in changes] == [None] * len(changes)
    assert states(runs) == {"long": "running", "short": "paused", **{one.name: "running" for one in MANY}}


def test_one_that_fails_is_refused_alone(runs: Runs) -> None:
    runs.start(LONG, limits=Limits(result_rows=1))
    for moment in (1, 7, 12):
        runs.offer(moment)
    before = commits(runs)
    # Its past has two windows, more than the limit.
    late, wide = adding(runs, SHORT), adding(runs, asked("wide", ALL, (10, 10)))
    twice, gone = adding(runs, LONG), leaving(runs, "gone", QueryState.PAUSED)
    runs.loop.carry_out([late, twice, wide, gone])
    assert "query short cannot be added: 2 result rows" in str(late.error)
    assert "query long is running already" in str(twice.error)
    assert "query gone is gone" in str(gone.error)
    assert (wide.error, states(runs)) == (None, {"long": "running", "wide": "running"})
    assert commits(runs) == before + 1


def test_changes_of_one_query_keep_their_order_one_commit_each(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    before = commits(runs)
    changes = [
        adding(runs, SHORT), leaving(runs, "short"), adding(runs, SHORT), adding(runs, MANY[0]),
        leaving(runs, "short", QueryState.PAUSED),
    ]  # fmt: skip
    runs.loop.carry_out(changes)
    assert [change.error for change in changes] == [None] * 5
    assert commits(runs) == before + 4
    assert states(runs) == {"long": "running", "many0": "running", "short": "paused"}


def test_where_the_commit_fails_each_is_told_why(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    faultpoints.arm("commit.written:1:error")
    nothing = Change("long", lambda: "as before", stream="s")
    changes = [adding(runs, MANY[0]), nothing, adding(runs, MANY[1])]
    runs.loop.carry_out(changes)
    for change in (changes[0], changes[2]):
        assert str(change.error).startswith(f"query {change.query} cannot be added: the checkpoint cannot")
    assert (nothing.error, nothing.outcome()) == (None, "as before")
    assert states(runs) == {"long": "running"}


@pytest.mark.parametrize("steps", range(5))
def test_what_is_halted_leaves_no_trace_and_the_rest_is_made(runs: Runs, steps: int) -> None:
    left = iter([False] * steps)
    runs.start(LONG)
    runs.offer(1, 12)
    halted = [adding(runs, query, halted=lambda: next(left, True)) for query in MANY[:2]]
    other = adding(runs, MANY[2])
    runs.loop.carry_out([halted[0], other, halted[1]])
    assert other.error is None
    made = [change.query for change in halted if change.error is None]
    assert made == (["many0", "many1"] if steps == 4 else ["many0"] if steps == 3 else [])
    assert all(isinstance(change.error, Halt) for change in halted if change.query not in made)
    assert set(states(runs)) == {"long", "many2", *made}


def test_who_stops_waiting_is_not_served(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)

    class Interrupted:
        """A lock whose wait is interrupted."""

        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None: ...

    boundary, lock = runs.loop._boundary, runs.loop._boundary._lock
    boundary._lock = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        runs.loop.carry_out([adding(runs, MANY[0])])
    boundary._lock = lock
    runs.loop.carry_out([adding(runs, MANY[1])])
    assert set(states(runs)) == {"long", "many1"}


def test_nothing_changes_once_the_stream_has_stopped(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    runs.loop.stop()
    change = adding(runs, SHORT)
    runs.loop.carry_out([change])
    with pytest.raises(EngineError, match="query short cannot be added: the engine stops; try again when"):
        change.outcome()


def test_others_look_before_or_after_a_change(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    visible, seen, ending = threading.RLock(), list[set[str]](), threading.Event()
    runs.loop._boundary._visible = visible

    def look() -> None:
        while not ending.is_set():
            with visible:
                seen.append(set(states(runs)))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for round in range(20):
            changes = [adding(runs, query) for query in MANY] if round % 2 == 0 else []
            changes = changes or [leaving(runs, query.name) for query in MANY]
            runs.loop.carry_out(changes)
            time.sleep(0.002)
        ending.set()
        looking.result(20)
    assert {len(names) for names in seen} == {1, 1 + len(MANY)}
