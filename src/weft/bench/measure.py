"""Many runs by turns, so that whatever else the machine does falls on all of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Timed = Callable[[], float]
"""Something that runs and tells its seconds."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """All counted runs of one thing."""

    runs: tuple[float, ...]
    warmups: tuple[float, ...] = ()
    """The runs before them."""

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.runs)

    @property
    def least(self) -> float:
        """The quickest."""
        return min(self.runs)

    @property
    def most(self) -> float:
        """The slowest."""
        return max(self.runs)

    @property
    def spread(self) -> str:
        """From the quickest to the slowest, in words."""
        return f"{self.least:,.2f}–{self.most:,.2f}"


def pooled(several: Iterable[Seconds]) -> Seconds:
    """Return the runs of the same thing in several measurements."""
    return Seconds(tuple(seconds for one in several for seconds in one.runs))


def alternate(
    turns: Sequence[tuple[str, Timed]],
    *,
    repeats: int,
    warmups: int,
    console: Console,
    patience_s: float | None = None,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Seconds]:
    """Take all turns, round after round; the first rounds warm up and are not counted.

    Every second round goes backwards, so that nobody always comes after the same neighbour. A name may have
    several turns in a round. Who takes longer than `patience_s` has no further turn.
    """
    if repeats < 1 or warmups < 0:
        raise ValueError(f"repeats must be 1 or more and warm-ups 0 or more, got {repeats} and {warmups}")
    taken: dict[str, list[float]] = {name: [] for name, _ in turns}
    before: dict[str, list[float]] = {name: [] for name, _ in turns}
    too_slow: set[str] = set()
    with progress(console) as bar:
        task = bar.add_task("", total=len(turns) * (repeats + warmups))
        for number in range(1 - warmups, repeats + 1):
            label = f"round {number} of {repeats}" if number > 0 else "warm-up"
            for name, run in turns if number % 2 else reversed(turns):
                bar.update(task, description=f"{label}: {name}")
                bar.advance(task)
                if name in too_slow:
                    continue
                began = clock()
                seconds = run()
                (taken if number > 0 else before)[name].append(seconds)
                # Not by what it tells: that may be scaled.
                if patience_s is not None and clock() - began > patience_s:
                    too_slow.add(name)
    return {name: Seconds(tuple(runs), tuple(before[name])) for name, runs in taken.items()}


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Show a bar that goes when it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar
