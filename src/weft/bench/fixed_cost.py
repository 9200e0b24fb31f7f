"""What a micro-batch costs however small it is, over Spark's own cost of taking one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench.dataset import Dataset, TableFiles
from weft.bench.measure import alternate
from weft.bench.runs import Input, WeftRun, run_empty, run_weft
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery

_ROWS_IN_BATCH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedCost:
    """Milliseconds per micro-batch, results and window ends included."""

    batches: int
    weft_ms: float
    empty_ms: float
    """The same source with a loop that does nothing."""

    @property
    def over_spark_ms(self) -> float:
        """What Weft adds."""
        return self.weft_ms - self.empty_ms


def _unplanned(run: WeftRun) -> float:
    """Return a run's seconds less those of planning: what every batch costs as long as queries stay."""
    return run.stream_s - run.stages.get("plan", 0.0)


def fixed_cost(
    spark: SparkSession,
    data: Path,
    queries: Sequence[BenchQuery],
    *,
    batches: int,
    repeats: int,
    warmups: int,
    tables: tuple[TableFiles, ...] = (),
    console: Console,
) -> FixedCost:
    """Run many tiny batches through Weft and through an empty loop."""
    tiny = tiny_trades(spark, data, batches=batches)
    given = Input(spark=spark, dataset=tiny, files_per_trigger=1, tables=tables)
    turns = [
        ("tiny batches", lambda: _unplanned(run_weft(given, queries))),
        ("empty batches", lambda: run_empty(given)),
    ]
    taken = alternate(turns, repeats=repeats, warmups=warmups, console=console)
    weft, bare = (1000 * taken[name].median / batches for name, _ in turns)
    return FixedCost(batches=batches, weft_ms=weft, empty_ms=bare)


def tiny_trades(spark: SparkSession, data: Path, *, batches: int) -> Dataset:
    """Return an hour of trades in so many files of a few rows."""
    return make_trades(spark, data, rows=batches * _ROWS_IN_BATCH, files=batches)
