"""Further functions of strings, and hashes of bytes: each distinct combination of arguments once."""

import hashlib
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation.strings import aligned, byte_slices, characters, mapped
from weft.evaluation.vector import Vector, text, validity
from weft.expression import Call
from weft.types import Kind

Rowwise = Callable[..., Any]
"""Takes the values of one row, strings as bytes; none is NULL."""


def of_rows(function: Rowwise, type: pa.DataType) -> Callable[..., Vector]:
    """Return a function of rows as one of columns; NULL where an argument is."""

    def apply(call: Call, *values: Vector) -> Vector:
        first, *others = values
        if isinstance(first.values, pa.Array) and all(len(one.values) == 1 for one in others):
            rest = [_listed(one)[0] for one in others]
            missing = any(one is None for one in rest)
            found = mapped(
                first.values, lambda word: None if missing or word is None else function(word, *rest), type
            )
        else:
            found = pa.array(_row_by_row(function, values), type)
        return _vector(found)

    return apply


def _row_by_row(function: Rowwise, values: tuple[Vector, ...]) -> list[Any]:
    known: dict[tuple[Any, ...], Any] = {}
    columns = [_listed(value) for value in values]
    lengths = {len(column) for column in columns}
    rows = 0 if 0 in lengths else max(lengths)
    results = []
    for row in zip(*(column * rows if len(column) == 1 else column for column in columns), strict=True):
        if row not in known:
            known[row] = None if None in row else function(*row)
        results.append(known[row])
    return results


def _listed(value: Vector) -> list[Any]:
    if isinstance(value.values, pa.Array):
        return value.values.to_pylist()  # type: ignore[no-any-return]
    numbers: list[Any] = value.values.tolist()
    if value.valid is None:
        return numbers
    return [number if good else None for number, good in zip(numbers, value.valid, strict=True)]


def _vector(array: pa.Array) -> Vector:
    if pa.types.is_binary(array.type):
        return text(array)
    return Vector(array.fill_null(0).to_numpy(zero_copy_only=False), validity(array))


def _decoded(word: bytes) -> str:
    return word.decode("utf-8", "replace")


def split_part(word: bytes, delimiter: bytes, number: int) -> bytes:
    """Return the part of that number, from 1, or from the end if negative; nothing if there is none.

    >>> split_part(b"a/b/c", b"/", -1)
    b'c'
    """
    if not delimiter:
        parts = [word]
    elif word.isascii() and delimiter.isascii():
        parts = word.split(delimiter)
    else:
        # Spark splits strings of Java's, in which bytes that are not UTF-8 are signs of their own.
        parts = [part.encode() for part in _decoded(word).split(_decoded(delimiter))]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else b""


def substring_index(word: bytes, delimiter: bytes, count: int) -> bytes:
    """Return what is before the delimiter of that number, or after it, counted from the end, if negative.

    >>> substring_index(b"www.example.org", b".", 2), substring_index(b"www.example.org", b".", -2)
    (b'www.example', b'example.org')
    """
    if not delimiter or not word or count == 0:
        return b""
    if count > 0:
        at = -1
        for _ in range(count):
            at = word.find(delimiter, at + 1)
            if at < 0:
                return word
        return word[:at]
    at = len(word) - len(delimiter) + 1
    for _ in range(-count):
        at = word.rfind(delimiter, 0, max(0, at - 1 + len(delimiter)))
        if at < 0:
            return word
    return word[at + len(delimiter) :]


def concat_ws(call: Call, separator: Vector, *values: Vector) -> Vector:
    """Return strings that are not NULL joined, with a separator between; NULL only if that is."""
    kinds = [argument.type.kind for argument in call.args]
    if kinds[0] is Kind.NULL:
        return text(pa.nulls(1, pa.binary()))
    strings = [value.values for value, kind in zip(values, kinds[1:], strict=True) if kind is not Kind.NULL]
    *joined, between = aligned(*strings, separator.values)
    empty, nothing = pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary())
    if not joined:
        return text(pc.if_else(between.is_valid(), empty, nothing))
    # Arrow's own way to skip NULL loses rows in which all are. So each string has a separator before it.
    led = [
        pc.if_else(one.is_valid(), pc.binary_join_element_wise(between, one, empty), empty) for one in joined
    ]
    whole = pc.binary_join_element_wise(*led, empty, empty).fill_null(b"")
    ends = pc.binary_length(whole).to_numpy(zero_copy_only=False)
    starts = np.minimum(pc.binary_length(between).fill_null(0).to_numpy(zero_copy_only=False), ends)
    return text(pc.if_else(between.is_valid(), byte_slices(whole, starts, ends), nothing))


def lpad(word: bytes, size: int, pad: bytes = b" ") -> bytes:
    """Return a string of that many characters: cut, or padded at the start."""
    return _padded(word, size, pad, at_start=True)


def rpad(word: bytes, size: int, pad: bytes = b" ") -> bytes:
    """Return a string of that many characters: cut, or padded at the end."""
    return _padded(word, size, pad, at_start=False)


def _padded(word: bytes, size: int, pad: bytes, *, at_start: bool) -> bytes:
    signs, more = characters(word), characters(pad)
    missing = size - len(signs)
    if missing <= 0 or not more:
        return b"".join(signs[: max(0, size)])
    filled = b"".join((more * (missing // len(more) + 1))[:missing])
    return filled + word if at_start else word + filled


def repeat(word: bytes, count: int) -> bytes:
    """Return a string so many times."""
    return word * max(0, count)


def reverse(word: bytes) -> bytes:
    """Return a string with its characters in opposite order."""
    return b"".join(reversed(characters(word)))


def instr(word: bytes, part: bytes) -> int:
    """Return where a part begins, counted from 1; 0 if it is not there."""
    return locate(part, word, 1)


def locate(part: bytes, word: bytes, start: int = 1) -> int:
    """Return where a part begins at or after a start, counted from 1; 0 if it does not."""
    if start < 1:
        return 0
    if not part:
        return 1
    first = start - 1
    if word.isascii():
        return word.find(part, first) + 1
    at = 0
    for number, sign in enumerate(characters(word)):
        if number >= first and word.startswith(part, at):
            return number + 1
        at += len(sign)
    return 0


def translate(word: bytes, sought: bytes, new: bytes) -> bytes:
    """Return a string with characters replaced by those at the same place, or removed if there is none."""
    puts = _decoded(new)
    table: dict[int, str | None] = {}
    for place, sign in enumerate(_decoded(sought)):
        put = puts[place] if place < len(puts) else None
        table.setdefault(ord(sign), put)
    return _decoded(word).translate(table).encode()


def ascii_code(word: bytes) -> int:
    """Return the code of the first character; 0 if there is none."""
    first = _decoded(b"".join(characters(word)[:1]))
    return ord(first[0]) if first else 0


def octet_length(call: Call, value: Vector) -> Vector:
    """Return the number of bytes."""
    return _vector(pc.binary_length(value.values))


def digest(algorithm: str) -> Rowwise:
    """Return the function that hashes bytes, as hexadecimal digits."""
    return lambda word: hashlib.new(algorithm, word, usedforsecurity=False).hexdigest().encode()


def sha2(word: bytes, bits: int) -> bytes:
    """Return a digest of so many bits."""
    return hashlib.new(f"sha{bits}", word).hexdigest().encode()


def checksum(word: bytes) -> int:
    """Return the CRC-32 of bytes."""
    return crc32(word)


def hexadecimal(value: bytes | int) -> bytes:
    """Return bytes, or a number of 64 bits, in hexadecimal digits."""
    shown = value.hex() if isinstance(value, bytes) else f"{value & (2**64 - 1):x}"
    return shown.upper().encode()
