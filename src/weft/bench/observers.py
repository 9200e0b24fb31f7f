"""The bench of observers: what a run costs beside subscribers that sleep and raise."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, sleep

import pyarrow as pa
from rich.console import Console

from weft.bench import report
from weft.bench.bench import Bench, Result
from weft.bench.fragments import Workload, workloads
from weft.bench.options import Batches, Repeats, Rows
from weft.bench.records import Seconds, concatenated, pooled_by
from weft.bench.runs import Settings, engine_for
from weft.bench.workloads import BenchQuery, Predicates
from weft.engine import Engine
from weft.state.report import BatchReport

_SLEEP_SECONDS = 5.0
"""How long the slow subscriber sleeps at each call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserversResult(Result):
    """What `weft bench observers` found for one number of rows and of queries."""

    queries: int
    rows: int
    batches: int
    seeds: tuple[int, ...] = pooled_by(concatenated)
    alone: Seconds
    """Without subscribers."""
    beside: Seconds
    """Beside one that sleeps and one that raises."""
    slept: int = pooled_by(sum)
    """How often the one that sleeps was called, in all rounds."""
    raised: int = pooled_by(sum)
    """How often the other one was."""

    @property
    def throughput(self) -> float:
        """Rows per second beside them, in units of those without."""
        return self.alone.median / self.beside.median

    @property
    def by_pairs(self) -> Seconds:
        """The same, of the two runs of each round."""
        return self.alone.over(self.beside)

    def as_json(self) -> dict[str, object]:
        """Return the options and all figures by name."""
        ratios = {"throughput": self.throughput, "throughput_by_pairs": self.by_pairs.median}
        return {**Result.as_json(self), **ratios}

    def show(self, console: Console) -> None:
        """Print seconds, and the ratio of throughputs."""
        pairs = (("no subscribers", self.alone), ("beside them", self.beside))
        rows = [(name, taken, self.rows / taken.median) for name, taken in pairs]
        columns = {"": "{0}", "seconds": "{1.median:.2f}", "spread": "{1.spread}", "rows/s": "{2:,.0f}"}
        caption = (
            f"Medians of all {len(self.alone.runs)} counted rounds, with their least and most, after "
            f"{self.bench.warmups} that warm up; {self.batches} micro-batches, durable; from the start of "
            f"the stream to its last commit. A subscriber of one query slept {_SLEEP_SECONDS:g} s at each of "
            f"{self.slept:,} calls; one of another raised an error at each of {self.raised:,}. A stop allows "
            "them some seconds for what is queued, which is not included."
        )
        title = (
            f"{self.queries:,} queries beside two subscribers, {self.rows:,} rows, "
            f"{report.seeds_of(self.seeds)}"
        )
        console.print(report.make_table(title, columns, rows, caption=caption))
        console.print(
            f"throughput_beside_subscribers {self.throughput:.2f}; by rounds {self.by_pairs.median:.2f} "
            f"({self.by_pairs.spread})"
        )


@dataclass(slots=True)
class Runs:
    """Runs of a workload, and how often the subscribers beside them were called."""

    bench: "ObserversBench"
    source: Workload
    queries: Sequence[BenchQuery]
    calls: Counter[str] = field(default_factory=Counter)

    def run(self, *, beside: bool) -> float:
        """Run all batches durably; return the seconds from the start of the stream to the last commit."""
        given, committed = self.source.given, 0.0

        def note(stream: str, report: BatchReport) -> None:
            nonlocal committed
            committed = perf_counter()

        engine = engine_for(given, self.queries, Settings(slicing=self.bench.slicing))
        if beside:
            self._subscribe(engine)
        with given.folder() as checkpoint:
            began = perf_counter()
            engine.run(checkpoint=checkpoint, flush=True, on_batch=note, keep=False)
        return committed - began

    def _subscribe(self, engine: Engine) -> None:
        def dawdle(rows: pa.Table) -> None:
            self.calls["slept"] += 1
            sleep(_SLEEP_SECONDS)

        def fail(rows: pa.Table) -> None:
            self.calls["raised"] += 1
            raise ValueError("a subscriber that always raises")

        for query, call in zip((self.queries[0], self.queries[-1]), (dawdle, fail), strict=True):
            engine.queries[query.name].subscribe(call)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserversBench(Bench[ObserversResult]):
    """Subscribers that sleep 5 s a call or raise, beside a run (workload C regular): its throughput.

    Example: weft bench observers --repeats 5
    """

    offers = "batches queries rows seeds repeats warmups slicing json data cores"
    rows: Rows = (4_000_000,)
    repeats: Repeats = 3
    batches: Batches = 40

    def measure(self) -> Iterator[ObserversResult]:
        """Measure runs of workload C regular with and without such subscribers, by turns."""
        for size in self.queries:
            Predicates.REGULAR.check(size)
        return self.over_sets(partial(workloads, self, Predicates.REGULAR), self._measure)

    def _measure(self, sources: dict[int, Workload], size: int, seed: int) -> ObserversResult:
        runs = Runs(self, sources[seed], sources[seed].queries(size))
        turns = [
            ("without subscribers", partial(runs.run, beside=False)),
            ("beside subscribers", partial(runs.run, beside=True)),
        ]
        alone, beside = self.alternate(turns).values()
        given = runs.source.given
        return ObserversResult(
            bench=self, cores=given.cores, queries=size, rows=given.dataset.rows, batches=given.batches,
            seeds=(seed,), alone=alone, beside=beside, slept=runs.calls["slept"], raised=runs.calls["raised"],
        )  # fmt: skip
