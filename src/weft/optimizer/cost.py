"""What sharing costs and saves.

In aggregate operations, as the paper counts them: slices (STS, Tables 2 and 3 and inequality 1) and fragments
(SDF, Tables 4 and 5). By time: what each step costs here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, gcd, lcm

import numpy as np

from weft.optimizer.slices import SLICINGS, Slicing, edge_classes
from weft.window import Window

_SAMPLED_EDGES = 200_000
"""How many edges are counted, those that coincide too, before their rate is taken as known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Aggregate operations: rows into partials, and partials into results."""

    partial: float
    final: float

    @property
    def total(self) -> float:
        """Both steps together."""
        return self.partial + self.final


def paned_final(window: Window) -> int:
    """Return the final operations of one window over panes (Table 2).

    >>> paned_final(Window(range_ms=18, slide_ms=15))
    6
    """
    return window.range_ms // gcd(window.range_ms, window.slide_ms)


def paired_final(window: Window) -> int:
    """Return the final operations of one window over paired slices: ⌈2r/s⌉ at worst (Table 2).

    >>> paired_final(Window(range_ms=18, slide_ms=15)), paired_final(Window(range_ms=30, slide_ms=15))
    (3, 2)
    """
    if window.range_ms % window.slide_ms == 0:
        return window.range_ms // window.slide_ms
    return ceil(2 * window.range_ms / window.slide_ms)


def unshared(
    windows: Sequence[Window], *, rows: float, period_ms: float, slicing: Slicing = Slicing.PAIRED
) -> Operations:
    """Return the cost of slicing for each window on its own, over a period that holds `rows` (Table 3)."""
    finals = paned_final if slicing is Slicing.PANED else paired_final
    final = sum(period_ms / window.slide_ms * finals(window) for window in windows)
    return Operations(partial=len(windows) * rows, final=final)


def shared(windows: Sequence[Window], *, rows: float, edges: float) -> Operations:
    """Return the cost of one common slicing with `edges` slices in the period that holds `rows` (Table 3)."""
    return Operations(partial=rows, final=edges * overlap(windows))


def overlap(windows: Sequence[Window]) -> float:
    """Return Σ r/s: how many windows a moment lies in, over all queries."""
    return sum(window.range_ms / window.slide_ms for window in windows)


def edge_rate(windows: Sequence[Window], slicing: Slicing = Slicing.PAIRED) -> float:
    """Return the edges per millisecond of the common slicing (γ), counted rather than derived.

    >>> round(edge_rate([Window(range_ms=18, slide_ms=15), Window(range_ms=12, slide_ms=9)]), 6)
    0.266667
    """
    classes = edge_classes(windows, slicing)
    if not classes:
        return 0.0
    # Over a whole common period the rate is exact; most are too long to be walked.
    period = lcm(*(edge.modulus for edge in classes))
    span = min(period, int(_SAMPLED_EDGES / sum(1 / edge.modulus for edge in classes)))
    edges = np.concatenate([np.arange(edge.residue, span, edge.modulus) for edge in classes])
    # Hardly any two are alike, and for such numbers sorting is several times as fast as np.unique.
    edges.sort()
    return (min(1, len(edges)) + int(np.count_nonzero(edges[1:] != edges[:-1]))) / span


def break_even_rate(
    windows: Sequence[Window], *, edges_per_ms: float, slicing: Slicing = Slicing.PAIRED
) -> float:
    """Return the rows per millisecond above which sharing costs less than not sharing (inequality 1).

    The paper's 2 is the slices in a period of a window; there is one where range is a multiple of slide.
    """
    if len(windows) < 2:
        return 0.0
    shared_final = edges_per_ms * overlap(windows)
    unshared_final = sum(
        len(SLICINGS[slicing](window)) * window.range_ms / window.slide_ms**2 for window in windows
    )
    return max(0.0, (shared_final - unshared_final) / (len(windows) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What the steps cost, in microseconds on one machine; only their proportions matter."""

    row: float = 0.1
    """Taking a row into a group, once more."""
    cell: float = 0.05
    """Finding a row's fragment in another root, whether it is in one or not."""
    group: float = 1.0
    """Bringing a group from Spark and keeping it."""
    final: float = 0.004
    """Taking a group's total into a result."""
    masked: float = 0.004
    """Looking at a group's total for a result whose predicate it does not satisfy."""
    root: float = 3_000.0
    """Another root in the job, whatever its size."""
    word: float = 0.12
    """Making one of a row's words, and grouping by it, where no grid of codes would do."""
    verdict: float = 0.01
    """Reading off a signature in words whether a predicate is satisfied."""
    looked_up: float = 0.06
    """Looking a row's value up among those known of a column."""
    operator: float = 0.003
    """Evaluating an operator for a row."""
    pattern: float = 0.04
    """Matching a row's string with the pattern of a LIKE."""
    function: float = 2.0
    """Calling a registered function for a row."""


WEIGHTS = Weights()
"""Measured on two cores; see ARCHITECTURE.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation:
    """How predicates split a set of rows (SDF, Table 4)."""

    rows: float
    """|T|."""
    fragments: float
    """k: the different signatures that occur, the empty one aside."""
    alpha: float
    """How many predicates a row satisfies on average."""
    beta: float
    """How many predicates a signature has on average."""

    @property
    def unshared(self) -> Operations:
        """The cost of aggregating every row for each predicate that it satisfies (Table 5)."""
        return Operations(partial=0, final=self.alpha * self.rows)

    @property
    def shared(self) -> Operations:
        """The cost of aggregating rows into fragments, and fragments into results (Table 5)."""
        return Operations(partial=self.rows, final=self.fragments * self.beta)
