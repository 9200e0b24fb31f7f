"""The bench of many windows: Scotty's workload, tumbling windows of random length over a fast stream.

As in Scotty's benchmark, windows are registered before the clock starts and results stay in memory; the
clock stops when the last window has been answered.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pyspark
from rich.console import Console

from weft.bench.dataset import DEFAULT_DATA
from weft.bench.events import make_events
from weft.bench.measure import Seconds, alternate
from weft.bench.report import needs_matplotlib, publish, show_windows
from weft.bench.runs import Input, WeftRun, run_weft
from weft.bench.workloads import SCOTTY_SIZES, scotty_queries
from weft.spark.session import local_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One number of windows."""

    queries: int
    rows_per_s: float
    seconds: float
    runs_s: tuple[float, ...]
    windows: int
    """Results."""
    slices: int
    """The most that a batch had."""
    register_s: float
    stages_s: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsResult:
    """What `weft bench windows` found."""

    workload: str = "tumbling windows of 1–20 s"
    rows: int
    rate: int
    """Rows per second of event time."""
    batches: int
    repeats: int
    cores: int
    pyspark: str
    sizes: tuple[Size, ...]

    @property
    def ratio(self) -> float:
        """Throughput with the most windows, in units of that with the fewest."""
        return self.sizes[-1].rows_per_s / self.sizes[0].rows_per_s

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {**asdict(self), "ratio": self.ratio}


def run_windows(
    *,
    console: Console,
    queries: Sequence[int] = SCOTTY_SIZES,
    rows: int = 8_000_000,
    rate: int = 100_000,
    batches: int = 8,
    repeats: int = 3,
    warmups: int = 1,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    memory: str = "4g",
    seed: int = 1,
    json: Path | None = None,
    plot: Path | None = None,
) -> WindowsResult:
    """Measure each number of windows by turns, print a table, and write JSON and a plot if asked."""
    needs_matplotlib(plot)
    spark = local_session(cores=cores, memory=memory)
    cores = spark.sparkContext.defaultParallelism
    dataset = make_events(spark, data, rows=rows, rate=rate, files=batches * cores, seed=seed)
    given = Input(spark=spark, dataset=dataset, files_per_trigger=cores)
    last: dict[int, WeftRun] = {}
    turns = [(f"{count:,} windows", partial(_run, given, count, seed, last)) for count in sorted(queries)]
    taken = alternate(turns, repeats=repeats, warmups=warmups, console=console)
    sizes = zip(sorted(queries), taken.values(), strict=True)
    result = WindowsResult(
        rows=rows,
        rate=rate,
        batches=batches,
        repeats=repeats,
        cores=cores,
        pyspark=pyspark.__version__,
        sizes=tuple(_size(count, seconds, last[count]) for count, seconds in sizes),
    )
    show_windows(result, console)
    publish([result], json=json, plot=plot, draw=_draw, console=console)
    return result


def _draw(results: Sequence[WindowsResult], path: Path) -> None:
    from weft.bench.plot import plot_windows  # Matplotlib is an extra.

    plot_windows(results[-1], path)


def _run(given: Input, count: int, seed: int, last: dict[int, WeftRun]) -> float:
    last[count] = run_weft(given, scotty_queries(count, seed=seed))
    return last[count].stream_s


def _size(count: int, seconds: Seconds, run: WeftRun) -> Size:
    return Size(
        queries=count,
        rows_per_s=run.rows / seconds.median,
        seconds=seconds.median,
        runs_s=seconds.runs,
        windows=run.windows,
        slices=run.slices,
        register_s=run.register_s,
        stages_s=dict(run.stages),
    )
