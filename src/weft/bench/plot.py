"""Results of the benches as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.bench.operations import PAPER, Strategy

if TYPE_CHECKING:
    from weft.bench.figures import Figures
    from weft.bench.slices import SlicesResult
    from weft.bench.windows import WindowsResult

_STYLES = {
    Strategy.UNSHARED_PANED: ("#c44e52", "--"),
    Strategy.UNSHARED_PAIRED: ("#c44e52", "-"),
    Strategy.SHARED_PANED: ("#4c72b0", "--"),
    Strategy.SHARED_PAIRED: ("#4c72b0", "-"),
}


def plot_slices(results: Sequence["SlicesResult"], path: Path) -> None:
    """Draw the paper's Figure 13 in operations, and seconds beside it for each number of rows."""
    largest = {one.figures.rows: one for one in sorted(results, key=lambda one: one.figures.queries)}
    figure = Figure(figsize=(6 + 5 * len(largest), 5), layout="constrained")
    operations, *seconds = figure.subplots(1, 1 + len(largest))
    _draw_operations(operations, results[0])
    for axes, result in zip(seconds, largest.values(), strict=True):
        _draw_seconds(axes, result.figures)
    save_figure(figure, path)


def _draw_operations(axes: Axes, result: "SlicesResult") -> None:
    for strategy, (color, line) in _STYLES.items():
        points = [(one.queries, one.total) for one in result.operations if one.strategy is strategy]
        axes.plot(
            *zip(*points, strict=True), line, color=color, marker="o", markersize=3, label=strategy.value
        )
    printed = [(one.queries, one.total) for one in PAPER.values()]
    axes.scatter(
        *zip(*printed, strict=True), marker="x", color="black", label="the paper, 1.1 M rows", zorder=3
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({one.queries for one in result.operations})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set(
        title=f"aggregate operations, {result.figures.rows:,} rows",
        xlabel="queries",
        ylabel="partial + final",
    )
    put_legend(axes)


def _draw_seconds(axes: Axes, result: "Figures") -> None:
    bars = {
        "bare scan": (result.scan, "#8c8c8c"),
        f"Weft,\n{result.queries} queries": (result.weft, "#4c72b0"),
        "without a\ncheckpoint": (result.without_checkpoint, "#a1b4d4"),
        "one ordinary\nSpark query": (result.ordinary, "#c44e52"),
    }
    for name, (taken, color) in bars.items():
        middle = taken.median
        around = [[middle - taken.least], [taken.most - middle]]
        drawn = axes.bar(name, middle, color=color, yerr=around, capsize=4)
        axes.bar_label(drawn, labels=[f"{middle:,.1f} s"])
    scaled = f"{result.queries} ordinary\n({result.measured_queries} measured)"
    drawn = axes.bar(scaled, result.unshared_s, color="#c44e52")
    axes.bar_label(drawn, labels=[f"{result.unshared_s:,.1f} s"])
    axes.tick_params(axis="x", labelsize="small")
    axes.set_yscale("log")
    axes.margins(y=0.15)
    axes.set(title=f"{result.rows:,} rows, {result.cores} cores", ylabel="seconds, least to most")


def plot_windows(result: "WindowsResult", path: Path) -> None:
    """Draw throughput over the number of windows."""
    figure = Figure(figsize=(6, 4.4), layout="constrained")
    axes = figure.subplots()
    counts = [one.queries for one in result.sizes]
    speeds = [one.rows_per_s / 1e6 for one in result.sizes]
    axes.plot(counts, speeds, color="#4c72b0", marker="o", label="with a checkpoint")
    without = [one.scotty_rows_per_s / 1e6 for one in result.sizes]
    axes.plot(counts, without, "--", color="#4c72b0", marker=".", label="as Scotty measures")
    axes.axhline(
        0.9 * result.sizes[0].rows_per_s / 1e6, color="#8c8c8c", linestyle=":", label="90 % of one window"
    )
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_ylim(bottom=0, top=1.1 * max(*speeds, *without))
    axes.set(title="tumbling windows of 1–20 s", xlabel="concurrent windows", ylabel="million rows/s")
    put_legend(axes)
    save_figure(figure, path)


def put_legend(axes: Axes) -> None:
    """Put the legend below the axes, where it covers no point."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize="small", frameon=False)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
