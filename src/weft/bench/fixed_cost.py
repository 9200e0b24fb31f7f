"""What a micro-batch costs however small it is, over Spark's own cost of taking one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from weft.bench.measure import Seconds, alternate, pooled
from weft.bench.options import Options
from weft.bench.runs import How, Input, drain, engine_for, run_engine
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery
from weft.stream.pipeline import BatchReport

_ROWS_IN_BATCH = 50
_STARTING = 2
"""So many batches of a run are not counted: they start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost:
    """Seconds per micro-batch of a run under way, results and window ends included, new plans aside."""

    batches: int
    weft: Seconds
    without_checkpoint: Seconds
    empty: Seconds
    """The same source with a loop that does nothing but has its checkpoint."""
    planning_ms: float
    """What making new plans took besides, per batch."""

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


def pooled_cost(several: Sequence[FixedCost]) -> FixedCost:
    """Return what several measurements found together."""
    return FixedCost(
        batches=several[0].batches,
        weft=pooled(one.weft for one in several),
        without_checkpoint=pooled(one.without_checkpoint for one in several),
        empty=pooled(one.empty for one in several),
        planning_ms=sum(one.planning_ms for one in several) / len(several),
    )


def fixed_cost(given: Input, queries: Sequence[BenchQuery], options: Options) -> FixedCost:
    """Run many tiny batches through Weft, with a checkpoint and without, and through an empty loop."""
    given = tiny_trades(given, batches=options.tiny_batches)
    planning: list[float] = []

    def weft(*, durable: bool) -> float:
        ends = Ends()
        engine = engine_for(given, queries, How(slicing=options.slicing))
        run_engine(given, engine, lambda stream, report: ends.note(report), durable=durable)
        planning.append(ends.planning)
        return ends.between

    turns = [
        ("tiny batches", lambda: weft(durable=True)),
        ("tiny batches without a checkpoint", lambda: weft(durable=False)),
        ("empty batches", lambda: _empty(given)),
    ]
    taken = alternate(turns, repeats=options.repeats, warmups=options.warmups, console=options.console)
    durable, without, empty = (taken[name] for name, _ in turns)
    return FixedCost(
        batches=options.tiny_batches,
        weft=durable,
        without_checkpoint=without,
        empty=empty,
        planning_ms=1000 * sum(planning) / len(planning),
    )


class Ends:
    """When the batches of a run ended, and what new plans took of the time in between."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._ends: list[float] = []
        self._planning: list[float] = []

    def note(self, report: BatchReport | None = None) -> None:
        """Take note of a batch that has just ended; none of Weft's, if there is no report."""
        # The windows closed at the end of input come as a report that read nothing.
        if report is None or "spark" in report.seconds:
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
        settled = self._planning[_STARTING:]
        return sum(settled) / len(settled)


def _empty(given: Input) -> float:
    """Return the seconds of a batch with which nothing is done."""
    ends = Ends()
    with given.folder() as checkpoint:
        drain(given.frame().writeStream.foreachBatch(lambda batch, number: ends.note()), checkpoint)
    return ends.between


def tiny_trades(given: Input, *, batches: int) -> Input:
    """Return an hour of trades in so many batches of a few rows, with the same tables."""
    data = given.dataset.folder.parent
    tiny = make_trades(given.spark, data, rows=batches * _ROWS_IN_BATCH, files=batches)
    return replace(given, dataset=tiny, files_per_trigger=1)
