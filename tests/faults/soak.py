"""Hundreds of kills, mishaps, damaged files, planted bugs, one input cut in many ways: and what came of it.

python -m tests.faults.soak --kills 200 --faults 100 --seed 7
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.faults import damage
from tests.faults.befall import Grounds
from tests.faults.churn import Churn
from tests.faults.damage import Damaged, Outcome
from tests.faults.deck import KILLS, Deck
from tests.faults.driver import EngineProcess, Producer
from tests.faults.events import path_of, want, wanted
from tests.faults.findings import Soak, figures, note_missed, report
from tests.faults.mutants import MUTANTS, forget_spark_commit, shown
from tests.faults.same_rows import FEWEST_BATCHES, same_rows
from tests.faults.site import Site
from tests.faults.trial import FOLLOW, Life, finish, keeping_late, live
from tests.postgres.server import running_server

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
_GROUNDS = 2
"""On so many grounds mishaps take place at a time."""
_AT_A_TIME = 2
"""So many damaged copies are read at a time, and as many bugs planted."""
_QUERY_FAILED = 3
"""The exit code of a run in which a query failed."""
_FILES_LEFT = 8
"""How many files of events come after that, for engines on damaged copies to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a soak is to do."""

    kills: int
    faults: int
    """How many mishaps."""
    seed: int
    churn: bool
    """Whether queries come and go."""
    uri: bool
    """Whether engines that are killed commit to a URI."""
    postgres: bool
    """Whether they deliver to PostgreSQL as well."""
    server: str | None
    """A server of PostgreSQL's, which mishaps need."""


def soak(root: Path, plan: Plan, console: Console) -> Soak:
    """Run all of it below a folder."""
    found, chance = Soak(), random.Random(plan.seed)
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        server = plan.server if plan.postgres else None
        site = Site.made(root / "site", files_per_batch=2, uri=plan.uri, postgres=server)
        guests = Churn(site, seed=plan.seed) if plan.churn else None
        with Producer(site, seed=plan.seed):
            want(site.input, 4)
            _kill_and_befall(found, site, guests, plan, chance, root, progress)
            note_missed(found)
            _catch_up(found, site)
        _damage(found, site, root, chance, progress)
        _finish(found, site, guests)
        _plant(found, root, progress)
        found.cut_into = max(FEWEST_BATCHES, _BATCHES_PER_KILL * plan.kills)
        few = max(1, plan.kills // _KILLS_AMONG_BATCHES)
        found.unlike = same_rows(
            root / "cut", batches=found.cut_into, kills=few, seed=plan.seed, progress=progress
        )
    return found


def _kill_and_befall(
    found: Soak,
    site: Site,
    guests: Churn | None,
    plan: Plan,
    chance: random.Random,
    root: Path,
    progress: Progress,
) -> None:
    """Deal kills, and mishaps beside them on grounds of their own, as many of each as are planned."""
    untouched = site.copied(root / "untouched")
    deck = Deck(chance, requests=plan.churn, uri=plan.uri)
    found.points = deck.points
    with ThreadPoolExecutor() as pool:
        befalling = pool.submit(_befall, found, plan, root, progress)
        kills = progress.add_task("kills", total=plan.kills)
        while found.kills < plan.kills:
            if found.kills >= _CLEAN_EVERY * len(found.clean):
                found.clean.append(_clean_start(untouched, root / f"clean-{len(found.clean)}"))
            life = _kill(found, site, deck, chance, guests)
            progress.update(kills, completed=found.kills)
            _tell(progress, f"{found.kills} kills, {life.end}", life.problem)
        befalling.result()


def _befall(found: Soak, plan: Plan, root: Path, progress: Progress) -> None:
    """Have mishaps take place, on several grounds at a time: most of each is waiting."""
    deck, changing = Deck(random.Random(plan.seed + 1), requests=False), threading.Lock()
    kinds = [deck.draw_mishap() for _ in range(plan.faults)]
    task = progress.add_task("mishaps", total=plan.faults)

    def befall_some(line: int) -> None:
        chance = random.Random(plan.seed + 2 + line)
        grounds = Grounds(root, seed=plan.seed, server=plan.server, first=line + 1, step=_GROUNDS)
        for kind in kinds[line::_GROUNDS]:
            came = grounds.befall(kind, chance)
            with changing:
                found.mishaps.append(came)
                progress.advance(task)
                _tell(progress, f"{len(found.mishaps)} mishaps, {came.kind}: {came.outcome}", came.problem)
                if came.problem:
                    found.problems.append(f"{came.kind}: {came.problem}")
        grounds.finish()
        with changing:
            found.verdict.add(grounds.verdict)
            found.problems += grounds.problems

    with ThreadPoolExecutor(_GROUNDS) as pool:
        list(pool.map(befall_some, range(_GROUNDS)))


def _tell(progress: Progress, what: str, problem: str) -> None:
    """Tell how far it has come where no terminal shows it, and problems at once."""
    if problem or not progress.console.is_terminal:
        progress.console.print(f"{what}\n{problem}".strip(), markup=False, highlight=False)


def _clean_start(untouched: Site, root: Path) -> float:
    """Return how long an engine takes to its first batch over a site without commits."""
    copy = untouched.copied(root)
    with EngineProcess(copy, *FOLLOW, *keeping_late(copy)) as engine:
        seconds = engine.await_batch(seconds=300)
        if seconds is None:
            raise SystemExit(f"an engine does not start:\n{engine.said}")
    shutil.rmtree(copy.root)
    return seconds


def _kill(found: Soak, site: Site, deck: Deck, chance: random.Random, guests: Churn | None) -> Life:
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
    return life


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

    def damage_one(number: int) -> Damaged:
        path, how = cases[number]
        copy = site.copied(root / f"damaged-{number}")
        file = str(path.relative_to(site.checkpoint))
        damage.do(how, copy.checkpoint / file)
        code, said = finish(copy)
        came = damage.outcome(file, how, refused=code == 1, said=said, verdict=copy.judged())
        shutil.rmtree(copy.root)
        progress.advance(task)
        return came

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found.damaged += pool.map(damage_one, range(len(cases)))


def _finish(found: Soak, site: Site, guests: Churn | None) -> None:
    code, said = finish(site)
    read = site.read()
    found.set_aside = read.late.num_rows + read.unusable.num_rows
    if code != 0:
        found.problems.append(f"the last run ended with {code}\n{said[-2000:]}")
    if guests is None:
        found.verdict.add(site.judged())
        return
    guests.take_answers(flushed=True)
    asked, spans = guests.promised()
    found.requests, found.refused = guests.asked, guests.refused
    found.problems += guests.problems
    if guests.waiting:
        found.problems.append(f"{guests.waiting} requests were never answered")
    found.verdict.add(site.judged(spans, *asked))


def _plant(found: Soak, root: Path, progress: Progress) -> None:
    task = progress.add_task("planted bugs", total=len(MUTANTS) + 1)

    def plant(name: str | None) -> None:
        failure, verdict = shown(name, Site.made(root / f"mutant-{name}"), _whole)
        if name is not None:
            found.caught[name] = MUTANTS[name].caught(failure, verdict)
        elif failure or not verdict.exact:
            found.problems.append(f"without a planted bug: {failure[-2000:]}\n{verdict}")
        progress.advance(task)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        list(pool.map(plant, (None, *MUTANTS)))


def _whole(site: Site, mutant: str | None, flush: bool) -> str:
    code, said = finish(site, mutant=mutant, flush=flush)
    # What a run lacks in which a query failed, the rows show.
    return "" if code in (0, _QUERY_FAILED) else f"exit code {code}\n{said}"


def main() -> None:
    """Soak, report, and say by the exit code whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--faults", type=int, default=100, help="how many mishaps, beside kills")
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
        plan = Plan(
            kills=given.kills,
            faults=given.faults,
            seed=given.seed,
            churn=not given.no_requests,
            uri=given.uri,
            postgres=given.postgres,
            server=stack.enter_context(running_server()) if given.postgres or given.faults else None,
        )
        found = soak(Path(stack.enter_context(folder)), plan, console)
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
