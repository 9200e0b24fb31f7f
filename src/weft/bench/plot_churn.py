"""The bench of queries that come and go, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.bench.plot import put_legend, save_figure

if TYPE_CHECKING:
    from weft.bench.churn import ChurnResult
    from weft.bench.churn_memory import MemoryOverTime


def plot_churn(result: "ChurnResult", path: Path) -> None:
    """Draw seconds with and without changes, and memory over batches if it was measured."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    if result.memory is None:
        _draw_seconds(figure.subplots(), result)
    else:
        seconds, memory = figure.subplots(1, 2, width_ratios=(1, 2))
        _draw_seconds(seconds, result)
        _draw_memory(memory, result.memory)
    save_figure(figure, path)


def _draw_seconds(axes: Axes, result: "ChurnResult") -> None:
    durable = result.durable
    bars = {
        "without\nchanges": (durable.quiet, "#8c8c8c"),
        f"with\n{result.operations:,}": (durable.churned, "#4c72b0"),
    }
    for name, (taken, color) in bars.items():
        middle = taken.median
        axes.bar(name, middle, color=color, yerr=[[middle - taken.least], [taken.most - middle]], capsize=4)
    axes.set(title=f"{result.queries:,} queries, {result.rows:,} rows", ylabel="seconds")


def _draw_memory(axes: Axes, memory: "MemoryOverTime") -> None:
    batches = [one.batch for one in memory.samples]
    axes.plot(batches, [one.jvm_mb for one in memory.samples], color="#c44e52", label="JVM live heap")
    axes.plot(batches, [one.python_mb for one in memory.samples], color="#4c72b0", label="Python resident")
    axes.set_ylim(bottom=0)
    axes.set(title=f"memory with {memory.operations:,} changes", xlabel="batches", ylabel="megabytes")
    put_legend(axes)
