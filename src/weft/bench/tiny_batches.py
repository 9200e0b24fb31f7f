"""The cost that Weft adds to a tiny micro-batch, and the cost of adding a query to a running stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from statistics import mean
from time import perf_counter

from weft.bench.options import Options, Timed
from weft.bench.records import Record, Seconds, pooled_by
from weft.bench.runs import Input, Settings, drain, engine_for, is_micro_batch, run_engine
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery
from weft.state.report import BatchReport

_ROWS_IN_BATCH = 50
_STARTING = 2
"""Batches that start a run, and are not counted."""
_EVERY = 4
"""Batches from one query that joins to the next: most batches have no change before them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost(Record):
    """Seconds per micro-batch of a run under way, results and window ends included, new plans aside."""

    batches: int
    weft: Seconds
    without_checkpoint: Seconds
    empty: Seconds
    """The same source with a loop that does nothing but has its checkpoint."""
    planning_ms: float = pooled_by(mean)
    """Planning per batch, not included in `weft`."""

    @property
    def empty_ms(self) -> float:
        """Spark's own milliseconds."""
        return 1000 * self.empty.median

    @property
    def over_spark_ms(self) -> float:
        """The milliseconds that Weft adds with a checkpoint on disk."""
        return 1000 * self.weft.median - self.empty_ms

    @property
    def without_checkpoint_ms(self) -> float:
        """The milliseconds that Weft adds without a checkpoint."""
        return 1000 * self.without_checkpoint.median - self.empty_ms


def fixed_cost(given: Input, queries: Sequence[BenchQuery], options: Options) -> FixedCost:
    """Run many tiny batches through Weft, with a checkpoint and without, and through an empty loop."""
    given = tiny_trades(given, batches=options.tiny_batches)
    planning: list[float] = []

    def weft(*, durable: bool) -> float:
        ends = Ends()
        engine = engine_for(given, queries, Settings(slicing=options.slicing))
        run_engine(given, engine, lambda stream, report: ends.note(report), durable=durable)
        planning.append(ends.planning)
        return ends.between

    def empty() -> float:
        ends = Ends()
        with given.folder() as checkpoint:
            drain(given.frame().writeStream.foreachBatch(lambda batch, number: ends.note()), checkpoint)
        return ends.between

    turns: list[tuple[str, Timed]] = [
        ("tiny batches", partial(weft, durable=True)),
        ("tiny batches without a checkpoint", partial(weft, durable=False)),
        ("empty batches", empty),
    ]
    durable, without, spark = options.alternate(turns).values()
    return FixedCost(
        batches=options.tiny_batches, weft=durable, without_checkpoint=without, empty=spark,
        planning_ms=1000 * mean(planning),
    )  # fmt: skip


class Ends:
    """When the batches of a run ended, and what new plans took of the time in between."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._ends: list[float] = []
        self._planning: list[float] = []

    def note(self, report: BatchReport | None = None) -> None:
        """Take note of a batch that has just ended; none of Weft's, if there is no report."""
        if report is None or is_micro_batch(report):
            self._ends.append(self._clock())
            self._planning.append(report.seconds["plan"] if report and report.replanned else 0.0)

    @property
    def between(self) -> float:
        """The mean seconds from one end to the next: a run's start and stop are not in it."""
        settled = self._ends[_STARTING - 1 :]
        taken = settled[-1] - settled[0] - sum(self._planning[_STARTING:])
        return taken / (len(settled) - 1)

    @property
    def planning(self) -> float:
        """The mean seconds of planning in these batches."""
        return mean(self._planning[_STARTING:])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange(Record):
    """Every batch and call of a run in which queries joined."""

    quiet: Seconds
    """Tiny batches in which nothing changed."""
    changed: Seconds
    """The batches after a query joined."""
    add: Seconds
    """The calls of `Engine.add`: each returns when the query is in the checkpoint, if there is one."""

    @property
    def adds(self) -> int:
        """How many queries joined."""
        return len(self.add.runs)

    @property
    def plan_change_ms(self) -> float:
        """What a query that joins costs: its call, and what the batch after it takes longer."""
        return 1000 * (self.add.median + self.changed.median - self.quiet.median)

    def as_json(self) -> dict[str, object]:
        """Return the medians in milliseconds."""
        return {
            "adds": self.adds,
            "batch_ms": 1000 * self.quiet.median,
            "changed_ms": 1000 * self.changed.median,
            "add_ms": 1000 * self.add.median,
        }


def plan_change(
    given: Input, queries: Sequence[BenchQuery], joining: Sequence[BenchQuery], options: Options, *,
    durable: bool,
) -> PlanChange:  # fmt: skip
    """Run tiny batches through the queries while others join one by one."""
    given = tiny_trades(given, batches=(len(joining) + 1) * _EVERY)
    engine = engine_for(given, queries, Settings(slicing=options.slicing))
    waiting, numbers = list(joining), count(1)
    changed, left_at = False, 0.0
    quiet_s, changed_s, add_s = list[float](), list[float](), list[float]()

    def note(stream: str, report: BatchReport) -> None:
        """Take the time since the last call returned: all of a batch, and none of what is done here."""
        nonlocal changed, left_at
        entered = perf_counter()
        if not is_micro_batch(report):
            return
        number = next(numbers)
        if number > _STARTING:
            (changed_s if changed else quiet_s).append(entered - left_at)
        changed = number % _EVERY == 0 and bool(waiting)
        if changed:
            query = waiting.pop(0)
            engine.add(query.sql, name=query.name)
            add_s.append(perf_counter() - entered)
        left_at = perf_counter()

    run_engine(given, engine, note, durable=durable)
    quiet, after, add = (Seconds(tuple(runs)) for runs in (quiet_s, changed_s, add_s))
    return PlanChange(quiet=quiet, changed=after, add=add)


def tiny_trades(given: Input, *, batches: int, rows_in_batch: int = _ROWS_IN_BATCH) -> Input:
    """Return an hour of trades in small batches, with the same tables."""
    data = given.dataset.folder.parent
    tiny = make_trades(given.spark, data, rows=batches * rows_in_batch, files=batches)
    return replace(given, dataset=tiny, files_per_trigger=1)
