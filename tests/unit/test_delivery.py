"""Delivery: everything arrives once and in order, whatever a sink does, and only that sink waits."""

import logging
import threading
from collections.abc import Callable
from time import monotonic

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.deliveries import PatientSink, StoreSink, result, wait_until

from weft.errors import DamagedFile, EngineError, Fenced
from weft.sinks import Delivery, ForeachSink, Limits, MemorySink, Results, SinkError


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


def test_a_patient_sink_flushes_once_a_drain_has_begun(deliver: Callable[..., Delivery]) -> None:
    sink = PatientSink(patience=1_000)
    delivery = deliver(sink)
    delivery.offer(0, {"a": result(0)})
    assert delivery.begin_drain()
    wait_until(lambda: delivery.status.done == 0)
    assert delivery.drain(20)


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
    with pytest.raises(
        Fenced, match="sink store has results through commit 6, and the checkpoint ended with 5"
    ):
        delivery.await_begun(20)
    # And so it stays, whatever the checkpoint comes to.
    for commit in range(6, 9):
        delivery.offer(commit, {"a": result(commit)})
    assert not delivery.drain(0.05)
    with pytest.raises(Fenced):
        delivery.await_room()
    assert (sink.stored, told, delivery.status.done) == (([4, 5, 6], 6), [], 3)
    exact = deliver(sink, after=3, last=6)
    wait_until(lambda: exact.status.done == 6)


def test_a_sink_that_cannot_tell_who_delivered_last_takes_nothing(deliver: Callable[..., Delivery]) -> None:
    class Damaged(StoreSink):
        def resume(self, after: int, *, origin: str = "") -> None:
            raise DamagedFile("claim.json is damaged")

    told = list[Fenced]()
    delivery = deliver(Damaged(), on_fenced=told.append)
    with pytest.raises(Fenced, match=r"sink store takes nothing: claim\.json is damaged") as refused:
        delivery.await_begun(20)
    wait_until(lambda: told == [refused.value])
    assert delivery.status.attempts == 0


def test_nothing_is_delivered_once_the_checkpoint_may_be_anothers(deliver: Callable[..., Delivery]) -> None:
    sink, lost = StoreSink(), False

    def held() -> None:
        if lost:
            raise EngineError("the lock is lost")

    delivery = deliver(sink, held=held)
    delivery.offer(0, {"a": result(0)})
    wait_until(lambda: delivery.status.done == 0)
    lost = True
    delivery.offer(1, {"a": result(1)})
    wait_until(lambda: delivery.status.attempts > 2)
    assert (sink.stored, delivery.status.error) == (([0], 0), "the lock is lost")
    began = monotonic()
    assert not delivery.drain(20)
    assert monotonic() - began < 5


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
