"""Turn expressions into Spark columns.

No text of a user ever reaches Spark: each allow-listed function has its builder. What can fail
(overflow, division by zero, a bad cast) gives NULL, and `failure` tells the rows where it did.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from weft.errors import InternalError
from weft.expression import Call, Column, Expression, Literal, Slot
from weft.query.failures import sites
from weft.spark.builders import BUILDERS, FAILED
from weft.types import Kind


def named(name: str) -> SparkColumn:
    """Return the column of that name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


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
        if site.function in FAILED:
            return FAILED[site.function](site, *map(self, site.args))
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
