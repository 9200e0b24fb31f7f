"""What a micro-batch costs however small it is, over Spark's own cost of taking one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from rich.console import Console

from weft.bench.measure import alternate
from weft.bench.runs import Input, drain, engine_for
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery
from weft.runtime.pipeline import BatchReport

_ROWS_IN_BATCH = 50
_STARTING = 2
"""So many batches of a run are not counted: they start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost:
    """Milliseconds per micro-batch of a run under way, results and window ends included, new plans aside."""

    batches: int
    weft_ms: float
    empty_ms: float
    """The same source with a loop that does nothing."""

    @property
    def over_spark_ms(self) -> float:
        """What Weft adds."""
        return self.weft_ms - self.empty_ms


def fixed_cost(
    given: Input,
    queries: Sequence[BenchQuery],
    data: Path,
    *,
    batches: int,
    repeats: int,
    warmups: int,
    console: Console,
) -> FixedCost:
    """Run many tiny batches through Weft and through an empty loop."""
    given = tiny_trades(given, data, batches=batches)
    turns = [("tiny batches", lambda: _weft(given, queries)), ("empty batches", lambda: _empty(given))]
    taken = alternate(turns, repeats=repeats, warmups=warmups, console=console)
    weft, bare = (1000 * taken[name].median for name, _ in turns)
    return FixedCost(batches=batches, weft_ms=weft, empty_ms=bare)


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


def _weft(given: Input, queries: Sequence[BenchQuery]) -> float:
    """Return the seconds of a batch whose plan was there."""
    ends = Ends()
    engine_for(given, queries).run(on_batch=lambda stream, report: ends.note(report), keep=False)
    return ends.between


def _empty(given: Input) -> float:
    """Return the seconds of a batch with which nothing is done."""
    ends = Ends()
    drain(given.frame().writeStream.foreachBatch(lambda batch, number: ends.note()))
    return ends.between


def tiny_trades(given: Input, data: Path, *, batches: int) -> Input:
    """Return an hour of trades in so many batches of a few rows, with the same tables."""
    tiny = make_trades(given.spark, data, rows=batches * _ROWS_IN_BATCH, files=batches)
    return replace(given, dataset=tiny, files_per_trigger=1)
