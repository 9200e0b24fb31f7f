"""The same input as one batch, as a thousand with kills, and shuffled within the delay: the same rows.

python -m tests.faults.same_rows --batches 1000 --kills 5 --seed 1
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.faults.driver import EngineProcess, Victim
from tests.faults.mutants import forget_spark_commit
from tests.faults.site import Site
from tests.spark.alike import differences
from tests.spark.awkward import DOUBLE_KEYS, QUERIES, cut, rows_of, shuffled, site_of

_SECONDS = 300
"""How much event time the input covers."""
_ROWS_PER_BATCH = 8
FEWEST_BATCHES = 30
"""With fewer, rows that are to be late might come before the watermark has passed them."""
_LAST_LIFE = 12
"""How many batches, at least, are left for after the last kill."""
_SHUFFLED_BATCHES = 60
_AT_ONCE = 1_000_000
_LONGEST_PAUSE = 1.0
"""How long after a batch a kill may come, in seconds."""
_STUCK_SECONDS = 300.0
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 60.0
"""How long an engine whose Java is gone may take to end."""
_KILLS = (Victim.BOTH, Victim.PYTHON, Victim.JVM)

Tell = Callable[[int], None]
"""Is told how many batches are committed."""


def same_rows(
    root: Path, *, batches: int, kills: int, seed: int, progress: Progress | None = None
) -> list[str]:
    """Run one input in three ways below a folder, and say how the rows differ; nothing if they do not.

    Rows that are to be late are left out of the single batch, where nothing can be late.
    """
    fewest = max(FEWEST_BATCHES, kills + _LAST_LIFE)
    if batches < fewest:
        raise ValueError(f"{batches} batches are too few for {kills} kills; take {fewest} or more")
    rows = rows_of(batches * _ROWS_PER_BATCH, seed=seed, seconds=_SECONDS)
    timely = [row for row in rows if not row.late]
    together = max(1, batches // _SHUFFLED_BATCHES)
    once = site_of(root / "once", cut(timely, batches, seed=seed), files_per_batch=_AT_ONCE)
    many = site_of(root / "killed", cut(rows, batches, seed=seed + 1), files_per_batch=1)
    mixed = cut(shuffled(rows, seed=seed), batches, seed=seed + 2)
    other = site_of(root / "shuffled", mixed, files_per_batch=together)
    said = _whole(once, _bar(progress, "one batch", 1))
    said += _killed(many, batches, kills, random.Random(seed), _bar(progress, "batches, kills", batches))
    said += _whole(other, _bar(progress, "shuffled batches", -(-batches // together)))
    if once.newest_batch() != 0:
        said.append(f"one batch was meant, but the last one has number {once.newest_batch()}")
    return said or [*_unlike(once, many), *_unlike(once, other)]


def _bar(progress: Progress | None, what: str, total: int) -> Tell:
    if progress is None:
        return lambda done: None
    task = progress.add_task(what, total=total)
    return lambda done: progress.update(task, completed=done)


def _whole(site: Site, tell: Tell) -> list[str]:
    """Use up the input and close all windows; say what went wrong."""
    with EngineProcess(site, "--flush") as engine:
        code = _await(engine, site, None, tell)
        return [] if code == 0 else [f"{site.root.name}: exit code {code}\n{engine.said[-2000:]}"]


def _killed(site: Site, batches: int, kills: int, chance: random.Random, tell: Tell) -> list[str]:
    """Do the same, but kill the engine some time after each of some batches."""
    for batch in sorted(chance.sample(range(batches - _LAST_LIFE), kills)):
        victim = chance.choice(_KILLS)
        with EngineProcess(site, "--flush") as engine:
            code = _await(engine, site, batch, tell)
            if code is None:
                code = engine.wait(chance.uniform(0, _LONGEST_PAUSE))
            if code is not None:
                return [f"{site.root.name}: exit code {code} before a kill\n{engine.said[-2000:]}"]
            engine.kill(victim)
            if (code := engine.wait(_PATIENCE_SECONDS)) in (None, 0):
                return [f"{site.root.name}: exit code {code} after a kill of {victim}\n{engine.said[-2000:]}"]
        if chance.random() < 0.5:
            forget_spark_commit(site)
    problems = _whole(site, tell)
    if not problems:
        # Killed between two of its logs, Spark takes two files into one batch, so there may be fewer.
        tell(batches)
    return problems


def _await(engine: EngineProcess, site: Site, batch: int | None, tell: Tell) -> int | None:
    """Wait until a batch is committed, or until the end; return the exit code if the engine ended.

    An engine that commits nothing for long is taken to have ended with −1.
    """
    newest, quiet = -1, 0.0
    while batch is None or newest < batch:
        if (code := engine.wait(_POLL_SECONDS)) is not None:
            tell(site.newest_batch() + 1)
            return code
        now = max(newest, site.newest_batch())
        quiet = 0.0 if now > newest else quiet + _POLL_SECONDS
        if quiet > _STUCK_SECONDS:
            return -1
        newest = now
        tell(newest + 1)
    return None


def _unlike(one: Site, other: Site) -> list[str]:
    found = []
    for name in QUERIES:
        rows, others = (_written(site, name) for site in (one, other))
        found += differences(f"{other.root.name}, {name}", rows, others, keys=DOUBLE_KEYS)
    return found


def _written(site: Site, name: str) -> pa.Table:
    """Return the rows of a query on the disk, every one of them."""
    return pa.concat_tables(
        pq.ParquetFile(path).read() for path in sorted((site.out / name).glob("[!.]*.parquet"))
    )


def main() -> None:
    """Compare, and say by the exit code whether all rows are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 20))
    given = parser.parse_args()
    console = Console()
    console.print(f"seed {given.seed}")
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="weft-same-rows-", ignore_cleanup_errors=True) as root,
        Progress(*columns, console=console) as progress,
    ):
        found = same_rows(
            Path(root), batches=given.batches, kills=given.kills, seed=given.seed, progress=progress
        )
    for line in found:
        console.print(line, markup=False)
    console.print("the rows differ" if found else f"equal rows of {len(QUERIES)} queries")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
