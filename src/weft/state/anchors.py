"""Which windows are added up together: those with a moment in common."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.arrays import Rows, Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Windows with an anchor in common; time is cut into cells by their bounds."""

    window: Rows
    """Which windows."""
    edges: Times
    """The bounds of the cells; there is one cell less."""
    first: Rows
    """Each window's first cell."""
    last: Rows
    """Each window's last cell."""
    anchor: int
    """A cell that lies in all of them."""


def jobs(start: Times, end: Times) -> Iterator[Job]:
    """Yield the windows in jobs; each window is in one of them.

    >>> [job.window.tolist() for job in jobs(np.array([0, 2, 6]), np.array([4, 8, 9]))]
    [[0, 1], [2]]
    """
    if not len(start):
        return
    edges = np.unique(np.concatenate([start, end]))
    first, last = np.searchsorted(edges, start), np.searchsorted(edges, end) - 1
    together = _stabbed(first, last)
    # Long windows would stretch the jobs of short ones: windows of similar length may share anchors better.
    size = np.frexp((end - start).astype(np.float64))[1]
    apart = np.empty_like(together)
    for exponent in np.unique(size):
        chosen = np.flatnonzero(size == exponent)
        apart[chosen] = _stabbed(first[chosen], last[chosen]) + int(exponent) * len(edges)
    chosen = min((together, apart), key=lambda number: _cells(number, first, last))
    order = np.argsort(chosen, kind="stable")
    cuts = np.flatnonzero(np.diff(chosen[order])) + 1
    for windows in np.split(order, cuts):
        yield _job(windows, start[windows], end[windows])


def _job(window: Rows, start: Times, end: Times) -> Job:
    edges = np.unique(np.concatenate([start, end]))
    first, last = np.searchsorted(edges, start), np.searchsorted(edges, end) - 1
    return Job(window=window, edges=edges, first=first, last=last, anchor=int(last.min()))


def _stabbed(first: Rows, last: Rows) -> Rows:
    """Return for each window the number of an anchor in it, with as few anchors as there can be.

    The last cell of the window that ends first is one; the next is that of the window that ends first among
    those that begin after it, and so on.
    """
    none = int(last.max()) + 1
    ends = np.full(none + 1, none)
    np.minimum.at(ends, first, last)
    ends = np.minimum.accumulate(ends[::-1])[::-1]
    anchors = [int(ends[0])]
    while (following := int(ends[anchors[-1] + 1])) < none:
        anchors.append(following)
    return np.searchsorted(np.array(anchors), first)


def _cells(number: Rows, first: Rows, last: Rows) -> int:
    """Return how many cells the jobs have, all together."""
    _, job = np.unique(number, return_inverse=True)
    begin = np.full(int(job.max()) + 1, np.iinfo(np.int64).max)
    end = np.full(len(begin), -1)
    np.minimum.at(begin, job, first)
    np.maximum.at(end, job, last)
    return int((end - begin + 1).sum())
