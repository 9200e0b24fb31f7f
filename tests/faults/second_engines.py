"""Two engines where one should be: a lease that was lost, and a copy of a checkpoint beside the original."""

import random
import shutil
import signal
from dataclasses import replace
from time import monotonic

from tests.faults.conditions import LEASE_SECONDS, SHORT_LEASE
from tests.faults.driver import EngineProcess
from tests.faults.ground import PATIENCE_SECONDS, START_SECONDS, Ground, ended_as_asked, put_in_place
from tests.faults.mishap import Befall, Came, bad, stopped

_POLL_SECONDS = 0.1


def lost_lease(ground: Ground, chance: random.Random) -> Came:
    """Have an engine be stopped for so long that another takes over, and then go on: it ends."""
    kind, site = "lost lease", replace(ground.site, uri=False, leased=True)
    # Engines before this one have had no lease, and their file would be read as one.
    (site.checkpoint / "lock.json").unlink(missing_ok=True)
    with ground.start(site=site, plants=[SHORT_LEASE]) as sleeper:
        if sleeper.await_batch(seconds=START_SECONDS) is None:
            return bad(kind, "no batch is committed on a lease", sleeper.said)
        # At any moment, also in the midst of a commit or a delivery.
        sleeper.wait(chance.uniform(0.0, 1.0))
        sleeper.signal(signal.SIGSTOP)
        sleeper.wait(LEASE_SECONDS + 1.0)
        with ground.start(site=replace(site, log_name="successor"), plants=[SHORT_LEASE]) as successor:
            if successor.await_batch(seconds=START_SECONDS) is None:
                return bad(kind, "nobody takes over", successor.said)
            sleeper.signal(signal.SIGCONT)
            came = stopped(kind, sleeper.wait(PATIENCE_SECONDS), sleeper.said)
            ground.more_events()
            successor.await_quiet(2.0)
            problem = ended_as_asked(successor)
    return bad(kind, problem) if problem and not came.problem else came


def copy_beside(ground: Ground, chance: random.Random) -> Came:
    """Have an engine run on a copy of a checkpoint beside the original, into the same sinks: one ends."""
    kind, double = "copy beside", replace(ground.site, state="double")
    if not ground.site.commits() and (problem := ground.live()):
        return bad(kind, problem)
    ground.site.late.mkdir(exist_ok=True)
    for folder, of in ((double.checkpoint, ground.site.checkpoint), (double.late, ground.site.late)):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(of, folder, ignore=shutil.ignore_patterns(".ballast"))
    sites = [ground.site, double]
    chance.shuffle(sites)
    with ground.start(site=sites[0]) as first, ground.start(site=sites[1]) as second:
        engines = [first, second]
        number = _first_to_end(engines, START_SECONDS)
        if number is None:
            return bad(kind, "both go on", first.said + second.said)
        loser, winner = engines[number], engines[1 - number]
        came = stopped(kind, loser.wait(0.0), loser.said)
        if not came.problem and "does not know them" not in loser.said:
            came = bad(kind, "it was not the fence that ended it", loser.said)
        ground.more_events()
        winner.await_quiet(3.0)
        problem = ended_as_asked(winner)
    if sites[1 - number] is double:
        put_in_place(ground.site.checkpoint, double.checkpoint)
        put_in_place(ground.site.late, double.late)
    return bad(kind, problem) if problem and not came.problem else came


def _first_to_end(engines: list[EngineProcess], seconds: float) -> int | None:
    """Return which engine ends first by itself, or None if none does."""
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        for number, engine in enumerate(engines):
            if engine.wait(_POLL_SECONDS) is not None:
                return number
    return None


SECOND_ENGINES: dict[str, Befall] = {"lost lease": lost_lease, "copy beside": copy_beside}
"""Every mishap of an engine too many."""
