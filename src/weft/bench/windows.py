"""The bench of many windows: Scotty's workload, tumbling windows of random length over a fast stream.

The figure is with a checkpoint on disk, from the text of the queries to the last answer. A second one is as
in Scotty's benchmark: windows are registered before the clock starts, and nothing is durable. Results stay in
memory in both.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pyspark

from weft.bench.events import make_events
from weft.bench.measure import Seconds, alternate, pooled
from weft.bench.options import Options
from weft.bench.report import needs_matplotlib, publish, show_windows
from weft.bench.runs import How, Input, WeftRun, run_weft
from weft.bench.workloads import scotty_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One number of windows."""

    queries: int
    rows: int
    durable: Seconds
    """With a checkpoint on disk and the windows' registration."""
    as_scotty: Seconds
    """Without either."""
    windows: int
    """Results."""
    slices: int
    """The most that a batch had."""
    register_s: float
    stages_s: dict[str, float]

    @property
    def seconds(self) -> float:
        """The median with a checkpoint."""
        return self.durable.median

    @property
    def rows_per_s(self) -> float:
        """Throughput with a checkpoint."""
        return self.rows / self.seconds

    @property
    def scotty_rows_per_s(self) -> float:
        """Throughput as Scotty's benchmark measures it."""
        return self.rows / self.as_scotty.median

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {
            **asdict(self),
            "seconds": self.seconds,
            "rows_per_s": self.rows_per_s,
            "scotty_rows_per_s": self.scotty_rows_per_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsResult:
    """What `weft bench windows` found."""

    workload: str = "tumbling windows of 1–20 s"
    rows: int
    rate: int
    """Rows per second of event time."""
    batches: int
    repeats: int
    warmups: int
    seeds: tuple[int, ...]
    cores: int
    pyspark: str
    sizes: tuple[Size, ...]

    @property
    def ratio(self) -> float:
        """Throughput with the most windows, in units of that with the fewest."""
        return self.sizes[-1].rows_per_s / self.sizes[0].rows_per_s

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {**asdict(self), "sizes": [one.as_json() for one in self.sizes], "ratio": self.ratio}


def run_windows(options: Options, *, rate: int = 100_000) -> tuple[WindowsResult, ...]:
    """Measure each number of windows by turns, print a table, and write JSON and a plot if asked."""
    needs_matplotlib(options.plot)
    results = [_measure(options, rows, rate) for rows in options.rows]
    publish(results, json=options.json, plot=options.plot, draw=_draw, console=options.console)
    return tuple(results)


def _measure(options: Options, rows: int, rate: int) -> WindowsResult:
    spark = options.session()
    cores = spark.sparkContext.defaultParallelism
    dataset = make_events(spark, options.data, rows=rows, rate=rate, files=options.batches * cores)
    given = Input(spark=spark, dataset=dataset, files_per_trigger=cores)
    counts = sorted(options.queries)
    last: dict[int, WeftRun] = {}
    taken = [_of_seed(options, given, counts, seed, last) for seed in options.seeds]
    result = WindowsResult(
        rows=rows,
        rate=rate,
        batches=options.batches,
        repeats=options.repeats,
        warmups=options.warmups,
        seeds=options.seeds,
        cores=cores,
        pyspark=pyspark.__version__,
        sizes=tuple(_size(count, [one[count] for one in taken], last[count]) for count in counts),
    )
    show_windows(result, options.console)
    return result


def _draw(results: Sequence[WindowsResult], path: Path) -> None:
    from weft.bench.plot import plot_windows  # Matplotlib is an extra.

    plot_windows(results[0], path)


def _of_seed(
    options: Options, given: Input, counts: Sequence[int], seed: int, last: dict[int, WeftRun]
) -> dict[int, tuple[Seconds, Seconds]]:
    """Return for each number of windows all counted runs, with a checkpoint and as Scotty does it."""

    def run(count: int, *, durable: bool) -> float:
        how = How(durable=durable, slicing=options.slicing)
        found = run_weft(given, scotty_queries(count, seed=seed), how=how)
        if not durable:
            return found.stream_s
        last[count] = found
        return found.seconds

    names = {
        (count, durable): f"{count:,} windows, {durable=}" for count in counts for durable in (True, False)
    }
    turns = [(name, partial(run, count, durable=durable)) for (count, durable), name in names.items()]
    taken = alternate(turns, repeats=options.repeats, warmups=options.warmups, console=options.console)
    return {count: (taken[names[count, True]], taken[names[count, False]]) for count in counts}


def _size(count: int, of_seeds: Sequence[tuple[Seconds, Seconds]], run: WeftRun) -> Size:
    return Size(
        queries=count,
        rows=run.rows,
        durable=pooled(durable for durable, _ in of_seeds),
        as_scotty=pooled(without for _, without in of_seeds),
        windows=run.windows,
        slices=run.slices,
        register_s=run.register_s,
        stages_s=dict(run.stages),
    )
