"""The bench of memory: many rows in a small heap, and state that does not grow with the input.

Each run is a process of its own, so that its peak is its own.
"""

import json as jsonlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from weft.bench.dataset import DEFAULT_DATA
from weft.bench.measure import progress
from weft.bench.memory_run import Observed, Task
from weft.bench.report import save, show_memory

_BATCHES_AN_HOUR = 8
_LONGER = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult:
    """What `weft bench memory` found."""

    queries: int
    heap: str
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


def run_memory(
    *,
    console: Console,
    queries: int = 256,
    rows: int = 10_000_000,
    hourly_rows: int = 400_000,
    heap: str = "2g",
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    seed: int = 1,
    json: Path | None = None,
) -> MemoryResult:
    """Run an hour of many rows, and an hour and ten hours of fewer; print a table and write JSON if asked."""
    short = Task(
        rows=hourly_rows,
        hours=1,
        batches=_BATCHES_AN_HOUR,
        queries=queries,
        data=str(data.resolve()),
        cores=cores,
        heap=heap,
        seed=seed,
    )
    tasks = {
        "many rows": replace(short, rows=rows, batches=2 * short.batches),
        "one hour": short,
        "ten hours": replace(
            short, rows=_LONGER * short.rows, hours=_LONGER, batches=_LONGER * short.batches
        ),
    }
    large, little, long = _observe(tasks, console)
    result = MemoryResult(queries=queries, heap=heap, large=large, short=little, long=long)
    show_memory(result, console)
    save([result.as_json()], json, console)
    return result


def _observe(tasks: Mapping[str, Task], console: Console) -> list[Observed]:
    observed = []
    with progress(console) as bar:
        shown = bar.add_task("", total=2 * len(tasks))
        for name, task in tasks.items():
            for action, doing in (("make", "making trades"), ("run", "running")):
                bar.update(shown, description=f"{name}: {doing}")
                told = _child(task, action)
                bar.advance(shown)
            observed.append(Observed(**jsonlib.loads(told)))
    return observed


def _child(task: Task, action: str) -> str:
    """Run a task in a process of its own and return the last line that it printed."""
    command = [sys.executable, "-m", "weft.bench.memory_run", action, jsonlib.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the run ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")
    return done.stdout.splitlines()[-1]
