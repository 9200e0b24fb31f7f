"""Turn expressions into Spark columns.

No text of a user ever reaches Spark: each allow-listed function builds its column here. What can fail
(overflow, division by zero, a bad cast) gives NULL, and `failure` tells the rows where it did.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial, reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from weft.aggregates.registers import RANK_BITS
from weft.errors import InternalError
from weft.expression import Call, Column, Expression, Literal, Slot
from weft.query.allowed_functions import is_safe_cast, sites
from weft.types import TIMESTAMP, DataType, Kind


def named(name: str) -> SparkColumn:
    """Return the column of that name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


Builder = Callable[..., SparkColumn]
Udf = Callable[..., SparkColumn]


class Translator:
    """Build Spark columns from expressions over given columns."""

    def __init__(
        self,
        functions: Mapping[str, Udf] | None = None,
        *,
        name: Callable[[str], str] | None = None,
        slot: Callable[[Slot], SparkColumn] | None = None,
    ) -> None:
        self._functions = functions or {}
        self.name: Callable[[str], str] = name or (lambda column: column)
        """The name of an expression's column in the rows that it is evaluated over."""
        self._slot = slot
        self._built: dict[Expression, SparkColumn] = {}
        self._failed: dict[Expression, SparkColumn] = {}

    def __call__(self, expression: Expression) -> SparkColumn:
        """Return the expression as a column."""
        built = self._built.get(expression)
        if built is None:
            built = self._built[expression] = self._build(expression)
        return built

    def given(self, expression: Expression, column: SparkColumn, failed: SparkColumn | None = None) -> None:
        """Use a column for an expression that is computed already; `failed` is true where it failed."""
        self._built[expression] = column
        if failed is not None:
            self._failed[expression] = failed

    def failure(self, expression: Expression) -> SparkColumn | None:
        """Return a boolean column, true where evaluating failed; None where it cannot fail."""
        parts = [self.failure_at(site) for site in sites(expression)]
        return reduce(SparkColumn.__or__, parts) if parts else None

    def failure_at(self, site: Expression) -> SparkColumn:
        """Return a boolean column, true where the operation itself fails: see `sites`."""
        assert isinstance(site, Call)
        if site.function in self._functions or site in self._failed:
            return self._failed.get(site, F.lit(False))
        if site.function == "case":
            failure = self._failure_of_case(site)
            return F.lit(False) if failure is None else failure
        inputs = [self(argument).isNotNull() for argument in site.args if not isinstance(argument, Literal)]
        return reduce(SparkColumn.__and__, inputs, self(site).isNull())

    def _failure_of_case(self, expression: Call) -> SparkColumn | None:
        """A branch that is not taken cannot fail."""
        branches = [self.failure(value) for value in (*expression.args[1::2], expression.args[-1])]
        conditions = [part for part in map(self.failure, expression.args[0:-1:2]) if part is not None]
        if not any(branch is not None for branch in branches):
            return reduce(SparkColumn.__or__, conditions) if conditions else None
        chosen = None
        for condition, branch in zip(expression.args[0:-1:2], branches, strict=False):
            value = F.lit(False) if branch is None else branch
            when = self(condition)
            chosen = F.when(when, value) if chosen is None else chosen.when(when, value)
        assert chosen is not None
        last = branches[-1]
        otherwise = chosen.otherwise(F.lit(False) if last is None else last)
        return reduce(SparkColumn.__or__, conditions, otherwise)

    def _build(self, expression: Expression) -> SparkColumn:
        if isinstance(expression, Column):
            return named(self.name(expression.name))
        if isinstance(expression, Literal):
            return literal(expression)
        if isinstance(expression, Slot):
            if self._slot is None:
                raise InternalError(f"{expression} stands where no aggregate is known yet")
            return self._slot(expression)
        arguments = [self(argument) for argument in expression.args]
        if expression.function in self._functions:
            return self._functions[expression.function](*arguments)
        builder = BUILDERS.get(expression.function)
        if builder is None:
            raise InternalError(f"no Spark column for function {expression.function}")
        return builder(expression, *arguments)


_AS_WRITTEN = (Kind.BOOLEAN, Kind.INT, Kind.DOUBLE, Kind.STRING)
_EPOCH = datetime(1970, 1, 1)


def literal(constant: Literal) -> SparkColumn:
    """Return a constant with exactly its declared type."""
    value = constant.value
    if isinstance(value, datetime):
        # As a number: Spark would take Python's dates before 1582 for Julian ones.
        since = value.astimezone(UTC).replace(tzinfo=None) - _EPOCH if value.tzinfo else value - _EPOCH
        return F.timestamp_micros(F.lit(since // timedelta(microseconds=1))).cast(str(constant.type))
    if isinstance(value, date):
        return F.date_from_unix_date(F.lit((value - _EPOCH.date()).days)).cast(str(constant.type))
    # Next to decimals, Spark gives an integer constant only the digits that it has, unless it is cast.
    long = constant.type.kind is Kind.BIGINT and isinstance(value, int) and not -(2**31) <= value < 2**31
    plain = value is not None and (long or constant.type.kind in _AS_WRITTEN)
    return F.lit(value) if plain else F.lit(value).cast(str(constant.type))


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
    scale = call.args[1] if len(call.args) > 1 else None
    places = int(str(scale.value)) if isinstance(scale, Literal) else 0
    if places < 0 and call.type.is_integer:
        # Rounding up may not fit: 2^63 − 1 to tens.
        return F.round(value.cast("decimal(20,0)"), places).try_cast(str(call.type))
    whole_digits = call.type.precision - call.type.scale
    if places < 0 and call.type.kind is Kind.DECIMAL and whole_digits == _MOST_DIGITS:
        limit = 10**whole_digits - 5 * 10 ** (-places - 1)
        # Not by abs, which rounds to 34 digits and so may itself fail.
        least, most = (F.lit(Decimal(edge)).cast(f"decimal({_MOST_DIGITS},0)") for edge in (-limit, limit))
        value = F.when((value > least) & (value < most), value)
    return F.round(value, places).cast(str(call.type))


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
    "case": _case, "cast": _cast, "round": _round,
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
}  # fmt: skip
"""How each function of the language is evaluated by Spark."""
