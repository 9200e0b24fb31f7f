"""Which slice a moment lies in, for whole arrays of moments: the vectorised twin of the slice manager."""

from collections.abc import Collection
from functools import reduce

import numpy as np
import numpy.typing as npt

from weft.optimizer.slices import EdgeClass

Times = npt.NDArray[np.int64]
MICROSECONDS = 1000
"""Microseconds in the millisecond that windows are measured in."""


def slice_starts(times_us: Times, classes: Collection[EdgeClass]) -> Times:
    """Return the last edge at or before each time, in microseconds.

    >>> slice_starts(np.array([0, 11_999, 14_000, -1]), [EdgeClass(15, 0), EdgeClass(15, 12)]).tolist()
    [0, 0, 12000, -3000]
    """
    edges = (_last_edges(times_us, one) for one in classes)
    return reduce(lambda left, right: np.maximum(left, right, out=left), edges)


def _last_edges(times_us: Times, edge: EdgeClass) -> Times:
    since: Times = (times_us - edge.residue * MICROSECONDS) % (edge.modulus * MICROSECONDS)
    return times_us - since
