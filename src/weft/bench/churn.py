"""The bench of queries that come and go: what that costs a run, and whether it leaves anything behind.

Each change is a call of its own, durable when it returns, and they are spread evenly over the batches.
Callers are threads of their own, so that those of one batch wait for its end together (`stream/boundary.py`).
No round makes the changes of another: code that Spark compiled for one is not found by the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Annotated, Self

from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.bench import Bench, PicturedResult
from weft.bench.changes import Changes, MemoryOverTime, Pair, changes, memory_over_time, newest_rows
from weft.bench.equality import Comparison, compare
from weft.bench.fragments import Workload, workloads
from weft.bench.options import Batches, Check, Checked, Repeats, Rows
from weft.bench.records import Record, Seconds, concatenated, pooled_by
from weft.bench.runs import Input, Settings, engine_for, run_engine
from weft.bench.workloads import BenchQuery, Predicates


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
    def by_pairs(self) -> Seconds:
        """The same, of the two runs of each round."""
        return self.quiet.over(self.churned)

    def as_json(self) -> dict[str, object]:
        """Return the figures by name."""
        return {
            "throughput": self.throughput,
            "throughput_by_pairs": self.by_pairs.median,
            "quiet_s": self.quiet.runs,
            "churned_s": self.churned.runs,
            "call_ms": 1000 * self.calls.median,
            "call_spread_ms": (1000 * self.calls.least, 1000 * self.calls.most),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnResult(PicturedResult):
    """What `weft bench churn` found for one number of rows and of queries, from one seed or from several."""

    queries: int
    rows: int
    seeds: tuple[int, ...] = pooled_by(concatenated)
    batches: int
    operations: int
    durable: Rounds
    without_checkpoint: Rounds
    plans: int
    """How many batches of the last run had a plan of their own."""
    warm: int = pooled_by(sum)
    """How many of the queries that joined in the run that was compared answered earlier windows, too."""
    memory: MemoryOverTime | None = pooled_by(lambda _: None)  # noqa: RUF009
    """Of one seed."""

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        figures = PicturedResult.as_json(self)
        del figures["durable"]
        return {**figures, **self.durable.as_json()}

    def show(self, console: Console) -> None:
        """Print seconds, what was compared, and memory."""
        durable, without = self.durable, self.without_checkpoint
        rows = [
            (f"{name}{kind}", taken, self.rows / taken.median)
            for rounds, kind in ((durable, ""), (without, ", no checkpoint"))
            for name, taken in (("without changes", rounds.quiet), ("with changes", rounds.churned))
        ]
        columns = {"": "{0}", "seconds": "{1.median:.2f}", "spread": "{1.spread}", "rows/s": "{2:,.0f}"}
        caption = (
            f"Medians of all {len(durable.quiet.runs)} counted rounds, with their least and most, after "
            f"{self.bench.warmups} that warm up; {self.batches} micro-batches, of which {self.plans} had a "
            "plan of their own. Half of the changes are queries that join: in turn, a new predicate and a "
            "new window take the place of the oldest, in all of their queries: the workload stays regular. "
            "Changes are spread evenly over the batches; each is a call of its own, durable when it returns, "
            "from a caller of its own, and no round repeats another's. A call took "
            f"{1000 * durable.calls.median:.0f} ms (median; at most {1000 * durable.calls.most:.0f}), with "
            "the time that it waited for the end of a batch."
        )
        title = (
            f"{self.operations:,} queries come or go, beside {self.queries:,} over {self.rows:,} rows, "
            f"{report.seeds_of(self.seeds)}"
        )
        console.print(report.make_table(title, columns, rows, caption=caption))
        console.print(report.equality(self.compared))
        if self.compared.queries:
            console.print(f"{self.warm:,} queries answered earlier windows than they could rely on")
        console.print(
            f"throughput_with_changes {durable.throughput:.2f}; by rounds {durable.by_pairs.median:.2f} "
            f"({durable.by_pairs.spread}); without a checkpoint {without.throughput:.2f}"
        )
        if self.memory is not None:
            self.memory.show(console)

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw seconds with and without changes, and memory over batches if it was measured."""
        result, figure = results[0], report.new_figure(11, 5)
        panels = 1 if result.memory is None else 2
        axes = figure.subplots(1, panels, squeeze=False, width_ratios=(1, 2)[:panels])[0]
        report.draw_bar(axes[0], "without\nchanges", result.durable.quiet, report.GREY)
        report.draw_bar(axes[0], f"with\n{result.operations:,}", result.durable.churned, report.BLUE)
        axes[0].set(title=f"{result.queries:,} queries, {result.rows:,} rows", ylabel="seconds")
        if result.memory is not None:
            result.memory.draw(axes[1])
        return figure


@dataclass(slots=True)
class _Churn:
    """A workload, and the queries that join it while it runs."""

    bench: "Churn"
    source: Workload
    queries: Sequence[BenchQuery]
    numbers: "count[int]" = field(default_factory=count)
    last: Changes | None = None
    calls: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def given(self) -> Input:
        """What all runs read."""
        return self.source.given

    def next_pairs(self) -> Sequence[Pair]:
        """Return the changes of another run: which query leaves, and which joins."""
        return self.source.turnover(len(self.queries), self.bench.operations // 2, run=next(self.numbers))

    def start(self, pairs: Sequence[Pair], newest: Sequence[int] | None = None) -> Changes:
        """Return an engine with all queries and the changes to make while it runs."""
        engine = engine_for(self.given, self.queries, Settings(slicing=self.bench.slicing))
        # The last batch has no next: a query that joins after it has nothing to do.
        return changes(engine, pairs, boundaries=max(1, self.given.batches - 1), newest=newest)

    def run(self, *, changing: bool, durable: bool) -> float:
        """Run all batches; return the seconds from the start of the stream to its last result."""
        made = self.start(self.next_pairs() if changing else ())
        with made.callers():
            seconds = run_engine(self.given, made.engine, made.note, durable=durable)
        if changing:
            self.last = made
            self.calls[durable] += made.calls_s
        return seconds

    def rounds(self) -> tuple[Rounds, Rounds]:
        """Run with and without changes, with and without a checkpoint, once each in every round."""
        turns = [
            (
                f"{'with' if changing else 'without'} changes{'' if durable else ', no checkpoint'}",
                partial(self.run, changing=changing, durable=durable),
            )
            for durable in (True, False)
            for changing in (False, True)
        ]
        quiet, churned, quiet_without, churned_without = self.bench.alternate(turns).values()
        calls, calls_without = (Seconds(tuple(self.calls[durable])) for durable in (True, False))
        return (
            Rounds(quiet=quiet, churned=churned, calls=calls),
            Rounds(quiet=quiet_without, churned=churned_without, calls=calls_without),
        )

    def compare(self) -> tuple[Comparison, int]:
        """Compare the rows of queries that came or went with plain Spark's, in a run of its own."""
        if self.bench.check is Check.NONE:
            return Comparison(), 0
        pairs, console = self.next_pairs(), self.bench.console
        made = self.start(pairs, newest_rows(self.given))
        with console.status("running once more, to compare rows"):
            run_engine(self.given, made.engine, made.note, keep=True)
        known = {query.name: query for query in (*self.queries, *(joins for _, joins in pairs))}
        changed = self.bench.check.choose([known[name] for name in made.spans])
        rows_of = {name: handle.results for name, handle in made.handles.items()}
        return compare(self.given, changed, lambda name: rows_of[name](), console, made.spans), made.warm

    def memory(self) -> MemoryOverTime:
        """Watch memory over many small batches, two queries leaving and two joining in each."""
        batches = self.bench.memory_batches
        pairs = self.source.turnover(len(self.queries), 2 * batches)
        settings = Settings(slicing=self.bench.slicing)
        return memory_over_time(
            self.given, self.queries, pairs, settings, batches=batches, console=self.bench.console
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn(Bench[ChurnResult]):
    """Queries that come and go while the stream runs (workload C regular): throughput, rows and memory.

    Example: weft bench churn --operations 1000
    """

    offers = (
        "operations batches memory_batches queries rows seeds repeats warmups slicing check json data cores"
    )
    pictures = ("churn",)
    rows: Rows = (4_000_000,)
    repeats: Repeats = 3
    check: Checked = Check.SAMPLE
    operations: Annotated[int, Option(help="How many queries join or leave in a run.", min=2)] = 400
    batches: Batches = 40
    memory_batches: Annotated[
        int, Option(help="Small batches over which memory is watched; 0: none.", min=0)
    ] = 0

    def measure(self) -> Iterator[ChurnResult]:
        """Measure runs of workload C regular with and without changes, and memory over many small batches."""
        for size in self.queries:
            Predicates.REGULAR.check(size)
        return self.over_sets(partial(workloads, self, Predicates.REGULAR), self._measure)

    def _measure(self, sources: dict[int, Workload], size: int, seed: int) -> ChurnResult:
        churn = _Churn(self, sources[seed], sources[seed].queries(size))
        durable, without = churn.rounds()
        compared, warm = churn.compare()
        last = churn.last
        assert last is not None
        return ChurnResult(
            bench=self, cores=churn.given.cores, queries=size, rows=churn.given.dataset.rows, seeds=(seed,),
            batches=last.batches, operations=last.operations, durable=durable, without_checkpoint=without,
            plans=last.plans, warm=warm, compared=compared,
            memory=churn.memory() if self.memory_batches else None,
        )  # fmt: skip
