"""Many runs by turns, so that whatever else the machine does falls on all of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Timed = Callable[[], float]
"""Something that runs and tells its seconds."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """The counted runs of one thing."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.runs)

    @property
    def best(self) -> float:
        """The quickest: what the machine can do when nothing else runs."""
        return min(self.runs)


def alternate(
    turns: Sequence[tuple[str, Timed]], *, repeats: int, warmups: int, console: Console
) -> dict[str, Seconds]:
    """Take all turns, round after round; the first rounds warm up and are not counted.

    A name may have several turns in a round.
    """
    if repeats < 1 or warmups < 0:
        raise ValueError(f"repeats must be 1 or more and warm-ups 0 or more, got {repeats} and {warmups}")
    taken: dict[str, list[float]] = {name: [] for name, _ in turns}
    with progress(console) as bar:
        task = bar.add_task("", total=len(turns) * (repeats + warmups))
        for number in range(1 - warmups, repeats + 1):
            label = f"round {number} of {repeats}" if number > 0 else "warm-up"
            for name, run in turns:
                bar.update(task, description=f"{label}: {name}")
                seconds = run()
                bar.advance(task)
                if number > 0:
                    taken[name].append(seconds)
    return {name: Seconds(tuple(seconds)) for name, seconds in taken.items()}


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Show a bar that goes when it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar
