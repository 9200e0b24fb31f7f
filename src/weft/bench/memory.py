"""The bench of memory: many rows in a small heap, and state that does not grow with the input.

Each run is a process of its own, so that its peak is its own. It has a checkpoint on disk; a second set of
runs has none.
"""

import json as jsonlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from weft.bench.measure import progress
from weft.bench.memory_run import Observed, Task
from weft.bench.options import Options
from weft.bench.report import save
from weft.bench.report_memory import show_memory

_BATCHES_AN_HOUR = 8
_LONGER = 10
HEAP = "2g"
"""Of the Spark that memory is measured of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRuns:
    """The runs with a checkpoint, or those without."""

    large: Observed
    """Many rows in an hour."""
    short: Observed
    """An hour at a moderate rate."""
    long: Observed
    """Ten hours at the same rate."""

    @property
    def retained_ratio(self) -> float:
        """Partials retained in ten hours, in units of one hour's."""
        return self.long.most_retained / self.short.most_retained

    @property
    def rss_ratio(self) -> float:
        """Python's peak in ten hours, in units of one hour's."""
        return self.long.python_rss_mb / self.short.python_rss_mb

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {**asdict(self), "retained_ratio": self.retained_ratio, "rss_ratio": self.rss_ratio}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult:
    """What `weft bench memory` found for one number of rows and one seed."""

    queries: int
    seed: int
    heap: str
    durable: MemoryRuns
    without_checkpoint: MemoryRuns

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {
            "queries": self.queries,
            "seed": self.seed,
            "heap": self.heap,
            **self.durable.as_json(),
            "without_checkpoint": self.without_checkpoint.as_json(),
        }


def run_memory(options: Options, *, hourly_rows: int = 400_000) -> tuple[MemoryResult, ...]:
    """Run an hour of many rows, and an hour and ten hours of fewer; print a table and write JSON if asked."""
    results = []
    for rows in options.rows:
        for queries in options.queries:
            for seed in options.seeds:
                results.append(_measure(options, rows, queries, seed, hourly_rows))
                show_memory(results[-1], options.console)
    save([one.as_json() for one in results], options.json, options.console)
    return tuple(results)


def _measure(options: Options, rows: int, queries: int, seed: int, hourly_rows: int) -> MemoryResult:
    short = Task(
        rows=hourly_rows,
        hours=1,
        batches=_BATCHES_AN_HOUR,
        queries=queries,
        data=str(options.data.resolve()),
        cores=options.cores,
        heap=HEAP,
        seed=seed,
        durable=True,
        slicing=options.slicing,
    )
    tasks = {
        "many rows": replace(short, rows=rows, batches=2 * short.batches),
        "one hour": short,
        "ten hours": replace(
            short, rows=_LONGER * short.rows, hours=_LONGER, batches=_LONGER * short.batches
        ),
    }
    durable = _observe(tasks, options, make=True)
    without = _observe(
        {name: replace(one, durable=False) for name, one in tasks.items()}, options, make=False
    )
    return MemoryResult(queries=queries, seed=seed, heap=HEAP, durable=durable, without_checkpoint=without)


def _observe(tasks: Mapping[str, Task], options: Options, *, make: bool) -> MemoryRuns:
    observed = []
    actions = (("make", "making trades"), ("run", "running")) if make else (("run", "running"),)
    with progress(options.console) as bar:
        shown = bar.add_task("", total=len(actions) * len(tasks))
        for name, task in tasks.items():
            for action, doing in actions:
                bar.update(shown, description=f"{name}: {doing}")
                told = _child(task, action)
                bar.advance(shown)
            observed.append(Observed(**jsonlib.loads(told)))
    large, short, long = observed
    return MemoryRuns(large=large, short=short, long=long)


def _child(task: Task, action: str) -> str:
    """Run a task in a process of its own and return the last line that it printed."""
    command = [sys.executable, "-m", "weft.bench.memory_run", action, jsonlib.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the run ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout.splitlines()[-1]
