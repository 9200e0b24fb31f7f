"""The bench of many queries: what reading and planning thousands costs, and a change among them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from json import dumps
from pathlib import Path
from time import perf_counter, process_time

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from weft.bench.dataset import DEFAULT_DATA, DELAY, Dataset
from weft.bench.measure import progress
from weft.bench.queries_workload import many_queries
from weft.bench.trades import make_trades
from weft.engine import Engine
from weft.limits import Limits
from weft.spark.session.local import local_session
from weft.stream.pipeline import BatchReport

QUERY_COUNTS = (100, 1_000, 10_000)
_ROWS_IN_BATCH = 1_000
_BATCHES = 8
_ADD_AFTER, _REMOVE_AFTER = 4, 6
"""After these batches a query joins, and one leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How long a step took."""

    wall_s: float
    driver_s: float
    """Processor time of the driver's Python, which does not depend on what else the machine does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesResult:
    """What so many queries cost, in seconds."""

    queries: int
    seed: int
    read: Taken
    """Parsing and binding."""
    explain: Taken
    first_plan_s: float
    first_batch_s: float
    later_plan_s: float
    """The longest that a later batch took to plan, with the same queries."""
    later_batch_s: float
    """The longest of them as a whole."""
    add: Taken
    """The call with which one more query joins."""
    add_plan_s: float
    """Planning of the batch after it."""
    remove: Taken
    remove_plan_s: float


def run_queries(
    *,
    console: Console,
    queries: Sequence[int] = QUERY_COUNTS,
    seed: int = 1,
    json: Path | None = None,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
) -> list[QueriesResult]:
    """Measure each number of queries once, show the figures and keep them."""
    spark = local_session(cores=cores)
    trades = make_trades(spark, data, rows=_BATCHES * _ROWS_IN_BATCH, files=_BATCHES)
    results = []
    with progress(console) as bar:
        task = bar.add_task("", total=len(queries))
        for count in queries:
            bar.update(task, description=f"{count:,} queries")
            results.append(measure(spark, trades, count, seed))
            bar.advance(task)
    console.print(table(results))
    if json is not None:
        json.parent.mkdir(parents=True, exist_ok=True)
        json.write_text(dumps([asdict(result) for result in results], indent=2) + "\n")
    return results


def measure(spark: SparkSession, trades: Dataset, count: int, seed: int) -> QueriesResult:
    """Read so many queries, explain them, and run a few small batches while one joins and one leaves."""
    several = many_queries(count + 1, seed=seed)
    name, joining = several.popitem()
    # One more than there may be by default joins the largest number.
    engine = Engine(spark, limits=Limits(queries=count + 1))
    engine.stream("trades", trades.read_stream(spark, 1), time="time", delay=DELAY)
    text = "".join(f"CREATE QUERY {name} AS {sql};\n" for name, sql in several.items())
    read = _taken(lambda: engine.load(text))
    explain = _taken(lambda: engine.explain(rows_per_second=1_000.0))
    watch = _Watch(lambda: engine.add(joining, name=name), lambda: engine.remove(next(iter(several))))
    engine.run(on_batch=watch.note, keep=False)
    later = watch.batches[1:_ADD_AFTER]
    return QueriesResult(
        queries=count,
        seed=seed,
        read=read,
        explain=explain,
        first_plan_s=watch.batches[0]["plan"],
        first_batch_s=sum(watch.batches[0].values()),
        later_plan_s=max(batch["plan"] for batch in later),
        later_batch_s=max(sum(batch.values()) for batch in later),
        add=watch.changes[0],
        add_plan_s=watch.batches[_ADD_AFTER]["plan"],
        remove=watch.changes[1],
        remove_plan_s=watch.batches[_REMOVE_AFTER]["plan"],
    )


@dataclass(slots=True)
class _Watch:
    """Note the seconds of batches, and change the queries between them."""

    add: Callable[[], object]
    remove: Callable[[], object]
    batches: list[dict[str, float]] = field(default_factory=list)
    changes: list[Taken] = field(default_factory=list)

    def note(self, stream: str, report: BatchReport) -> None:
        """Take in a batch that has ended."""
        # Windows closed at the end of input, or answered for a query that joined, come without a job.
        if "spark" not in report.seconds:
            return
        self.batches.append(dict(report.seconds))
        change = {_ADD_AFTER: self.add, _REMOVE_AFTER: self.remove}.get(len(self.batches))
        if change is not None:
            self.changes.append(_taken(change))


def _taken(run: Callable[[], object]) -> Taken:
    wall, driver = perf_counter(), process_time()
    run()
    return Taken(wall_s=perf_counter() - wall, driver_s=process_time() - driver)


def table(results: Sequence[QueriesResult]) -> Table:
    """Return the figures as a table, one column for each number of queries."""
    shown = Table(title="seconds (in brackets: processor time of the driver)", title_justify="left")
    shown.add_column("step")
    for result in results:
        shown.add_column(f"{result.queries:,} queries", justify="right")
    rows: dict[str, Callable[[QueriesResult], str]] = {
        "parse and bind": lambda one: _both(one.read),
        "explain": lambda one: _both(one.explain),
        "plan, first batch": lambda one: f"{one.first_plan_s:,.2f}",
        "first batch": lambda one: f"{one.first_batch_s:,.2f}",
        "plan, later batches, at most": lambda one: f"{one.later_plan_s:,.3f}",
        "later batches, at most": lambda one: f"{one.later_batch_s:,.2f}",
        "add one: the call": lambda one: _both(one.add),
        "add one: plan of the next batch": lambda one: f"{one.add_plan_s:,.2f}",
        "remove one: the call": lambda one: _both(one.remove),
        "remove one: plan of the next batch": lambda one: f"{one.remove_plan_s:,.3f}",
    }
    for label, told in rows.items():
        shown.add_row(label, *map(told, results))
    return shown


def _both(taken: Taken) -> str:
    return f"{taken.wall_s:,.2f} ({taken.driver_s:,.2f})"
