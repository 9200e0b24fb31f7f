"""How much may wait for a sink, and who waits for room."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.unit.deliveries import StoreSink, result, wait_until

from weft.sinks import Delivery, ForeachSink, Limits


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
