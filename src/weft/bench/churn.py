"""The bench of queries that come and go: what that costs a run, and whether it leaves anything behind.

Each change is a call of its own, durable when it returns, and they are spread evenly over the batches. No
round makes the changes of another: code that Spark compiled for one is not found by the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import count
from typing import Annotated

from typer import Option

from weft.bench.against_spark import trades_input
from weft.bench.bench import Bench
from weft.bench.changes import Changes, Pair, changes, newest_rows
from weft.bench.churn_memory import MemoryOverTime, memory_over_time
from weft.bench.equality import Check, Comparison, compare
from weft.bench.fragments import Workload, collect
from weft.bench.market import make_market
from weft.bench.options import Batches, Checked, Options, Repeats, Rows
from weft.bench.records import Seconds
from weft.bench.report_churn import ChurnResult, Rounds
from weft.bench.runs import How, Input, engine_for, run_engine
from weft.bench.workloads import BenchQuery, Predicates


@dataclass(slots=True)
class _Churn:
    """A workload, and the queries that join it while it runs."""

    options: Options
    given: Input
    queries: Sequence[BenchQuery]
    source: Workload
    operations: int
    numbers: "count[int]" = field(default_factory=count)
    last: Changes | None = None
    calls: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def how(self) -> How:
        """How Weft runs the queries."""
        return How(slicing=self.options.slicing)

    def next_pairs(self) -> Sequence[Pair]:
        """Return the changes of another run: which query leaves, and which joins."""
        pairs = self.operations // 2
        return self.source.turnover(len(self.queries), pairs, run=next(self.numbers))

    def start(self, pairs: Sequence[Pair], newest: Sequence[int] | None = None) -> Changes:
        """Return an engine with all queries and the changes to make while it runs."""
        engine = engine_for(self.given, self.queries, self.how)
        # The last batch has no next: a query that joins after it has nothing to do.
        return changes(engine, pairs, boundaries=max(1, self.given.batches - 1), newest=newest)

    def run(self, *, changing: bool, durable: bool) -> float:
        """Run all batches; return the seconds from the start of the stream to its last result."""
        made = self.start(self.next_pairs() if changing else ())
        seconds = run_engine(self.given, made.engine, made.note, durable=durable)
        if changing:
            self.last = made
            self.calls[durable] += made.calls_s
        return seconds

    def rounds(self) -> tuple[Rounds, Rounds]:
        """Run with and without changes, with and without a checkpoint, once each in every round."""
        kinds = [(changing, durable) for durable in (True, False) for changing in (False, True)]
        turns = [
            (
                f"{'with' if changing else 'without'} changes{'' if durable else ', no checkpoint'}",
                partial(self.run, changing=changing, durable=durable),
            )
            for changing, durable in kinds
        ]
        seconds = dict(zip(kinds, self.options.alternate(turns).values(), strict=True))
        durable, without = (
            Rounds(
                quiet=seconds[False, kind], churned=seconds[True, kind],
                calls=Seconds(tuple(self.calls[kind])),
            )
            for kind in (True, False)
        )  # fmt: skip
        return durable, without

    def compare(self) -> tuple[Comparison, int]:
        """Compare the rows of queries that came or went with plain Spark's, in a run of its own."""
        if self.options.check is Check.NONE:
            return Comparison(), 0
        pairs, console = self.next_pairs(), self.options.console
        made = self.start(pairs, newest_rows(self.given))
        with console.status("running once more, to compare rows"):
            run_engine(self.given, made.engine, made.note, keep=True)
        known = {query.name: query for query in (*self.queries, *(joins for _, joins in pairs))}
        changed = self.options.check.choose([known[name] for name in made.spans])
        results = {name: handle.results for name, handle in made.handles.items()}
        return compare(self.given, changed, lambda name: results[name](), console, made.spans), made.warm

    def memory(self, batches: int) -> MemoryOverTime:
        """Watch memory over many small batches."""
        pairs = self.source.turnover(len(self.queries), 2 * batches)
        console = self.options.console
        return memory_over_time(self.given, self.queries, pairs, self.how, batches=batches, console=console)


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
        spark = self.session()
        tables = make_market(spark, self.data)

        @cache
        def sources(rows: int) -> tuple[Input, dict[int, Workload]]:
            given = trades_input(spark, self, rows, tables=tables)
            market = collect(given)
            return given, {seed: Workload(Predicates.REGULAR, market, seed) for seed in self.seeds}

        def measure(rows: int, size: int, seed: int) -> ChurnResult:
            given, workloads = sources(rows)
            source = workloads[seed]
            churn = _Churn(self, given, source.queries(size), source, self.operations)
            durable, without = churn.rounds()
            last = churn.last
            assert last is not None
            compared, warm = churn.compare()
            memory = churn.memory(self.memory_batches) if self.memory_batches else None
            return ChurnResult(
                queries=size, rows=given.dataset.rows, seeds=(seed,), batches=last.batches,
                operations=last.operations, warmups=self.warmups, durable=durable, without_checkpoint=without,
                plans=last.plans, warm=warm, compared=compared, memory=memory,
            )  # fmt: skip

        return self.over_sets(measure)
