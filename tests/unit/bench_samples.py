"""What tests of benches have in common: what they print, and pictures."""

import io

from matplotlib.figure import Figure
from rich.console import Console


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def printed(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def cells(text: str, name: str) -> list[str]:
    """Return the cells of the one row of a table that has a name."""
    [row] = [line for line in text.splitlines() if line.startswith(f"│ {name} ")]
    return [cell.strip() for cell in row.strip("│").split("│")][1:]


def check_legends(figure: Figure) -> None:
    figure.savefig(io.BytesIO())
    legends = [(axes, axes.get_legend()) for axes in figure.axes if axes.get_legend() is not None]
    assert legends
    for axes, legend in legends:
        assert legend is not None
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())
