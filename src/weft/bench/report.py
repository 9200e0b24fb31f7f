"""What results of benches have in common: what was equal, tables, pictures."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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
class Result(Record, ABC):
    """What one measurement of a bench found, and how that is shown."""

    @property
    def rows_equal(self) -> bool | None:
        """Whether all rows that were compared are right; None when nothing was compared."""
        return None

    @property
    def passed(self) -> bool:
        """Whether no row was found to be wrong."""
        return self.rows_equal is not False

    @abstractmethod
    def show(self, console: Console) -> None:
        """Print the figures as tables."""


class PicturedResult(Result):
    """A result that can also be drawn."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def draw(cls, results: Sequence[Self]) -> Figure:
        """Return a picture of all results."""


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
