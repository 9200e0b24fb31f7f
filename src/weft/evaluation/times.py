"""Parts of dates and timestamps, in UTC and the Gregorian calendar of all times."""

from collections.abc import Callable

import numpy as np

from weft.evaluation.casts import converted, midnight
from weft.evaluation.vector import DAY, SECOND, Array, Vector, both, narrowed
from weft.expression import Call, Literal
from weft.query.calendar import LAST_WHOLE_MONTH, MONTHS
from weft.types import DATE, DataType, Kind


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


def moments_of(type: DataType, value: Vector) -> Vector:
    """Return times as microseconds: a date is its midnight."""
    return midnight(value.values, value.valid) if type.kind is Kind.DATE else value


def _of_clock(seconds: int, modulus: int) -> Callable[[Call, Vector], Vector]:
    def apply(call: Call, value: Vector) -> Vector:
        moments = moments_of(call.args[-1].type, value)
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
    moments = moments_of(call.args[-1].type, value)
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


quarter = _of_day(lambda days: _months(days) % 12 // 3 + 1)
day_of_year = _of_day(lambda days: days - _first_days(_months(days) // 12 * 12) + 1)
weekday = _of_day(lambda days: (days + 3) % 7)  # 0 is Monday


def _week(days: Array) -> Array:
    """Return ISO weeks: that of a day is the week of its Thursday in that one's year."""
    thursday = days - (days + 3) % 7 + 3
    first: Array = thursday - _first_days(_months(thursday) // 12 * 12)
    return first // 7 + 1


week_of_year = _of_day(_week)


def _days(value: Vector, kind: Kind) -> Array:
    days: Array = value.values if kind is Kind.DATE else value.values // DAY
    return days.astype(np.int64)


def moved(sign: int) -> Callable[[Call, Vector, Vector], Vector]:
    """Return the function that adds or subtracts days; what is out of range wraps around, as in Spark."""

    def apply(call: Call, value: Vector, count: Vector) -> Vector:
        days = _days(value, call.args[0].type.kind) + sign * count.values.astype(np.int64)
        return Vector(days.astype(np.int32), both(value.valid, count.valid))

    return apply


def days_between(call: Call, end: Vector, start: Vector) -> Vector:
    """Return the days from the second to the first."""
    days = _days(end, call.args[0].type.kind) - _days(start, call.args[1].type.kind)
    return Vector(days.astype(np.int32), both(end.valid, start.valid))


def add_months(call: Call, value: Vector, count: Vector) -> Vector:
    """Return dates so many months later, the last day of a month that is shorter; NULL beyond dates."""
    days = _days(value, call.args[0].type.kind)
    months = _months(days)
    number = months + 12 * 1970 + 1 + count.values
    inside = (number >= MONTHS[0]) & (number <= MONTHS[1])
    target = np.where(inside, months + count.values, 0)
    first = _first_days(target)
    last = _first_days(target + 1) - 1
    moved_days = np.minimum(first + (days - _first_days(months)), last)
    return Vector(moved_days.astype(np.int32), narrowed(both(value.valid, count.valid), inside))


def last_day(call: Call, value: Vector) -> Vector:
    """Return the last days of months; NULL beyond dates."""
    days = _days(value, call.args[0].type.kind)
    inside = days < LAST_WHOLE_MONTH
    last = _first_days(_months(np.where(inside, days, 0)) + 1) - 1
    return Vector(last.astype(np.int32), narrowed(value.valid, inside))


def unix_date(call: Call, value: Vector) -> Vector:
    """Return days since 1970."""
    return value


def truncated_seconds(call: Call, value: Vector) -> Vector:
    """Return seconds since 1970 without their fraction: −0.5 is 0."""
    moments = moments_of(call.args[0].type, value)
    down = moments.values // SECOND
    return Vector(down + ((moments.values < 0) & (moments.values % SECOND != 0)), moments.valid)


def from_epoch(micros: int) -> Callable[[Call, Vector], Vector]:
    """Return the function that counts so many microseconds at a time since 1970; NULL beyond timestamps."""
    most = (2**63 - 1) // micros

    def apply(call: Call, value: Vector) -> Vector:
        count = value.values.astype(np.int64)
        if micros == 1:
            return Vector(count, value.valid)
        inside = (count >= -most) & (count <= most)
        return Vector(np.where(inside, count, 0) * micros, narrowed(value.valid, inside))

    return apply
