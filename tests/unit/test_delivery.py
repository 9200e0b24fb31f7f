"""Delivery: everything arrives once and in order, whatever a sink does, and only that sink waits."""

import logging
import math
import threading
from collections.abc import Callable, Iterator
from time import monotonic

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.sinks import Delivery, ForeachSink, Limits, MemorySink, Results, SinkError

FAST = Limits(first_retry_s=0.001, longest_retry_s=0.004)


def result(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def wait_until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline, pause = monotonic() + seconds, threading.Event()
    while not true():
        assert monotonic() < deadline, "it never came true"
        pause.wait(0.002)


class StoreSink:
    """A sink of which only `stored` outlives an error: rows and the last commit, changed together."""

    def __init__(self, fails: Callable[[str], bool] = lambda phase: False, *, patience: float = 0.0) -> None:
        self.name, self.done = "store", -1
        self.stored: tuple[list[int], int] = [], -1
        self.flushes = 0
        self.closed = False
        self._fails, self._patience = fails, patience
        self._kept: list[int] = []
        self._last = -1

    def resume(self, after: int, *, origin: str = "") -> None:
        self._maybe("resume")
        self._kept = []
        self.done = self._last = max(self.stored[1], after)

    def deliver(self, commit: int, results: Results) -> None:
        self._maybe("deliver")
        assert commit > self._last, "out of order"
        self._last = commit
        for table in results.values():
            self._kept += table["x"].to_pylist()
        self._maybe("delivered")

    def flush(self) -> None:
        self._maybe("flush")
        self.flushes += 1
        self.stored = [*self.stored[0], *self._kept], self._last
        # Now the results are there, but the sink's user does not know.
        self._maybe("flushed")
        self._kept, self.done = [], self._last

    def close(self) -> None:
        self.closed = True

    def _maybe(self, phase: str) -> None:
        if self._fails(phase):
            raise ConnectionError(phase)


class PatientSink(StoreSink):
    """A sink that keeps results back for a while."""

    _since = math.inf

    def flush_due_in(self) -> float:
        self._since = min(self._since, monotonic()) if self._kept else math.inf
        return self._since + self._patience - monotonic()


@pytest.fixture
def deliver() -> Iterator[Callable[..., Delivery]]:
    """Makes deliveries, and closes them."""
    made: list[Delivery] = []

    def make(*args: object, **options: object) -> Delivery:
        made.append(Delivery(*args, **{"limits": FAST, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


@settings(max_examples=30)
@given(
    every=st.dictionaries(
        st.sampled_from(["resume", "deliver", "delivered", "flush", "flushed"]), st.integers(2, 7)
    ),
    outbox=st.booleans(),
    room=st.sampled_from([1, 100, 1 << 20]),
    pauses=st.lists(st.booleans(), min_size=30, max_size=30),
    patient=st.booleans(),
)
def test_everything_arrives_once_and_in_order(
    every: dict[str, int], outbox: bool, room: int, pauses: list[bool], patient: bool
) -> None:
    """The sink fails at every kth call of each phase."""
    calls: dict[str, int] = {}

    def fails(phase: str) -> bool:
        calls[phase] = calls.get(phase, 0) + 1
        return phase in every and calls[phase] % every[phase] == 0

    commits = {commit: {"a": result(commit), "b": result(-commit)} for commit in range(30)}
    sink = PatientSink(fails, patience=0.01) if patient else StoreSink(fails)
    told: list[int] = []
    limits = Limits(
        commits=8, memory_bytes=room, piece_bytes=100, first_retry_s=0.0005, longest_retry_s=0.001
    )
    delivery = Delivery(
        sink,
        outbox=commits.__getitem__ if outbox else None,
        on_done=lambda name, commit: told.append(commit),
        limits=limits,
    )
    for commit, results in commits.items():
        delivery.await_room()
        delivery.offer(commit, results)
        assert delivery.status.behind <= 8
        if pauses[commit]:
            threading.Event().wait(0.001)
    assert delivery.drain(20)
    assert delivery.status.done == delivery.status.offered == 29
    delivery.close()
    assert sink.stored == ([x for commit in range(30) for x in (commit, -commit)], 29)
    assert told == sorted(set(told))
    assert told[-1] == 29
    assert (delivery.status.behind, delivery.status.waiting_bytes, delivery.status.error) == (0, 0, None)


def test_a_slow_sink_delays_no_other(deliver: Callable[..., Delivery]) -> None:
    go = threading.Event()

    def call(name: str, table: pa.Table, key: str) -> None:
        go.wait(30)

    slow = deliver(ForeachSink(call))
    fast = MemorySink()
    quick = deliver(fast)
    for commit in range(100):
        slow.offer(commit, {"a": result(commit)})
        quick.offer(commit, {"a": result(commit)})
    assert quick.drain(20)
    assert fast.done == 99
    assert slow.status.done == -1
    assert slow.status.behind == 100
    go.set()
    assert slow.drain(20)


@pytest.mark.parametrize("outbox", [True, False])
def test_there_is_no_room_while_too_much_waits(deliver: Callable[..., Delivery], outbox: bool) -> None:
    go, commits = threading.Event(), {n: {"a": result(*range(100))} for n in range(40)}
    seen: list[str] = []

    def call(name: str, table: pa.Table, key: str) -> None:
        go.wait(30)
        seen.append(key)

    # 800 bytes each: room for ten in memory.
    limits = Limits(commits=30, memory_bytes=8_000)
    delivery = deliver(ForeachSink(call), outbox=commits.__getitem__ if outbox else None, limits=limits)
    offered: list[int] = []

    def offer() -> None:
        for commit, results in commits.items():
            delivery.await_room()
            delivery.offer(commit, results)
            offered.append(commit)

    thread = threading.Thread(target=offer)
    thread.start()
    bound = 30 if outbox else 10
    wait_until(lambda: len(offered) == bound)
    threading.Event().wait(0.1)
    assert len(offered) == delivery.status.behind == bound
    assert delivery.status.waiting_bytes <= 8_000
    go.set()
    thread.join(20)
    assert delivery.drain(20)
    assert seen == [f"{n:09d}-a" for n in range(40)]


def test_one_commit_beyond_the_bound_is_taken_alone(deliver: Callable[..., Delivery]) -> None:
    sink = StoreSink()
    delivery = deliver(sink, limits=Limits(memory_bytes=10))
    delivery.offer(0, {"a": result(*range(100))})
    delivery.offer(1, {"a": result(*range(100))})
    assert delivery.drain(20)
    assert len(sink.stored[0]) == 200


def test_what_a_run_before_left_waits_without_anyone_waiting_for_it(
    deliver: Callable[..., Delivery],
) -> None:
    """The sink is away, and more waits than may."""
    away = threading.Event()
    sink = StoreSink(lambda phase: phase == "resume" and not away.is_set())
    commits = {commit: {"a": result(commit)} for commit in range(7)}
    limits = Limits(commits=2, first_retry_s=0.001, longest_retry_s=0.004)
    delivery = deliver(sink, outbox=commits.__getitem__, limits=limits)

    def offer() -> None:
        for commit in range(6):
            delivery.offer(commit, None)

    thread = threading.Thread(target=offer, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert delivery.status.behind == 6
    away.set()
    delivery.offer(6, None)
    assert delivery.drain(20)
    assert sink.stored == (list(range(7)), 6)


def test_a_stop_ends_the_wait_for_room_and_loses_nothing(deliver: Callable[..., Delivery]) -> None:
    go, stop, seen = threading.Event(), threading.Event(), []

    def call(name: str, table: pa.Table, key: str) -> None:
        go.wait(30)
        seen.extend(table["x"].to_pylist())

    delivery = deliver(ForeachSink(call), stop=stop, limits=Limits(commits=2))

    def offer() -> None:
        for commit in range(5):
            delivery.await_room()
            delivery.offer(commit, {"a": result(commit)})

    thread = threading.Thread(target=offer)
    thread.start()
    wait_until(lambda: delivery.status.offered == 1)
    assert thread.is_alive()
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert delivery.status.behind == 5
    assert not delivery.drain(0.05)
    go.set()
    assert delivery.drain(20)
    assert seen == [0, 1, 2, 3, 4]


def test_a_patient_sink_keeps_results_until_they_are_due_wanted_or_in_the_way(
    deliver: Callable[..., Delivery],
) -> None:
    sink = PatientSink(patience=1_000)
    delivery = deliver(sink, limits=Limits(commits=10))
    for commit in range(9):
        delivery.offer(commit, {"a": result(commit)})
    wait_until(lambda: sink._last == 8)
    assert (sink.flushes, delivery.status.behind) == (0, 9)
    for commit in range(9, 12):
        delivery.await_room()
        delivery.offer(commit, {"a": result(commit)})
    wait_until(lambda: delivery.status.done >= 9)
    assert sink.flushes == 1
    assert delivery.drain(20)
    assert sink.stored == (list(range(12)), 11)
    sink._patience = 0.01
    delivery.offer(12, {"a": result(12)})
    wait_until(lambda: delivery.status.done == 12)


def test_what_waits_together_is_flushed_once(deliver: Callable[..., Delivery]) -> None:
    go = threading.Event()
    sink = StoreSink(lambda phase: phase == "resume" and not go.wait(30))
    delivery = deliver(sink)
    for commit in range(50):
        delivery.offer(commit, {"a": result(commit)})
    go.set()
    assert delivery.drain(20)
    assert sink.flushes <= 2


def test_a_restart_goes_on_after_what_the_sink_has(deliver: Callable[..., Delivery]) -> None:
    """The sink had taken commit 6; the engine had noted 4 only."""
    sink, told = StoreSink(), []
    sink.stored = [4, 5, 6], 6
    read: list[int] = []

    def outbox(commit: int) -> Results:
        read.append(commit)
        return {"a": result(commit)}

    delivery = deliver(sink, after=4, outbox=outbox, on_done=lambda _, commit: told.append(commit))
    wait_until(lambda: delivery.status.done == 6)
    for commit in range(3, 10):
        delivery.offer(commit, None)
    assert delivery.drain(20)
    assert (sink.stored, told[0], told[-1], read) == (([4, 5, 6, 7, 8, 9], 9), 6, 9, [7, 8, 9])


def test_a_note_that_fails_is_made_again(deliver: Callable[..., Delivery]) -> None:
    sink, told = StoreSink(), []

    def note(name: str, commit: int) -> None:
        told.append((name, commit))
        if len(told) < 3:
            raise OSError("no space left")

    delivery = deliver(sink, on_done=note)
    delivery.offer(0, {"a": result(1)})
    wait_until(lambda: delivery.status.done == 0)
    assert told == [("store", 0)] * 3
    assert sink.stored == ([1], 0)


def test_a_sink_that_is_ahead_of_the_checkpoint_takes_nothing(deliver: Callable[..., Delivery]) -> None:
    """An older copy of the checkpoint was restored: its next commits are not those that the sink has."""
    sink, told = StoreSink(), []
    sink.stored = [4, 5, 6], 6
    delivery = deliver(sink, after=3, last=5, on_done=lambda _, commit: told.append(commit))
    wait_until(lambda: delivery.status.attempts > 2)
    said = delivery.status.error
    assert said is not None
    assert "sink store has results through commit 6, and the checkpoint ends with 5" in said
    assert (sink.stored, told, delivery.status.done) == (([4, 5, 6], 6), [], 3)
    exact = deliver(sink, after=3, last=6)
    wait_until(lambda: exact.status.done == 6)


def test_nothing_is_delivered_once_the_checkpoint_may_be_anothers(deliver: Callable[..., Delivery]) -> None:
    sink, lost = StoreSink(), False

    def held() -> None:
        if lost:
            raise SinkError("the lock is lost")

    delivery = deliver(sink, held=held)
    delivery.offer(0, {"a": result(0)})
    wait_until(lambda: delivery.status.done == 0)
    lost = True
    delivery.offer(1, {"a": result(1)})
    wait_until(lambda: delivery.status.attempts > 2)
    assert (sink.stored, delivery.status.error) == (([0], 0), "the lock is lost")


def test_an_error_of_the_users_function_leaves_no_address_in_the_log(
    deliver: Callable[..., Delivery], caplog: pytest.LogCaptureFixture
) -> None:
    """Those of HTTP libraries are OSErrors, and their texts hold addresses with secrets in them."""
    errors = iter(
        [OSError("500 for url: https://hooks/s3cr3t?price=4711"), OSError(28, "No space left", "/s3cr3t")]
    )

    def call(name: str, table: pa.Table, key: str) -> None:
        for error in errors:
            raise error

    with caplog.at_level(logging.INFO, "weft.sinks"):
        delivery = deliver(ForeachSink(call))
        delivery.offer(0, {"a": result(1)})
        assert delivery.drain(20)
    fields = [record.__dict__["error"] for record in caplog.records if record.levelno == logging.WARNING]
    assert fields == ["OSError", "OSError: No space left"]
    assert "s3cr3t" not in caplog.text


def test_the_status_tells_of_an_error_and_of_its_end(
    deliver: Callable[..., Delivery], caplog: pytest.LogCaptureFixture
) -> None:
    broken = True

    def call(name: str, table: pa.Table, key: str) -> None:
        if broken:
            raise ValueError("bad row 4711\nsecond line")

    with caplog.at_level(logging.INFO, "weft.sinks"):
        delivery = deliver(ForeachSink(call), limits=Limits(first_retry_s=0.001, longest_retry_s=0.3))
        delivery.offer(0, {"a": result(1)})
        wait_until(lambda: delivery.status.attempts > 3)
        status = delivery.status
        assert (status.sink, status.done, status.offered, status.behind) == ("foreach", -1, 0, 1)
        assert status.error == "ValueError: bad row 4711"
        assert status.retry_in_s is not None
        assert status.retry_in_s <= 0.3
        broken = False
        assert delivery.drain(20)
        wait_until(lambda: "works again" in caplog.text)
    assert (delivery.status.attempts, delivery.status.error) == (0, None)
    assert delivery.status.retry_in_s is None
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert {record.__dict__["sink"] for record in warnings} == {"foreach"}
    assert warnings[-1].__dict__["attempts"] >= 4
    # What an error of the user's own function says may repeat rows.
    assert "4711" not in caplog.text


def test_waits_grow_and_stay_bounded(
    deliver: Callable[..., Delivery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.sinks.delivery.random.uniform", lambda low, high: high)
    waits: list[float] = []
    monkeypatch.setattr(
        "weft.sinks.delivery._log.warning",
        lambda *_, extra: waits.append(extra["retry_in_s"]) if "retry_in_s" in extra else None,
    )

    def fails(phase: str) -> bool:
        if phase == "resume":
            raise SinkError("the server is away")
        return False

    delivery = deliver(StoreSink(fails), limits=Limits(first_retry_s=0.002, longest_retry_s=0.01))
    wait_until(lambda: len(waits) > 5)
    assert waits[:5] == [0.002, 0.004, 0.008, 0.01, 0.01]
    assert delivery.status.error == "the server is away"


def test_a_callback_that_wants_to_exit_ends_nothing(deliver: Callable[..., Delivery]) -> None:
    calls: list[str] = []

    def call(name: str, table: pa.Table, key: str) -> None:
        calls.append(key)
        if len(calls) == 1:
            raise SystemExit

    delivery = deliver(ForeachSink(call))
    delivery.offer(0, {"a": result(1)})
    wait_until(lambda: delivery.status.done == 0)
    assert len(calls) == 2


def test_draining_flushes_even_if_nothing_was_offered_and_closing_closes(
    deliver: Callable[..., Delivery],
) -> None:
    sink = StoreSink()
    delivery = deliver(sink)
    assert delivery.drain(20)
    assert sink.flushes == 1
    delivery.close()
    assert sink.closed
