"""Columns of numbers: their types, and what it takes to sort and to group rows by them."""

from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
"""Indices of rows."""
Numbers = npt.NDArray[np.int64]
Times = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
"""Small numbers by which a store knows keys and fragments."""
_CODES = 1 << 62


def changes(values: npt.NDArray[np.integer]) -> Bools:
    """Return where a value differs from the one before it."""
    changes = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def spelled_out(begin: Numbers, count: Numbers) -> Numbers:
    """Return the numbers of all ranges, one after the other.

    >>> spelled_out(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    numbers: Numbers = np.arange(count.sum()) + np.repeat(begin - (np.cumsum(count) - count), count)
    return numbers


def follow(bits: Iterable[Bools], patterns: Collection[int]) -> Bools:
    """Return where the bits, the first one lowest, are one of some patterns.

    >>> follow([np.array([True, True, False]), np.array([False, True, True])], {1, 2}).tolist()
    [True, False, True]
    """
    codes = sum(own.astype(np.int64) << order for order, own in enumerate(bits))
    return np.isin(codes, list(patterns))


def as_one(columns: Iterable[npt.NDArray[np.integer]], rows: int) -> Numbers:
    """Return columns of numbers from 0 on as one: in the order of the columns, and equal where all are.

    >>> as_one([np.array([0, 1, 1]), np.array([9, 0, 2])], 3).tolist()
    [9, 10, 12]
    """
    whole, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        count = int(column.max(initial=0)) + 1
        if size * count >= _CODES:
            # Their ranks are in the same order.
            whole, column = (np.unique(numbers, return_inverse=True)[1] for numbers in (whole, column))
            size, count = (int(numbers.max(initial=0)) + 1 for numbers in (whole, column))
        whole, size = whole * count + column, size * count
    return whole


def in_order(codes: Numbers) -> tuple[Rows, Numbers]:
    """Return the order of numbers from 0 on, and the numbers in order."""
    bits = len(codes).bit_length()
    if int(codes.max(initial=0)) << bits < _CODES:
        # Sorting numbers that contain their index is several times as fast as sorting indices.
        packed = np.sort((codes << bits) | np.arange(len(codes)))
        return packed & ((1 << bits) - 1), packed >> bits
    order = np.argsort(codes, kind="stable")
    return order, codes[order]
