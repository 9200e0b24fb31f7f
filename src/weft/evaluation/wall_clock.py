"""Times in zones, and times as text."""

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from weft.evaluation.times import moments_of
from weft.evaluation.vector import DAY, SECOND, Array, Vector, narrowed, text
from weft.expression import Call, Literal
from weft.query.date_patterns import Field, read_pattern
from weft.query.zones import fixed_offset

_SHIFT = 20 * 3600 * SECOND
"""More than the offset of any zone: what is that near the first or last timestamp is not shifted."""


def shifted(sign: int) -> Callable[[Call, Vector, Vector], Vector]:
    """Return the function that adds or subtracts a zone's offset, which is the same at all times.

    The rules of regions are Spark's alone: Java's database of them is not the one that Python has.
    """

    def apply(call: Call, value: Vector, _: Vector) -> Vector:
        offset = fixed_offset(_constant(call))
        assert offset is not None
        inside = (value.values >= -(2**63 - 1 - _SHIFT)) & (value.values <= 2**63 - 1 - _SHIFT)
        moved = np.where(inside, value.values, 0) + sign * (offset // timedelta(microseconds=1))
        return Vector(moved, narrowed(value.valid, inside))

    return apply


def _constant(call: Call) -> str:
    constant = call.args[1]
    assert isinstance(constant, Literal)
    return str(constant.value)


_UNITS = {"H": 3600, "k": 3600, "K": 3600, "h": 3600, "a": 3600, "m": 60, "s": 1}
"""The seconds after which fields of a clock change."""


def date_format(call: Call, value: Vector, _: Vector) -> Vector:
    """Return times as text by a pattern, each distinct one once."""
    fields = read_pattern(_constant(call))
    moments = moments_of(call.args[0].type, value)
    unit = min((_unit(field) for field in fields if isinstance(field, Field)), default=DAY)
    hidden = None if moments.valid is None else ~np.broadcast_to(moments.valid, moments.values.shape)
    values: Array = moments.values if hidden is None else np.where(hidden, 0, moments.values)
    distinct, rows = np.unique(values // unit, return_inverse=True)
    words = pa.array([_formatted(fields, one * unit).encode() for one in distinct.tolist()], pa.binary())
    return text(words.take(pa.array(rows, mask=hidden)))


def _unit(field: Field) -> int:
    return 1 if field.letter == "S" else _UNITS.get(field.letter, 86_400) * SECOND


_SHORT_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_ORDINALS = ("1st", "2nd", "3rd", "4th")


def _formatted(fields: tuple[Field | str, ...], micros: int) -> str:
    days, of_day = divmod(micros, DAY)
    cycles, of_cycle = divmod(days, 146_097)
    civil = date(1970, 1, 1) + timedelta(days=of_cycle)
    year = civil.year + 400 * cycles
    return "".join(
        field if isinstance(field, str) else _field(field, year, civil, of_day) for field in fields
    )


def _field(field: Field, year: int, civil: date, of_day: int) -> str:
    letter, count = field
    if letter == "y":
        return _year(year, count)
    if letter in "XxZ":
        return _offset(letter, count)
    if letter == "S":
        return f"{of_day % SECOND:06d}000"[:count]
    if letter in _UNITS:
        return _clock(letter, of_day // SECOND).rjust(count, "0")
    if letter == "E":
        name = _DAYS[civil.weekday()]
        return name if count == 4 else name[:3]
    quarter = (civil.month - 1) // 3
    named = {"M": (_SHORT_MONTHS[civil.month - 1], _MONTHS[civil.month - 1]),
             "Q": (f"Q{quarter + 1}", f"{_ORDINALS[quarter]} quarter")}  # fmt: skip
    if letter in named and count > 2:
        return named[letter][count - 3]
    numbers = {"M": civil.month, "Q": quarter + 1, "d": civil.day, "D": civil.timetuple().tm_yday}
    return f"{numbers[letter]:0{count}d}"


def _year(year: int, count: int) -> str:
    if count == 2:
        return f"{abs(year) % 100:02d}"
    sign = "-" if year < 0 else "+" if year > 9999 and count == 4 else ""
    return f"{sign}{abs(year):0{count}d}"


def _clock(letter: str, second: int) -> str:
    hour = second // 3600
    if letter == "a":
        return "AM" if hour < 12 else "PM"
    numbers = {"H": hour, "k": hour or 24, "K": hour % 12, "h": hour % 12 or 12,
               "m": second // 60 % 60, "s": second % 60}  # fmt: skip
    return str(numbers[letter])


def _offset(letter: str, count: int) -> str:
    """Return the offset of UTC."""
    if letter == "X":
        return "Z"
    return "+0000" if letter == "Z" else ("+00", "+0000", "+00:00")[count - 1]
