"""The bench of memory: many rows in a small heap, and state that does not grow with the input.

Each run is a process of its own, so that its peak is its own. It has a checkpoint on disk; a second set of
runs has none.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

from rich.console import Console

from weft.bench import report
from weft.bench.bench import Bench
from weft.bench.memory_run import Observed, Task
from weft.bench.options import Rows, progress
from weft.bench.records import Record

_BATCHES_AN_HOUR = 8
_LONGER = 10
HEAP = "2g"
"""Of the Spark that memory is measured of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRuns(Record):
    """The runs with a checkpoint, or those without."""

    computed: ClassVar[str] = "retained_ratio rss_ratio"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryResult(report.Result):
    """What `weft bench memory` found for one number of rows and one seed."""

    queries: int
    seed: int
    heap: str
    durable: MemoryRuns
    without_checkpoint: MemoryRuns

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        own = {"queries": self.queries, "seed": self.seed, "heap": self.heap}
        return {**own, **self.durable.as_json(), "without_checkpoint": self.without_checkpoint.as_json()}

    def show(self, console: Console) -> None:
        """Print peaks and retained state."""
        rows = [
            (f"{name}{kind}", getattr(runs, of))
            for runs, kind in ((self.durable, ""), (self.without_checkpoint, ", no checkpoint"))
            for name, of in (("many rows", "large"), ("short", "short"), ("ten times as long", "long"))
        ]
        columns = {
            "<run": "{0}", "rows": "{1.rows:,}", "event time": "{1.hours} h", "seconds": "{1.seconds:.1f}",
            "retained partials": "{1.most_retained:,}", "JVM live": "{1.jvm_live_mb:,.0f} MB",
            "JVM RSS": "{1.jvm_rss_mb:,.0f} MB", "Python RSS": "{1.python_rss_mb:,.0f} MB",
        }  # fmt: skip
        caption = (
            "Each run is a process of its own, once. RSS: its peak. Live: the heap after a collection at the "
            "end. Runs have a checkpoint on disk unless it says otherwise."
        )
        title = f"{self.queries:,} queries in a {self.heap} heap"
        console.print(report.make_table(title, columns, rows, caption=caption))
        for name, runs in (("", self.durable), (", without a checkpoint", self.without_checkpoint)):
            console.print(
                f"ten times the event time{name}: retained partials × {runs.retained_ratio:.2f}, "
                f"Python RSS × {runs.rss_ratio:.2f}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(Bench[MemoryResult]):
    """Ten million rows in 2 GB of heap, and state that does not grow with the input.

    Example: weft bench memory --rows 10000000
    """

    offers = "queries rows seeds slicing json data cores"
    rows: Rows = (10_000_000,)
    hourly_rows: int = 400_000
    """Of the runs whose state is watched."""

    def measure(self) -> Iterator[MemoryResult]:
        """Run an hour of many rows, and an hour and ten hours of fewer, with a checkpoint and without."""
        for rows in self.rows:
            for queries in self.queries:
                for seed in self.seeds:
                    yield self._measure(rows, queries, seed)

    def _measure(self, rows: int, queries: int, seed: int) -> MemoryResult:
        short = Task(
            rows=self.hourly_rows, hours=1, batches=_BATCHES_AN_HOUR, queries=queries,
            data=str(self.data.resolve()), cores=self.cores, heap=HEAP, seed=seed, durable=True,
            slicing=self.slicing,
        )  # fmt: skip
        long = replace(short, rows=_LONGER * short.rows, hours=_LONGER, batches=_LONGER * short.batches)
        tasks = {
            "many rows": replace(short, rows=rows, batches=2 * short.batches),
            "one hour": short,
            "ten hours": long,
        }
        durable = _observe(tasks, ("make", "run"), self.console)
        tasks = {name: replace(task, durable=False) for name, task in tasks.items()}
        without = _observe(tasks, ("run",), self.console)
        return MemoryResult(
            queries=queries, seed=seed, heap=HEAP, durable=durable, without_checkpoint=without
        )


def _observe(tasks: Mapping[str, Task], actions: tuple[str, ...], console: Console) -> MemoryRuns:
    observed = []
    with progress(console) as bar:
        shown = bar.add_task("", total=len(actions) * len(tasks))
        for name, task in tasks.items():
            for action in actions:
                doing = "making trades" if action == "make" else "running"
                bar.update(shown, description=f"{name}: {doing}")
                # A process of its own prints what it observed as its last line.
                command = [sys.executable, "-m", "weft.bench.memory_run", action, json.dumps(asdict(task))]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(
                        f"the run ended with {done.returncode}:\n{done.stderr.strip()[-2000:]}"
                    )
                bar.advance(shown)
            observed.append(Observed(**json.loads(done.stdout.splitlines()[-1])))
    large, short, long = observed
    return MemoryRuns(large=large, short=short, long=long)
