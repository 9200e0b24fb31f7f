"""What a micro-batch costs however small it is, over Spark's own cost of taking one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from weft.bench.measure import alternate
from weft.bench.runs import Input, WeftRun, run_empty, run_weft
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery

_ROWS_IN_BATCH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost:
    """Milliseconds per micro-batch, results and window ends included, new plans aside."""

    batches: int
    weft_ms: float
    empty_ms: float
    """The same source with a loop that does nothing."""

    @property
    def over_spark_ms(self) -> float:
        """What Weft adds."""
        return self.weft_ms - self.empty_ms


def _unplanned(run: WeftRun) -> float:
    """Return a run's seconds less those of making new plans: what batches cost while the plan stays."""
    return run.stream_s - run.planning_s


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
    turns = [
        ("tiny batches", lambda: _unplanned(run_weft(given, queries))),
        ("empty batches", lambda: run_empty(given)),
    ]
    taken = alternate(turns, repeats=repeats, warmups=warmups, console=console)
    weft, bare = (1000 * taken[name].median / batches for name, _ in turns)
    return FixedCost(batches=batches, weft_ms=weft, empty_ms=bare)


def tiny_trades(given: Input, data: Path, *, batches: int) -> Input:
    """Return an hour of trades in so many batches of a few rows, with the same tables."""
    tiny = make_trades(given.spark, data, rows=batches * _ROWS_IN_BATCH, files=batches)
    return replace(given, dataset=tiny, files_per_trigger=1)
