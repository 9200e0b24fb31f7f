"""The bench of many queries: what reading and planning thousands costs, and a change among them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from random import Random
from time import perf_counter, process_time

from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench import report
from weft.bench.bench import Bench, Result
from weft.bench.dataset import DELAY, Dataset
from weft.bench.options import OneSeed, Queries, progress
from weft.bench.records import Record
from weft.bench.runs import AtBoundaries, is_micro_batch
from weft.bench.trades import make_trades
from weft.bench.workloads import first_distinct
from weft.engine import Engine
from weft.limits import Limits
from weft.spark.session.local import DEFAULT_MEMORY
from weft.state.report import BatchReport

_ROWS_IN_BATCH = 1_000
_BATCHES = 8
_ADD_AFTER, _REMOVE_AFTER = 4, 6
"""After these batches a query joins, and one leaves."""
_RANGES_S = range(20, 3_601)
_SLIDES_S = range(10, 601)
_THRESHOLDS = range(10, 1_600_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Record):
    """How long a step took."""

    wall_s: float
    driver_s: float
    """Processor time of the driver's Python, which does not depend on what else the machine does."""

    def __str__(self) -> str:
        return f"{self.wall_s:,.2f} ({self.driver_s:,.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesSize(Record):
    """What a number of queries costs, in seconds."""

    queries: int
    seed: int
    read: Timing
    """Parsing and binding."""
    explain: Timing
    first_plan_s: float
    first_batch_s: float
    later_plan_s: float
    """The longest that a later batch took to plan, with the same queries."""
    later_batch_s: float
    """The longest of them as a whole."""
    add: Timing
    """The call with which one more query joins."""
    add_plan_s: float
    """Planning of the batch after it."""
    remove: Timing
    remove_plan_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriesResult(Result):
    """What `weft bench queries` found."""

    sizes: tuple[QueriesSize, ...]

    def show(self, console: Console) -> None:
        """Print what each number of queries took."""
        steps = {
            "parse and bind": "{0.read}",
            "explain": "{0.explain}",
            "plan, first batch": "{0.first_plan_s:,.2f}",
            "first batch": "{0.first_batch_s:,.2f}",
            "plan, later batches, at most": "{0.later_plan_s:,.3f}",
            "later batches, at most": "{0.later_batch_s:,.2f}",
            "add one: the call": "{0.add}",
            "add one: plan of the next batch": "{0.add_plan_s:,.2f}",
            "remove one: the call": "{0.remove}",
            "remove one: plan of the next batch": "{0.remove_plan_s:,.3f}",
        }
        columns = {"<step": "{0}"}
        columns |= {f"{size.queries:,} queries": f"{{{number}}}" for number, size in enumerate(self.sizes, 1)}
        rows = [(step, *map(shown.format, self.sizes)) for step, shown in steps.items()]
        title = "seconds (in brackets: processor time of the driver)"
        console.print(report.make_table(title, columns, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyQueries(Bench[QueriesResult]):
    """Thousands of queries: what reading and planning them costs, and a change among them.

    Example: weft bench queries -n 1000 -n 10000 --seed 7
    """

    offers = "queries seed json data cores"
    queries: Queries = (100, 1_000, 10_000)
    seed: OneSeed = 1
    memory: str = DEFAULT_MEMORY

    def measure(self) -> Iterator[QueriesResult]:
        """Measure each number of queries once."""
        spark = self.session()
        trades = make_trades(spark, self.data, rows=_BATCHES * _ROWS_IN_BATCH, files=_BATCHES)
        with progress(self.console) as bar:
            counts = bar.track(self.queries, description="queries")
            sizes = tuple(measure_size(spark, trades, count, self.seed) for count in counts)
        yield QueriesResult(bench=self, sizes=sizes)

    def as_json(self, results: Sequence[QueriesResult]) -> object:
        """Return what each number of queries took, as a list."""
        return [size.as_json() for result in results for size in result.sizes]


def many_queries(count: int, *, seed: int) -> dict[str, str]:
    """Return queries over trades, by name: plain sums, groups, two columns tested, HAVING.

    >>> list(many_queries(2, seed=1))
    ['q0', 'q1']
    """
    chance = Random(seed)
    lengths = ((chance.choice(_RANGES_S), chance.choice(_SLIDES_S)) for _ in repeat(None))
    windows = first_distinct(lengths, count)
    thresholds = chance.sample(_THRESHOLDS, count)
    return {
        f"q{number}": _text(number, f"[RANGE '{range_s} s' SLIDE '{slide_s} s']", threshold)
        for number, ((range_s, slide_s), threshold) in enumerate(zip(windows, thresholds, strict=True))
    }


def _text(number: int, window: str, threshold: int) -> str:
    shapes = (
        f"SELECT sum(price * vol) AS v FROM trades {window} WHERE vol > {threshold}",
        f"SELECT symbol, avg(price) AS v FROM trades {window} WHERE vol > {threshold} GROUP BY symbol",
        f"SELECT max(price) AS v FROM trades {window} WHERE vol > {threshold} AND price < {number + 1}",
        f"SELECT count(*) AS v FROM trades {window} WHERE vol > {threshold} HAVING count(*) > {number % 7}",
    )
    return shapes[number % len(shapes)]


def measure_size(spark: SparkSession, trades: Dataset, count: int, seed: int) -> QueriesSize:
    """Read a number of queries, explain them, and run a few small batches while one joins and one leaves."""
    texts = many_queries(count + 1, seed=seed)
    name, joining = texts.popitem()
    # One more than there may be by default joins the largest number.
    engine = Engine(spark, limits=Limits(queries=count + 1))
    engine.stream("trades", trades.read_stream(spark, 1), time="time", delay=DELAY)
    workload = "".join(f"CREATE QUERY {name} AS {sql};\n" for name, sql in texts.items())
    read = _time(lambda: engine.load(workload))
    explain = _time(lambda: engine.explain(rows_per_second=1_000.0))
    changes: dict[int, Callable[[], object]] = {
        _ADD_AFTER: lambda: engine.add(joining, name=name),
        _REMOVE_AFTER: lambda: engine.remove(next(iter(texts))),
    }
    batches, taken = list[dict[str, float]](), list[Timing]()

    def note(stream: str, report: BatchReport) -> None:
        if is_micro_batch(report):
            batches.append(dict(report.seconds))
            if change := changes.get(len(batches)):
                taken.append(_time(change))

    engine.observers = AtBoundaries()
    engine.run(on_batch=note, keep=False)
    first, *later = batches[:_ADD_AFTER]
    add, remove = taken
    return QueriesSize(
        queries=count, seed=seed, read=read, explain=explain, first_plan_s=first["plan"],
        first_batch_s=sum(first.values()), later_plan_s=max(batch["plan"] for batch in later),
        later_batch_s=max(sum(batch.values()) for batch in later), add=add,
        add_plan_s=batches[_ADD_AFTER]["plan"], remove=remove, remove_plan_s=batches[_REMOVE_AFTER]["plan"],
    )  # fmt: skip


def _time(run: Callable[[], object]) -> Timing:
    wall, driver = perf_counter(), process_time()
    run()
    return Timing(wall_s=perf_counter() - wall, driver_s=process_time() - driver)
