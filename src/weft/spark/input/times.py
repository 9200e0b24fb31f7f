"""Event time as microseconds since the epoch, whatever the column holds."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.query.logical import StreamDef, TimeUnit
from weft.spark.columns import named
from weft.types import DataType, Kind

_DAY_US = 86_400_000_000
_PER_UNIT = {TimeUnit.SECONDS: 1_000_000, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1}
LIMIT_US = 1 << 62
"""Times further from the epoch than this are not times: arithmetic on them would overflow."""


def event_time(stream: StreamDef) -> Column:
    """Return the stream's event time; NULL where there is none that can be used."""
    folded = stream.time.casefold()
    column = next(column for column in stream.columns if column.name.casefold() == folded)
    micros = _micros(named(column.name), column.type, stream.time_unit)
    return F.when((micros > -LIMIT_US) & (micros < LIMIT_US), micros)


def _micros(column: Column, type: DataType, unit: TimeUnit | None) -> Column:
    if type.kind is Kind.DATE:
        return F.try_multiply(F.unix_date(column).cast("bigint"), F.lit(_DAY_US))
    if type.is_time:
        # A timestamp without a zone is UTC, the zone of every session that Weft evaluates in.
        return F.unix_micros(column.cast("timestamp"))
    per_unit = _PER_UNIT.get(unit or TimeUnit.SECONDS)
    if type.is_integer:
        whole = column.cast("bigint")
        return (
            _thousandths(whole) if per_unit is None else F.try_multiply(whole, F.lit(per_unit).cast("bigint"))
        )
    exact = (
        F.try_divide(column, F.lit(1_000)) if per_unit is None else F.try_multiply(column, F.lit(per_unit))
    )
    # NaN is greater than any number, so that it lies outside too.
    inside = F.when((exact > -LIMIT_US) & (exact < LIMIT_US), exact)
    return F.floor(inside).cast("bigint")


def _thousandths(nanoseconds: Column) -> Column:
    """Round down to microseconds; the smallest whole numbers, which stand for no time, would overflow."""
    usable = F.when(nanoseconds > F.lit(-(2**63) + 1_000), nanoseconds)
    return F.call_function("div", usable - F.pmod(usable, F.lit(1_000)), F.lit(1_000))
