"""The paper's Figures 14, 15 and 16: seconds, operations and speed-up against the number of queries."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.bench.plot import put_legend, save_figure
from weft.bench.signatures import PAPER_COUNTS, PAPER_SIZE, PAPER_SPEEDUPS, Sharing
from weft.bench.workloads import Predicates

if TYPE_CHECKING:
    from weft.bench.fragments import FragmentsResult

_FIGURES = {Predicates.FRAGMENTS: 14, Predicates.REGULAR: 15, Predicates.LOW: 16}
_ALONE, _TOGETHER, _FINAL = "#c44e52", "#4c72b0", "#8c8c8c"


def plot_fragments(results: Sequence["FragmentsResult"], path: Path) -> None:
    """Draw all sizes that were measured, and the paper's printed points beside them."""
    figure = Figure(figsize=(15, 5.4), layout="constrained")
    seconds, operations, speedup = figure.subplots(1, 3)
    rows = results[0].figures.rows
    others = [one for one in results if one.figures.rows != rows]
    results = sorted(
        (one for one in results if one.figures.rows == rows), key=lambda one: one.figures.queries
    )
    _draw_seconds(seconds, results)
    for one in others:
        _draw_other(seconds, one)
    _draw_operations(operations, results[-1])
    _draw_speedup(speedup, results)
    last = results[-1]
    figure.suptitle(f"{last.workload.described} (the paper's Figure {_FIGURES[last.workload]})")
    save_figure(figure, path)


def _draw_seconds(axes: Axes, results: Sequence["FragmentsResult"]) -> None:
    figures = [one.figures for one in results]
    sizes = [one.queries for one in figures]
    measured = f"ordinary Spark queries ({figures[-1].measured_queries} measured, scaled)"
    axes.plot(sizes, [one.unshared_s for one in figures], color=_ALONE, marker="o", label=measured)
    middles = [one.weft_s for one in figures]
    around = [
        [one.weft_s - one.weft.least for one in figures],
        [one.weft.most - one.weft_s for one in figures],
    ]
    axes.errorbar(sizes, middles, around, color=_TOGETHER, marker="o", capsize=3, label="Weft, least to most")
    axes.plot(
        sizes, [one.one_query_s for one in figures], ":", color=_ALONE, marker=".", label="one ordinary query"
    )
    axes.plot(sizes, [one.scan.median for one in figures], ":", color=_FINAL, marker=".", label="bare scan")
    paper = PAPER_COUNTS[results[-1].workload]
    for sharing, color in ((Sharing.UNSHARED, _ALONE), (Sharing.SHARED, _TOGETHER)):
        axes.plot(
            [PAPER_SIZE], [paper[sharing].seconds], "x", color=color, label=f"the paper, {sharing}", zorder=3
        )
    axes.set_yscale("log")
    _finish(axes, [*sizes, PAPER_SIZE], "seconds")
    axes.set_title(f"{figures[-1].rows:,} rows, {figures[-1].cores} cores")


def _draw_other(axes: Axes, result: "FragmentsResult") -> None:
    """Add what another number of rows took."""
    figures, places = result.figures, [result.figures.queries]
    label = f"{figures.rows:,} rows"
    axes.plot(places, [figures.unshared_s], "s", color=_ALONE, fillstyle="none", label=f"ordinary, {label}")
    axes.plot(places, [figures.weft_s], "s", color=_TOGETHER, fillstyle="none", label=f"Weft, {label}")


def _draw_operations(axes: Axes, result: "FragmentsResult") -> None:
    sizes = [one.queries for one in result.counted]
    alone = [one.unshared.total for one in result.counted]
    together = [one.shared.total for one in result.counted]
    axes.plot(sizes, alone, color=_ALONE, marker="o", markersize=3, label="unshared")
    axes.plot(sizes, together, color=_TOGETHER, marker="o", markersize=3, label="shared, partial + final")
    finals = [one.shared.final for one in result.counted]
    axes.plot(sizes, finals, "--", color=_TOGETHER, marker="o", markersize=3, label="shared, final only")
    paper = PAPER_COUNTS[result.workload]
    for sharing, color in ((Sharing.UNSHARED, _ALONE), (Sharing.SHARED, _TOGETHER)):
        axes.plot(
            [PAPER_SIZE], [paper[sharing].total], "x", color=color, label=f"the paper, {sharing}, 1.1 M rows"
        )
    axes.set_yscale("log")
    _finish(axes, [*sizes, PAPER_SIZE], "partial + final")
    axes.set_title("aggregate operations, counted")


def _draw_speedup(axes: Axes, results: Sequence["FragmentsResult"]) -> None:
    sizes = [one.figures.queries for one in results]
    speedup = [one.figures.speedup_vs_unshared for one in results]
    axes.plot(sizes, speedup, color=_TOGETHER, marker="o", label="seconds, measured")
    counted = results[-1].counted
    fewer = [one.times_fewer for one in counted]
    axes.plot(
        [one.queries for one in counted], fewer, ":", color=_FINAL, marker=".", label="operations, counted"
    )
    printed = PAPER_SPEEDUPS[results[-1].workload]
    axes.plot([PAPER_SIZE], [printed], "x", color="black", label=f"the paper, seconds: {printed:.1f}")
    axes.axhline(1, color="black", linewidth=0.5)
    axes.set_yscale("log")
    _finish(axes, [*sizes, *(one.queries for one in counted)], "times")
    axes.set_title("how many times less sharing takes")


def _finish(axes: Axes, sizes: Sequence[int], label: str) -> None:
    axes.set_xscale("log", base=2)
    ticks = sorted(set(sizes))
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="queries", ylabel=label)
    axes.margins(y=0.1)
    put_legend(axes)
