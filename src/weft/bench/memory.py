"""The bench of memory: many rows in a small heap, and state that does not grow with the input.

Each run has a process to itself, since a peak is that of a process. It has a checkpoint on disk; a second set
of runs has none.
"""

import gc
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from os import getpid
from pathlib import Path
from time import perf_counter, sleep
from typing import ClassVar, TypeVar

from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench import report
from weft.bench.bench import Bench, Result
from weft.bench.dataset import Dataset
from weft.bench.options import Rows, progress
from weft.bench.records import Record
from weft.bench.runs import Input, Settings, WeftRun, engine_for, is_micro_batch, run_engine
from weft.bench.trades import make_trades
from weft.bench.workloads import paper_queries
from weft.optimizer.slices import Slicing
from weft.spark.session.local import local_session
from weft.state.report import BatchReport

_BATCHES_AN_HOUR = 8
_LONGER = 10
HEAP = "2g"
"""Of the Spark that memory is measured of."""
_COLLECTIONS = 5
_LETTING_GO_SECONDS = 0.3
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is run."""

    rows: int
    hours: int
    batches: int
    queries: int
    data: Path
    cores: int | None
    heap: str
    seed: int
    durable: bool = True
    """Whether there is a checkpoint on disk."""
    slicing: Slicing = Slicing.PAIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(Record):
    """What a run needed."""

    rows: int
    hours: int
    batches: int
    seconds: float
    windows: int
    most_retained: int
    """Partials kept between batches, at most."""
    last_retained: int
    heap_limit_mb: float
    jvm_live_mb: float
    jvm_rss_mb: float
    python_rss_mb: float


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
class MemoryResult(Result):
    """What `weft bench memory` found for one number of rows and one seed."""

    queries: int
    seed: int
    heap: str
    durable: MemoryRuns
    without_checkpoint: MemoryRuns

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        figures = Result.as_json(self)
        del figures["durable"]
        return {**figures, **self.durable.as_json()}

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
            rows=self.hourly_rows, hours=1, batches=_BATCHES_AN_HOUR, queries=queries, data=self.data,
            cores=self.cores, heap=HEAP, seed=seed, slicing=self.slicing,
        )  # fmt: skip
        long = replace(short, rows=_LONGER * short.rows, hours=_LONGER, batches=_LONGER * short.batches)
        large = replace(short, rows=rows, batches=2 * short.batches)
        tasks = {"large": large, "short": short, "long": long}
        with progress(self.console) as bar:
            for task in bar.track(tasks.values(), description="making trades"):
                apart(make_data, task)
            durable, without = (
                MemoryRuns(
                    **{
                        name: apart(run_task, replace(task, durable=durable))
                        for name, task in bar.track(tasks.items(), description=f"running, {durable=}")
                    }
                )
                for durable in (True, False)
            )
        return MemoryResult(
            bench=self, queries=queries, seed=seed, heap=HEAP, durable=durable, without_checkpoint=without
        )


def apart(call: Callable[["Task"], Answer], task: Task) -> Answer:
    """Call a function in a process of its own, which ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(call, task).result()


def make_data(task: Task) -> None:
    """Make the trades of a task."""
    _session_and_trades(task)


def run_task(task: Task) -> Observed:
    """Run the queries of a task over its trades."""
    return observe(*_session_and_trades(task), task)


def _session_and_trades(task: Task) -> tuple[SparkSession, Dataset]:
    spark = local_session(cores=task.cores, memory=task.heap)
    files = task.batches * spark.sparkContext.defaultParallelism
    return spark, make_trades(spark, task.data, rows=task.rows, files=files, hours=task.hours)


def observe(spark: SparkSession, dataset: Dataset, task: Task) -> Observed:
    """Run the task's queries and return what that needed."""
    given = Input(spark=spark, dataset=dataset, files_per_trigger=dataset.files // task.batches)
    began = perf_counter()
    queries = paper_queries(task.queries, seed=task.seed)
    engine = engine_for(given, queries, Settings(slicing=task.slicing))
    registered = perf_counter() - began
    run, retained = WeftRun(), list[int]()

    def note(stream: str, report: BatchReport) -> None:
        run.note(stream, report)
        # After the report that closes all windows at the end, nothing is retained.
        if is_micro_batch(report):
            retained.append(engine.state_rows())

    seconds = registered + run_engine(given, engine, note, durable=task.durable)
    lang = spark._jvm.java.lang  # type: ignore[union-attr]
    return Observed(
        rows=run.rows, hours=task.hours, batches=run.batches, seconds=seconds, windows=run.windows,
        most_retained=max(retained), last_retained=retained[-1],
        heap_limit_mb=lang.Runtime.getRuntime().maxMemory() / 2**20, jvm_live_mb=heap_in_use(spark),
        jvm_rss_mb=resident_mb(lang.ProcessHandle.current().pid(), peak=True),
        python_rss_mb=resident_mb(getpid(), peak=True),
    )  # fmt: skip


def heap_in_use(spark: SparkSession) -> float:
    """Return the JVM's live heap in megabytes, after collections in both processes.

    Python's garbage holds objects of Spark's. Threads of Spark let go of buffers, of 64 MB each, up to a
    second after a collection has found them unused.
    """
    lang = spark._jvm.java.lang  # type: ignore[union-attr]
    runtime = lang.Runtime.getRuntime()
    gc.collect()
    for _ in range(_COLLECTIONS):
        lang.System.gc()
        sleep(_LETTING_GO_SECONDS)
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20


def resident_mb(pid: int, *, peak: bool = False) -> float:
    """Return a process's resident set in megabytes, or its peak where the system reports one."""
    status, name = Path(f"/proc/{pid}/status"), "VmHWM" if peak else "VmRSS"
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024
    printed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(printed.stdout) / 1024
