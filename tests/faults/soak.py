"""Hundreds of kills, damaged files and planted bugs, and a table of what came of them.

python -m tests.faults.soak --kills 200 --seed 7
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.faults import damage
from tests.faults.churn import Churn
from tests.faults.damage import DAMAGES, Damaged, Outcome
from tests.faults.driver import EngineProcess, Producer
from tests.faults.events import want
from tests.faults.mutants import MUTANTS, forget_spark_commit, shown
from tests.faults.oracle import Verdict
from tests.faults.site import Site
from tests.faults.trial import FOLLOW, Life, finish, live, random_end
from weft.faultpoints import POINTS

_CLEAN_STARTS = 5
_LOOKED_AT = 10
"""After so many lives the results so far are looked at."""
_RATIO = 2.0
"""How much longer than a clean start a recovery may take."""


@dataclass
class Soak:
    """What came of it all."""

    kills: int = 0
    lives: list[Life] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    replays: int = 0
    looks: int = 0
    problems: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    damaged: list[Damaged] = field(default_factory=list)
    caught: dict[str, bool] = field(default_factory=dict)
    requests: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def recoveries(self) -> list[float]:
        """Seconds from a start after a kill to the first batch committed."""
        return [life.seconds for life in self.lives[1:] if life.seconds is not None]

    @property
    def ratio(self) -> float:
        """Recoveries against clean starts."""
        return median(self.recoveries) / median(self.clean)

    @property
    def passed(self) -> bool:
        """Whether all is as it must be."""
        well = self.verdict.exact and not self.problems and all(self.caught.values()) and not self.refused
        return well and self.ratio <= _RATIO and all(one.outcome is not Outcome.BAD for one in self.damaged)


def soak(root: Path, *, kills: int, seed: int, churn: bool, console: Console) -> Soak:
    """Run all of it below a folder."""
    found, chance = Soak(), random.Random(seed)
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        site = Site.made(root / "site", files_per_batch=2)
        with Producer(site, seed=seed):
            want(site.input, 4)
            _clean_starts(found, site, root, progress)
            guests = Churn(site, seed=seed) if churn else None
            _kill(found, site, kills, chance, progress, guests)
        _damage(found, site, root, chance, progress)
        _finish(found, site, guests)
        _plant(found, root, progress)
    return found


def _clean_starts(found: Soak, site: Site, root: Path, progress: Progress) -> None:
    task = progress.add_task("clean starts", total=_CLEAN_STARTS)
    for number in range(_CLEAN_STARTS):
        copy = site.copied(root / f"clean-{number}")  # Of a site without commits: as good as new.
        with EngineProcess(copy, *FOLLOW) as engine:
            seconds = engine.await_batch(seconds=300)
            if seconds is None:
                raise SystemExit(f"an engine does not start:\n{engine.said}")
        found.clean.append(seconds)
        progress.advance(task)


def _kill(
    found: Soak, site: Site, kills: int, chance: random.Random, progress: Progress, guests: Churn | None
) -> None:
    task = progress.add_task("kills", total=kills)
    while found.kills < kills:
        if guests is not None:
            for _ in range(chance.randint(0, 4)):
                guests.step()
        life = live(site, random_end(chance, requests=guests is not None))
        found.lives.append(life)
        found.kills += life.killed
        progress.advance(task, life.killed)
        if life.problem:
            found.problems.append(f"{life.end}: {life.problem}")
        if chance.random() < 0.2:
            forget_spark_commit(site)
            found.replays += 1
        if len(found.lives) % _LOOKED_AT == 0:
            _look(found, site)


def _look(found: Soak, site: Site) -> None:
    """Check that no reader of the results so far is misled."""
    found.looks += 1
    verdict = site.judged()
    if not verdict.sound:
        found.problems.append(f"after {len(found.lives)} lives: {verdict}")


def _damage(found: Soak, site: Site, root: Path, chance: random.Random, progress: Progress) -> None:
    cases = [(path, how) for path in damage.chosen(site, chance) for how in DAMAGES]
    task = progress.add_task("damaged files", total=len(cases))
    for number, (path, how) in enumerate(cases):
        copy = site.copied(root / f"damaged-{number}")
        file = str(path.relative_to(site.checkpoint))
        DAMAGES[how](copy.checkpoint / file)
        code, said = finish(copy)
        found.damaged.append(damage.outcome(file, how, refused=code == 1, said=said, verdict=copy.judged()))
        shutil.rmtree(copy.root)
        progress.advance(task)


def _finish(found: Soak, site: Site, guests: Churn | None) -> None:
    code, said = finish(site)
    if code != 0:
        found.problems.append(f"the last run ended with {code}\n{said[-2000:]}")
    if guests is None:
        found.verdict = site.judged()
        return
    guests.take_answers()
    asked, spans = guests.promised()
    found.requests, found.refused = guests.asked, guests.refused
    if guests.waiting:
        found.problems.append(f"{guests.waiting} requests were never answered")
    found.verdict = site.judged(spans, *asked)


def _plant(found: Soak, root: Path, progress: Progress) -> None:
    task = progress.add_task("planted bugs", total=len(MUTANTS) + 1)
    for name in (None, *MUTANTS):
        ended, verdict = shown(name, Site.made(root / f"mutant-{name}"), _whole)
        if name is not None:
            found.caught[name] = not (ended and verdict.exact)
        elif not (ended and verdict.exact):
            found.problems.append(f"without a planted bug: ended well {ended}, {verdict}")
        progress.advance(task)


def _whole(site: Site, mutant: str | None, flush: bool) -> bool:
    code, _ = finish(site, mutant=mutant, flush=flush)
    return code == 0


def report(found: Soak) -> Table:
    """Draw what came of it all."""
    table = Table("what", "count", title="soak", title_justify="left")
    outcomes = Counter(one.outcome for one in found.damaged)
    reached = {life.end.fault.point for life in found.lives if life.end.fault is not None and life.reached}
    rows = {
        "kills": found.kills,
        "points they came at": f"{len(reached)} of {len(POINTS)}, and any time",
        "recoveries": len(found.recoveries),
        "batches offered again": found.replays,
        "requests": f"{found.requests}, refused {len(found.refused)}",
        **{f"  {name}": count for name, count in found.verdict.counts.items()},
        "looks at results meanwhile": found.looks,
        "damaged files": ", ".join(f"{kind} {count}" for kind, count in outcomes.items()),
        "mutants caught": f"{sum(found.caught.values())} of {len(found.caught)} planted",
        "clean start, median": f"{median(found.clean):.2f} s",
        "recovery, median": f"{median(found.recoveries):.2f} s",
        "recovery, slowest": f"{max(found.recoveries):.2f} s",
        "recovery ratio": f"{found.ratio:.2f} (at most {_RATIO})",
    }
    for what, count in rows.items():
        table.add_row(what, str(count))
    return table


def main() -> None:
    """Soak, report, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    parser.add_argument("--no-requests", action="store_true", help="leave the queries as they are")
    given = parser.parse_args()
    console = Console()
    console.print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="weft-soak-", ignore_cleanup_errors=True) as root:
        found = soak(
            Path(root), kills=given.kills, seed=given.seed, churn=not given.no_requests, console=console
        )
    console.print(report(found))
    bad = [f"{one.how} {one.file}: {one.why}" for one in found.damaged if one.outcome is Outcome.BAD]
    missed = [f"not caught: {name}" for name, caught in found.caught.items() if not caught]
    for problem in [*found.problems, *found.verdict.examples, *bad, *missed, *found.refused]:
        console.print(problem, markup=False)
    sys.exit(0 if found.passed else 1)


if __name__ == "__main__":
    main()
