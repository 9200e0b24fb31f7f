"""A disk that is full for a while: where commits go, where results go, or where Spark keeps its own."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.disk import filled
from tests.faults.driver import EngineProcess
from tests.faults.ground import PATIENCE_SECONDS, START_SECONDS, Ground, ended_as_asked
from tests.faults.mishap import Befall, Came, Outcome, bad, stopped

_HELD_SECONDS = 12.0
"""How long a disk stays full at most: longer than a batch takes, and an engine to notice."""
_ROOM = (0, 0, 4_096, 65_536)
"""How many bytes are left on it."""

Folder = Callable[[Ground], Path]
FOLDERS: dict[str, Folder] = {
    "checkpoint": lambda ground: ground.site.checkpoint,
    "output": lambda ground: ground.site.out,
    "scratch": lambda ground: ground.scratch,
    "temporary": lambda ground: ground.temporary,
}
"""Every folder that can be on a disk of its own."""


def full(name: str) -> Befall:
    """Return the mishap of a disk that is full from some batch on."""

    def befall(ground: Ground, chance: random.Random) -> Came:
        kind, room = f"full disk: {name}", chance.choice(_ROOM)
        with ground.start() as engine:
            if engine.await_batch(seconds=START_SECONDS) is None:
                return bad(kind, "no batch is committed before the disk is full", engine.said)
            engine.wait(chance.uniform(0.0, 1.0))
            with no_room(FOLDERS[name](ground), mounted=ground.mounted, but_bytes=room):
                ground.more_events()
                code = engine.wait(_HELD_SECONDS)
            return _outcome(kind, name, engine, code)

    return befall


def _outcome(kind: str, name: str, engine: EngineProcess, code: int | None) -> Came:
    if code is None:
        # An engine that found out only just before there was room again may end yet.
        engine.await_quiet(2.0)
        code = engine.wait(0.0)
    if code is not None:
        return stopped(kind, code, engine.said)
    if problem := ended_as_asked(engine):
        code = engine.wait(PATIENCE_SECONDS)
        return stopped(kind, code, engine.said) if code == 1 else bad(kind, problem)
    return Came(kind=kind, outcome=Outcome.WAITED if name == "output" else Outcome.UNHARMED)


@contextmanager
def no_room(folder: Path, *, mounted: bool, but_bytes: int = 0) -> Iterator[None]:
    """Leave only so much room in a folder; where nobody may mount a disk, nothing can be made in it."""
    if mounted:
        with filled(folder, but_bytes=but_bytes):
            yield
        return
    mode = folder.stat().st_mode
    folder.chmod(0o500)
    try:
        yield
    finally:
        folder.chmod(mode)


FULL_DISKS: dict[str, Befall] = {f"full disk: {name}": full(name) for name in FOLDERS}
"""A mishap for every folder."""
