"""Functions of strings. ASCII is processed as arrays; other strings each distinct one once.

A string is its bytes. They need not be UTF-8: a byte that begins no character counts as one, as in Spark.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation.vector import Array, Vector, both, mask, text
from weft.expression import Call

_NEWER = (
    (0x019B, 0xA7DC, 1), (0x0264, 0xA7CB, 1), (0x1C8A, 0x1C89, 1), (0xA7CD, 0xA7CC, 1), (0xA7CF, 0xA7CE, 1),
    (0xA7D3, 0xA7D2, 1), (0xA7D5, 0xA7D4, 1), (0xA7DB, 0xA7DA, 1), (0x10D70, 0x10D50, 22),
    (0x16EBB, 0x16EA0, 25),
)  # fmt: skip
"""Letters of Unicode 16 and 17, which Python may not know yet: first small letter, first capital, count."""
_CAPITALS = {small + more: capital + more for small, capital, count in _NEWER for more in range(count)}
_SMALL = {capital: small for small, capital in _CAPITALS.items()}


def uppered(word: str) -> str:
    """Return a string in upper case.

    >>> uppered("straße")
    'STRASSE'
    """
    return word.translate(_CAPITALS).upper()


def lowered(word: str) -> str:
    """Return a string in lower case; a sigma at the end of a word has its own.

    >>> lowered("ΟΔΟΣ")
    'οδος'
    """
    return word.translate(_SMALL).lower()


_WIDTHS = bytes(
    1 if first < 0xC2 or first > 0xF4 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    for first in range(256)
)
"""The length of a character, by its first byte."""
_INT = np.iinfo(np.int32)


def is_ascii(array: pa.Array) -> bool:
    """Say whether all bytes of an array are ASCII."""
    data = array.buffers()[2]
    if data is None or data.size == 0 or len(array) == 0:
        return True
    offsets = _offsets(array)
    bytes_ = np.frombuffer(data, dtype=np.int8)[offsets[0] : offsets[-1]]
    return len(bytes_) == 0 or int(bytes_.min()) >= 0


def _offsets(array: pa.Array) -> Array:
    return np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)


def mapped(array: pa.Array, function: Callable[[bytes], Any], type: pa.DataType) -> pa.Array:
    """Apply a function to each distinct string."""
    encoded = array.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    return pa.array([function(word) for word in words], type).take(encoded.indices)


def characters(word: bytes) -> list[bytes]:
    """Return the characters of a string, as Spark counts them.

    >>> characters("aß".encode() + b"\\xff")
    [b'a', b'\\xc3\\x9f', b'\\xff']
    """
    if word.isascii():
        return [word[at : at + 1] for at in range(len(word))]
    parts, at = [], 0
    while at < len(word):
        parts.append(word[at : at + _WIDTHS[word[at]]])
        at += _WIDTHS[word[at]]
    return parts


def cased(kernel: Any, function: Callable[[str], str]) -> Callable[[Call, Vector], Vector]:
    """Return a change of case: by a function of Arrow's for ASCII, by one of Python's elsewhere."""

    def apply(call: Call, value: Vector) -> Vector:
        array = value.values
        if is_ascii(array):
            return text(kernel(array.view(pa.string())).view(pa.binary()))
        convert = lambda word: function(word.decode("utf-8", "replace")).encode()  # noqa: E731
        return text(mapped(array, convert, pa.binary()))

    return apply


def length(call: Call, value: Vector) -> Vector:
    """Return the number of characters."""
    array = value.values
    return Vector(np.diff(_offsets(array)) if is_ascii(array) else _counts(array), value.valid)


def _counts(array: pa.Array) -> Array:
    counts = mapped(array, lambda word: len(characters(word)), pa.int32())
    return counts.fill_null(0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def trimmed(kernel: Any) -> Callable[[Call, Vector], Vector]:
    """Return a function that removes spaces, but no other blanks."""
    return lambda call, value: text(kernel(value.values.view(pa.string()), characters=" ").view(pa.binary()))


def concat(call: Call, *values: Vector) -> Vector:
    """Return strings joined; NULL if any is."""
    arrays = aligned(*(value.values for value in values))
    return text(pc.binary_join_element_wise(*arrays, b""))


def aligned(*arrays: pa.Array) -> list[pa.Array]:
    """Return arrays of one length: constants repeated."""
    lengths = {len(array) for array in arrays}
    if len(lengths) == 1:
        return list(arrays)
    rows = max(lengths) if 0 not in lengths else 0
    return [
        array if len(array) == rows else array.take(pa.array(np.zeros(rows, dtype=np.int32)))
        for array in arrays
    ]


def substring(call: Call, value: Vector, start: Vector, *lengths: Vector) -> Vector:
    """Return a part, from a position that counts from 1, or from the end if it is negative."""
    return _parts(value, start, lengths[0] if lengths else Vector(np.array([_INT.max]), None))


def left(call: Call, value: Vector, size: Vector) -> Vector:
    """Return the first characters."""
    return _parts(value, Vector(np.ones(1, dtype=np.int64), None), size)


def right(call: Call, value: Vector, size: Vector) -> Vector:
    """Return the last characters."""
    sizes = size.values.astype(np.int64)
    start = Vector(np.where(sizes > 0, -sizes, 1), None)
    kept = Vector(np.where(sizes > 0, _INT.max, 0), size.valid)
    return _parts(value, start, kept)


def _parts(value: Vector, start: Vector, size: Vector) -> Vector:
    array = value.values
    rows = max(len(array), len(start.values), len(size.values)) if len(array) else 0
    starts, sizes = start.values.astype(np.int64), size.values.astype(np.int64)
    valid = both(start.valid, size.valid)
    shown = None if valid is None else pa.array(np.broadcast_to(valid, rows))
    if len(array) != rows:
        array = aligned(array, pa.nulls(rows, pa.binary()))[0]
    ascii = is_ascii(array)
    counts = np.diff(_offsets(array)) if ascii else _counts(array)
    begin = np.where(starts > 0, starts - 1, np.where(starts < 0, counts + starts, 0))
    end = np.clip(np.clip(begin + sizes, _INT.min, _INT.max), 0, counts)
    begin = np.clip(begin, 0, counts)
    end = np.maximum(begin, end)
    parts = byte_slices(array, begin, end) if ascii else _slices(array, begin, end)
    return text(parts if shown is None else pc.if_else(shown, parts, pa.scalar(None, pa.binary())))


def _slices(array: pa.Array, begin: Array, end: Array) -> pa.Array:
    rows = zip(array.to_pylist(), begin.tolist(), end.tolist(), strict=True)
    parts = [None if word is None else b"".join(characters(word)[a:b]) for word, a, b in rows]
    return pa.array(parts, pa.binary())


def byte_slices(array: pa.Array, begin: Array, end: Array) -> pa.Array:
    """Return the bytes of each string from one place to another, all at once."""
    if len(array) == 0:
        return array
    sizes = end - begin
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
    source = np.repeat(_offsets(array)[:-1] + begin - offsets[:-1], sizes) + np.arange(offsets[-1])
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data[source])]
    cut = pa.Array.from_buffers(pa.binary(), len(array), buffers)
    return cut if array.null_count == 0 else pc.if_else(array.is_valid(), cut, pa.scalar(None, pa.binary()))


def replace(call: Call, value: Vector, sought: Vector, new: Vector) -> Vector:
    """Return strings with every occurrence replaced; an empty string is never replaced."""
    if len(sought.values) == 1 and len(new.values) == 1:
        old, put = sought.values[0].as_py(), new.values[0].as_py()
        if old is None or put is None:
            return text(pa.nulls(len(value.values), pa.binary()))
        if old == b"":
            return value
        return text(pc.replace_substring(value.values, pattern=old, replacement=put))
    rows = zip(
        *(array.to_pylist() for array in aligned(value.values, sought.values, new.values)), strict=True
    )
    return text(pa.array(
        [None if None in row else row[0].replace(*row[1:]) if row[1] else row[0] for row in rows], pa.binary()
    ))  # fmt: skip


def test(kernel: Any, method: Callable[[bytes, bytes], bool]) -> Callable[[Call, Vector, Vector], Vector]:
    """Return a test of strings against a part: quick where the part is a constant."""

    def apply(call: Call, value: Vector, part: Vector) -> Vector:
        valid = both(value.valid, part.valid)
        if len(part.values) == 1 and part.valid is None:
            return Vector(mask(kernel(value.values, pattern=part.values[0].as_py())), valid)
        words, parts = (array.fill_null(b"").to_pylist() for array in aligned(value.values, part.values))
        return Vector(np.fromiter(map(method, words, parts), dtype=bool, count=len(words)), valid)

    return apply
