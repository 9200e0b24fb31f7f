"""Runs by turns, so that whatever else the machine does falls on all that is compared."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from weft.bench.records import Seconds

Timed = Callable[[], float]
"""Something that runs and returns its seconds."""


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

    Every second round goes backwards, so that nothing always runs after the same neighbour. A name may have
    several turns in a round. A name that takes longer than `patience_s` has no further turn.
    """
    if repeats < 1 or warmups < 0:
        raise ValueError(f"repeats must be 1 or more and warm-ups 0 or more, got {repeats} and {warmups}")
    counted: dict[str, list[float]] = {name: [] for name, _ in turns}
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
                (counted if number > 0 else before)[name].append(seconds)
                # By the clock, not by the seconds returned: those may be scaled.
                if patience_s is not None and clock() - began > patience_s:
                    too_slow.add(name)
    return {name: Seconds(tuple(runs), tuple(before[name])) for name, runs in counted.items()}


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Show a bar that goes when it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar
