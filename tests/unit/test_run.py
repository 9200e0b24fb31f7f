"""A run holds its checkpoint from beginning to end, and not a moment longer."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.pipeline_samples import plain_pipeline

from weft.durability.checkpoint import Checkpoint
from weft.durability.ledger import Ledger
from weft.durability.past import Past
from weft.durability.places import claim_folder, find_folder
from weft.durability.registry import Registry
from weft.durability.rejoining import Rejoined, check_names
from weft.errors import EngineError
from weft.limits import DEFAULTS
from weft.notices import Notice
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.service import execution as execution_module
from weft.service.execution import Execution
from weft.service.observers import Observers
from weft.service.options import RunOptions
from weft.service.requests import reply_of
from weft.service.roster import Roster
from weft.service.running_stream import RunningStream
from weft.sinks import Delivery, ForeachSink, Limits, MemorySink
from weft.sinks.declared import given_sink
from weft.spark.input.declarations import Declarations
from weft.state.clock import RowCounts
from weft.state.report import BatchReport
from weft.storage import LocalFolder
from weft.storage.lock import holder
from weft.storage.mailbox import Mailbox, Reply, Request
from weft.stream import loop as loop_module
from weft.stream.loop import Trigger


def made(checkpoint: Path | None, *sinks: Any, follow: bool = False, control: Any = None) -> Execution:
    """Begin a run, without streams, that needs no Spark."""
    options = RunOptions(
        slicing=Slicing.PAIRED, sharing=Sharing.AUTO, limits=DEFAULTS, checkpoint=checkpoint,
        sinks=tuple(map(given_sink, sinks)), keep=False, trigger=Trigger(follow=follow), idle_seconds=None,
    )  # fmt: skip
    none: Any = None
    return Execution(
        Declarations(none), options, bind=none, roster=Roster(none), observers=Observers(), on_batch=None,
        control=control,
    )  # fmt: skip


@pytest.mark.parametrize("fails", ["identity", "Mailbox", "Requests"])
def test_a_run_that_cannot_begin_lets_go_of_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(execution_module, fails, full)
        problem = r"checkpoint .* cannot be opened: a file cannot be read or written \(no space left\); free"
        with pytest.raises(EngineError, match=problem):
            made(tmp_path)
    assert holder(LocalFolder(tmp_path)) is None
    run = made(tmp_path)
    assert holder(LocalFolder(tmp_path)) is not None
    run.stop(flush=False)
    assert holder(LocalFolder(tmp_path)) is None


class Stuck:
    """A stream whose loop cannot stop as it should."""

    def __init__(self) -> None:
        self.loop = self
        self.stopped = 0

    def stop(self, *, flush: bool) -> bool:
        self.stopped += 1
        raise OSError("no space left")


def test_the_trouble_of_one_stream_leaves_no_other_running(tmp_path: Path) -> None:
    run = made(tmp_path)
    streams: Any = {"one": Stuck(), "other": Stuck()}
    run.streams = streams
    with pytest.raises(OSError, match="no space left"):
        run.stop(flush=True)
    assert [one.stopped for one in streams.values()] == [1, 1]
    assert (run.active, holder(LocalFolder(tmp_path))) == (False, None)


class Refusing:
    """Notes what is asked for, and refuses what concerns one query."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def before(self, request: Request) -> str | None:
        return None

    def carry_out(self, request: Request) -> Reply:
        name = request.given["name"]
        self.did.append(f"{request.do} {name}")
        if name == "bad":
            raise EngineError("unknown stream nowhere")
        return Reply(ok=True, said="done")

    def change(self, requests: Sequence[Request], *, halted: Callable[[], bool]) -> list[Reply | None]:
        return [reply_of(one, self.carry_out) for one in requests]


def test_what_was_asked_for_before_a_start_is_carried_out_before_the_first_batch(tmp_path: Path) -> None:
    mailbox, control = Mailbox(LocalFolder(tmp_path)), Refusing()
    for do, name in (("pause", "slow"), ("add", "bad")):
        mailbox.ask(do, name=name)
    run = made(tmp_path, control=control)
    begun = SimpleNamespace(
        sound=True,
        notices=(notices := list[Notice]()),
        note=notices.extend,
        ledger=SimpleNamespace(await_sinks=lambda seconds: None),
        loop=SimpleNamespace(start=lambda _: control.did.append("start")),
    )
    streams: Any = {"trades": begun}
    run.streams = streams
    run.begin()
    assert control.did == ["pause slow", "add bad", "start"]
    [notice] = begun.notices
    assert notice.words == "add bad was refused: unknown stream nowhere"
    assert notice.error_kind == "EngineError"
    run.streams = {}
    run.stop(flush=False)


def test_an_engine_without_queries_waits_for_some_if_it_follows() -> None:
    run = made(None, follow=True)
    began = monotonic()
    assert run.wait(0.3) is False
    assert monotonic() - began >= 0.3
    run.stop_asked.set()
    assert run.wait() is True
    assert made(None).wait() is True


def test_an_engine_that_lost_its_checkpoint_says_so(tmp_path: Path) -> None:
    run = made(tmp_path)
    run._lost(EngineError("the engine stops: process 7 on elsewhere has taken over checkpoint x"))
    with pytest.raises(EngineError, match="process 7 on elsewhere has taken over"):
        run.wait()
    run.stop(flush=False)


class Begun:
    """A stream that has begun and can be given up."""

    def __init__(self) -> None:
        self.loop = self
        self.abandoned = 0

    def abandon(self) -> None:
        self.abandoned += 1


def test_a_stream_that_a_query_cannot_start_was_never_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, begun = made(tmp_path), Begun()

    def full(name: str, *_: object, **__: object) -> None:
        run.streams[name] = begun  # type: ignore[assignment]
        raise OSError("no space left")

    monkeypatch.setattr(run, "_start", full)
    query: Any = SimpleNamespace(name="q", stream="trades")
    with pytest.raises(EngineError, match=r"stream trades cannot start: .* \(no space left\); free space"):
        run.start_with(query)
    assert (run.streams, run._roster.streams(), begun.abandoned) == ({}, {}, 1)
    run.stop(flush=False)


def stream(run: Execution, name: str, checkpoint: Checkpoint | None = None) -> RunningStream:
    """Begin a stream without rows, as far as it needs no Spark."""
    none: Any = None
    pipeline: Any = SimpleNamespace(queries={})
    run.streams[name] = run._running_stream(name, none, pipeline, Registry(), Past(checkpoint=checkpoint), [])
    return run.streams[name]


def test_each_stream_has_a_sink_of_its_own(tmp_path: Path) -> None:
    """The commits of both count from zero."""
    run = made(None, MemorySink)
    streams = {name: stream(run, name) for name in ("trades", "quotes")}
    for (name, live), last in zip(streams.items(), (5, 3), strict=True):
        (delivery,) = live.ledger.deliveries
        for commit in range(last + 1):
            delivery.offer(commit, {name: pa.table({"x": [commit]})})
        assert delivery.drain(20)
    for (name, live), last in zip(streams.items(), (5, 3), strict=True):
        sink: Any = live.ledger.deliveries[0].sink
        assert sink.results(name)["x"].to_pylist() == list(range(last + 1))
    run.stop(flush=False)


@pytest.mark.parametrize("made_anew", [False, True], ids=["given", "made"])
def test_one_sink_for_two_streams_is_refused(made_anew: bool) -> None:
    sink = MemorySink(name="mine")
    run = made(None, (lambda: sink) if made_anew else sink)
    stream(run, "trades")
    problem = (
        r"sink mine serves another stream already, and a sink takes the results of one only; give a function "
        r"that makes one for each stream: sinks=\[lambda: MemorySink\(…\)\]"
    )
    with pytest.raises(EngineError, match=problem):
        stream(run, "quotes")
    run.stop(flush=False)
    assert list(run.streams) == ["trades"]


def test_sinks_of_one_name_are_refused_where_a_checkpoint_knows_them_by_it(tmp_path: Path) -> None:
    run = made(tmp_path, MemorySink, MemorySink, lambda: MemorySink(name="other"))
    with pytest.raises(EngineError, match=r"2 sinks are named memory, and a checkpoint knows .*: name=…"):
        stream(run, "trades", Checkpoint(LocalFolder(tmp_path / "trades")))
    run.stop(flush=False)


# Sinks that are away.

SOME = {"q": pa.table({"x": [1]})}
"""Results."""


def away(name: str, rows: pa.Table, key: str) -> None:
    raise ConnectionError("the server is away")


class Busy:
    """A request under way that waits for a batch, as one does that changes queries."""

    def __init__(self, batch: threading.Thread) -> None:
        self._batch = batch
        self.waited = False

    def close(self) -> None:
        self._batch.join(20)
        self.waited = not self._batch.is_alive()


def suppressed(call: Callable[..., None], *given: object) -> None:
    with suppress(Exception):
        call(*given)


@pytest.mark.parametrize("durable", [False, True])
def test_a_stop_ends_a_wait_for_a_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    monkeypatch.setattr(loop_module, "_STOP_SECONDS", 0.1)
    run = made(tmp_path if durable else None, lambda: ForeachSink(away))
    live = stream(run, "trades", Checkpoint(LocalFolder(tmp_path / "trades")) if durable else None)
    (delivery,) = live.ledger.deliveries

    for commit in range(Limits().commits):
        delivery.offer(commit, SOME)
    frame: Any = None
    batch = threading.Thread(target=suppressed, args=(live.loop._handle, frame, 0), daemon=True)
    requests: Any = Busy(batch)
    run._requests = requests
    batch.start()
    deadline = monotonic() + 20
    batch.join(0.3)
    assert batch.is_alive()
    # Meanwhile queries come and go, and a stop is heard.
    assert live.loop._lock.acquire(timeout=5)
    live.loop._lock.release()
    live.loop._stopping.set()
    run.stop(flush=False)
    assert requests.waited
    assert monotonic() < deadline
    assert delivery.status.behind == Limits().commits


@pytest.fixture
def behind() -> Iterator[Delivery]:
    """A delivery to a sink that is away, with less room than waits for it."""
    stop = threading.Event()
    delivery = Delivery(ForeachSink(away), outbox=lambda _: SOME, stop=stop, limits=Limits(commits=2))
    yield delivery
    stop.set()
    delivery.close()


def test_only_batches_wait_for_a_sink_that_is_away(behind: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start with more than may wait, and changes of queries, do not."""
    pipeline, done = plain_pipeline(monkeypatch), list[str]()
    last = SimpleNamespace(number=3, batch=3, position="", clock=pipeline.clock)
    recovered: Any = SimpleNamespace(last=last)
    report = BatchReport(counts=RowCounts(), results=SOME)

    def start() -> None:
        ledger = Ledger(registry=Registry(), recovered=recovered, deliveries=[behind])
        done.append("started")
        ledger.commit(pipeline.outcome(report))
        done.append("changed")
        ledger.await_room()
        done.append("room")

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(0.5)
    assert (thread.is_alive(), done, behind.status.behind) == (True, ["started", "changed"], 5)
    behind.close()
    thread.join(20)
    assert done[-1] == "room"


def test_a_stream_that_cannot_start_with_a_query_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked is told that it failed, and the next start must not bring it back."""
    run = made(tmp_path)
    query: Any = SimpleNamespace(name="q", stream="trades")

    def start(name: str, queries: object, *, live: bool) -> None:
        claim_folder(LocalFolder(tmp_path / name), name, checkpoint=run.origin)
        (tmp_path / name / "commits").mkdir(parents=True)
        raise EngineError("stream trades cannot start")

    monkeypatch.setattr(run, "start", start)
    with pytest.raises(EngineError, match="cannot start"):
        run.start_with(query)
    assert not (tmp_path / "trades").exists()
    # What was there before stays.
    (tmp_path / "trades" / "snapshots").mkdir(parents=True)
    with pytest.raises(EngineError, match="cannot start"):
        run.start_with(query)
    assert (tmp_path / "trades" / "snapshots").exists()
    run.stop(flush=False)


@pytest.mark.parametrize("mark", [None, "another"])
def test_a_start_that_fails_removes_nothing_that_it_did_not_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mark: str | None
) -> None:
    run = made(tmp_path)
    query: Any = SimpleNamespace(name="q", stream="trades")

    def start(name: str, queries: object, *, live: bool) -> None:
        # Someone else puts it there meanwhile.
        LocalFolder(tmp_path / name).write("precious", b"1")
        if mark is not None:
            claim_folder(LocalFolder(tmp_path / name), name, checkpoint=mark)
        raise EngineError("stream trades cannot start")

    monkeypatch.setattr(run, "start", start)
    with pytest.raises(EngineError, match="stream trades cannot start"):
        run.start_with(query)
    assert (tmp_path / "trades" / "precious").read_bytes() == b"1"
    (told,) = [record for record in caplog.records if "leaves its folder" in record.message]
    assert f"checkpoint {run.origin} did not make it" in told.problem
    run.stop(flush=False)


def test_a_start_that_fails_keeps_a_history_under_an_older_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path)
    query: Any = SimpleNamespace(name="q", stream="_trades")
    (tmp_path / "_trades" / "commits").mkdir(parents=True)
    (tmp_path / "_trades" / "commits" / "000000000").write_bytes(b"1")

    def start(name: str, queries: object, *, live: bool) -> None:
        claim_folder(find_folder(LocalFolder(tmp_path), name), name, checkpoint=run.origin)
        raise EngineError("stream _trades cannot start")

    monkeypatch.setattr(run, "start", start)
    with pytest.raises(EngineError, match="cannot start"):
        run.start_with(query)
    assert (tmp_path / "%5Ftrades" / "commits" / "000000000").read_bytes() == b"1"
    run.stop(flush=False)


def test_two_streams_have_no_query_of_one_name(tmp_path: Path) -> None:
    found = Rejoined(running={}, new=[], resting={"q": None}, replaced={}, unbound=[], notices=[])  # type: ignore[dict-item]
    check_names("b", found, {"q": "b", "p": "a"})
    with pytest.raises(EngineError, match='two queries "q", one of stream a and one of stream b'):
        check_names("b", found, {"q": "a"})


def test_a_lock_is_given_up_though_java_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(tmp_path)

    def gone() -> None:
        raise ConnectionRefusedError("Java is gone")

    monkeypatch.setattr(run._declared.tables, "release", gone)
    with pytest.raises(ConnectionRefusedError):
        run.stop(flush=False)
    assert (run.active, holder(LocalFolder(tmp_path))) == (False, None)
