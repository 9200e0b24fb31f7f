"""Who is told of results: in order, by threads of their own, and whose trouble is whose."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from weft.service import observers as module
from weft.service.observers import Observers
from weft.state.clock import RowCounts
from weft.state.report import BatchReport

SECRET = 4711


def report(*queries: str, value: int = SECRET, rows: int = 1) -> BatchReport:
    """Return a report with results of some queries."""
    return BatchReport(
        counts=RowCounts(), results={query: pa.table({"value": [value] * rows}) for query in queries}
    )


class Told(list[int]):
    """Values that a function was called with."""

    def __call__(self, rows: pa.Table) -> None:
        self.append(rows["value"][0].as_py())


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def observers(notices: list[str]) -> Iterator[Observers]:
    """Return the observers of a run."""
    made = Observers()
    made.begin(None, note=lambda stream, notice: notices.append(f"{stream}: {notice}"))
    yield made
    made.end(0)


def test_the_trouble_of_one_is_not_that_of_others(
    observers: Observers, notices: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def closed(rows: pa.Table) -> None:
        raise ConnectionError(str(rows))

    one, other = Told(), Told()
    observers.subscribe("one", closed)
    observers.subscribe("one", one)
    observers.subscribe("other", other)
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            observers.tell("s", report("one"))
        assert observers.await_told(20)
    assert (one, other) == ([SECRET, SECRET], [])
    assert [(vars(record)["query"], vars(record)["kind"]) for record in caplog.records] == [
        ("one", "ConnectionError")
    ] * 2
    assert str(SECRET) not in caplog.text
    again = "it is called again with what comes next"
    assert notices == [
        f"s: a subscriber of query one failed (ConnectionError); {again}",
        f"s: a subscriber of query one failed (ConnectionError), 2 times so far; {again}",
    ]


def test_one_that_always_fails_fills_neither_notices_nor_the_log(
    observers: Observers, notices: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    calls = Told()

    def fail(rows: pa.Table) -> None:
        calls(rows)
        raise SystemExit

    observers.subscribe("one", fail)
    for number in range(200):
        observers.tell("s", report("one", value=number))
    assert observers.await_told(20)
    assert calls == list(range(200))
    assert len(notices) == len(caplog.records) == 8
    assert "128 times so far" in notices[-1]


def test_who_asked_for_a_query_that_left_is_told_what_it_gave_and_nothing_else(observers: Observers) -> None:
    told, go = Told(), threading.Event()

    def slow(rows: pa.Table) -> None:
        go.wait(20)
        told(rows)

    observers.subscribe("one", slow)
    for number in range(3):
        observers.tell("s", report("one", value=number))
    observers.forget("one")
    observers.tell("s", report("one", value=3))
    go.set()
    while len(told) < 3:
        time.sleep(0.01)
    observers.end(0)
    assert told == [0, 1, 2]


@pytest.mark.parametrize("limit", ["_CALLS", "_BYTES"])
def test_one_that_is_too_slow_misses_the_oldest_and_holds_nobody(
    observers: Observers, notices: list[str], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    rows = 1000
    monkeypatch.setattr(module, limit, 10 if limit == "_CALLS" else 10 * 8 * rows)
    told, begun, go = Told(), threading.Event(), threading.Event()

    def slow(rows: pa.Table) -> None:
        begun.set()
        go.wait(20)
        told(rows)

    observers.subscribe("one", slow)
    observers.tell("s", report("one", value=0, rows=rows))
    assert begun.wait(20)
    for number in range(1, 41):
        observers.tell("s", report("one", value=number, rows=rows))
    go.set()
    assert observers.await_told(20)
    assert told == [0, *range(31, 41)]
    assert notices[0] == (
        "s: a subscriber of query one was not called 1 times: it is too slow; sinks get all results"
    )
    assert "not called 16 times" in notices[-1]


def test_what_is_queued_at_the_end_is_told_within_a_limit(observers: Observers, notices: list[str]) -> None:
    told, go = Told(), threading.Event()

    def slow(rows: pa.Table) -> None:
        go.wait(20)
        told(rows)

    quick = Told()
    observers.subscribe("one", slow)
    observers.subscribe("one", quick)
    for number in range(5):
        observers.tell("s", report("one", value=number))
    observers.end(0.2)
    assert quick == list(range(5))
    assert notices == [
        "s: a subscriber of query one was not called 4 times: the engine stopped before it took them; sinks "
        "get all results"
    ]
    go.set()
    assert observers.await_told(20)
    # Another run begins.
    observers.tell("s", report("one", value=9))
    assert observers.await_told(20)
    assert told == [0, 9]


def test_batches_are_told_in_order_by_one_thread() -> None:
    seen: list[tuple[str, int, int]] = []

    def note(stream: str, told: BatchReport) -> None:
        seen.append((stream, told.counts.good, threading.get_ident()))

    observers = Observers()
    observers.begin(note, note=lambda stream, notice: None)
    for number in range(100):
        observers.tell("ab"[number % 2], BatchReport(counts=RowCounts(good=number), results={}))
    observers.end(20)
    assert [(stream, number) for stream, number, _ in seen] == [("ab"[n % 2], n) for n in range(100)]
    assert len({thread for _, _, thread in seen} - {threading.get_ident()}) == 1


def test_one_that_waits_for_itself_is_not_waited_for(observers: Observers) -> None:
    told: list[bool] = []

    def end(act: Callable[[], object]) -> Callable[[pa.Table], None]:
        return lambda rows: told.append(observers.is_calling() and act() is not False)

    observers.subscribe("one", end(lambda: observers.await_told(20)))
    observers.subscribe("two", end(lambda: observers.end(20)))
    assert not observers.is_calling()
    observers.tell("s", report("one"))
    assert observers.await_told(10)
    observers.tell("s", report("two"))
    assert observers.await_told(10)
    assert told == [True, True]
