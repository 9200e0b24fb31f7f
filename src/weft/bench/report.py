"""What the tables and pictures of all benches have in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.table import Table

from weft.bench.equality import Comparison
from weft.bench.records import Record, Seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    # Matplotlib is an extra: all but pictures works without it.
    Axes = Figure = object

RED, ORANGE, GREY, BLUE, PALE_BLUE, GREEN = "#c44e52", "#dd8452", "#8c8c8c", "#4c72b0", "#a1b4d4", "#55a868"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Record):
    """What one measurement of a bench found, and how that is shown."""

    @property
    def passed(self) -> bool:
        """Whether all rows that were compared are right."""
        return True

    def show(self, console: Console) -> None:
        """Print the figures as tables."""
        raise NotImplementedError

    @classmethod
    def draw(cls, results: Sequence[Self]) -> Figure:
        """Return a picture of all results."""
        raise NotImplementedError


def make_table(
    title: str, columns: str, rows: Iterable[Sequence[str]], *, caption: str = "", no_wrap: bool = False
) -> Table:
    """Return a table of columns whose headings are separated by `|`.

    Columns without a name, or with `<` before it, are of text, which is on the left; `no_wrap` keeps those
    with a name on one line.
    """
    table = Table(title=title, title_justify="left", caption=caption or None, caption_justify="left")
    for heading in columns.split("|"):
        name = heading.removeprefix("<")
        text = not name or name != heading
        table.add_column(name, justify="left" if text else "right", no_wrap=no_wrap and bool(name))
    for row in rows:
        table.add_row(*row)
    return table


def seeds_of(seeds: Sequence[int]) -> str:
    """Return seeds in words."""
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"


def equality(compared: Comparison) -> str:
    """Say whether rows were plain Spark's."""
    if compared.equal is None:
        return "rows were not compared"
    which = f"{compared.rows:,} rows of {compared.queries:,} queries"
    if compared.equal:
        return f"rows equal plain Spark's: {which} compared"
    return "\n".join([f"[red]rows differ from plain Spark's[/red] ({which}):", *compared.differences[:10]])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty picture; width and height are in inches."""
    figure: Figure = import_module("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure


def around(seconds: Sequence[Seconds]) -> list[list[float]]:
    """Return how far the least and the most lie from the median, as error bars are drawn."""
    return [[one.median - one.least for one in seconds], [one.most - one.median for one in seconds]]


def draw_bar(axes: Axes, name: str, seconds: Seconds, color: str) -> Any:
    """Draw a median as a bar, with the least and the most."""
    return axes.bar(name, seconds.median, color=color, yerr=around([seconds]), capsize=4)


def draw_line(
    axes: Axes, points: Iterable[tuple[float, float]], line: str = "-", *, marker: str = "o", **style: Any
) -> None:
    """Draw a curve through points."""
    axes.plot(*zip(*points, strict=True), line, marker=marker, **style)


def put_sizes(axes: Axes, sizes: Iterable[int], *, base: int = 2) -> None:
    """Label the axis of the number of queries with the numbers that were measured."""
    ticks = sorted(set(sizes))
    axes.set_xscale("log", base=base)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def put_legend(axes: Axes) -> None:
    """Put the legend below the axes, where it covers no point."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize="small", frameon=False)
