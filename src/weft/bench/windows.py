"""The bench of many windows: Scotty's workload, tumbling windows of random length over a fast stream.

The figure is with a checkpoint on disk, from the text of the queries to the last answer. A second one is as
in Scotty's benchmark: windows are registered before the clock starts, and nothing is durable. Results stay in
memory in both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from weft.bench import report
from weft.bench.bench import Bench, PicturedResult
from weft.bench.dataset import Dataset, make, moment, uniform
from weft.bench.options import Queries, Repeats, Rows
from weft.bench.records import Record, Seconds
from weft.bench.runs import Input, Settings, WeftRun, run_weft
from weft.bench.workloads import SCOTTY_SIZES, scotty_queries

_COLUMNS = "time TIMESTAMP, key INT, value BIGINT"
_KEYS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Record):
    """One number of windows."""

    computed: ClassVar[str] = "seconds rows_per_s scotty_rows_per_s"
    queries: int
    run: WeftRun
    """The last one with a checkpoint."""
    durable: Seconds
    """With a checkpoint on disk and the windows' registration."""
    as_scotty: Seconds
    """Without either."""

    @property
    def seconds(self) -> float:
        """The median with a checkpoint."""
        return self.durable.median

    @property
    def rows_per_s(self) -> float:
        """Throughput with a checkpoint."""
        return self.run.rows / self.seconds

    @property
    def scotty_rows_per_s(self) -> float:
        """Throughput as Scotty's benchmark measures it."""
        return self.run.rows / self.as_scotty.median


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsResult(PicturedResult):
    """What `weft bench windows` found."""

    computed: ClassVar[str] = "ratio"
    workload: str = "tumbling windows of 1–20 s"
    rows: int
    bench: "Windows"
    sizes: tuple[Size, ...]

    @property
    def ratio(self) -> float:
        """Throughput with the most windows, in units of that with the fewest."""
        return self.sizes[-1].rows_per_s / self.sizes[0].rows_per_s

    def show(self, console: Console) -> None:
        """Print the throughput for each number of windows."""
        first, bench = self.sizes[0], self.bench
        durable, as_scotty = first.rows_per_s, first.scotty_rows_per_s
        rows = [
            *((f"{size.queries:,}", size.rows_per_s, durable, size.durable) for size in self.sizes),
            *(
                (f"{size.queries:,}, no checkpoint", size.scotty_rows_per_s, as_scotty, size.as_scotty)
                for size in self.sizes
            ),
        ]
        caption = (
            f"Medians of all counted rounds ({bench.repeats} for each of {report.seeds_of(bench.seeds)}), "
            f"with their least and most, after {bench.warmups} that warm up; {bench.rate:,} rows per second "
            f"of event time, {bench.batches} micro-batches, {self.cores} cores. With a checkpoint on disk, "
            "from the text of the queries on. Without one it is as in Scotty's benchmark: windows are "
            "registered before the clock starts. Results stay in memory."
        )
        columns = {
            "<windows": "{0}", "rows/s": "{1:,.0f}", "of one": "{2:.2f}", "seconds": "{3.median:.2f}",
            "spread": "{3.spread}",
        }  # fmt: skip
        title = f"tumbling windows of 1–20 s over {self.rows:,} rows"
        compared = [(name, speed, speed / one, seconds) for name, speed, one, seconds in rows]
        console.print(report.make_table(title, columns, compared, caption=caption, no_wrap=True))
        columns = {
            "windows": "{0.queries:,}", "results": "{0.run.windows:,}", "slices a batch": "{0.run.slices:,}"
        }  # fmt: skip
        console.print(report.make_table("results, and slices of the largest batch", columns, self.sizes))

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw throughput over the number of windows."""
        figure = report.new_figure(6, 4.4)
        axes = figure.subplots()
        sizes = results[0].sizes
        durable = [(size.queries, size.rows_per_s / 1e6) for size in sizes]
        without = [(size.queries, size.scotty_rows_per_s / 1e6) for size in sizes]
        report.draw_line(axes, durable, color=report.BLUE, label="with a checkpoint")
        report.draw_line(axes, without, "--", marker=".", color=report.BLUE, label="as Scotty measures")
        axes.axhline(0.9 * durable[0][1], color=report.GREY, linestyle=":", label="90 % of one window")
        axes.set_ylim(bottom=0, top=1.1 * max(speed for _, speed in (*durable, *without)))
        report.finish(
            axes, [size.queries for size in sizes], base=10, scale="linear",
            title="tumbling windows of 1–20 s", xlabel="concurrent windows", ylabel="million rows/s",
        )  # fmt: skip
        return figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows(Bench[WindowsResult]):
    """Tumbling windows of random length (Scotty's workload): throughput from 1 to 1,000 windows.

    Example: weft bench windows -n 1 -n 1000
    """

    offers = "queries rows seeds repeats warmups slicing json data cores"
    pictures = ("windows",)
    queries: Queries = SCOTTY_SIZES
    rows: Rows = (8_000_000,)
    repeats: Repeats = 3
    rate: int = 100_000
    """Rows per second of event time."""

    def measure(self) -> Iterator[WindowsResult]:
        """Measure each number of windows, alternating."""
        spark = self.session()
        cores = spark.sparkContext.defaultParallelism
        for rows in self.rows:
            files = self.batches * cores
            dataset = make_events(spark, self.data, rows=rows, rate=self.rate, files=files)
            given = Input(spark=spark, dataset=dataset, files_per_trigger=cores)
            of_seeds = zip(*(self._of_seed(given, seed) for seed in self.seeds), strict=True)
            sizes = tuple(map(Size.pooled, of_seeds))
            yield WindowsResult(bench=self, cores=cores, rows=rows, sizes=sizes)

    def _of_seed(self, given: Input, seed: int) -> list[Size]:
        """Alternate between numbers of windows, with a checkpoint and as Scotty measures."""
        last: dict[int, WeftRun] = {}

        def take(count: int, *, durable: bool) -> float:
            settings = Settings(durable=durable, slicing=self.slicing)
            run = run_weft(given, scotty_queries(count, seed=seed), settings=settings)
            if not durable:
                return run.stream_s
            last[count] = run
            return run.seconds

        kinds = [(count, durable) for count in sorted(self.queries) for durable in (True, False)]
        names = {(count, durable): f"{count:,} windows, {durable=}" for count, durable in kinds}
        turns = [(name, partial(take, count, durable=durable)) for (count, durable), name in names.items()]
        seconds = self.alternate(turns)
        return [
            Size(
                queries=count, run=run, durable=seconds[names[count, True]],
                as_scotty=seconds[names[count, False]],
            )
            for count, run in sorted(last.items())
        ]  # fmt: skip


def make_events(
    spark: SparkSession, data: Path, *, rows: int, rate: int, files: int = 16, seed: int = 1
) -> Dataset:
    """Write `rate` rows per second of event time, or return those that an earlier run wrote."""
    if rows * 1000 < rate:
        raise ValueError(f"{rows} rows at {rate} rows/s last less than a millisecond")
    folder = data / f"events-{rows}-{files}-{rate}hz-seed{seed}"
    span_ms = rows * 1000 // rate
    dataset = Dataset(name="events", folder=folder, columns=_COLUMNS, rows=rows, files=files, span_ms=span_ms)
    return make(spark, dataset, _events, seed)


def _events(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into keyed values."""
    return numbered.select(
        moment(dataset, uniform(seed, 2)).alias("time"),
        F.floor(uniform(seed, 3) * F.lit(_KEYS)).cast("int").alias("key"),
        F.floor(uniform(seed, 4) * F.lit(10_000)).cast("bigint").alias("value"),
    )
