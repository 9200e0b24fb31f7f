"""The paper's operation counts (STS, section 6.2), counted exactly over the windows that end in the run.

A partial operation takes a row into a slice; a final operation takes a slice into a window.

        run      |<------------------------------------------------->|
        slices   |--|----|-|---|--|----|-|---|--|----|-|---|--|----|-|
        windows  ---------|               built from 3 slices: what lies before the run holds no rows
                    [-----------------)   built from 6
                                                           [-----------  ends after the run: not counted
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from weft.bench.records import Record
from weft.optimizer.slices import SliceManager, Slicing
from weft.window import Window


class Strategy(StrEnum):
    """The four that the paper compares."""

    UNSHARED_PANED = "unshared paned"
    UNSHARED_PAIRED = "unshared paired"
    SHARED_PANED = "shared paned"
    SHARED_PAIRED = "shared paired"

    @property
    def shared(self) -> bool:
        """Whether all queries have the same slices."""
        return self.startswith("shared")

    @property
    def slicing(self) -> Slicing:
        """How windows are cut."""
        return Slicing.PANED if self.endswith("paned") else Slicing.PAIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations(Record):
    """Operations over a whole run."""

    partial: int
    final: int

    @property
    def total(self) -> int:
        """Both steps together."""
        return self.partial + self.final


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Operations):
    """Operations of a number of queries."""

    queries: int
    strategy: StrEnum


PAPER: dict[StrEnum, Counted] = {
    counted.strategy: counted
    for counted in (
        Counted(queries=256, strategy=Strategy.UNSHARED_PAIRED, partial=256 * 1_138_636, final=6_813),
        Counted(queries=256, strategy=Strategy.SHARED_PANED, partial=1_138_636, final=2_340_842),
        Counted(queries=256, strategy=Strategy.SHARED_PAIRED, partial=1_138_636, final=1_462_391),
    )
}
"""What the paper counted with 256 queries over 1,138,636 rows; unshared paned's finals are not in it."""
PAPER_SECONDS: dict[Strategy, float] = {
    Strategy.UNSHARED_PAIRED: 50.48,
    Strategy.SHARED_PANED: 6.90,
    Strategy.SHARED_PAIRED: 2.63,
}
"""What they took there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch of event time and the rows in it."""

    begin_ms: int
    end_ms: int
    rows: int


def count_all(windows: Sequence[Window], run: Run) -> tuple[Counted, ...]:
    """Return the operations of each strategy."""
    return tuple(count(windows, strategy, run) for strategy in Strategy)


def count(windows: Sequence[Window], strategy: Strategy, run: Run) -> Counted:
    """Return the operations of one strategy over a run."""
    final, sets = 0, [windows] if strategy.shared else [(window,) for window in windows]
    for sharing in sets:
        manager = SliceManager(sharing, at_ms=run.begin_ms, slicing=strategy.slicing)
        edges = list(manager.until(run.end_ms))
        for window in sharing:
            for end in ends(window, run):
                begin = max(end - window.range_ms, run.begin_ms)
                # A window has one slice more than there are edges inside it.
                final += bisect_left(edges, end) - bisect_right(edges, begin) + 1
    return Counted(queries=len(windows), strategy=strategy, partial=len(sets) * run.rows, final=final)


def ends(window: Window, run: Run) -> range:
    """Return the ends in (begin, end] of the run."""
    first = window.offset_ms + (run.begin_ms - window.offset_ms) // window.slide_ms * window.slide_ms
    return range(first + window.slide_ms, run.end_ms + 1, window.slide_ms)
