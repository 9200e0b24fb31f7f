"""Where a constant lies among the values of a column's type.

Comparisons are exact: the constant moves to the column's type, never the other way round. A constant that the
type cannot hold lies between two of its values: `vol > 5.5` over whole numbers cuts just after 5.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from math import inf, isnan

from weft.expression import Scalar
from weft.predicates.values import ANY_VALUE, NOTHING, Cut, Point, Values, from_cut
from weft.types import DataType, Kind

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
        return _doubles_from(float(constant), inclusive=inclusive)
    if type.is_integer or type.kind is Kind.DECIMAL:
        return _whole_from(type, constant, inclusive=inclusive)
    if type.kind is Kind.BOOLEAN and isinstance(constant, bool):
        # From FALSE on, from TRUE on, beyond TRUE.
        return (ANY_VALUE, IS_TRUE, NOTHING)[constant + (not inclusive)]
    point = _point(type, constant)
    return None if point is None else from_cut(Cut(point, after=not inclusive))


def _doubles_from(constant: float, *, inclusive: bool) -> Values:
    if isnan(constant):
        return from_cut(Cut(inf, after=True)) if inclusive else NOTHING
    # Adding zero turns −0.0, which equals 0.0, into it.
    return from_cut(Cut(constant + 0.0, after=not inclusive))


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
