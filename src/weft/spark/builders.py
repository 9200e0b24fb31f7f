"""How Spark evaluates each function of the language: as a column built from those of its arguments."""

import operator
from collections.abc import Callable
from decimal import Decimal
from functools import partial, reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from weft.aggregates.registers import RANK_BITS
from weft.errors import InternalError
from weft.expression import Call, Literal
from weft.query.calendar import LAST_WHOLE_MONTH, MONTHS
from weft.query.failures import is_safe_cast
from weft.types import TIMESTAMP, DataType, Kind

Builder = Callable[..., SparkColumn]
"""Takes the call and its arguments as columns."""
_LAST_DAY = (2**63 - 1) // 86_400_000_000
"""The last day whose midnight is a TIMESTAMP, and but for one the first: dates reach further."""


def _midnight(day: SparkColumn, type: DataType) -> SparkColumn:
    """Return a date as a time, or NULL if it is outside the range of times."""
    inside = F.unix_date(day).between(-_LAST_DAY, _LAST_DAY)
    return F.when(inside, day).cast(str(type))


def _of_time(build: Builder) -> Builder:
    """Take a date for its midnight."""
    return lambda call, value: build(
        _midnight(value, TIMESTAMP) if call.args[-1].type.kind is Kind.DATE else value
    )


def _arithmetic(plain: Builder, safe: Builder) -> Builder:
    """Use the plain operator where nothing can overflow and Spark's try_ form elsewhere."""
    return lambda call, left, right: (plain if call.type.is_fractional else safe)(left, right)


def _cast(call: Call, value: SparkColumn) -> SparkColumn:
    if call.args[0].type.kind is Kind.DATE and call.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return _midnight(value, call.type)
    if is_safe_cast(call.args[0].type, call.type):
        return value.cast(str(call.type))
    return value.try_cast(str(call.type))


def _negate(call: Call, value: SparkColumn) -> SparkColumn:
    if call.type.is_fractional or call.type.kind is Kind.DECIMAL:
        return -value
    return F.try_subtract(F.lit(0).cast(str(call.type)), value)


def _abs(call: Call, value: SparkColumn) -> SparkColumn:
    if call.type.is_fractional or call.type.kind is Kind.DECIMAL:
        return F.abs(value)
    return F.when(value < 0, _negate(call, value)).otherwise(value)


def _case(call: Call, *arguments: SparkColumn) -> SparkColumn:
    target = str(call.type)
    chosen: SparkColumn | None = None
    for condition, value in zip(arguments[0:-1:2], arguments[1::2], strict=True):
        typed = value.cast(target)
        chosen = F.when(condition, typed) if chosen is None else chosen.when(condition, typed)
    assert chosen is not None
    return chosen.otherwise(arguments[-1].cast(target))


def _typed(build: Builder) -> Builder:
    """Cast every argument to the result's type first, as SQL's coercion does."""
    return lambda call, *arguments: build(*(argument.cast(str(call.type)) for argument in arguments))


def _div(call: Call, left: SparkColumn, right: SparkColumn) -> SparkColumn:
    """Divide integers towards zero, or down; there is no try_ form, so what would fail is excluded first."""
    safe = F.when(right != 0, right)
    if call.function == "floor_div":
        left = left - F.pmod(left, safe)
    elif call.args[0].type.is_integer and call.args[1].type.is_integer:
        left, safe = left.cast("bigint"), safe.cast("bigint")
        lowest = (left == F.lit(-(2**63)).cast("bigint")) & (safe == -1)
        left = F.when(~F.coalesce(lowest, F.lit(False)), left)
    return F.call_function("div", left, safe)


def _coupon(call: Call, value: SparkColumn, bits: SparkColumn) -> SparkColumn:
    """Return the register of a value's hash, and the rank of the rest (weft.aggregates.registers).

    The rank is the place of the lowest bit that is set; a bit above all others bounds it.
    """
    register_bits = int(_constant(call, 1))
    hashed = F.xxhash64(value)
    register = hashed.bitwiseAND(F.lit((1 << register_bits) - 1))
    rest = F.shiftrightunsigned(hashed, register_bits).bitwiseOR(F.lit(1 << (64 - register_bits)))
    rank = F.bit_count(F.bitwise_not(rest).bitwiseAND(rest - 1)) + 1
    coupon = F.shiftleft(register, RANK_BITS).bitwiseOR(rank.cast("bigint")).cast("int")
    return F.when(value.isNotNull(), coupon)


_MOST_DIGITS = 38


def _round(call: Call, value: SparkColumn, *digits: SparkColumn) -> SparkColumn:
    to_digits = F.bround if call.function == "bround" else F.round
    scale = call.args[1] if len(call.args) > 1 else None
    places = int(str(scale.value)) if isinstance(scale, Literal) else 0
    if places < 0 and call.type.is_integer:
        # Rounding up may not fit: 2^63 − 1 to tens.
        return to_digits(value.cast("decimal(20,0)"), places).try_cast(str(call.type))
    whole_digits = call.type.precision - call.type.scale
    if places < 0 and call.type.kind is Kind.DECIMAL and whole_digits == _MOST_DIGITS:
        limit = 10**whole_digits - 5 * 10 ** (-places - 1)
        # Not by abs, which rounds to 34 digits and so may itself fail.
        least, most = (F.lit(Decimal(edge)).cast(f"decimal({_MOST_DIGITS},0)") for edge in (-limit, limit))
        value = F.when((value > least) & (value < most), value)
    return to_digits(value, places).cast(str(call.type))


def _whole(build: Builder) -> Builder:
    """Return floor and ceil in their declared type; doubles beyond 64 bits have none."""

    def rounded(call: Call, value: SparkColumn) -> SparkColumn:
        if call.args[0].type.is_fractional:
            inside = (value >= F.lit(-(2.0**63))) & (value < F.lit(2.0**63))
            value = F.when(inside, value)
        return build(value).cast(str(call.type))

    return rounded


def _plain(build: Builder) -> Builder:
    """Build a column from the arguments alone."""
    return lambda call, *arguments: build(*arguments)


def _constant(call: Call, index: int) -> str:
    argument = call.args[index]
    if not isinstance(argument, Literal):
        raise InternalError(f"{call.function} wants a constant as argument {index + 1}")
    return str(argument.value)


_SAME = (
    "initcap lpad rpad split_part substring_index concat_ws repeat reverse translate instr locate ascii "
    "regexp_extract regexp_replace get_json_object xxhash64 hash hex unix_date "
    "rint cbrt expm1 log2 log1p sin cos tan asin acos atan atan2 sinh cosh tanh degrees radians hypot"
)
"""Functions that Spark has under the same name, for the same arguments."""


def _of_spark(name: str, type: str = "") -> Builder:
    """Return Spark's function of that name, of arguments cast to a type if there is one."""
    return lambda call, *args: F.call_function(name, *(arg.cast(type) if type else arg for arg in args))


def _formatted(call: Call, value: SparkColumn, _: SparkColumn) -> SparkColumn:
    moment = _midnight(value, TIMESTAMP) if call.args[0].type.kind is Kind.DATE else value.cast("timestamp")
    return F.date_format(moment, _constant(call, 1))


_SHIFT = 20 * 3_600_000_000
"""More than the offset of any zone: what is that near the first or last timestamp is not shifted."""


def _in_zone(call: Call, value: SparkColumn, zone: SparkColumn) -> SparkColumn:
    first, last = (F.timestamp_micros(F.lit(sign * (2**63 - 1 - _SHIFT))) for sign in (-1, 1))
    value = value.cast("timestamp")
    return F.call_function(call.function, F.when(value.between(first, last), value), zone)


def _add_months(call: Call, value: SparkColumn, months: SparkColumn) -> SparkColumn:
    day = value.cast("date")
    month = F.year(day).cast("bigint") * 12 + F.month(day) + months
    return F.add_months(F.when(month.between(*MONTHS), day), months)


def _last_day(call: Call, value: SparkColumn) -> SparkColumn:
    day = value.cast("date")
    return F.last_day(F.when(F.unix_date(day) < LAST_WHOLE_MONTH, day))


def _since_epoch(micros: int) -> Builder:
    """Return the function that counts so many microseconds at a time since 1970; NULL beyond timestamps."""
    most = (2**63 - 1) // micros

    def build(call: Call, value: SparkColumn) -> SparkColumn:
        number = value.cast("bigint")
        inside = number if micros == 1 else F.when(number.between(-most, most), number)
        return F.call_function(call.function, inside)

    return build


def _outside(call: Call, array: SparkColumn, index: SparkColumn) -> SparkColumn:
    """Return whether an array has no such element, though neither it nor the index is NULL."""
    known = array.isNotNull() & index.isNotNull()
    size, place = F.array_size(array).cast("bigint"), index.cast("bigint")
    if call.function == "element_at":
        return known & ((place == 0) | (place > size) | (place < -size))
    return known & ((place < 0) | (place >= size))


def _element(call: Call, array: SparkColumn, index: SparkColumn) -> SparkColumn:
    """Return an element, NULL if there is none: Spark would cut a BIGINT to 32 bits, and refuse element 0."""
    place = index.try_cast("int")
    if call.function == "element_at":
        return F.try_element_at(array, F.when(place != 0, place))
    return F.get(array, place)


def _bad_url(call: Call, url: SparkColumn, *_: SparkColumn) -> SparkColumn:
    """A URL that can be read has a scheme, a path, or both."""
    parts = (F.call_function("try_parse_url", url, F.lit(part)) for part in ("PROTOCOL", "FILE"))
    return reduce(SparkColumn.__and__, (part.isNull() for part in parts), url.isNotNull())


BUILDERS: dict[str, Builder] = {
    "+": _arithmetic(operator.add, F.try_add),
    "-": _arithmetic(operator.sub, F.try_subtract),
    "*": _arithmetic(operator.mul, F.try_multiply),
    "/": _plain(F.try_divide), "%": _plain(F.try_mod), "div": _div, "floor_div": _div,
    "neg": _negate, "abs": _abs,
    "=": _plain(operator.eq), "<>": _plain(operator.ne), "<=>": _plain(SparkColumn.eqNullSafe),
    "<": _plain(operator.lt), "<=": _plain(operator.le),
    ">": _plain(operator.gt), ">=": _plain(operator.ge),
    "and": _plain(lambda *parts: reduce(SparkColumn.__and__, parts)),
    "or": _plain(lambda *parts: reduce(SparkColumn.__or__, parts)),
    "not": _plain(operator.invert), "is_null": _plain(SparkColumn.isNull), "in": _plain(SparkColumn.isin),
    "&": _plain(SparkColumn.bitwiseAND), "|": _plain(SparkColumn.bitwiseOR),
    "^": _plain(SparkColumn.bitwiseXOR),
    "shiftright": lambda call, a, bits: F.shiftright(a, int(_constant(call, 1))),
    "shiftleft": lambda call, a, bits: F.shiftleft(a, int(_constant(call, 1))),
    "case": _case, "cast": _cast, "round": _round, "bround": _round,
    "coalesce": _typed(F.coalesce), "greatest": _typed(F.greatest), "least": _typed(F.least),
    "floor": _whole(F.floor), "ceil": _whole(F.ceil),
    "sqrt": _plain(F.sqrt), "exp": _plain(F.exp), "ln": _plain(F.ln), "log10": _plain(F.log10),
    "pow": _plain(F.pow), "isnan": _plain(F.isnan),
    "sign": lambda call, a: F.signum(a).cast(str(call.type)),
    "like": _plain(F.like), "ilike": _plain(F.ilike), "rlike": _plain(F.rlike),
    "upper": _plain(F.upper), "lower": _plain(F.lower), "length": _plain(F.length),
    "trim": _plain(F.trim), "ltrim": _plain(F.ltrim), "rtrim": _plain(F.rtrim),
    "substring": _plain(F.substr), "left": _plain(F.left), "right": _plain(F.right),
    "concat": _plain(F.concat), "replace": _plain(F.replace), "contains": _plain(F.contains),
    "startswith": _plain(F.startswith), "endswith": _plain(F.endswith),
    "year": _plain(F.year), "month": _plain(F.month), "day": _plain(F.dayofmonth),
    "hour": _of_time(F.hour), "minute": _of_time(F.minute), "second": _of_time(F.second),
    "dayofweek": _plain(F.dayofweek),
    "date_trunc": lambda call, unit, t: _of_time(partial(F.date_trunc, _constant(call, 0)))(call, t),
    "to_date": lambda call, value: value.try_cast("date"),
    "unix_seconds": _plain(F.unix_seconds), "unix_millis": _plain(F.unix_millis),
    "unix_micros": _plain(F.unix_micros), "coupon": _coupon,
    **{name: _of_spark(name) for name in _SAME.split()},
    **{name: _of_spark(name, "date") for name in "quarter dayofyear weekofyear weekday datediff".split()},
    **{name: _of_spark(name, "binary") for name in ("md5", "sha1", "crc32", "octet_length")},
    "sha2": lambda call, value, bits: F.call_function("sha2", value.cast("binary"), bits),
    "pmod": lambda call, left, right: F.pmod(left, F.when(right != 0, right)),
    "width_bucket": lambda call, *args: F.call_function(
        "width_bucket", *(arg.cast("double") for arg in args[:3]), args[3].cast("bigint")
    ),
    "parse_url": lambda call, *args: F.call_function("try_parse_url", *args),
    "date_format": _formatted, "unix_timestamp": _of_time(F.to_unix_timestamp),
    "from_utc_timestamp": _in_zone, "to_utc_timestamp": _in_zone,
    "date_add": lambda call, day, days: F.date_add(day.cast("date"), days),
    "date_sub": lambda call, day, days: F.date_sub(day.cast("date"), days),
    "add_months": _add_months, "last_day": _last_day,
    "timestamp_seconds": _since_epoch(1_000_000), "timestamp_millis": _since_epoch(1_000),
    "timestamp_micros": _since_epoch(1),
    "subscript": _element, "get": _element, "element_at": _element, "size": _plain(F.array_size),
    "field": lambda call, struct, name: struct.getField(_constant(call, 1)),
}  # fmt: skip
"""How each function of the language is evaluated by Spark."""

FAILED: dict[str, Builder] = {"parse_url": _bad_url, "subscript": _outside, "element_at": _outside}
"""When functions fail that may be NULL without failing."""
