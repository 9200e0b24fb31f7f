"""One life of an engine after another over the same site, and what each came to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import sleep
from traceback import format_exc

from tests.faults.driver import EngineProcess, Victim
from tests.faults.events import want, wanted
from tests.faults.site import Site
from weft.faultpoints import Fault, What

FOLLOW = ("--follow", "--interval", "100 ms")
_START_SECONDS = 300.0
"""How long a first batch is waited for."""
_PATIENCE_SECONDS = 60.0
"""How long an engine whose Java is gone, or that was asked to stop, may take to end."""
_QUIET_SECONDS = 6.0
"""How long after the last batch a point is given up."""
_EVERY_SECONDS = 0.1
"""How often is done what is to be done meanwhile."""
_FILES = 14
"""How many files of events come in a life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a life is to end: at a point, or some time after its first batch."""

    fault: Fault | None = None
    victim: Victim = Victim.BOTH
    after_seconds: float = 0.0

    def __str__(self) -> str:
        return (
            str(self.fault) if self.fault is not None else f"{self.victim} after {self.after_seconds:.2f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What came of one life."""

    end: End
    killed: bool
    """Whether a process was killed, at the point or because the point did not come."""
    reached: bool = False
    """Whether the fault came at its point."""
    seconds: float | None
    """From the start to the first batch that was committed, if there was one."""
    problem: str = ""
    """What should not have happened, in words."""


def live(site: Site, end: End, *, meanwhile: Callable[[], None] = lambda: None) -> Life:
    """Start an engine, and end it as told; from its first batch on, do something again and again."""
    want(site.input, wanted(site.input) + _FILES)
    fault = None if end.fault is None else str(end.fault)
    ended = _ended_from_outside if end.fault is None else _ended_at_point
    with EngineProcess(site, *FOLLOW, *keeping_late(site), fault=fault) as engine:
        seconds = engine.await_batch(seconds=_START_SECONDS)
        with again_and_again(meanwhile) as problems:
            life = ended(engine, end, seconds)
    return replace(life, problem="\n".join(filter(None, (life.problem, *problems))))


def keeping_late(site: Site) -> tuple[str, str]:
    """Return the options that have late rows kept."""
    return "--late", str(site.late)


@contextmanager
def again_and_again(do: Callable[[], None]) -> Iterator[list[str]]:
    """Do something in a thread as long as the block runs; what goes wrong is in the list when it is over."""
    problems: list[str] = []
    over = threading.Event()

    def run() -> None:
        try:
            while not over.wait(_EVERY_SECONDS):
                do()
        except Exception:
            problems.append(f"what is done meanwhile failed\n{format_exc()}")

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield problems
    finally:
        over.set()
        thread.join()


def _ended_from_outside(engine: EngineProcess, end: End, seconds: float | None) -> Life:
    if seconds is None:
        return Life(end=end, killed=False, seconds=None, problem=f"no commit\n{engine.said[-2000:]}")
    sleep(end.after_seconds)
    engine.kill(end.victim)
    code = engine.wait(_PATIENCE_SECONDS)
    problem = ""
    if code is None:
        problem = f"goes on {_PATIENCE_SECONDS:.0f} s after {end.victim}"
    elif end.victim is Victim.ASKED and code != 0:
        problem = f"exit code {code} though asked to stop\n{engine.said[-2000:]}"
    elif end.victim is Victim.JVM and code == 0:
        problem = "exit code 0 though Java was killed"
    return Life(end=end, killed=end.victim is not Victim.ASKED, seconds=seconds, problem=problem)


def _ended_at_point(engine: EngineProcess, end: End, seconds: float | None) -> Life:
    assert end.fault is not None
    code = engine.await_quiet(_QUIET_SECONDS)
    reached = f"fault {end.fault}" in engine.said
    if code is None and reached and end.fault.what is What.KILL_JVM:
        code = engine.wait(_PATIENCE_SECONDS)
    problem = ""
    if code is not None and not reached:
        problem = f"exit code {code} before the fault\n{engine.said[-2000:]}"
    elif code is None and seconds is None and not reached:
        problem = f"no batch in {_START_SECONDS:.0f} s\n{engine.said[-2000:]}"
    elif reached and end.fault.what is not What.ERROR and code in (None, 0):
        problem = f"exit code {code} after the fault"
    killed = reached and end.fault.what is not What.ERROR
    if code is None:
        # The point lies on no path of this life, or its error was mended: end it anyway.
        engine.kill(Victim.BOTH)
        killed = True
    return Life(end=end, killed=killed, reached=reached, seconds=seconds, problem=problem)


def finish(
    site: Site, *options: str, mutant: str | None = None, flush: bool = True, seconds: float = 600.0
) -> tuple[int | None, str]:
    """Use up the input, close all windows unless told otherwise, and return exit code and output."""
    options = (*keeping_late(site), *(("--flush",) if flush else ()), *options)
    with EngineProcess(site, *options, plants=() if mutant is None else (mutant,)) as engine:
        return engine.wait(seconds), engine.said
