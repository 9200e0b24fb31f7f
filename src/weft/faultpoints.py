"""Named points of the commit protocol at which tests make the engine fail.

Nothing happens at them unless the environment variable WEFT_FAULT lists faults, as `point:nth:what`
separated by commas: the nth time that the point is reached, this process is killed (`kill`), or Spark's Java
(`kill-jvm`), or an error says that the disk is full (`error`).
"""

import errno
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from weft.errors import EngineError, suggestion

VARIABLE = "WEFT_FAULT"
"""The environment variable that lists faults."""

POINTS = {
    "batch.begin": "Spark has offered a batch; it was not processed yet.",
    "batch.aggregated": "A batch is aggregated and its due windows are answered, in memory.",
    "commit.before": "A commit is assembled in memory.",
    "commit.written": "A commit is encoded, and about to be written.",
    "commit.visible": "A commit has its final name; Spark has not noted the batch.",
    "deliver.before": "A sink is about to make results visible.",
    "deliver.partly": "A sink has written the results of one query, but perhaps not those of others.",
    "deliver.after": "A sink has made results visible; its progress is not noted.",
    "delivered.noted": "The progress of a sink is noted.",
    "hadoop.rename": "A file on a Hadoop file system is written, and about to be renamed.",
    "snapshot.before": "Commits are about to be folded into a snapshot.",
    "snapshot.visible": "A snapshot has its final name; the commits in it still exist.",
    "prune.before": "Obsolete files are about to be removed.",
    "prune.after": "Obsolete files are removed.",
    "registry.before": "Queries have changed in memory only.",
    "registry.visible": "A change of queries is durable.",
    "request.carried_out": "A request from another terminal is carried out, but not answered.",
    "request.answered": "A request is answered, and removed.",
    "spark.returning": "A batch is processed; Spark is about to note it in its own commit file.",
}
"""Every point, and the state there."""

_JVM_SECONDS = 10.0
"""How long to wait for a killed Java to end."""


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


def parse(text: str) -> tuple[Fault, ...]:
    """Return the faults that a value of WEFT_FAULT lists.

    >>> [str(fault) for fault in parse("commit.written:2:kill,deliver.after:1:error")]
    ['commit.written:2:kill', 'deliver.after:1:error']
    """
    faults = []
    for part in filter(None, map(str.strip, text.split(","))):
        point, _, rest = part.partition(":")
        nth, _, what = rest.partition(":")
        if point not in POINTS:
            raise EngineError(f'{VARIABLE} "{part}": unknown point "{point}"{suggestion(point, POINTS)}')
        if not nth.isdecimal() or int(nth) < 1 or what not in set(What):
            raise EngineError(f'{VARIABLE} "{part}" is not point:nth:what, such as {point}:1:kill')
        faults.append(Fault(point=point, nth=int(nth), what=What(what)))
    return tuple(faults)


def arm(text: str | None) -> None:
    """Make the listed faults happen from now on, with counts from zero; None: no faults."""
    global _armed
    _armed = parse(text or "")
    _counts.clear()


def reach(point: str) -> None:
    """Fail if a fault is due at a point."""
    if not _armed:
        return
    with _lock:
        _counts[point] += 1
        count = _counts[point]
    for fault in _armed:
        if fault.point != point or fault.nth != count:
            continue
        os.write(2, f"fault {fault}\n".encode())
        if fault.what is What.ERROR:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (fault {fault})")
        killed = java_below(os.getpid()) if fault.what is What.KILL_JVM else [os.getpid()]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + _JVM_SECONDS
        while any((_stat(pid) or ("", "X"))[1] not in "ZX" for pid in killed) and time.monotonic() < deadline:
            time.sleep(0.01)


_armed: tuple[Fault, ...] = ()
_counts: Counter[str] = Counter()
"""How often each point was reached."""
_lock = threading.Lock()
arm(os.environ.get(VARIABLE))


def java_below(parent: int) -> list[int]:
    """Return the Java processes among the descendants of a process (Linux only)."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        pid = int(path.parent.name)
        stat = _stat(pid)
        if stat is not None and stat[1] != "Z":
            names[pid], _, parents[pid] = stat
    java, generation = [], {parent}
    while generation := {pid for pid, above in parents.items() if above in generation}:
        java += [pid for pid in generation if names[pid] == "java"]
    return sorted(java)


def _stat(pid: int) -> tuple[str, str, int] | None:
    """Return a process's name, state and parent, or None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    state, parent = rest.split()[:2]
    return name, state, int(parent)
