"""Tables and pictures of benches, and what their rows were compared with, in words."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich.table import Table

from weft.bench.equality import Comparison
from weft.bench.records import Seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    # Matplotlib is an extra: all but pictures works without it.
    Axes = Figure = object

_SHOWN = 20
"""How many differences are printed."""
RED, ORANGE, GREY, BLUE, PALE_BLUE, GREEN = "#c44e52", "#dd8452", "#8c8c8c", "#4c72b0", "#a1b4d4", "#55a868"


def make_table(
    title: str, columns: Mapping[str, str], rows: Iterable[Any], *, caption: str = "", no_wrap: bool = False
) -> Table:
    """Return a table: `columns` maps each heading to the format of its cells, given the row.

    A row is an object, `{0.name}`, or a tuple of them, `{0}`, `{1}` and so on. Columns without a heading, or
    with `<` before it, are of text, which is on the left; `no_wrap` keeps those with a heading on one line.
    """
    table = Table(title=title, title_justify="left", caption=caption or None, caption_justify="left")
    for heading in columns:
        name = heading.removeprefix("<")
        text = not name or name != heading
        table.add_column(name, justify="left" if text else "right", no_wrap=no_wrap and bool(name))
    for row in rows:
        values = row if isinstance(row, tuple) else (row,)
        table.add_row(*(cell.format(*values) for cell in columns.values()))
    return table


def seeds_of(seeds: Sequence[int]) -> str:
    """Return seeds in words."""
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


def equality(compared: Comparison, other: str = "plain Spark") -> str:
    """Say whether rows were those of another system."""
    if compared.equal is None:
        return "rows were not compared"
    which = f"{compared.rows:,} rows of {compared.queries:,} queries"
    if compared.equal:
        return f"rows equal {other}'s: {which} compared"
    differ = f"[red]rows differ from {other}'s[/red] ({which}, of which {len(compared.differences)} differ):"
    return "\n".join([differ, *compared.differences[:_SHOWN]])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty picture; width and height are in inches."""
    figure: Figure = import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure


def around(seconds: Sequence[Seconds]) -> list[list[float]]:
    """Return how far the least and the most lie from the median, as error bars are drawn."""
    return [[runs.median - runs.least for runs in seconds], [runs.most - runs.median for runs in seconds]]


def draw_bar(axes: Axes, name: str, seconds: Seconds, color: str) -> Any:
    """Draw a median as a bar, with the least and the most."""
    return axes.bar(name, seconds.median, color=color, yerr=around([seconds]), capsize=4)


def draw_medians(axes: Axes, sizes: Sequence[int], seconds: Sequence[Seconds], **style: Any) -> None:
    """Draw a curve through medians, with the least and the most."""
    middles = [runs.median for runs in seconds]
    axes.errorbar(sizes, middles, around(seconds), marker="o", capsize=3, **style)


def draw_line(
    axes: Axes, points: Iterable[tuple[float, float]], line: str = "-", *, marker: str = "o", **style: Any
) -> None:
    """Draw a curve through points."""
    axes.plot(*zip(*points, strict=True), line, marker=marker, **style)


def finish(axes: Axes, sizes: Iterable[int], *, base: int = 2, scale: str = "log", **labels: str) -> None:
    """Mark the numbers of queries that were measured, label the axes, and put the legend below them."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log", base=base)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yscale(scale)
    axes.set(**{"xlabel": "queries", **labels})
    put_legend(axes)


def put_legend(axes: Axes) -> None:
    """Put the legend below the axes, where it covers no point."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize="small", frameon=False)
