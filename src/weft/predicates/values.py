"""Sets of the values that one expression can have.

A set is written as the places where one enters and leaves it, walking up all values in Spark's order:

    x BETWEEN 5 AND 9        ──────5━━━━━━━━━9──────     cuts: before 5, after 9
    x > 5                    ──────5━━━━━━━━━━━━━━━━     cut: after 5
    x <> 5                   ━━━━━━5━━━━━━━━━━━━━━━━     cuts: before 5, after 5, and it begins inside

NULL lies on no such line: it is in the set or not. Values are plain numbers (whole numbers for decimals,
dates, timestamps and booleans, see weft.predicates.values) or bytes, so that they compare as Spark compares
them. NaN, greater than all other doubles and equal to itself, is what lies after infinity.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from heapq import merge
from itertools import groupby
from math import inf, isnan
from operator import and_, or_

from weft.expression import Scalar
from weft.types import DataType, Kind

Point = int | float | bytes


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """A place just before or just after a value."""

    value: Point
    after: bool


@dataclass(frozen=True, slots=True)
class Values:
    """A set of values of one type, with or without NULL."""

    lowest: bool = False
    """Whether the values before the first cut are in it."""
    cuts: tuple[Cut, ...] = ()
    """Where one enters or leaves it, in order."""
    null: bool = False

    def __or__(self, other: "Values") -> "Values":
        return self._with(other, or_)

    def __and__(self, other: "Values") -> "Values":
        return self._with(other, and_)

    def __invert__(self) -> "Values":
        return Values(not self.lowest, self.cuts, not self.null)

    def without_null(self) -> "Values":
        """Return the same set less NULL."""
        return Values(self.lowest, self.cuts)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return self == Values()

    @property
    def is_everything(self) -> bool:
        """Whether all is in it, NULL too."""
        return (~self).is_empty

    def has(self, point: Point) -> bool:
        """Say whether a value is in it.

        >>> values = Values(cuts=(Cut(0, after=True), Cut(1, after=True)))
        >>> values.has(0), values.has(1)
        (False, True)
        """
        return self.lowest ^ (bisect_right(self.cuts, Cut(point, after=False)) % 2 == 1)

    @property
    def cuts_out_points(self) -> bool:
        """Whether all that is cut out of its line, or is left of it, is single values."""
        pairs = zip(self.cuts[::2], self.cuts[1::2], strict=False)
        return len(self.cuts) % 2 == 0 and all(before.value == after.value for before, after in pairs)

    def stretches(self) -> Iterator[tuple[Cut | None, Cut | None]]:
        """Yield where each unbroken stretch begins and ends; None stands for no bound."""
        bounds: list[Cut | None] = [None] if self.lowest else []
        bounds += self.cuts
        if len(bounds) % 2:
            bounds.append(None)
        yield from zip(bounds[::2], bounds[1::2], strict=True)

    def _with(self, other: "Values", join: Callable[[bool, bool], bool]) -> "Values":
        inside = [self.lowest, other.lowest]
        lowest = joint = join(*inside)
        cuts = []
        marked = merge(((cut, 0) for cut in self.cuts), ((cut, 1) for cut in other.cuts))
        for cut, changes in groupby(marked, key=lambda pair: pair[0]):
            for _, side in changes:
                inside[side] = not inside[side]
            if join(*inside) != joint:
                joint = not joint
                cuts.append(cut)
        return Values(lowest, tuple(cuts), join(self.null, other.null))


NOTHING = Values()
ONLY_NULL = Values(null=True)
ANY_VALUE = Values(lowest=True)
"""Every value but NULL."""


def from_cut(cut: Cut) -> Values:
    """Return the values after a cut.

    >>> list(from_cut(Cut(5, after=True)).stretches())
    [(Cut(value=5, after=True), None)]
    """
    return Values(cuts=(cut,))


def joined(sets: Sequence[Values], join: Callable[[Values, Values], Values]) -> Values:
    """Join one set or more, two by two: one by one, a long IN would be walked for each of its values."""
    while len(sets) > 1:
        pairs = [join(left, right) for left, right in zip(sets[::2], sets[1::2], strict=False)]
        sets = [*pairs, sets[-1]] if len(sets) % 2 else pairs
    return sets[0]


_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1)
_EXACT = Context(prec=100)
# One cut between FALSE and TRUE: nothing lies beside them, so each set of truths is written in one way.
IS_TRUE = from_cut(Cut(0, after=True))
"""The boolean TRUE."""
IS_FALSE = (~IS_TRUE).without_null()
"""The boolean FALSE."""


def values_from(type: DataType, constant: Scalar, *, inclusive: bool) -> Values | None:
    """Return the values of a type that are greater than a constant (or equal to it, if inclusive).

    None where the type's order is not known here.
    """
    if type.kind is Kind.DOUBLE:
        assert isinstance(constant, int | float | Decimal)
        double = float(constant)
        if isnan(double):
            return from_cut(Cut(inf, after=True)) if inclusive else NOTHING
        # Adding zero turns −0.0, which equals 0.0, into it.
        return from_cut(Cut(double + 0.0, after=not inclusive))
    if type.is_integer or type.kind is Kind.DECIMAL:
        return _whole_from(type, constant, inclusive=inclusive)
    if type.kind is Kind.BOOLEAN and isinstance(constant, bool):
        # From FALSE on, from TRUE on, beyond TRUE.
        return (ANY_VALUE, IS_TRUE, NOTHING)[constant + (not inclusive)]
    point = _point(type, constant)
    return None if point is None else from_cut(Cut(point, after=not inclusive))


def _whole_from(type: DataType, constant: Scalar, *, inclusive: bool) -> Values | None:
    if isinstance(constant, bool) or not isinstance(constant, int | Decimal):
        return None
    scaled = _EXACT.multiply(Decimal(constant), Decimal(10) ** type.scale)
    floor = int(scaled.to_integral_value(ROUND_FLOOR))
    if type.kind is Kind.DECIMAL:
        high = 10**type.precision - 1
        low = -high
    else:
        half = 1 << (_BITS[type.kind] - 1)
        low, high = -half, half - 1
    if floor > high:
        return NOTHING
    if floor < low:
        return ANY_VALUE
    return from_cut(Cut(floor, after=not inclusive or floor != scaled))


def _point(type: DataType, constant: Scalar) -> Point | None:
    if type.kind is Kind.STRING and isinstance(constant, str):
        return constant.encode()
    if type.kind is Kind.BINARY and isinstance(constant, bytes):
        return constant
    if type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ) and isinstance(constant, datetime):
        moment = constant if constant.tzinfo is not None else constant.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    # A moment is a date, too.
    if type.kind is Kind.DATE and isinstance(constant, date) and not isinstance(constant, datetime):
        return (constant - _FIRST_DAY).days
    return None


def point_text(type: DataType, value: Point) -> str:
    """Return a value of a type as a user would write it.

    >>> point_text(DataType(Kind.DECIMAL, 10, 2), 1250), point_text(DataType(Kind.DATE), 1)
    ('12.50', "DATE '1970-01-02'")
    """
    if isinstance(value, bytes) and type.kind is Kind.BINARY:
        return f"X'{value.hex()}'"
    if isinstance(value, bytes):
        return "'" + value.decode().replace("'", "''") + "'"
    if type.kind is Kind.DECIMAL:
        return str(_EXACT.scaleb(Decimal(value), -type.scale))
    if type.kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if type.kind is Kind.DATE:
        return f"DATE '{date.fromordinal(int(value) + _FIRST_DAY.toordinal())}'"
    if type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        seconds, micros = divmod(int(value), 1_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros, tzinfo=None)
        return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"
    return str(value)
