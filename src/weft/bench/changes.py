"""Queries that come and go while a bench runs, the windows that they have to answer, and memory.

Changes are spread evenly over the batches, and each is a call of its own, durable when it returns. Calls
come from callers of their own, as they do in service: those that are made during a batch wait for its end
together. Where rows are to be compared, they are made one by one between two batches, so that it is known
which rows were read by then. Which windows a query has to answer follows from the rows of the files read so
far, not from what the engine says:

    files     |── batch 1 ──|── batch 2 ──|── batch 3 ──|
    joins                    ^ newest row of 2: all windows that begin after it
    leaves                                 ^ newest row of 3 less the delay: all windows that end by then
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise
from os import getpid
from time import perf_counter
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

from weft.bench import report
from weft.bench.dataset import DELAY
from weft.bench.equality import Span
from weft.bench.memory import heap_in_use, resident_mb
from weft.bench.options import progress
from weft.bench.records import Record
from weft.bench.runs import Input, Settings, engine_for, is_micro_batch, run_engine
from weft.bench.tiny_batches import tiny_trades
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.query import parse_duration
from weft.service.queries import Query
from weft.state.report import BatchReport

Result = TypeVar("Result")
_CALLERS = 64
"""Maximum number of callers at once."""
Pair = tuple[str, BenchQuery]
"""The name of a query that leaves, and the query that joins in its place."""


def newest_rows(given: Input) -> list[int]:
    """Return after each batch the newest event time in the files read so far, in microseconds."""
    paths = sorted(given.dataset.folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    times = (pq.read_table(path, columns=["time"])["time"].cast("int64") for path in paths)
    newest = list(accumulate((pc.max(of_file).as_py() for of_file in times), max))
    last_files = range(given.files_per_trigger - 1, len(newest) - 1, given.files_per_trigger)
    return [*(newest[number] for number in last_files), newest[-1]]


def spread_evenly(count: int, boundaries: int) -> list[int]:
    """Return how many changes are made after each batch, spread as evenly as possible.

    >>> spread_evenly(5, 3)
    [1, 2, 2]
    """
    ends = [count * number // boundaries for number in range(boundaries + 1)]
    return [end - begin for begin, end in pairwise(ends)]


@dataclass(slots=True)
class Changes:
    """Adds and removes equally many queries after each batch."""

    engine: Engine
    pairs: Iterator[Pair]
    at_once: Sequence[int]
    """How many pairs are due after each batch."""
    newest: Sequence[int] | None = None
    """The newest event time after each batch, where what is to be compared is kept."""
    spans: dict[str, Span] = field(default_factory=dict)
    """The windows that queries have to answer, of those that came or went."""
    handles: dict[str, Query] = field(default_factory=dict)
    warm: int = 0
    """How many queries reported an earlier first window than they could rely on."""
    plans: int = 0
    batches: int = 0
    calls_s: list[float] = field(default_factory=list)
    _callers: ThreadPoolExecutor | None = None
    _called: list[Future[None]] = field(default_factory=list)
    _joining: dict[str, Future[None]] = field(default_factory=dict)
    """The calls that add queries, by name."""

    def __post_init__(self) -> None:
        if self.newest is not None:
            self.handles.update(self.engine.queries)

    @property
    def operations(self) -> int:
        """How many queries have joined or left."""
        return len(self.calls_s)

    def note(self, stream: str, report: BatchReport) -> None:
        """Change queries after a batch."""
        if not is_micro_batch(report):
            return
        self.batches += 1
        self.plans += report.replanned
        due = self.at_once[self.batches - 1] if self.batches <= len(self.at_once) else 0
        for leaves, joins in islice(self.pairs, due):
            if self._callers is None:
                self._join(joins)
                self._leave(leaves)
            else:
                self._joining[joins.name] = self._callers.submit(self._join, joins)
                self._called += [self._joining[joins.name], self._callers.submit(self._leave, leaves)]

    @contextmanager
    def callers(self) -> Iterator[None]:
        """Have changes made by callers of their own; wait for all at the end, and raise the error of any."""
        with ThreadPoolExecutor(_CALLERS) as self._callers:
            yield
        for call in self._called:
            call.result()

    def _join(self, query: BenchQuery) -> None:
        handle = self._call(lambda: self.engine.add(query.sql, name=query.name))
        if self.newest is not None:
            self.handles[query.name] = handle
            since = self.newest[self.batches - 1] + 1
            promised = handle.info.first_window
            # A promise of earlier windows binds; one of later windows excuses nothing.
            if promised is not None and promised[0] < since:
                self.warm += 1
                since = promised[0]
            self.spans[query.name] = Span(since=since)

    def _leave(self, name: str) -> None:
        if name in self._joining:
            self._joining[name].result()
        self._call(lambda: self.engine.remove(name))
        if self.newest is not None:
            watermark = self.newest[self.batches - 1] - parse_duration(DELAY) * 1000
            self.spans[name] = replace(self.spans.get(name, Span()), until=watermark)

    def _call(self, change: Callable[[], Result]) -> Result:
        began = perf_counter()
        result = change()
        self.calls_s.append(perf_counter() - began)
        return result


def changes(
    engine: Engine, pairs: Sequence[Pair], *, boundaries: int, newest: Sequence[int] | None = None
) -> Changes:
    """Return changes that are spread evenly over the batches of a run."""
    return Changes(engine, iter(pairs), spread_evenly(len(pairs), boundaries), newest)


_ROWS_IN_BATCH = 400
_SAMPLES = 50
"""How often memory is looked at, if there are as many batches."""
_SETTLED = 0.4
"""The part of a run in which windows fill and code is compiled; growth is looked for after it."""
_SPREADS = 2.0
_WATCHED = {
    "jvm_mb": "JVM live heap, MB", "python_mb": "Python resident, MB", "partials": "partials held"
}  # fmt: skip
_PIECE_MB = 1.0
"""How much Python and Java take at a time at least, as an arena or a region: growth by less says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend(Record):
    """A line through the samples of the settled part of a run."""

    computed: ClassVar[str] = "flat"
    mean: float
    per_100_batches: float
    growth: float
    """From the first batch of the settled part to the last."""
    spread: float
    """How far samples are from the line: their standard deviation."""
    grain: float = 0.0
    """The least that could be seen to grow."""

    @property
    def flat(self) -> bool:
        """Whether the growth is within the noise."""
        return self.growth <= max(_SPREADS * self.spread, self.grain)


def trend(batches: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64], *, grain: float = 0.0) -> Trend:
    """Return the line of least squares."""
    slope, start = np.polyfit(batches, sizes, 1)
    around = sizes - (slope * batches + start)
    return Trend(
        mean=float(sizes.mean()),
        per_100_batches=float(100 * slope),
        growth=float(slope * (batches[-1] - batches[0])),
        spread=float(around.std(ddof=2)),
        grain=grain,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Record):
    """What is in use after some batches."""

    batch: int
    queries: int
    partials: int
    jvm_mb: float
    """The live heap, after collections."""
    python_mb: float
    """The resident set of the Python process, after a collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOverTime(Record):
    """Samples of a run, and their trends."""

    batches: int
    operations: int
    samples: tuple[Sample, ...]

    @property
    def settled(self) -> tuple[Sample, ...]:
        """The samples in which growth is looked for."""
        return tuple(sample for sample in self.samples if sample.batch > _SETTLED * self.batches)

    def trend(self, name: str) -> Trend:
        """Return the trend of a figure of the samples."""
        batches, sizes = (
            np.array([getattr(sample, of) for sample in self.settled], dtype=float) for of in ("batch", name)
        )
        return trend(batches, sizes, grain=_PIECE_MB if name.endswith("_mb") else 0.0)

    def as_json(self) -> dict[str, object]:
        """Return the samples and the trends."""
        return {**Record.as_json(self), **{name: self.trend(name).as_json() for name in _WATCHED}}

    def show(self, console: Console) -> None:
        """Print what memory grows by."""
        lines = [(label, self.trend(name)) for name, label in _WATCHED.items()]
        rows = [(label, line, "flat" if line.flat else "grows") for label, line in lines]
        names = {"mean": "mean", "per 100 batches": "per_100_batches", "growth": "growth", "spread": "spread"}
        figures = {heading: f"{{1.{name}:,.1f}}" for heading, name in names.items()}
        columns = {"<": "{0}", **figures, "": "{2}"}
        caption = (
            f"A line through {len(self.settled)} samples, after windows have filled. Flat: what it grows by "
            "is within twice the spread of the samples around it, or is less than the megabyte that Python "
            "and Java take at a time."
        )
        title = f"memory over {self.batches:,} batches with {self.operations:,} changes"
        console.print(report.make_table(title, columns, rows, caption=caption))

    def draw(self, axes: report.Axes) -> None:
        """Draw memory over batches."""
        batches = [sample.batch for sample in self.samples]
        curves = (("jvm_mb", report.RED, "JVM live heap"), ("python_mb", report.BLUE, "Python resident"))
        for name, color, label in curves:
            sizes = [getattr(sample, name) for sample in self.samples]
            axes.plot(batches, sizes, color=color, label=label)
        axes.set_ylim(bottom=0)
        title = f"memory with {self.operations:,} changes"
        axes.set(title=title, xlabel="batches", ylabel="megabytes")
        report.put_legend(axes)


def memory_over_time(
    given: Input,
    queries: Sequence[BenchQuery],
    pairs: Sequence[Pair],
    settings: Settings,
    *,
    batches: int,
    console: Console,
) -> MemoryOverTime:
    """Run an hour of trades as many small batches with a checkpoint, and look at memory now and then."""
    given = tiny_trades(given, batches=batches, rows_in_batch=_ROWS_IN_BATCH)
    engine = engine_for(given, queries, settings)
    made = changes(engine, pairs, boundaries=batches)
    samples: list[Sample] = []
    every = max(1, batches // _SAMPLES)
    with progress(console) as bar:
        task = bar.add_task(f"{batches:,} batches while queries come and go", total=batches)

        def note(stream: str, report: BatchReport) -> None:
            made.note(stream, report)
            bar.update(task, completed=made.batches)
            if made.batches % every == 0 and len(samples) < made.batches // every:
                sample = Sample(
                    batch=made.batches, queries=len(engine.queries), partials=engine.state_rows(),
                    jvm_mb=heap_in_use(given.spark), python_mb=resident_mb(getpid()),
                )  # fmt: skip
                samples.append(sample)

        run_engine(given, engine, note)
    return MemoryOverTime(batches=made.batches, operations=made.operations, samples=tuple(samples))
