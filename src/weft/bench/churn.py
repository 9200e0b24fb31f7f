"""The bench of queries that come and go: what that costs a run, and whether it leaves anything behind."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from rich.console import Console

from weft.bench.against_spark import trades_input
from weft.bench.changes import Changes
from weft.bench.churn_memory import MemoryOverTime, memory_over_time
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check, Comparison, compare
from weft.bench.fragments import Workload, collect
from weft.bench.market import make_market
from weft.bench.measure import Seconds, alternate
from weft.bench.report import needs_matplotlib, publish
from weft.bench.report_churn import show_churn
from weft.bench.runs import Input, engine_for
from weft.bench.workloads import BenchQuery, Predicates
from weft.spark.session import local_session


@dataclass(frozen=True, slots=True, kw_only=True)
class ChurnResult:
    """What `weft bench churn` found."""

    queries: int
    rows: int
    batches: int
    operations: int
    quiet_s: Seconds
    """The run without changes."""
    churned_s: Seconds
    """The same run with them, their own calls included."""
    plans: int
    """How many batches of a run had a plan of their own."""
    calls_s: float
    """What the calls took."""
    compared: Comparison
    memory: MemoryOverTime | None

    @property
    def throughput(self) -> float:
        """Rows per second with changes, in units of those without."""
        return self.quiet_s.median / self.churned_s.median

    @property
    def throughput_at_best(self) -> float:
        """The same, of the quickest run of each kind."""
        return self.quiet_s.best / self.churned_s.best

    @property
    def passed(self) -> bool:
        """Whether all rows are right."""
        return self.compared.equal is not False

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {
            **asdict(self),
            "throughput": self.throughput,
            "throughput_at_best": self.throughput_at_best,
            "memory": None if self.memory is None else self.memory.as_json(),
        }


@dataclass(slots=True)
class _Bench:
    """A workload, and those who join it on the way."""

    given: Input
    queries: Sequence[BenchQuery]
    pairs: Sequence[tuple[str, BenchQuery]]
    """Who leaves, and who joins in its place."""
    batches: int
    last: Changes | None = None

    def run(self, *, changing: bool, keep: bool = False) -> float:
        """Run all batches; return the seconds from the start of the stream to its last result."""
        engine = engine_for(self.given, self.queries)
        # The last batch has no next: who joins after it has nothing to do.
        at_once = -(-len(self.pairs) // max(1, self.batches - 1)) if changing else 0
        changes = Changes(engine, iter(self.pairs), at_once)
        began = perf_counter()
        engine.run(on_batch=changes.note, keep=keep)
        seconds = perf_counter() - began
        if changing:
            self.last = changes
        return seconds

    def compare(self, check: Check, console: Console) -> Comparison:
        """Compare the rows of queries that came or went with plain Spark's, in a run of its own."""
        if check is Check.NONE:
            return Comparison()
        with console.status("running once more, to compare rows"):
            self.run(changing=True, keep=True)
        assert self.last is not None
        changes = self.last
        known = {query.name: query for query in (*self.queries, *(joins for _, joins in self.pairs))}
        changed = [known[name] for name in changes.spans]
        return compare(
            self.given,
            check.choose(changed),
            lambda name: changes.handles[name].results(),
            console,
            changes.spans,
        )


def run_churn(
    *,
    console: Console,
    queries: int = 256,
    operations: int = 1000,
    rows: int = 10_000_000,
    batches: int = 8,
    repeats: int = 3,
    warmups: int = 1,
    memory_batches: int = 500,
    check: Check | str = Check.SAMPLE,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    memory: str = "4g",
    seed: int = 1,
    json: Path | None = None,
    plot: Path | None = None,
) -> ChurnResult:
    """Measure a run of workload C regular with and without changes, and memory over many small batches.

    A result that has not `passed` is a failure of Weft.
    """
    Predicates.REGULAR.check(queries)
    needs_matplotlib(plot)
    spark = local_session(cores=cores, memory=memory)
    tables = make_market(spark, data, seed=seed)
    given = trades_input(spark, data, rows=rows, batches=batches, seed=seed, tables=tables)
    source = Workload(Predicates.REGULAR, collect(given), seed)
    several = source.queries(queries)
    bench = _Bench(given, several, source.turnover(queries, operations // 2), batches)
    turns = [
        ("without changes", lambda: bench.run(changing=False)),
        (f"with {operations:,}", lambda: bench.run(changing=True)),
    ]
    taken = alternate(turns, repeats=repeats, warmups=warmups, console=console)
    measured = bench.last
    assert measured is not None
    compared = bench.compare(Check(check), console)
    over_time = None
    if memory_batches:
        pairs = source.turnover(queries, 2 * memory_batches)
        over_time = memory_over_time(given, several, pairs, data, batches=memory_batches, console=console)
    result = ChurnResult(
        queries=queries,
        rows=rows,
        batches=measured.batches,
        operations=measured.operations,
        quiet_s=taken[turns[0][0]],
        churned_s=taken[turns[1][0]],
        plans=measured.plans,
        calls_s=measured.calls_s,
        compared=compared,
        memory=over_time,
    )
    show_churn(result, console)
    publish([result], json=json, plot=plot, draw=_draw, console=console)
    return result


def _draw(results: Sequence[ChurnResult], path: Path) -> None:
    from weft.bench.plot_churn import plot_churn  # Matplotlib is an extra.

    plot_churn(results[0], path)
