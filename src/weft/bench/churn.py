"""The bench of queries that come and go: what that costs a run, and whether it leaves anything behind.

Each change is a call of its own, durable when it returns, and they are spread evenly over the batches. No
round makes the changes of another: code that Spark compiled for one is not found by the next.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

from rich.console import Console

from weft.bench.against_spark import trades_input
from weft.bench.changes import Changes, Pair, changes, newest_rows
from weft.bench.churn_memory import MemoryOverTime, memory_over_time
from weft.bench.equality import Check, Comparison, compare, together
from weft.bench.fragments import Workload, collect
from weft.bench.market import make_market
from weft.bench.measure import Seconds, alternate, pooled
from weft.bench.options import Options
from weft.bench.report import needs_matplotlib, publish
from weft.bench.report_churn import show_churn
from weft.bench.runs import How, Input, engine_for, run_engine
from weft.bench.workloads import BenchQuery, Predicates


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
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
        return tuple(
            quiet / churned for quiet, churned in zip(self.quiet.runs, self.churned.runs, strict=True)
        )

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
class ChurnResult:
    """What `weft bench churn` found for one number of rows and of queries, from one seed or from several."""

    queries: int
    rows: int
    seeds: tuple[int, ...]
    batches: int
    operations: int
    warmups: int
    durable: Rounds
    without_checkpoint: Rounds
    plans: int
    """How many batches of the last run had a plan of their own."""
    warm: int
    """How many of the queries that joined in the run that was compared answered earlier windows, too."""
    compared: Comparison
    memory: MemoryOverTime | None

    @property
    def passed(self) -> bool:
        """Whether all rows are right."""
        return self.compared.equal is not False

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        plain = "queries rows seeds batches operations warmups plans warm".split()
        return {
            **{name: getattr(self, name) for name in plain},
            **self.durable.as_json(),
            "without_checkpoint": self.without_checkpoint.as_json(),
            "compared": asdict(self.compared),
            "memory": None if self.memory is None else self.memory.as_json(),
        }


@dataclass(slots=True)
class _Bench:
    """A workload, and those who join it on the way."""

    given: Input
    queries: Sequence[BenchQuery]
    pairs_of: Callable[[int], Sequence[Pair]]
    """Who leaves and who joins in a run, by its number."""
    how: How
    numbers: "count[int]" = field(default_factory=count)
    last: Changes | None = None
    calls: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    @property
    def batches(self) -> int:
        """How many batches a run has."""
        return -(-self.given.dataset.files // self.given.files_per_trigger)

    def run(self, *, changing: bool, durable: bool) -> float:
        """Run all batches; return the seconds from the start of the stream to its last result."""
        pairs = self.pairs_of(next(self.numbers)) if changing else ()
        engine = engine_for(self.given, self.queries, self.how)
        # The last batch has no next: who joins after it has nothing to do.
        made = changes(engine, pairs, boundaries=max(1, self.batches - 1))
        seconds = run_engine(self.given, engine, made.note, durable=durable)
        if changing:
            self.last = made
            self.calls[durable] += made.calls_s
        return seconds

    def compare(self, check: Check, console: Console) -> tuple[Comparison, int]:
        """Compare the rows of queries that came or went with plain Spark's, in a run of its own."""
        if check is Check.NONE:
            return Comparison(), 0
        pairs = self.pairs_of(next(self.numbers))
        engine = engine_for(self.given, self.queries, self.how)
        newest = newest_rows(self.given)
        made = changes(engine, pairs, boundaries=max(1, self.batches - 1), newest=newest)
        with console.status("running once more, to compare rows"):
            run_engine(self.given, engine, made.note, keep=True)
        known = {query.name: query for query in (*self.queries, *(joins for _, joins in pairs))}
        changed = check.choose([known[name] for name in made.spans])
        results = {name: handle.results for name, handle in made.handles.items()}
        return compare(self.given, changed, lambda name: results[name](), console, made.spans), made.warm


def run_churn(options: Options, *, operations: int = 400, memory_batches: int = 0) -> tuple[ChurnResult, ...]:
    """Measure runs of workload C regular with and without changes, and memory over many small batches.

    A result that has not `passed` is a failure of Weft.
    """
    for size in options.queries:
        Predicates.REGULAR.check(size)
    needs_matplotlib(options.plot)
    results: list[ChurnResult] = []
    for rows in options.rows:
        given = _trades(options, rows)
        market = collect(given)
        for size in options.queries:
            of_seeds = []
            for seed in options.seeds:
                source = Workload(Predicates.REGULAR, market, seed)
                of_seeds.append(_measure(options, given, source, size, seed, operations, memory_batches))
                show_churn(of_seeds[-1], options.console)
            results += of_seeds
            if len(of_seeds) > 1:
                results.append(pooled_churn(of_seeds))
                show_churn(results[-1], options.console)
    publish(results, json=options.json, plot=options.plot, draw=_draw, console=options.console)
    return tuple(results)


def pooled_churn(several: Sequence[ChurnResult]) -> ChurnResult:
    """Return what several seeds found together; memory is told of each."""
    durable, without = (
        Rounds(
            quiet=pooled(one.quiet for one in rounds),
            churned=pooled(one.churned for one in rounds),
            calls=pooled(one.calls for one in rounds),
        )
        for rounds in ([one.durable for one in several], [one.without_checkpoint for one in several])
    )
    return replace(
        several[-1],
        seeds=tuple(seed for one in several for seed in one.seeds),
        durable=durable,
        without_checkpoint=without,
        warm=sum(one.warm for one in several),
        compared=together([one.compared for one in several]),
        memory=None,
    )


def _trades(options: Options, rows: int) -> Input:
    spark = options.session()
    tables = make_market(spark, options.data)
    return trades_input(spark, options.data, rows=rows, batches=options.batches, tables=tables)


def _measure(
    options: Options,
    given: Input,
    source: Workload,
    size: int,
    seed: int,
    operations: int,
    memory_batches: int,
) -> ChurnResult:
    def pairs_of(run: int) -> Sequence[Pair]:
        return source.turnover(size, operations // 2, run=run)

    queries, how = source.queries(size), How(slicing=options.slicing)
    bench = _Bench(given, queries, pairs_of, how)
    rounds = _rounds(bench, options)
    last = bench.last
    assert last is not None
    compared, warm = bench.compare(options.check, options.console)
    over_time = None
    if memory_batches:
        over_time = memory_over_time(
            given,
            queries,
            source.turnover(size, 2 * memory_batches),
            how,
            batches=memory_batches,
            console=options.console,
        )
    return ChurnResult(
        queries=size,
        rows=given.dataset.rows,
        seeds=(seed,),
        batches=last.batches,
        operations=last.operations,
        warmups=options.warmups,
        durable=rounds[True],
        without_checkpoint=rounds[False],
        plans=last.plans,
        warm=warm,
        compared=compared,
        memory=over_time,
    )


def _rounds(bench: _Bench, options: Options) -> dict[bool, Rounds]:
    """Run with and without changes, with and without a checkpoint, once each in every round."""
    names = {
        (
            changing,
            durable,
        ): f"{'with' if changing else 'without'} changes{'' if durable else ', no checkpoint'}"
        for durable in (True, False)
        for changing in (False, True)
    }
    turns = [
        (name, partial(bench.run, changing=changing, durable=durable))
        for (changing, durable), name in names.items()
    ]
    taken = alternate(turns, repeats=options.repeats, warmups=options.warmups, console=options.console)
    return {
        durable: Rounds(
            quiet=taken[names[False, durable]],
            churned=taken[names[True, durable]],
            calls=Seconds(tuple(bench.calls[durable])),
        )
        for durable in (True, False)
    }


def _draw(results: Sequence[ChurnResult], path: Path) -> None:
    from weft.bench.plot_churn import plot_churn  # Matplotlib is an extra.

    plot_churn(results[0], path)
