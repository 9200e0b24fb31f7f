"""Predicates evaluated once for each value of a column instead of once for each row.

Where a column takes few values, what LIKEs and registered functions say of each is kept in the driver. A row
looks its value up among those known: strings by hash, and then the string itself is compared, so that two
strings of one hash are told apart. Rows of other values are grouped by the value; it is evaluated when the
job is done, and known from then on. So the generated code holds none of these predicates, and a batch needs
a second job only if it shows new values, or if new predicates ask about known ones.

    answers of the axis:   0: NULL   1: not known   2 + i: known value i
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.aggregates import arrow_type
from weft.expression import Expression
from weft.predicates import Formula, Test
from weft.predicates.codebook import Bits
from weft.predicates.words import Axis
from weft.spark.columns import Translator, Udf, named
from weft.spark.job.calls import registered_calls
from weft.spark.job.points import searched_longs, strings_block
from weft.types import DataType, Kind

MOST_VALUES = 1 << 18
"""How many values of a column are known at most; with more, it is begun anew with the latest."""
NULL, UNKNOWN, FIRST = 0, 1, 2
_FALSE, _TRUE, _NULL = 0, 1, 2
Truths = npt.NDArray[np.int8]
Asked = tuple[Expression, bool]
"""An expression, and whether it is asked for its failures rather than its value."""


@dataclass(slots=True, eq=False)
class KnownColumn:
    """A column of the stream, its values so far, and what predicates say of each."""

    name: str
    type: DataType
    asked: tuple[Expression, ...] = ()
    """The boolean expressions that predicates test."""
    fallible: tuple[Expression, ...] = ()
    """The calls in them that may fail, whose failures are counted."""
    _values: pa.Array = field(init=False)
    _order: npt.NDArray[np.int64] = field(init=False)
    """What values are searched by, in order: their hashes, or themselves."""
    _told: dict[Asked, Truths] = field(default_factory=dict)
    """For NULL and each value, what is asked of it."""
    _learnt: bool = False
    version: int = 0
    """Counts changes of what is known."""

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._values = pa.array([], arrow_type(self.type))
        self._order = np.empty(0, dtype=np.int64)
        self._told, self._learnt = {}, False

    @property
    def key(self) -> tuple[str, str]:
        """The key of the axis."""
        return "value of", self.name

    @property
    def code_name(self) -> str:
        """The name in a form that may be part of others: a column may be called anything."""
        return self.name.encode().hex()

    def __len__(self) -> int:
        return len(self._values)

    def ask(self, asked: Sequence[Expression], fallible: Sequence[Expression]) -> None:
        """Set what is to be known of each value; what nobody asks for is forgotten."""
        self.asked, self.fallible = tuple(asked), tuple(fallible)
        wanted = set(self._all())
        self._told = {one: truths for one, truths in self._told.items() if one in wanted}

    def _all(self) -> list[Asked]:
        return [*((one, False) for one in self.asked), *((one, True) for one in self.fallible)]

    def prepare(self, batch: DataFrame, functions: Mapping[str, Udf]) -> None:
        """Know what is asked, of the values of a batch if none are known yet."""
        new = [one for one in self._all() if one not in self._told]
        if self._learnt and new:
            values = pa.concat_arrays([pa.nulls(1, self._values.type), self._values])
            found = self._evaluated(self._frame(batch.sparkSession, values), functions, new)
            # Spark may give rows in another order.
            told = found["value"].combine_chunks().cast(values.type)
            rows = pc.index_in(values, value_set=told, skip_nulls=False)
            self._told |= {one: _truths(found[f"t{place}"].take(rows)) for place, one in enumerate(new)}
            self.version += 1
        elif not self._learnt:
            nothing = batch.sparkSession.range(1).select(F.lit(None).cast(str(self.type)).alias(self.name))
            own = batch.select(named(self.name)).where(named(self.name).isNotNull())
            # NULL after the limit, which might leave it out.
            several = own.distinct().limit(MOST_VALUES).union(nothing)
            self._take(self._evaluated(several, functions, self._all()))
            # A batch without rows tells of nothing.
            self._learnt = len(self) > 0

    def learn(self, spark: SparkSession, values: pa.Array, functions: Mapping[str, Udf]) -> None:
        """Know more values, each of which is new."""
        if len(self) + len(values) > MOST_VALUES:
            self._forget()
            self._learnt = True
        if self._told.keys() != set(self._all()):
            values = pa.concat_arrays([pa.nulls(1, values.type), values])
        self._take(self._evaluated(self._frame(spark, values), functions, self._all()))

    def _frame(self, spark: SparkSession, values: pa.Array) -> DataFrame:
        return spark.createDataFrame(pa.table({self.name: values})).select(
            named(self.name).cast(str(self.type)).alias(self.name)
        )

    def _evaluated(self, rows: DataFrame, functions: Mapping[str, Udf], asked: Sequence[Asked]) -> pa.Table:
        translate = Translator(functions)
        for step in registered_calls([(translate, [one for one, _ in asked])], functions):
            rows = rows.withColumns(step)
        own = named(self.name)
        code = F.xxhash64(own) if self.type.kind is Kind.STRING else own.cast("bigint")
        told = [
            (translate.failure_at(one) if fails else translate(one)).alias(f"t{place}")
            for place, (one, fails) in enumerate(asked)
        ]
        return rows.select(own.alias("value"), code.alias("code"), *told).toArrow()

    def _take(self, found: pa.Table) -> None:
        """Add values that were evaluated, and NULL if it is among them."""
        null = np.asarray(found["value"].is_null())
        value = found["value"].combine_chunks()
        several = pa.concat_arrays([self._values, value.filter(pa.array(~null)).cast(self._values.type)])
        codes = np.concatenate(
            [self._order, np.asarray(found["code"].filter(pa.array(~null)), dtype=np.int64)]
        )
        order = np.argsort(codes, kind="stable")
        told = {}
        for place, one in enumerate(self._all()):
            truths, known = _truths(found[f"t{place}"]), self._told.get(one, np.empty(0, dtype=np.int8))
            nothing = truths[null][:1] if null.any() else known[:1]
            told[one] = np.concatenate([nothing, np.concatenate([known[1:], truths[~null]])[order]])
        self._values, self._order, self._told = several.take(pa.array(order)), codes[order], told
        self.version += 1

    def answers(self, values: pa.Array) -> npt.NDArray[np.int64]:
        """Return the answers for values that are known; −1 for NULL, which stands for none."""
        places = pc.index_in(values.cast(self._values.type), value_set=self._values, skip_nulls=True)
        found: npt.NDArray[np.int64] = np.asarray(pc.fill_null(places, -FIRST - 1), dtype=np.int64)
        return np.where(found < 0, -1, found + FIRST)

    def axis(self) -> Axis:
        """Return the axis of the column, with what is known of its values now."""
        told = dict(self._told)
        size = len(self) + FIRST

        def holds(formula: Formula) -> Bits:
            assert isinstance(formula, Test)
            values = formula.values
            by_truth = np.array([values.has(0), values.has(1), values.null])
            return np.asarray(by_truth[_spread(told[formula.expression, False], size)], dtype=bool)

        return Axis(self.key, size, holds, unknown=UNKNOWN, alone=True)

    def failed(self, site: Expression) -> npt.NDArray[np.int64]:
        """Return, for each answer, whether a call fails for it."""
        truths: Truths = _spread(self._told[site, True], len(self) + FIRST)
        return np.where(truths == _TRUE, 1, 0).astype(np.int64)

    def search(self) -> Column:
        """Return where a row's value may stand among those known."""
        own = named(self.name)
        return searched_longs(
            self._order, F.xxhash64(own) if self.type.kind is Kind.STRING else own.cast("bigint")
        )

    def answer(self, searched: Column) -> Column:
        """Return the answer of a row, given where its value may stand."""
        own = named(self.name)
        known = searched >= 0
        if self.type.kind is Kind.STRING:
            texts = self._values.cast(pa.binary()).to_pylist()
            known = F.get(strings_block(texts), searched) == own
        return F.when(own.isNull(), F.lit(NULL)).when(known, searched + FIRST).otherwise(F.lit(UNKNOWN))


def _spread(truths: Truths, size: int) -> Truths:
    """Return what is known by value, NULL first, by answer."""
    found = np.full(size, _NULL, dtype=np.int8)
    if len(truths):
        found[NULL], found[FIRST:] = truths[0], truths[1:]
    return found


def _truths(column: pa.ChunkedArray) -> Truths:
    return np.asarray(pc.fill_null(column.cast(pa.int8()), _NULL))
