"""Which slice a moment lies in, for whole arrays of moments: the vectorised twin of the slice manager."""

from collections.abc import Collection
from functools import reduce

import numpy as np
import numpy.typing as npt

from weft.optimizer.slices import EdgeClass

Times = npt.NDArray[np.int64]
MICROSECONDS = 1000
"""Microseconds in the millisecond that windows are measured in."""
_FEW_EDGES = 100_000
"""Up to this many edges are listed; with more, each time's is computed."""


def slice_starts(times_us: Times, classes: Collection[EdgeClass]) -> Times:
    """Return the last edge at or before each time, in microseconds.

    >>> slice_starts(np.array([0, 11_999, 14_000, -1]), [EdgeClass(15, 0), EdgeClass(15, 12)]).tolist()
    [0, 0, 12000, -3000]
    """
    if not len(times_us):
        return times_us
    moduli = np.array([edge.modulus for edge in classes], dtype=np.int64) * MICROSECONDS
    residues = np.array([edge.residue for edge in classes], dtype=np.int64) * MICROSECONDS
    first, last = int(times_us.min()), int(times_us.max())
    if (float(last - first) / moduli + 1).sum() > max(_FEW_EDGES, 4 * len(times_us)):
        classed = zip(moduli, residues, strict=True)
        return reduce(np.maximum, (times_us - (times_us - residue) % modulus for modulus, residue in classed))
    edges = _edges(moduli, residues, first, last)
    return edges[np.searchsorted(edges, times_us, side="right") - 1]


def _edges(moduli: Times, residues: Times, first: int, last: int) -> Times:
    """Return all edges up to the last time, from the last edge of each class at or before the first."""
    begin = first - (first - residues) % moduli
    counts = (last - begin) // moduli + 1
    which = np.repeat(np.arange(len(moduli)), counts)
    step = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    edges = np.sort(begin[which] + step * moduli[which])
    # Hardly any two are alike, and for such numbers sorting is several times as fast as np.unique.
    return edges[np.concatenate(([True], edges[1:] != edges[:-1]))]
