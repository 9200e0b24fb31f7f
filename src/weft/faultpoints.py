"""Named points of the commit protocol at which tests have the engine die.

Nothing happens at them unless the environment variable WEFT_FAULT names one, as `point:nth:what`, or several
with commas in between: the nth time that the point is reached, this process is killed (`kill`), or Spark's
Java (`kill-jvm`), or the disk is said to be full (`error`).
"""

import errno
import os
import signal
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from weft.errors import EngineError, suggestion

VARIABLE = "WEFT_FAULT"
"""The environment variable that names faults."""

POINTS = {
    "batch.begin": "Spark has offered a batch; nothing was done with it.",
    "batch.aggregated": "A batch is aggregated and its due windows are answered, in memory.",
    "commit.before": "A commit is put together; nothing of it is on the disk.",
    "commit.written": "A commit is one piece of bytes, about to be written.",
    "commit.visible": "A commit has its name; Spark has not been told.",
    "deliver.before": "A sink is about to make results visible.",
    "deliver.partly": "A sink has written the results of one query, and those of others perhaps not.",
    "deliver.after": "A sink has made results visible; nobody has noted it.",
    "delivered.noted": "It is noted how far a sink has come.",
    "hadoop.rename": "A file on a Hadoop file system is written, and about to get its name.",
    "snapshot.before": "Commits are about to be folded into a snapshot.",
    "snapshot.visible": "A snapshot has its name; the commits in it are still there.",
    "prune.before": "Files that nothing needs any more are about to be removed.",
    "prune.after": "Files that nothing needed any more are gone.",
    "registry.before": "Queries have changed in memory; nothing of it is on the disk.",
    "registry.visible": "A change of queries is on the disk.",
    "request.carried_out": "A request from another terminal is carried out; nobody has been told.",
    "request.answered": "A request is answered, and removed.",
    "spark.returning": "A batch is done; Spark is about to note it in its own commit file.",
}
"""Every point, and what is true there."""

_JVM_SECONDS = 10.0
"""How long a killed Java is waited for."""


class What(StrEnum):
    """What happens at a point."""

    KILL = "kill"
    KILL_JVM = "kill-jvm"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that happens the nth time a point is reached."""

    point: str
    nth: int
    what: What

    def __str__(self) -> str:
        return f"{self.point}:{self.nth}:{self.what}"


class _Armed:
    """Faults to come, and how often each point was reached."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        self._faults = faults
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def reach(self, point: str) -> None:
        with self._lock:
            count = self._counts[point] = self._counts.get(point, 0) + 1
        for fault in self._faults:
            if fault.point == point and fault.nth == count:
                _carry_out(fault)


def parse(text: str) -> tuple[Fault, ...]:
    """Return the faults that a value of WEFT_FAULT names.

    >>> [str(fault) for fault in parse("commit.written:2:kill,deliver.after:1:error")]
    ['commit.written:2:kill', 'deliver.after:1:error']
    """
    return tuple(_parsed(part.strip()) for part in text.split(",") if part.strip())


def _parsed(text: str) -> Fault:
    point, _, rest = text.partition(":")
    nth, _, what = rest.partition(":")
    if point not in POINTS:
        raise EngineError(f'{VARIABLE} "{text}": unknown point "{point}"{suggestion(point, POINTS)}')
    if not nth.isdecimal() or int(nth) < 1 or what not in set(What):
        raise EngineError(f'{VARIABLE} "{text}" is not point:nth:what, such as {point}:1:kill')
    return Fault(point=point, nth=int(nth), what=What(what))


def arm(text: str | None) -> None:
    """Have the named faults happen from now on, with counts from zero; None: no faults."""
    global _armed
    _armed = _Armed(parse(text)) if text else None


def reach(point: str) -> None:
    """Say that a point is reached."""
    if _armed is not None:
        _armed.reach(point)


_armed: _Armed | None = None
arm(os.environ.get(VARIABLE))


def _carry_out(fault: Fault) -> None:
    os.write(2, f"fault {fault}\n".encode())
    if fault.what is What.KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.what is What.KILL_JVM:
        _kill_java()
    else:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (fault {fault})")


def _kill_java() -> None:
    """Kill the Java processes below this one, and wait until they are dead."""
    children = java_below(os.getpid())
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _JVM_SECONDS
    while any(_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.01)


def java_below(parent: int) -> list[int]:
    """Return the Java processes that a process has started, itself or through others (Linux only)."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        pid = int(path.parent.name)
        stat = _stat(pid)
        if stat is not None:
            names[pid], state, parents[pid] = stat
            if state == "Z":
                del parents[pid]
    found, wanted = [], {parent}
    while below := {pid for pid, above in parents.items() if above in wanted}:
        found += [pid for pid in below if names[pid] == "java"]
        wanted = below
    return sorted(found)


def _alive(pid: int) -> bool:
    stat = _stat(pid)
    return stat is not None and stat[1] not in "ZX"


def _stat(pid: int) -> tuple[str, str, int] | None:
    """Return a process's name, state and parent, or None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent = rest.split()[:2]
    return name, state, int(parent)
