"""Conditions that are planted into an engine, and are no bugs of it: it has to live with them.

As in `mutants`, patches of Weft's code are here and nowhere else.
"""

import errno
import os
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from tests.faults.patches import Undo, put, wrap

PROMPT = "prompt"
"""Results are written after each batch and snapshots taken often, so there is more to kill."""
SHORT_LEASE = "short-lease"
"""A lease is renewed often, and lost soon."""
SHORT_OF_MEMORY = "short-of-memory"
"""From some batch on, next to nothing of Java's heap is free."""
FULL_IN_A_BATCH = "full-in-a-batch"
"""A disk is full when a batch is aggregated for the first time, and has room again the next."""
VANISHING = "vanishing"
"""In some batch a file vanishes after Spark has planned to read it."""
BOTH_WAYS = "clock-both-ways"
CLOCKS = {"clock-ahead": (5.0,), "clock-behind": (-7.0,), BOTH_WAYS: (9.0, -30.0, 2.5)}
"""Clocks that jump, each some seconds after the other, to so many hours from the right time."""

GONE = "gone"
"""The folder beside the input that files are moved to when they vanish."""
LEASE_SECONDS = 9.0
"""How long a short lease lasts that is not renewed: longer than a busy machine may stall an engine."""
_RENEWED_SECONDS = 1.0
_FIRST_JUMP_SECONDS = 6.0
_NEXT_JUMP_SECONDS = 1.5
_AT_BATCH = 3
"""The batch of a life in which memory runs short, or a file vanishes."""
_FAILING_BATCH = 1
"""The batch, by Spark's number, that a disk is full in."""
_PIECES = (16 << 20, 1 << 20, 1 << 16)
"""How large the pieces are that memory is taken in, until none is left."""


def _prompt() -> list[Undo]:
    return [
        put("weft.sinks.parquet", "_BUFFERED_SECONDS", 0.0),
        put("weft.durability.checkpoint", "_SNAPSHOT_COMMITS", 8),
    ]


def _short_lease() -> list[Undo]:
    return [
        put("weft.storage.lock", "RENEWED_SECONDS", _RENEWED_SECONDS),
        put("weft.storage.lock", "_STALE_SECONDS", LEASE_SECONDS),
    ]


def _jumping(hours: Sequence[float]) -> list[Undo]:
    """Have Python's clock jump; what is measured in the meantime is not affected."""
    began, right = time.monotonic(), time.time_ns

    def shifted() -> int:
        passed = time.monotonic() - began - _FIRST_JUMP_SECONDS
        jumps = 0 if passed < 0 else min(len(hours), 1 + int(passed / _NEXT_JUMP_SECONDS))
        return right() + (int(hours[jumps - 1] * 3.6e12) if jumps else 0)

    def seconds() -> float:
        return shifted() / 1e9

    imported = ("weft.stream.pipeline", "weft.cli.live")
    return [
        put("time", "time_ns", shifted),
        put("time", "time", seconds),
        *(put(module, "time", seconds) for module in imported),
    ]


def _in_batch(do: Callable[[Any], None]) -> list[Undo]:
    """Do something once, when a batch of this life is about to be processed."""
    batches = count(1)

    def before(process: Callable[..., Any], pipeline: Any, batch: Any, *given: Any, **named: Any) -> Any:
        if next(batches) == _AT_BATCH:
            do(batch)
        return process(pipeline, batch, *given, **named)

    return [wrap("weft.stream.pipeline", "Pipeline.process", before)]


def _short_of_memory() -> list[Undo]:
    held: list[Any] = []

    def take_all(batch: Any) -> None:
        java = batch.sparkSession._jvm.java
        held.append(java.util.ArrayList())
        for size in _PIECES:
            try:
                while True:
                    held[0].add(java.nio.ByteBuffer.allocate(size))
            except Py4JJavaError:
                continue  # OutOfMemoryError: none of this size is left.

    return _in_batch(take_all)


def _vanishing() -> list[Undo]:
    def remove(batch: Any) -> None:
        from weft.spark.input.files import batch_files

        path = Path(batch_files(batch)[0].removeprefix("file:").replace("//", "/"))
        path.rename(path.parent.parent / GONE / path.name)

    return _in_batch(remove)


def _full_in_a_batch() -> list[Undo]:
    at_work: list[int] = []

    def process(original: Callable[..., Any], loop: Any, batch: Any, number: int) -> Any:
        at_work.append(number)
        return original(loop, batch, number)

    def run(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if at_work[-1:] == [_FAILING_BATCH] and at_work.count(_FAILING_BATCH) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*given, **named)

    return [
        wrap("weft.stream.loop", "Loop._process", process),
        wrap("weft.spark.job.job", "BatchJob.run", run),
    ]


CONDITIONS: dict[str, Callable[[], Sequence[Undo]]] = {
    PROMPT: _prompt,
    SHORT_LEASE: _short_lease,
    SHORT_OF_MEMORY: _short_of_memory,
    FULL_IN_A_BATCH: _full_in_a_batch,
    VANISHING: _vanishing,
    **{name: (lambda hours=hours: _jumping(hours)) for name, hours in CLOCKS.items()},
}
"""Every condition by name."""
