"""One run of the bench of memory, in a process of its own: `python -m weft.bench.memory_run run '{…}'`."""

import gc
import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, sleep

from pyspark.sql import SparkSession

from weft.bench.dataset import Dataset
from weft.bench.records import Record
from weft.bench.runs import How, Input, WeftRun, engine_for, is_micro_batch, run_engine
from weft.bench.trades import make_trades
from weft.bench.workloads import paper_queries
from weft.optimizer.slices import Slicing
from weft.spark.session.local import local_session
from weft.stream.pipeline import BatchReport

_COLLECTIONS = 5
_LETTING_GO_SECONDS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is run."""

    rows: int
    hours: int
    batches: int
    queries: int
    data: str
    cores: int | None
    heap: str
    seed: int
    durable: bool = True
    """Whether there is a checkpoint on disk."""
    slicing: str = Slicing.PAIRED


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


def observe(spark: SparkSession, dataset: Dataset, task: Task) -> Observed:
    """Run the task's queries and return what that needed."""
    given = Input(spark=spark, dataset=dataset, files_per_trigger=dataset.files // task.batches)
    began = perf_counter()
    queries = paper_queries(task.queries, seed=task.seed)
    engine = engine_for(given, queries, How(slicing=Slicing(task.slicing)))
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
        jvm_rss_mb=_peak_of(lang.ProcessHandle.current().pid()), python_rss_mb=_python_peak(),
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


def resident() -> float:
    """Return this process's resident set, in megabytes; its peak where the system reports no more."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        return _python_peak()
    return int(pages.read_text().split()[1]) * resource.getpagesize() / 2**20


def _peak_of(pid: int) -> float:
    """Return another process's peak RSS where the system reports it, and else its present one."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    printed = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(printed.stdout) / 1024


def _python_peak() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)


def main(action: str, text: str) -> None:
    """Make the task's data, or run the task and print what was observed."""
    task = Task(**json.loads(text))
    spark = local_session(cores=task.cores, memory=task.heap)
    files = task.batches * spark.sparkContext.defaultParallelism
    dataset = make_trades(spark, Path(task.data), rows=task.rows, files=files, hours=task.hours)
    print(json.dumps(asdict(observe(spark, dataset, task)) if action == "run" else {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
