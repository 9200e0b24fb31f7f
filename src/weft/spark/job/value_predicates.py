"""Predicates evaluated once for each value of a column instead of once for each row.

Where a column has few different values, the results of LIKEs and registered functions for each are kept in
the driver. A row looks its value up among the known ones: strings by hash, and then the string itself is
compared, so that two strings with the same hash are told apart. Rows with other values are grouped by the
value; it is evaluated when the job is done, and known from then on. So the generated code contains none of
these predicates, and a batch needs a second job only if it has new values, or if there are new predicates on
known ones.

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
from weft.evaluation import can_evaluate
from weft.expression import Call, Expression, columns
from weft.optimizer.plan import SharedPlan
from weft.optimizer.rules import evaluable
from weft.predicates import Formula, Test, tests
from weft.predicates.codebook import Bits
from weft.predicates.words import Axis, stands_whole
from weft.query.failures import sites
from weft.query.logical import StreamDef
from weft.spark.columns import Translator, Udf, named
from weft.spark.job.calls import calls_in, registered_calls, relation_values
from weft.spark.job.points import searched_longs, strings_block
from weft.types import DataType, Kind

MOST_VALUES = 1 << 18
"""Maximum number of known values of a column; beyond it, all but the latest are forgotten."""
NULL, UNKNOWN, FIRST = 0, 1, 2
_FALSE, _TRUE, _NULL = 0, 1, 2
Truths = npt.NDArray[np.int8]
Fact = tuple[Expression, bool]
"""What is known of each value: the truth of an expression or, if the second is True, whether it fails."""


@dataclass(slots=True, eq=False)
class KnownColumn:
    """A column of the stream, its values so far, and which predicates are true of each."""

    name: str
    type: DataType
    _facts: tuple[Fact, ...] = ()
    """The boolean expressions that predicates test, and the calls in them whose failures are counted."""
    _values: pa.Array = field(init=False)
    _order: npt.NDArray[np.int64] = field(init=False)
    """What values are searched by, in order: their hashes, or themselves."""
    _truths: dict[Fact, Truths] = field(default_factory=dict)
    """Whether each fact is true of NULL, and of each value."""
    _learnt: bool = False
    version: int = 0
    """Counts changes of what is known."""

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._values = pa.array([], arrow_type(self.type))
        self._order = np.empty(0, dtype=np.int64)
        self._truths, self._learnt = {}, False

    @property
    def key(self) -> tuple[str, str]:
        """The key of the axis."""
        return "value of", self.name

    @property
    def code_name(self) -> str:
        """The name in a form that may be part of others: a column may be called anything."""
        return self.name.encode().hex()

    @property
    def search_name(self) -> str:
        """The name of the column that holds where a row's value may be among the known ones."""
        return f"__weft_search_{self.code_name}"

    @property
    def answer_name(self) -> str:
        """The name of the column that holds a row's answer."""
        return f"__weft_value_{self.code_name}"

    @property
    def missed_name(self) -> str:
        """The name of the column that holds a row's value where it is not known yet."""
        return f"__weft_missed_{self.code_name}"

    def __len__(self) -> int:
        return len(self._values)

    def require(self, tested: Sequence[Expression], fallible: Sequence[Expression]) -> None:
        """Set what is to be known of each value (truths of expressions, failures of calls) and no more."""
        self._facts = *((expression, False) for expression in tested), *((call, True) for call in fallible)
        self._truths = {fact: self._truths[fact] for fact in self._facts if fact in self._truths}

    def prepare(self, batch: DataFrame, functions: Mapping[str, Udf]) -> None:
        """Evaluate what is not known of known values, or everything for the values of a first batch."""
        new = [fact for fact in self._facts if fact not in self._truths]
        if self._learnt and new:
            values = pa.concat_arrays([pa.nulls(1, self._values.type), self._values])
            evaluated = self._evaluated(self._frame(batch.sparkSession, values), functions, new)
            # Spark may return rows in another order.
            rows = pc.index_in(
                values, value_set=evaluated["value"].combine_chunks().cast(values.type), skip_nulls=False
            )
            self._truths |= {fact: _truths(evaluated[f"t{n}"].take(rows)) for n, fact in enumerate(new)}
            self.version += 1
        elif not self._learnt:
            null = batch.sparkSession.range(1).select(F.lit(None).cast(str(self.type)).alias(self.name))
            not_null = batch.select(named(self.name)).where(named(self.name).isNotNull())
            # NULL after the limit, which might leave it out.
            values = not_null.distinct().limit(MOST_VALUES).union(null)
            self._add(self._evaluated(values, functions, self._facts))
            # A batch without rows has no values.
            self._learnt = len(self) > 0

    def learn(self, spark: SparkSession, values: pa.Array, functions: Mapping[str, Udf]) -> None:
        """Evaluate values that were not known so far."""
        if len(self) + len(values) > MOST_VALUES:
            self._forget()
            self._learnt = True
        if self._truths.keys() != set(self._facts):
            values = pa.concat_arrays([pa.nulls(1, values.type), values])
        self._add(self._evaluated(self._frame(spark, values), functions, self._facts))

    def _frame(self, spark: SparkSession, values: pa.Array) -> DataFrame:
        return spark.createDataFrame(pa.table({self.name: values})).select(
            named(self.name).cast(str(self.type)).alias(self.name)
        )

    def _evaluated(self, rows: DataFrame, functions: Mapping[str, Udf], facts: Sequence[Fact]) -> pa.Table:
        translate = Translator(functions)
        for step in registered_calls([(translate, [expression for expression, _ in facts])], functions):
            rows = rows.withColumns(step)
        truths = [
            (translate.failure_at(expression) if fails else translate(expression)).alias(f"t{n}")
            for n, (expression, fails) in enumerate(facts)
        ]
        return rows.select(named(self.name).alias("value"), self._code().alias("code"), *truths).toArrow()

    def _code(self) -> Column:
        """Return what a row's value is searched by."""
        value = named(self.name)
        return F.xxhash64(value) if self.type.kind is Kind.STRING else value.cast("bigint")

    def _add(self, evaluated: pa.Table) -> None:
        """Add values that were evaluated, and NULL if it is among them."""
        null = np.asarray(evaluated["value"].is_null())
        new = evaluated.filter(pa.array(~null))
        values = pa.concat_arrays([self._values, new["value"].combine_chunks().cast(self._values.type)])
        codes = np.concatenate([self._order, np.asarray(new["code"], dtype=np.int64)])
        order = np.argsort(codes, kind="stable")
        by_fact = {}
        for n, fact in enumerate(self._facts):
            truths, known = _truths(evaluated[f"t{n}"]), self._truths.get(fact, np.empty(0, dtype=np.int8))
            of_null = truths[null][:1] if null.any() else known[:1]
            by_fact[fact] = np.concatenate([of_null, np.concatenate([known[1:], truths[~null]])[order]])
        self._values, self._order, self._truths = values.take(pa.array(order)), codes[order], by_fact
        self.version += 1

    def answers(self, values: pa.Array) -> npt.NDArray[np.int64]:
        """Return the answers for values that are known; −1 for NULL, which stands for none."""
        indices = pc.index_in(values.cast(self._values.type), value_set=self._values, skip_nulls=True)
        return np.asarray(pc.fill_null(pc.add(indices, FIRST), -1), dtype=np.int64)

    def axis(self) -> Axis:
        """Return the axis of the column, with what is known of its values now."""
        truths = dict(self._truths)
        size = len(self) + FIRST

        def holds(formula: Formula) -> Bits:
            assert isinstance(formula, Test)
            values = formula.values
            by_truth = np.array([values.has(0), values.has(1), values.null])
            return np.asarray(by_truth[_by_answer(truths[formula.expression, False], size)], dtype=bool)

        return Axis(self.key, size, holds, unknown=UNKNOWN, alone=True)

    def failed(self, site: Expression) -> npt.NDArray[np.int64]:
        """Return, for each answer, whether a call fails for it."""
        truths = _by_answer(self._truths[site, True], len(self) + FIRST)
        return np.where(truths == _TRUE, 1, 0).astype(np.int64)

    def search(self) -> Column:
        """Return where a row's value may be among the known ones."""
        return searched_longs(self._order, self._code())

    def answer(self) -> Column:
        """Return the answer of a row, given the result of the search."""
        own, searched = named(self.name), F.col(self.search_name)
        known = searched >= 0
        if self.type.kind is Kind.STRING:
            texts = self._values.cast(pa.binary()).to_pylist()
            known = F.get(strings_block(texts), searched) == own
        return F.when(own.isNull(), F.lit(NULL)).when(known, searched + FIRST).otherwise(F.lit(UNKNOWN))


def _by_answer(truths: Truths, size: int) -> Truths:
    """Return truths by answer, given those of NULL and of each value."""
    by_answer = np.full(size, _NULL, dtype=np.int8)
    if len(truths):
        by_answer[NULL], by_answer[FIRST:] = truths[0], truths[1:]
    return by_answer


def _truths(column: pa.ChunkedArray) -> Truths:
    return np.asarray(pc.fill_null(column.cast(pa.int8()), _NULL))


KnownValues = dict[str, KnownColumn]
"""The known values of a stream's columns, whatever plan is in effect."""


@dataclass(slots=True, eq=False)
class ValuePredicates:
    """The predicates of a plan that are evaluated by value, and the columns that they read."""

    columns: dict[str, KnownColumn] = field(default_factory=dict)
    expressions: dict[Expression, KnownColumn] = field(default_factory=dict)
    """The tested expressions that are evaluated by value."""
    failing: dict[Expression, KnownColumn] = field(default_factory=dict)
    """The calls in predicates whose failures are known by value."""
    functions: Mapping[str, Udf] = field(default_factory=dict)
    known: KnownValues = field(default_factory=dict)
    """What is known of all columns; other jobs may need other predicates."""

    @property
    def version(self) -> tuple[int, ...]:
        """What columns that look values up depend on."""
        return tuple(column.version for column in self.columns.values())

    @property
    def driver_can_evaluate(self) -> bool:
        """Whether the driver can evaluate all predicates itself: there is no registered function."""
        return not self.failing and all(map(can_evaluate, self.expressions))

    def prepare(self, batch: DataFrame) -> None:
        """Evaluate all predicates for known values before a batch is aggregated."""
        for name in self.known.keys() - self.columns.keys():
            del self.known[name]
        for name, column in self.columns.items():
            self.known[name] = column
            column.require(
                [tested for tested, of in self.expressions.items() if of is column],
                [site for site, of in self.failing.items() if of is column],
            )
            column.prepare(batch, self.functions)

    def unknown_values(self, result: pa.Table) -> dict[str, pa.Array]:
        """Return the values in a job's result that were not known before it, by column, each once."""
        unknown = {
            name: pc.unique(result[column.missed_name].combine_chunks()).drop_null()
            for name, column in self.columns.items()
        }
        return {name: values for name, values in unknown.items() if len(values)}

    def learn(self, batch: DataFrame, unknown: Mapping[str, pa.Array]) -> None:
        """Evaluate all predicates for values that a batch has for the first time."""
        for name, values in unknown.items():
            self.columns[name].learn(batch.sparkSession, values, self.functions)

    def count_failures(
        self,
        tested: Mapping[str, tuple[Expression, ...]],
        result: pa.Table,
        counted: npt.NDArray[np.bool_],
        rows: str,
    ) -> pa.Table:
        """Count the failures of calls for values that have become known after the job.

        All rows of a group have one value, so that either none of them failed or all did. `tested` has, for
        each column of failures, the operations that it counts; `counted` are the groups of first copies, and
        `rows` is the column that counts their rows.
        """
        for name, operations in tested.items():
            failed = np.zeros(len(result), dtype=bool)
            for site in operations:
                column = self.failing.get(site)
                if column is None:
                    continue
                answers = column.answers(result[column.missed_name].combine_chunks())
                failed |= (answers >= 0) & (column.failed(site)[answers] == 1)
            if (failed & counted).any():
                counts = np.where(failed & counted, np.asarray(result[rows]), np.asarray(result[name]))
                result = result.set_column(result.column_names.index(name), name, pa.array(counts))
        return result


def value_predicates(
    plan: SharedPlan, stream: StreamDef, functions: Mapping[str, Udf], known: KnownValues
) -> ValuePredicates:
    """Return the predicates of a plan that are evaluated by value.

    A predicate is not if it calls a function that is called for each row anyway, or that is not
    deterministic.
    """
    tested = {test.expression for relation in plan.roots for p in relation.predicates for test in tests(p)}
    predicates = [answer.query.predicate for answer in plan.answers]
    judged = {site for predicate in predicates if predicate for site in sites(predicate)}
    column_of = {expression: _column(expression, plan.by_value) for expression in (*tested, *judged)}
    chosen = {expression for expression in tested if column_of[expression] and evaluable(expression)}
    failing = {site for site in judged if column_of[site] and any(calls_in([site], functions))}
    values = [value for relation in plan.roots for value in relation_values(relation)]
    while True:
        whole = _in_whole_predicates(plan, {expression: column_of[expression] for expression in chosen})
        by_row = set(calls_in([*values, *whole, *tested - chosen, *judged - failing], functions))
        fitting = [
            {expression for expression in expressions if _fits(expression, by_row, functions)}
            for expressions in (chosen, failing)
        ]
        if fitting == [chosen, failing]:
            break
        chosen, failing = fitting
    types = {column.name: column.type for column in stream.columns}
    by_value = ValuePredicates(functions=functions, known=known)
    for name in sorted({name for expression in chosen if (name := column_of[expression])}):
        column = by_value.columns[name] = known.get(name) or KnownColumn(name, types[name])
        for expressions, by_expression in ((chosen, by_value.expressions), (failing, by_value.failing)):
            own = [expression for expression in expressions if column_of[expression] == name]
            by_expression |= dict.fromkeys(sorted(own, key=str), column)
    return by_value


def _in_whole_predicates(plan: SharedPlan, by_value: Mapping[Expression, object]) -> list[Expression]:
    """Return what is tested by predicates that are evaluated as a whole, and so for each row."""
    return [
        test.expression
        for relation in plan.roots
        for predicate in relation.predicates
        if stands_whole(predicate, lambda tested: by_value.get(tested, tested), bitwise=not relation.shared)
        for test in tests(predicate)
    ]


def _column(expression: Expression, by_value: Sequence[str]) -> str | None:
    """Return the only column that an expression reads, if predicates are evaluated by its values."""
    read = columns(expression)
    (name,) = read if len(read) == 1 else (None,)
    return name if name in by_value else None


def _fits(expression: Expression, by_row: set[Call], functions: Mapping[str, Udf]) -> bool:
    calls = list(calls_in([expression], functions))
    deterministic = all(getattr(functions[call.function], "deterministic", True) for call in calls)
    return deterministic and not by_row.intersection(calls)
