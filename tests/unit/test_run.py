"""A run holds its checkpoint from beginning to end, and not a moment longer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.errors import EngineError
from weft.limits import DEFAULTS
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.runtime import run as run_module
from weft.runtime.loop import Trigger
from weft.runtime.run import Run, RunOptions
from weft.spark.declarations import Declarations
from weft.storage import LocalFolder
from weft.storage.lock import holder


def made(checkpoint: Path) -> Run:
    """Begin a run, without streams, that needs no Spark."""
    options = RunOptions(
        slicing=Slicing.PAIRED, sharing=Sharing.AUTO, limits=DEFAULTS, out=None, checkpoint=checkpoint,
        sinks=(), keep=False, trigger=Trigger(), idle_seconds=None,
    )  # fmt: skip
    none: Any = None
    return Run(Declarations(none), options, bind=none, tell=none, on_batch=None, control=none)


@pytest.mark.parametrize("fails", ["_identity", "Mailbox", "Requests"])
def test_a_run_that_cannot_begin_lets_go_of_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, fails, full)
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


class Begun:
    """A stream that has begun and can be stopped."""

    def __init__(self) -> None:
        self.loop = self
        self.stopped = 0

    def stop(self) -> bool:
        self.stopped += 1
        return True


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
        run.add(query)
    assert (run.streams, run.known(), begun.stopped) == ({}, [], 1)
    run.stop(flush=False)
