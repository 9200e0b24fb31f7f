"""Memory over many small batches while queries come and go: is anything left behind?"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import getpid
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rich.console import Console

from weft.bench import report
from weft.bench.changes import Pair, changes
from weft.bench.memory import heap_in_use, resident_mb
from weft.bench.options import progress
from weft.bench.records import Record
from weft.bench.runs import Input, Settings, engine_for, run_engine
from weft.bench.tiny_batches import tiny_trades
from weft.bench.workloads import BenchQuery
from weft.stream.pipeline import BatchReport

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
