"""What `weft bench dashboards` found, as a picture: curves over the number of queries."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.bench.dashboards_figures import Contender, Figures, Mode
from weft.bench.plot import put_legend, save_figure

_STYLES = {
    Contender.WEFT: ("#4c72b0", "-"),
    Contender.NO_CHECKPOINT: ("#4c72b0", "--"),
    Contender.PLAIN: ("#4c72b0", ":"),
    Contender.KEEPING: ("#4c72b0", "-."),
    Contender.DUCKDB: ("#dd8452", "-"),
    Contender.SPARK_BATCH: ("#c44e52", "-"),
    Contender.SPARK_STREAM: ("#c44e52", "--"),
    Contender.ONE_STREAM: ("#c44e52", "--"),
    Contender.SCAN: ("#8c8c8c", ":"),
}


def plot_dashboards(results: Sequence[Figures], path: Path) -> None:
    """Draw the seconds of each contender over the number of queries, a panel for each mode."""
    modes = [mode for mode in Mode if any(one.mode is mode for one in results)]
    figure = Figure(figsize=(6.5 * len(modes), 5.2), layout="constrained")
    panels = figure.subplots(1, len(modes), squeeze=False)[0]
    for axes, mode in zip(panels, modes, strict=True):
        _draw(axes, mode, [one for one in results if one.mode is mode])
    save_figure(figure, path)


def _draw(axes: Axes, mode: Mode, results: Sequence[Figures]) -> None:
    for contender, (color, line) in _STYLES.items():
        points = [(one.queries, one.seconds(contender)) for one in results if contender in one.runs_s]
        if points:
            axes.plot(
                *zip(*points, strict=True), line, color=color, marker="o", markersize=3, label=contender
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [one.queries for one in results]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    what = "seconds for all batches" if mode is Mode.REPLAY else "median seconds of a batch"
    axes.set(title=f"{mode}: {results[0].rows:,} flights", xlabel="queries", ylabel=what)
    put_legend(axes)
