"""Files of events that vanish, are cut off or rewritten after Spark listed them, or arrive out of order.

A batch that is killed when it begins is listed and not read: what happens to its files then is exactly known.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults import aside, damage
from tests.faults.conditions import GONE, VANISHING
from tests.faults.events import path_of, wanted
from tests.faults.ground import PATIENCE_SECONDS, START_SECONDS, Ground, ended_as_asked
from tests.faults.mishap import Befall, Came, Outcome, bad
from tests.faults.site import Spoilt

_SWAPPED = 3
"""How many pairs of files come in the other order."""


def _vanish(path: Path, chance: random.Random) -> None:
    path.unlink()


def _cut_off(path: Path, chance: random.Random) -> None:
    damage.cut(path)


def _rewrite(path: Path, chance: random.Random) -> None:
    """Leave about half of a file's rows: all others were withdrawn."""
    rows = pq.read_table(path)
    unfinished = path.with_name(f".{path.name}")
    pq.write_table(rows.filter(pa.array([chance.random() < 0.5 for _ in range(rows.num_rows)])), unfinished)
    unfinished.replace(path)


SPOIL: dict[Spoilt, Callable[[Path, random.Random], None]] = {
    Spoilt.VANISHED: _vanish,
    Spoilt.CUT_OFF: _cut_off,
    Spoilt.REWRITTEN: _rewrite,
}
"""How a file is spoilt."""


def spoil(how: Spoilt) -> Befall:
    """Return the mishap of a file that is not any more what Spark has listed."""

    def befall(ground: Ground, chance: random.Random) -> Came:
        kind, site = f"file {how}", ground.site
        fault = f"batch.begin:{chance.randint(1, 4)}:kill"
        with ground.start(fault=fault) as engine:
            if engine.wait(START_SECONDS) is None or fault not in engine.said:
                return bad(kind, "the engine was to be killed when a batch begins", engine.said)
        listed = site.listed_ahead()
        if not listed:
            return bad(kind, "Spark has listed no file for the batch that was killed")
        name = chance.choice(listed)
        SPOIL[how](site.input / name, chance)
        site.set_spoilt({**site.spoilt(), name: how})
        return _named(ground, kind, ground.live())

    return befall


def vanish_at_work(ground: Ground, chance: random.Random) -> Came:
    """Have a file vanish between the plan of a batch and its reading."""
    kind, site = "file vanished at work", ground.site
    gone = site.input.parent / GONE
    gone.mkdir(exist_ok=True)
    with ground.start(plants=[VANISHING]) as engine:
        if engine.await_batch(seconds=START_SECONDS) is None:
            return bad(kind, "no batch is committed", engine.said)
        code = engine.await_quiet(5.0)
        problem = ended_as_asked(engine) if code is None else f"it ended with {code}\n{engine.said[-2000:]}"
        engine.wait(PATIENCE_SECONDS)
    names = [path.name for path in gone.iterdir()]
    if not names:
        return bad(kind, "no file has vanished")
    site.set_spoilt({**site.spoilt(), **dict.fromkeys(names, Spoilt.VANISHED)})
    return _named(ground, kind, problem)


def _named(ground: Ground, kind: str, problem: str) -> Came:
    """See that every file that was spoilt is named, and nothing else went wrong."""
    verdict = aside.judge_files(ground.site.spoilt(), ground.site.quarantine)
    problems = [part for part in (problem, "" if verdict.exact else str(verdict)) if part]
    return bad(kind, "\n".join(problems)) if problems else Came(kind=kind, outcome=Outcome.NAMED)


def out_of_order(ground: Ground, chance: random.Random) -> Came:
    """Have neighbours among files that nobody has read come in the other order, as far as times tell."""
    kind, first = "files out of order", wanted(ground.site.input)
    ground.more_events()
    numbers = list(range(first, wanted(ground.site.input) - 1, 2))
    for number in chance.sample(numbers, min(_SWAPPED, len(numbers))):
        swap(ground.site.input, number)
    problem = ground.live()
    return bad(kind, problem) if problem else Came(kind=kind, outcome=Outcome.UNHARMED)


def swap(folder: Path, number: int) -> None:
    """Have a file and the next one change places, as far as their times tell."""
    pair = [path_of(folder, one) for one in (number, number + 1)]
    times = [path.stat().st_mtime_ns for path in pair]
    for path, moment in zip(pair, reversed(times), strict=True):
        os.utime(path, ns=(moment, moment))


MISCHIEF: dict[str, Befall] = {
    **{f"file {how}": spoil(how) for how in Spoilt},
    "file vanished at work": vanish_at_work,
    "files out of order": out_of_order,
}
"""Every mishap of files."""
