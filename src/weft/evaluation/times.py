"""Parts of dates and timestamps, in UTC and the Gregorian calendar of all times."""

from collections.abc import Callable

import numpy as np

from weft.evaluation.casts import converted, midnight
from weft.evaluation.vector import DAY, SECOND, Array, Vector, narrowed
from weft.expression import Call, Literal
from weft.types import DATE, Kind


def _months(days: Array) -> Array:
    """Return months since January 1970."""
    return days.view("M8[D]").astype("M8[M]").view(np.int64)


def _first_days(months: Array) -> Array:
    return np.ascontiguousarray(months).view("M8[M]").astype("M8[D]").view(np.int64)


def _of_day(part: Callable[[Array], Array]) -> Callable[[Call, Vector], Vector]:
    def apply(call: Call, value: Vector) -> Vector:
        days = value.values if call.args[0].type.kind is Kind.DATE else value.values // DAY
        return Vector(part(days.astype(np.int64)).astype(np.int32), value.valid)

    return apply


year = _of_day(lambda days: _months(days) // 12 + 1970)
month = _of_day(lambda days: _months(days) % 12 + 1)
day = _of_day(lambda days: days - _first_days(_months(days)) + 1)
day_of_week = _of_day(lambda days: (days + 4) % 7 + 1)  # 1 is Sunday; 1970 began with a Thursday


def _moments(call: Call, value: Vector) -> Vector:
    """Return the last argument as microseconds: a date is its midnight."""
    return midnight(value.values, value.valid) if call.args[-1].type.kind is Kind.DATE else value


def _of_clock(seconds: int, modulus: int) -> Callable[[Call, Vector], Vector]:
    def apply(call: Call, value: Vector) -> Vector:
        moments = _moments(call, value)
        return Vector((moments.values // (seconds * SECOND) % modulus).astype(np.int32), moments.valid)

    return apply


hour, minute, second = _of_clock(3600, 24), _of_clock(60, 60), _of_clock(1, 60)


def since_epoch(micros: int) -> Callable[[Call, Vector], Vector]:
    """Return the function that counts whole units since 1970."""
    return lambda call, value: Vector(value.values // micros, value.valid)


_FIXED = {
    "microsecond": 1, "millisecond": 1000, "second": SECOND, "minute": 60 * SECOND, "hour": 3600 * SECOND,
    "day": DAY,
}  # fmt: skip
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_FIRST_DAY, _LAST_DAY = -((2**63) // DAY), (2**63 - 1) // DAY


def date_trunc(call: Call, _: Vector, value: Vector) -> Vector:
    """Return the start of the unit of time that contains each moment; NULL if that is not a timestamp."""
    unit = call.args[0]
    assert isinstance(unit, Literal)
    name = str(unit.value)
    moments = _moments(call, value)
    if name in _FIXED:
        started = moments.values - moments.values % _FIXED[name]
        # The first unit of all begins before the first timestamp, so its start wraps around.
        return Vector(started, narrowed(moments.valid, started <= moments.values))
    days = moments.values // DAY
    if name == "week":
        first = days - (days + 3) % 7  # Monday
    else:
        months = _months(days)
        first = _first_days(months - months % _MONTHS[name])
    return Vector(first * DAY, narrowed(moments.valid, (first >= _FIRST_DAY) & (first <= _LAST_DAY)))


def to_date(call: Call, value: Vector) -> Vector:
    """Return the day of a time or string."""
    return converted(value, call.args[0].type, DATE)
