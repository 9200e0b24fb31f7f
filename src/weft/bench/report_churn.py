"""What `weft bench churn` found, as tables and as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Console

from weft.bench import report
from weft.bench.churn_memory import MemoryOverTime
from weft.bench.equality import Comparison
from weft.bench.records import Record, Seconds, concatenated, plain, pooled_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Record):
    """The runs with a checkpoint on disk, or those without."""

    quiet: Seconds
    """Without changes."""
    churned: Seconds
    """With them, their own calls included."""
    calls: Seconds
    """Every call that adds or removes a query, in all counted runs and the warm-up."""

    @property
    def throughput(self) -> float:
        """Rows per second with changes, in units of those without."""
        return self.quiet.median / self.churned.median

    @property
    def pairs(self) -> tuple[float, ...]:
        """The same, of the two runs of each round."""
        rounds = zip(self.quiet.runs, self.churned.runs, strict=True)
        return tuple(quiet / churned for quiet, churned in rounds)

    @property
    def throughput_by_pairs(self) -> float:
        """The median of the rounds."""
        return Seconds(self.pairs).median

    def as_json(self) -> dict[str, object]:
        """Return the figures by name."""
        return {
            "throughput": self.throughput,
            "throughput_by_pairs": self.throughput_by_pairs,
            "quiet_s": self.quiet.runs,
            "churned_s": self.churned.runs,
            "call_ms": 1000 * self.calls.median,
            "call_spread_ms": (1000 * self.calls.least, 1000 * self.calls.most),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnResult(report.Result):
    """What `weft bench churn` found for one number of rows and of queries, from one seed or from several."""

    queries: int
    rows: int
    seeds: tuple[int, ...] = pooled_by(concatenated)
    batches: int
    operations: int
    warmups: int
    durable: Rounds
    without_checkpoint: Rounds
    plans: int
    """How many batches of the last run had a plan of their own."""
    warm: int = pooled_by(sum)
    """How many of the queries that joined in the run that was compared answered earlier windows, too."""
    compared: Comparison
    memory: MemoryOverTime | None = pooled_by(lambda _: None)  # noqa: RUF009
    """Of one seed."""

    @property
    def passed(self) -> bool:
        """Whether all rows are right."""
        return self.compared.equal is not False

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        names = "queries rows seeds batches operations warmups plans warm without_checkpoint compared memory"
        return {**{name: plain(getattr(self, name)) for name in names.split()}, **self.durable.as_json()}

    def show(self, console: Console) -> None:
        """Print seconds, what was compared, and memory."""
        durable = self.durable
        rows = [
            (f"{name}{kind}", f"{taken.median:.2f}", taken.spread, f"{self.rows / taken.median:,.0f}")
            for rounds, kind in ((durable, ""), (self.without_checkpoint, ", no checkpoint"))
            for name, taken in (("without changes", rounds.quiet), ("with changes", rounds.churned))
        ]
        caption = (
            f"Medians of all {len(durable.quiet.runs)} counted rounds, with their least and most, after "
            f"{self.warmups} that warm up; {self.batches} micro-batches, of which {self.plans} had a plan "
            "of their own. Half of the changes are queries that join: in turn, a new predicate and a new "
            "window take the place of the oldest, in all of their queries, so the workload stays regular. "
            "Changes are spread evenly over the batches; each is a call of its own, durable when it returns, "
            f"and no round repeats another's. A call took {1000 * durable.calls.median:.0f} ms (median; at "
            f"most {1000 * durable.calls.most:.0f}), which is included."
        )
        title = (
            f"{self.operations:,} queries come or go, beside {self.queries:,} over {self.rows:,} rows, "
            f"{report.seeds_of(self.seeds)}"
        )
        console.print(report.make_table(title, "|seconds|spread|rows/s", rows, caption=caption))
        console.print(report.equality(self.compared))
        if self.compared.queries:
            console.print(f"{self.warm:,} queries answered earlier windows than they could rely on")
        console.print(
            f"throughput_with_changes {durable.throughput:.2f}; by rounds {durable.throughput_by_pairs:.2f} "
            f"({min(durable.pairs):.2f}–{max(durable.pairs):.2f}); without a checkpoint "
            f"{self.without_checkpoint.throughput:.2f}"
        )
        if self.memory is not None:
            _show_memory(self.memory, console)

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw seconds with and without changes, and memory over batches if it was measured."""
        result, figure = results[0], report.new_figure(11, 5)
        if result.memory is None:
            _draw_seconds(figure.subplots(), result)
        else:
            seconds, memory = figure.subplots(1, 2, width_ratios=(1, 2))
            _draw_seconds(seconds, result)
            _draw_memory(memory, result.memory)
        return figure


def _show_memory(memory: MemoryOverTime, console: Console) -> None:
    trends = {
        "JVM live heap, MB": memory.jvm_mb,
        "Python resident, MB": memory.python_mb,
        "partials held": memory.partials,
    }
    rows = [
        (
            name,
            *(f"{number:,.1f}" for number in (one.mean, one.per_100_batches, one.growth, one.spread)),
            "flat" if one.flat else "grows",
        )
        for name, one in trends.items()
    ]
    caption = (
        f"A line through {len(memory.settled)} samples, after windows have filled. Flat: what it grows by is "
        "within twice the spread of the samples around it, or is less than the megabyte that Python and "
        "Java take at a time."
    )
    title = f"memory over {memory.batches:,} batches with {memory.operations:,} changes"
    console.print(report.make_table(title, "|mean|per 100 batches|growth|spread|", rows, caption=caption))


def _draw_seconds(axes: report.Axes, result: ChurnResult) -> None:
    report.draw_bar(axes, "without\nchanges", result.durable.quiet, report.GREY)
    report.draw_bar(axes, f"with\n{result.operations:,}", result.durable.churned, report.BLUE)
    axes.set(title=f"{result.queries:,} queries, {result.rows:,} rows", ylabel="seconds")


def _draw_memory(axes: report.Axes, memory: MemoryOverTime) -> None:
    batches = [one.batch for one in memory.samples]
    axes.plot(batches, [one.jvm_mb for one in memory.samples], color=report.RED, label="JVM live heap")
    axes.plot(batches, [one.python_mb for one in memory.samples], color=report.BLUE, label="Python resident")
    axes.set_ylim(bottom=0)
    axes.set(title=f"memory with {memory.operations:,} changes", xlabel="batches", ylabel="megabytes")
    report.put_legend(axes)
