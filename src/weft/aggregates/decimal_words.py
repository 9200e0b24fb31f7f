"""Decimals as Arrow stores them, in two words each, and as whole numbers in units of their scale."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Objects = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def unscaled(array: pa.Array) -> Objects:
    """Return decimals in units of their scale: int64 if all fit, Python integers otherwise; 0 for NULL."""
    rows = len(array)
    if rows == 0:
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * rows, 16 * array.offset).reshape(rows, 2)
    if array.null_count:
        words = np.where(np.asarray(array.is_valid())[:, None], words, 0)
    low, high = words[:, 0], words[:, 1]
    if np.array_equal(high, low >> 63):
        return np.ascontiguousarray(low)
    whole: Objects = high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object)
    return whole


def words_of(values: Objects, valid: Mask | None) -> Objects:
    """Return whole numbers as Arrow stores decimals: a low and a high word each."""
    words = np.empty((len(values), 2), dtype=np.int64)
    if values.dtype != object:
        words[:, 0] = values
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return words
    if valid is not None:
        values = np.where(valid, values, 0)
    words[:, 0] = (values & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)
    words[:, 1] = (values >> 64).astype(np.int64)
    return words
