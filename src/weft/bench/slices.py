"""The bench of shared slices: the paper's workload (A), in operations and in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from weft.bench.against_spark import Figures, against_spark, trades_input
from weft.bench.dataset import DEFAULT_DATA, Dataset
from weft.bench.equality import Check
from weft.bench.operations import PAPER, Counted, Run, count_all
from weft.bench.report import needs_matplotlib, publish, show_slices
from weft.bench.workloads import PAPER_SIZES, paper_queries
from weft.spark.session import local_session


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicesResult:
    """What `weft bench slices` found for one number of queries."""

    workload: str = "A: ranges 600–900 s, slides 300–600 s"
    figures: Figures
    operations: tuple[Counted, ...]
    """The paper's counts for each strategy and each number of queries."""

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {
            "workload": self.workload,
            **self.figures.as_json(),
            "operations": [one.as_json() for one in self.operations],
            "paper": [one.as_json() for one in PAPER.values()],
        }


def run_slices(
    *,
    console: Console,
    queries: Sequence[int] = (256,),
    rows: int = 4_000_000,
    batches: int = 8,
    measured: int = 5,
    repeats: int = 3,
    warmups: int = 1,
    tiny_batches: int = 20,
    check: Check | str = Check.ALL,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    memory: str = "4g",
    seed: int = 1,
    json: Path | None = None,
    plot: Path | None = None,
) -> tuple[SlicesResult, ...]:
    """Measure each number of queries, print a table, and write JSON and a plot if asked.

    A result whose `rows_equal` is False is a failure of Weft.
    """
    needs_matplotlib(plot)
    spark = local_session(cores=cores, memory=memory)
    given = trades_input(spark, data, rows=rows, batches=batches, seed=seed)
    results = []
    for count in queries:
        figures = against_spark(
            given, paper_queries(count, seed=seed), data=data, measured=measured, repeats=repeats,
            warmups=warmups, tiny_batches=tiny_batches, check=Check(check), console=console,
        )  # fmt: skip
        operations = counts((*PAPER_SIZES, count), given.dataset, seed)
        results.append(SlicesResult(figures=figures, operations=operations))
        show_slices(results[-1], console)
    publish(results, json=json, plot=plot, draw=_draw, console=console)
    return tuple(results)


def _draw(results: Sequence[SlicesResult], path: Path) -> None:
    from weft.bench.plot import plot_slices  # Matplotlib is an extra.

    plot_slices(results[-1], path)


def counts(sizes: Sequence[int], dataset: Dataset, seed: int) -> tuple[Counted, ...]:
    """Return the paper's operation counts over a data set."""
    run = Run(begin_ms=dataset.begin_ms, end_ms=dataset.begin_ms + dataset.span_ms, rows=dataset.rows)
    windows = {
        size: [query.window for query in paper_queries(size, seed=seed)] for size in sorted(set(sizes))
    }
    return tuple(counted for some in windows.values() for counted in count_all(some, run))
