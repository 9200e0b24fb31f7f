"""The bench of shared slices: the paper's workload (A), in operations and in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from weft.bench.against_spark import against_spark, trades_input
from weft.bench.dataset import Dataset
from weft.bench.figures import Figures, pooled_figures
from weft.bench.fixed_cost import FixedCost
from weft.bench.operations import PAPER, Counted, Run, count_all
from weft.bench.options import Options
from weft.bench.report import needs_matplotlib, publish, show_slices
from weft.bench.runs import Input
from weft.bench.sets import headlines, measure_sets
from weft.bench.workloads import PAPER_SIZES, paper_queries


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicesResult:
    """What `weft bench slices` found for one number of queries."""

    workload: str = "A: ranges 600–900 s, slides 300–600 s"
    figures: Figures
    operations: tuple[Counted, ...]
    """The paper's counts for each strategy and each number of queries, with the last seed's queries."""

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        return {
            "workload": self.workload,
            **self.figures.as_json(),
            "operations": [one.as_json() for one in self.operations],
            "paper": [one.as_json() for one in PAPER.values()],
        }


def run_slices(options: Options) -> tuple[SlicesResult, ...]:
    """Measure each set of queries, print tables, and write JSON and a plot if asked.

    A result whose `rows_equal` is False is a failure of Weft.
    """
    needs_matplotlib(options.plot)
    spark = options.session()

    @cache
    def trades(rows: int) -> Input:
        return trades_input(spark, options.data, rows=rows, batches=options.batches)

    fixed: dict[tuple[int, int], FixedCost] = {}

    def measure(rows: int, size: int, seed: int) -> SlicesResult:
        given, queries = trades(rows), paper_queries(size, seed=seed)
        figures = against_spark(given, queries, options, seed=seed, fixed=fixed.get((size, seed)))
        fixed[size, seed] = figures.fixed
        operations = counts((*PAPER_SIZES, size), given.dataset, seed)
        return SlicesResult(figures=figures, operations=operations)

    results = measure_sets(options, measure, _pooled, lambda one: show_slices(one, options.console))
    publish(results, json=options.json, plot=options.plot, draw=_draw, console=options.console)
    return results


def _pooled(several: Sequence[SlicesResult]) -> SlicesResult:
    return replace(several[-1], figures=pooled_figures([one.figures for one in several]))


def _draw(results: Sequence[SlicesResult], path: Path) -> None:
    from weft.bench.plot import plot_slices  # Matplotlib is an extra.

    plot_slices(headlines(results), path)


def counts(sizes: Sequence[int], dataset: Dataset, seed: int) -> tuple[Counted, ...]:
    """Return the paper's operation counts over a data set."""
    run = Run(begin_ms=dataset.begin_ms, end_ms=dataset.begin_ms + dataset.span_ms, rows=dataset.rows)
    windows = {
        size: [query.window for query in paper_queries(size, seed=seed)] for size in sorted(set(sizes))
    }
    return tuple(counted for some in windows.values() for counted in count_all(some, run))
