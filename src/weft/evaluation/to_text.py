"""Values as strings, as Spark prints them; not doubles, whose form depends on the version of Java."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation.vector import DAY, SECOND, Vector, text
from weft.types import DataType, Kind


def printed(value: Vector, source: DataType) -> Vector:
    """Return values of any type but doubles and floats as strings."""
    hidden = None if value.valid is None else ~np.broadcast_to(value.valid, value.values.shape)
    if source.is_integer:
        return text(pa.array(value.values, mask=hidden).cast(pa.string()).view(pa.binary()))
    if source.kind is Kind.BOOLEAN:
        return text(pc.if_else(pa.array(value.values, mask=hidden), b"true", b"false"))
    printer = {Kind.DECIMAL: _decimal(source.scale), Kind.DATE: day}.get(source.kind, _timestamp)
    values = value.values if hidden is None else np.where(hidden, 0, value.values)
    distinct, rows = np.unique(values, return_inverse=True)
    words = pa.array([printer(number) for number in distinct.tolist()], pa.binary())
    return text(words.take(pa.array(rows, mask=hidden)))


def _decimal(scale: int) -> Callable[[int], bytes]:
    def printer(units: int) -> bytes:
        digits = str(abs(units)).rjust(scale + 1, "0")
        point = len(digits) - scale
        sign = "-" if units < 0 else ""
        return f"{sign}{digits[:point]}{'.' if scale else ''}{digits[point:]}".encode()

    return printer


def day(days: int) -> bytes:
    """Return a date as text.

    >>> day(0), day(10_000_000), day(-1_000_000)
    (b'1970-01-01', b'+29349-01-26', b'-0768-02-04')
    """
    year, month, of_month = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{of_month:02d}".encode()


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970 in the Gregorian calendar, however far away."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year_of_era + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _timestamp(micros: int) -> bytes:
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, SECOND)
    clock = f" {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    part = f".{fraction:06d}".rstrip("0") if fraction else ""
    return day(days) + clock.encode() + part.encode()
