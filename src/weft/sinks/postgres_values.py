"""Values as text that PostgreSQL reads back exactly.

Arrays of scalars are arrays of PostgreSQL, `{"0.5",NULL}`. Structs, and arrays of anything else, are JSON:
numbers are JSON's numbers, NaN and infinity strings as in PostgreSQL's `to_jsonb`, and all else is the text
that it would be in a column of its own.
"""

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

Texts = list[str | None]
_NUL = "␀"
"""Replaces NUL, which PostgreSQL's text cannot hold."""
_FIRST_DAY, _LAST_DAY = -719_162, 11_248_737
"""Of the years 1 to 32767: in these, times as text mean the same to Arrow and to PostgreSQL."""
_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_NO_NUMBERS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}
"""Floating point that JSON has no numbers for."""


class Unwritable(ValueError):
    """A value that has no text; the message says why, without the value."""


def is_array(type: pa.DataType) -> bool:
    """Say whether PostgreSQL has arrays for values of a type: its own arrays are never ragged."""
    return pa.types.is_list(type) and not pa.types.is_nested(type.value_type)


def as_text(column: pa.ChunkedArray | pa.Array) -> Texts:
    """Return values as text that PostgreSQL reads back exactly; raise Unwritable if there is none."""
    type = column.type
    if pa.types.is_list(type) or pa.types.is_struct(type):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return _literals(array) if is_array(type) else documents(array)
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
    if not times_fit(column):
        raise Unwritable("a time before the year 1 or after the year 32767")
    text = column.cast(pa.large_string())
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        text = pc.replace_substring(text, "\0", _NUL)
    try:
        return list(text.to_pylist())
    except UnicodeDecodeError:
        raise Unwritable("text that is not UTF-8") from None


def times_fit(column: pa.ChunkedArray | pa.Array) -> bool:
    """Say whether PostgreSQL can hold all times of a column; columns of other types pass."""
    if not pa.types.is_temporal(column.type):
        return True
    is_date = pa.types.is_date32(column.type)
    bounds = pc.min_max(column.cast(pa.int32() if is_date else pa.int64())).as_py()
    per_day = 1 if is_date else _PER_DAY[column.type.unit]
    return bounds["min"] is None or (
        _FIRST_DAY * per_day <= bounds["min"] and bounds["max"] < (_LAST_DAY + 1) * per_day
    )


def documents(array: pa.Array, texts: Callable[[pa.Array], Texts] = as_text) -> Texts:
    """Return values as JSON; `texts` are those of scalars.

    >>> documents(pa.array([{"value": "a", "count": 2}, None]))
    ['{"value": "a", "count": 2}', None]
    """
    type = array.type
    if pa.types.is_list(type):
        elements = ["null" if text is None else text for text in documents(array.flatten(), texts)]
        return _by_list(array, elements, "[", ", ", "]")
    if pa.types.is_struct(type):
        return _objects(array, [documents(part, texts) for part in array.flatten()])
    bare = pa.types.is_integer(type) or pa.types.is_decimal(type) or pa.types.is_boolean(type)
    if bare:
        return texts(array)
    if pa.types.is_floating(type):
        return [text if text is None else _NO_NUMBERS.get(text, text) for text in texts(array)]
    return [None if text is None else json.dumps(text, ensure_ascii=False) for text in texts(array)]


def _objects(array: pa.Array, parts: Sequence[Texts]) -> Texts:
    names = [json.dumps(field.name, ensure_ascii=False) for field in array.type]
    objects: Texts = []
    for valid, *values in zip(array.is_valid().to_pylist(), *parts, strict=True):
        pairs = (f"{name}: {value or 'null'}" for name, value in zip(names, values, strict=True))
        objects.append("{" + ", ".join(pairs) + "}" if valid else None)
    return objects


def _literals(array: pa.Array) -> Texts:
    """Return arrays as PostgreSQL writes them."""
    elements = ["NULL" if text is None else _quoted(text) for text in as_text(array.flatten())]
    return _by_list(array, elements, "{", ",", "}")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _by_list(array: pa.Array, elements: Sequence[str], begin: str, between: str, end: str) -> Texts:
    """Return the elements of each list together; `elements` are those of all lists that are not NULL."""
    lists: Texts = []
    place = 0
    for length in array.value_lengths().to_pylist():
        lists.append(None if length is None else begin + between.join(elements[place : place + length]) + end)
        place += length or 0
    return lists
