"""Hundreds of kills, damaged files, planted bugs, one input cut in many ways: and what came of it all.

python -m tests.faults.soak --kills 200 --seed 7
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.faults import damage
from tests.faults.churn import Churn
from tests.faults.damage import Damaged, Outcome
from tests.faults.deck import KILLS, Deck
from tests.faults.driver import EngineProcess, Producer
from tests.faults.events import path_of, want, wanted
from tests.faults.mutants import MUTANTS, forget_spark_commit, shown
from tests.faults.oracle import Verdict
from tests.faults.same_rows import FEWEST_BATCHES, same_rows
from tests.faults.site import Site
from tests.faults.trial import FOLLOW, Life, finish, keeping_late, live
from tests.postgres.server import running_server
from weft.faultpoints import What

_CLEAN_EVERY = 20
"""Before each so many kills, a clean start: what recoveries are held against has the same load."""
_LOOKED_AT = 10
"""After so many lives the results so far are looked at."""
_BATCHES_PER_KILL = 5
"""An input is cut into so many batches for each kill of the soak, to be compared with the same as one."""
_KILLS_AMONG_BATCHES = 40
"""One kill among those batches for so many of the soak."""
_CATCH_UP_SECONDS = 1_800.0
"""How long the input may take that engines did not live to read."""
_FILES_LEFT = 8
"""How many files of events come after that, for engines on damaged copies to read."""
_RATIO = 2.0
"""How much longer than a clean start a recovery may take."""


@dataclass
class Soak:
    """What came of it all."""

    kills: int = 0
    points: tuple[str, ...] = ()
    """Where an engine can be killed in this soak."""
    lives: list[Life] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    replays: int = 0
    looks: int = 0
    problems: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    damaged: list[Damaged] = field(default_factory=list)
    caught: dict[str, bool] = field(default_factory=dict)
    set_aside: int = 0
    """How many events were late or unusable."""
    requests: int = 0
    refused: list[str] = field(default_factory=list)
    cut_into: int = 0
    """How many batches an input was cut into, to be compared with the same as one."""
    unlike: list[str] = field(default_factory=list)
    """How the rows differed."""

    @property
    def recoveries(self) -> list[float]:
        """Seconds from a start after a kill to the first batch committed."""
        lives = [life for before, life in pairwise(self.lives) if before.killed]
        return [life.seconds for life in lives if life.seconds is not None]

    @property
    def ratio(self) -> float | None:
        """Recoveries against clean starts; None if no engine that recovered lived to its first batch."""
        return median(self.recoveries) / median(self.clean) if self.recoveries else None

    @property
    def killed_at(self) -> Counter[str]:
        """How often an engine died at each point."""
        faults = [life.end.fault for life in self.lives if life.reached]
        return Counter(fault.point for fault in faults if fault is not None and fault.what in KILLS)

    @property
    def passed(self) -> bool:
        """Whether all is as it must be."""
        well = self.verdict.exact and not self.problems and all(self.caught.values()) and not self.refused
        mended = all(one.outcome is not Outcome.BAD for one in self.damaged)
        return well and mended and not self.unlike and (self.ratio is None or self.ratio <= _RATIO)


def soak(
    root: Path, *, kills: int, seed: int, churn: bool, uri: bool, postgres: str | None, console: Console
) -> Soak:
    """Run all of it below a folder."""
    found, chance = Soak(), random.Random(seed)
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        site = Site.made(root / "site", files_per_batch=2, uri=uri, postgres=postgres)
        with Producer(site, seed=seed):
            want(site.input, 4)
            untouched = site.copied(root / "untouched")
            guests = Churn(site, seed=seed) if churn else None
            deck = Deck(chance, requests=churn, uri=uri)
            found.points = deck.points
            task = progress.add_task("kills", total=kills)
            while found.kills < kills:
                if found.kills >= _CLEAN_EVERY * len(found.clean):
                    found.clean.append(_clean_start(untouched, root / f"clean-{len(found.clean)}"))
                _kill(found, site, deck, chance, guests)
                progress.update(task, completed=found.kills)
            note_missed(found)
            _catch_up(found, site)
        _damage(found, site, root, chance, progress)
        _finish(found, site, guests)
        _plant(found, root, progress)
        found.cut_into = max(FEWEST_BATCHES, _BATCHES_PER_KILL * kills)
        few = max(1, kills // _KILLS_AMONG_BATCHES)
        found.unlike = same_rows(
            root / "cut", batches=found.cut_into, kills=few, seed=seed, progress=progress
        )
    return found


def _clean_start(untouched: Site, root: Path) -> float:
    """Return how long an engine takes to its first batch over a site without commits."""
    copy = untouched.copied(root)
    with EngineProcess(copy, *FOLLOW, *keeping_late(copy)) as engine:
        seconds = engine.await_batch(seconds=300)
        if seconds is None:
            raise SystemExit(f"an engine does not start:\n{engine.said}")
    shutil.rmtree(copy.root)
    return seconds


def _kill(found: Soak, site: Site, deck: Deck, chance: random.Random, guests: Churn | None) -> None:
    """Have one more engine live and end."""
    end = deck.draw()
    if guests is None:
        life = live(site, end)
    else:
        for _ in range(chance.randint(1, 4)):
            guests.step()
        life = live(site, end, meanwhile=guests.step)
    found.lives.append(life)
    found.kills += life.killed
    if life.problem:
        found.problems.append(f"{life.end}: {life.problem}")
    if end.fault is not None and end.fault.what in KILLS and not life.reached:
        deck.put_back(end)
    if chance.random() < 0.2:
        forget_spark_commit(site)
        found.replays += 1
    if len(found.lives) % _LOOKED_AT == 0:
        _look(found, site, guests)


def note_missed(found: Soak) -> None:
    """Have it be a problem if there were kills enough and yet a point without one."""
    missed = [point for point in found.points if not found.killed_at[point]]
    if missed and found.kills >= len(found.points) * len(KILLS):
        found.problems.append(f"nothing was ever killed at {', '.join(missed)}")


def _look(found: Soak, site: Site, guests: Churn | None) -> None:
    """Check that no reader of the results so far is misled."""
    found.looks += 1
    if guests is None:
        verdict = site.judged()
    else:
        guests.take_answers()
        asked, spans = guests.promised()
        verdict = site.judged(spans, *asked)
    if not verdict.sound:
        found.problems.append(f"after {len(found.lives)} lives: {verdict}")


def _catch_up(found: Soak, site: Site) -> None:
    """Use up the input, but for a few files: each engine on a damaged copy begins where this one ends."""
    code, said = finish(site, flush=False, seconds=_CATCH_UP_SECONDS)
    if code != 0:
        found.problems.append(f"the run before files are damaged ended with {code}\n{said[-2000:]}")
    count = wanted(site.input) + _FILES_LEFT
    want(site.input, count)
    while not path_of(site.input, count - 1).exists():
        sleep(0.1)


def _damage(found: Soak, site: Site, root: Path, chance: random.Random, progress: Progress) -> None:
    cases = damage.cases(site, chance)
    cases = chance.sample(cases, min(len(cases), found.kills))  # A short run is short in all.
    task = progress.add_task("damaged files", total=len(cases))
    for number, (path, how) in enumerate(cases):
        copy = site.copied(root / f"damaged-{number}")
        file = str(path.relative_to(site.checkpoint))
        damage.do(how, copy.checkpoint / file)
        code, said = finish(copy)
        found.damaged.append(damage.outcome(file, how, refused=code == 1, said=said, verdict=copy.judged()))
        shutil.rmtree(copy.root)
        progress.advance(task)


def _finish(found: Soak, site: Site, guests: Churn | None) -> None:
    code, said = finish(site)
    read = site.read()
    found.set_aside = read.late.num_rows + read.unusable.num_rows
    if code != 0:
        found.problems.append(f"the last run ended with {code}\n{said[-2000:]}")
    if guests is None:
        found.verdict = site.judged()
        return
    guests.take_answers(flushed=True)
    asked, spans = guests.promised()
    found.requests, found.refused = guests.asked, guests.refused
    found.problems += guests.problems
    if guests.waiting:
        found.problems.append(f"{guests.waiting} requests were never answered")
    found.verdict = site.judged(spans, *asked)


def _plant(found: Soak, root: Path, progress: Progress) -> None:
    task = progress.add_task("planted bugs", total=len(MUTANTS) + 1)
    for name in (None, *MUTANTS):
        failure, verdict = shown(name, Site.made(root / f"mutant-{name}"), _whole)
        if name is not None:
            found.caught[name] = MUTANTS[name].caught(failure, verdict)
        elif failure or not verdict.exact:
            found.problems.append(f"without a planted bug: {failure[-2000:]}\n{verdict}")
        progress.advance(task)


def _whole(site: Site, mutant: str | None, flush: bool) -> str:
    code, said = finish(site, mutant=mutant, flush=flush)
    return "" if code == 0 else f"exit code {code}\n{said}"


def report(found: Soak) -> Table:
    """Draw what came of it all."""
    table = Table("what", "count", title="soak", title_justify="left")
    outcomes = Counter(one.outcome for one in found.damaged)
    rows: dict[str, object] = {
        "kills": found.kills,
        "points they came at": f"{len(found.killed_at)} of {len(found.points)}, and any time",
        "recoveries": len(found.recoveries),
        "batches offered again": found.replays,
        "late or unusable events": found.set_aside,
        "requests": f"{found.requests}, refused {len(found.refused)}",
        **{f"  {name}": count for name, count in found.verdict.counts.items()},
        "looks at results meanwhile": found.looks,
        "damaged files": ", ".join(f"{kind} {count}" for kind, count in outcomes.items()),
        "mutants caught": f"{sum(found.caught.values())} of {len(found.caught)} planted",
        f"1 batch, {found.cut_into:,}, shuffled": f"{len(found.unlike)} differences",
        "clean start, median": f"{median(found.clean):.2f} s",
    }
    if found.ratio is not None:
        rows |= {
            "recovery, median": f"{median(found.recoveries):.2f} s",
            "recovery, slowest": f"{max(found.recoveries):.2f} s",
            "recovery ratio": f"{found.ratio:.2f} (at most {_RATIO})",
        }
    for what, count in rows.items():
        table.add_row(what, str(count))
    return table


def figures(found: Soak, *, seed: int) -> dict[str, Any]:
    """Return what came of it all as plain data."""
    faults = [life.end.fault for life in found.lives if life.end.fault is not None and life.reached]
    victims = [life.end.victim for life in found.lives if life.end.fault is None and life.killed]
    return {
        "seed": seed,
        "passed": found.passed,
        "kills": found.kills,
        "killed_at": {point: found.killed_at[point] for point in found.points},
        "killed_any_time": dict(Counter(map(str, victims))),
        "errors_at": dict(Counter(fault.point for fault in faults if fault.what is What.ERROR)),
        "replays": found.replays,
        "set_aside": found.set_aside,
        "requests": found.requests,
        "refused": found.refused,
        **found.verdict.counts,
        "looks": found.looks,
        "damaged": dict(Counter(str(one.outcome) for one in found.damaged)),
        "mutants_caught": found.caught,
        "cut_into": found.cut_into,
        "unlike": found.unlike,
        "clean_start_s": found.clean,
        "recovery_s": found.recoveries,
        "recovery_ratio": found.ratio,
        "problems": [*found.problems, *found.verdict.examples],
    }


def main() -> None:
    """Soak, report, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    parser.add_argument("--no-requests", action="store_true", help="leave the queries as they are")
    parser.add_argument("--uri", action="store_true", help="commit to a URI, through Hadoop")
    parser.add_argument("--postgres", action="store_true", help="deliver to PostgreSQL as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file as well")
    given = parser.parse_args()
    console = Console()
    console.print(f"seed {given.seed}")
    with ExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="weft-soak-", ignore_cleanup_errors=True)
        found = soak(
            Path(stack.enter_context(folder)),
            kills=given.kills,
            seed=given.seed,
            churn=not given.no_requests,
            uri=given.uri,
            postgres=stack.enter_context(running_server()) if given.postgres else None,
            console=console,
        )
    console.print(report(found))
    if given.json is not None:
        given.json.write_text(json.dumps(figures(found, seed=given.seed), indent=2) + "\n")
    bad = [f"{one.how} {one.file}: {one.why}" for one in found.damaged if one.outcome is Outcome.BAD]
    missed = [f"not caught: {name}" for name, caught in found.caught.items() if not caught]
    for problem in [*found.problems, *found.verdict.examples, *bad, *missed, *found.refused, *found.unlike]:
        console.print(problem, markup=False)
    sys.exit(0 if found.passed else 1)


if __name__ == "__main__":
    main()
