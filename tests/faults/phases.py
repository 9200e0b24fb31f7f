"""What becomes of results when a sink fails, or its process dies, in the midst of a delivery."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.faults.conditions import PROMPT
from tests.faults.driver import ROOT
from tests.faults.mutants import planted
from tests.faults.outlet import COMMITS, deliver_all, opened, outbox, sink_of, wait_until
from weft import faultpoints
from weft.sinks import Delivery, Limits, MemorySink

_LEFT_ALONE = Limits(first_retry_s=600.0, longest_retry_s=600.0)
"""After an error nothing is tried again unless someone asks for it."""


def fail_once(kind: str, place: str, notes: Path, point: str, *, nth: int, restart: bool) -> None:
    """Have an error come at a point, see that no other sink waits, and mend it, with a restart or without."""
    faultpoints.arm(f"{point}:{nth}:error")
    try:
        with planted(PROMPT):
            failing = opened(sink_of(kind, place), notes, limits=_LEFT_ALONE)
            wait_until(lambda: failing.status.error is not None)
    finally:
        faultpoints.arm(None)
    assert "No space left on device" in str(failing.status.error)
    assert (failing.status.attempts, failing.status.behind > 0) == (1, True)
    _not_held_back()
    if not restart:
        assert failing.drain(30), failing.status
        assert (failing.status.error, failing.status.behind) == (None, 0)
    failing.close()
    deliver_all(sink_of(kind, place), notes)


def _not_held_back() -> None:
    """See that another sink gets all results meanwhile."""
    other = MemorySink()
    delivery = Delivery(other)
    for commit in range(COMMITS):
        delivery.offer(commit, outbox(commit))
    assert delivery.drain(30)
    delivery.close()
    assert other.done == COMMITS - 1


def kill_and_go_on(kind: str, place: str, notes: Path, point: str, *, nth: int) -> None:
    """Have a process die at a point of a delivery, and another deliver the rest."""
    fault = f"{point}:{nth}:kill"
    died = subprocess.run(
        [sys.executable, "-m", "tests.faults.outlet", kind, place, str(notes)],
        cwd=ROOT, env={**os.environ, faultpoints.VARIABLE: fault}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (died.returncode, f"fault {fault}" in died.stderr) == (-signal.SIGKILL, True), died.stderr
    deliver_all(sink_of(kind, place), notes)
