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
    column = named(stream.time)
    type = next(column.type for column in stream.columns if column.name == stream.time)
    micros = _micros(column, type, stream.time_unit)
    return F.when((micros > -LIMIT_US) & (micros < LIMIT_US), micros)


def _micros(column: Column, type: DataType, unit: TimeUnit | None) -> Column:
    if type.kind is Kind.DATE:
        return F.unix_date(column).cast("bigint") * F.lit(_DAY_US)
    if type.is_time:
        # A timestamp without a zone is UTC, the zone of every session that Weft evaluates in.
        return F.unix_micros(column.cast("timestamp"))
    if unit is TimeUnit.NANOSECONDS:
        scaled = column / F.lit(1_000)
        whole = F.call_function("div", column - F.pmod(column, F.lit(1_000)), F.lit(1_000))
        return whole if type.is_integer else F.floor(scaled).try_cast("bigint")
    factor = _PER_UNIT[unit or TimeUnit.SECONDS]
    if type.is_integer:
        return F.try_multiply(column.cast("bigint"), F.lit(factor).cast("bigint"))
    return F.floor(F.try_multiply(column, F.lit(factor))).try_cast("bigint")
