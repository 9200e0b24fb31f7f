"""The paper's Figures 13 to 16, timed, as pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.bench.plot import put_legend, save_figure
from weft.bench.report_ways import printed_seconds, title_of
from weft.bench.signatures import PAPER_SIZE

if TYPE_CHECKING:
    from weft.bench.ways import WaysResult

_COLORS = ("#c44e52", "#dd8452", "#8c8c8c", "#4c72b0", "#55a868")


def plot_ways(results: Sequence["WaysResult"], path: Path) -> None:
    """Draw each figure: seconds of every way against the number of queries."""
    figure = Figure(figsize=(5.5 * len(results), 5.4), layout="constrained")
    for axes, result in zip(figure.subplots(1, len(results), squeeze=False)[0], results, strict=True):
        _draw(axes, result)
    save_figure(figure, path)


def _draw(axes: Axes, result: "WaysResult") -> None:
    printed = printed_seconds(result.figure)
    ways = list(dict.fromkeys(one.way for one in result.taken))
    for way, color in zip(ways, _COLORS, strict=False):
        some = [one for one in result.taken if one.way == way and one.seconds.runs]
        middles = [one.seconds.median for one in some]
        around = [
            [one.seconds.median - one.seconds.least for one in some],
            [one.seconds.most - one.seconds.median for one in some],
        ]
        sizes = [one.queries for one in some]
        axes.errorbar(sizes, middles, around, color=color, marker="o", capsize=3, label=way)
        if way in printed:
            axes.plot([PAPER_SIZE], [printed[way]], "x", color=color, label=f"the paper, {way}")
    ticks = sorted({one.queries for one in result.taken} | {PAPER_SIZE})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="queries", ylabel="seconds, least to most")
    axes.set_title(
        f"{title_of(result.figure)}\n{result.rows:,} rows, {result.cores} cores", fontsize="medium"
    )
    put_legend(axes)
