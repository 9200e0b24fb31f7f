"""One Spark job per batch: rows in, the partials of every relation out.

Each row is read once. A single relation is a plain GROUP BY; with several, a row is repeated once for each
relation that it takes part in, tagged with the relation's number, and grouped by that too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.expression import columns
from weft.optimizer.plan import Relation, SharedPlan
from weft.query.logical import StreamDef
from weft.spark.columns import Translator, Udf
from weft.spark.constants import Constants
from weft.spark.failures import Failures
from weft.spark.layout import ROWS, Layout, Slot, lay_out
from weft.spark.slicing import SliceCoder
from weft.spark.tables import StaticTable, first_copy, join_tables, matched, numbered
from weft.spark.times import event_time

TIME = "__weft_time"
STATUS = "__weft_status"
RELATION = "__weft_relation"
SLICE = "__weft_slice"
OLDEST, NEWEST = "oldest", "newest"
READ = "read"
GOOD, NO_TIME, LATE, FUTURE = range(4)
"""What became of a row."""
EVERY_ROW = -1
"""The relation number under which every row is counted, when there are several relations."""
_NEVER_LATE, _NEVER_FUTURE = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a batch's rows are judged by, in microseconds."""

    watermark: int | None
    """Rows before it are late."""
    future: int | None
    """Rows after it are set aside."""
    span: int = 0
    """How far past the watermark rows are expected to reach; affects speed only."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """The columns of a job's steps."""

    inputs: list[Column]
    status: Column
    fields: list[Column]
    grouping: list[str]
    aggregates: list[Column]


class BatchJob:
    """The job of a plan's relations that read the same joined rows; built once per plan."""

    def __init__(
        self,
        plan: SharedPlan,
        relations: Sequence[int],
        stream: StreamDef,
        tables: Mapping[str, StaticTable],
        functions: Mapping[str, Udf],
    ) -> None:
        self.relations = tuple(relations)
        self._chosen: tuple[Relation, ...] = tuple(plan.relations[index] for index in relations)
        self.layout: Layout = lay_out(self._chosen)
        self.coders = tuple(
            SliceCoder(relation, plan.slicing, f"slices{index}")
            for index, relation in enumerate(self._chosen)
        )
        self._joins = self._chosen[0].joins if self._chosen else ()
        self._stream = stream
        self._translate = Translator(functions)
        self._tables = [numbered(join, tables[join.table], self._translate) for join in self._joins]
        self._constants = Constants(TIME)
        self._built: tuple[tuple[int, ...], _Steps] | None = None
        queries = [answer.query for answer in plan.answers if answer.relation in self.relations]
        self._failures = Failures(queries, self._translate, F.col(STATUS) == GOOD)
        self.failures = self._failures.queries

    def run(self, batch: DataFrame, bounds: Bounds) -> pa.Table:
        """Return the batch's groups, and the counts of rows by status."""
        self._prepare(bounds)
        steps = self._steps()
        rows = batch.select(*steps.inputs, *self._constants.literals())
        rows = join_tables(rows, self._joins, self._tables, self._translate)
        rows = rows.withColumn(STATUS, steps.status).select(*steps.fields)
        if self.tells_relations:
            rows = rows.where(F.col("row").isNotNull()).select("row.*")
        return rows.groupBy(*steps.grouping).agg(*steps.aggregates).toArrow()

    @property
    def tells_relations(self) -> bool:
        """Whether rows are repeated for several relations, or counted for none."""
        return len(self._chosen) != 1

    def _steps(self) -> _Steps:
        """Return the columns of each step: built once, and again only if a slice table grew deeper."""
        depths = tuple(coder.depth for coder in self.coders)
        if self._built is None or self._built[0] != depths:
            steps = _Steps(
                self._inputs(), self._status(), self._fields(), self._grouping(), self._aggregates()
            )
            self._built = depths, steps
        return self._built[1]

    def _prepare(self, bounds: Bounds) -> None:
        watermark, future = bounds.watermark, bounds.future
        self._constants.number("watermark", _NEVER_LATE if watermark is None else watermark)
        self._constants.number("future", _NEVER_FUTURE if future is None else future)
        for coder in self.coders:
            coder.prepare(self._constants, begin_us=watermark, span_us=bounds.span)

    def _inputs(self) -> list[Column]:
        """Return the event time and the columns that anyone needs."""
        needed = {name for relation in self._chosen for name in _reads(relation)}
        needed |= {name for join in self._joins for left, _ in join.on for name in columns(left)}
        kept = [F.col(f"`{column.name}`") for column in self._stream.columns if column.name in needed]
        return [event_time(self._stream).alias(TIME), *kept]

    def _status(self) -> Column:
        time = F.col(TIME)
        return (
            F.when(time.isNull(), F.lit(NO_TIME))
            .when(time < self._constants.read("watermark"), F.lit(LATE))
            .when(time > self._constants.read("future"), F.lit(FUTURE))
            .otherwise(F.lit(GOOD))
        )

    def _fields(self) -> list[Column]:
        if not self.tells_relations:
            return [
                F.col(TIME),
                F.col(STATUS),
                self._read(),
                *self._values(0),
                *self._failures.fields(counted=True),
            ]
        several = [
            F.when(
                self._takes_part(index),
                F.struct(*self._common(index), *self._values(index), *self._failures.fields(counted=False)),
            )
            for index in range(len(self._chosen))
        ]
        every = F.struct(*self._common(EVERY_ROW), *self._values(None), *self._failures.fields(counted=True))
        return [F.explode(F.array(every, *several)).alias("row")]

    def _common(self, index: int) -> list[Column]:
        return [F.lit(index).alias(RELATION), F.col(TIME), F.col(STATUS), self._read()]

    def _read(self) -> Column:
        return first_copy(self._joins).alias(READ)

    def _takes_part(self, index: int) -> Column:
        relation = self._chosen[index]
        parts = [F.col(STATUS) == GOOD, *matched(relation.joins)]
        if relation.predicate is not None:
            parts.append(F.coalesce(self._translate(relation.predicate), F.lit(False)))
        return reduce(Column.__and__, parts)

    def _values(self, index: int | None) -> list[Column]:
        """Return a relation's slice, keys and values in their slots; the other slots are NULL."""
        values: dict[Slot, Column] = {}
        time = F.lit(None).cast("bigint")
        if index is not None:
            relation, part = self._chosen[index], self._takes_part(index)
            # A row that takes no part must not open a group: its slice and keys are NULL.
            time = F.when(part, self.coders[index].column(F.col(TIME), self._constants))
            for slot, key in zip(self.layout.keys[index], relation.keys, strict=True):
                values[slot] = F.when(part, self._translate(key))
            for place, primitive in zip(self.layout.primitives[index], relation.primitives, strict=True):
                if place is not None and primitive.argument is not None:
                    values[place] = self._translate(primitive.argument)
        slots = (*self.layout.key_slots(), *self.layout.primitive_slots())
        return [time.alias(SLICE), *(_or_null(values.get(slot), slot) for slot in slots)]

    def _grouping(self) -> list[str]:
        several = [RELATION] if self.tells_relations else []
        return [*several, STATUS, SLICE, *(slot.name for slot in self.layout.key_slots())]

    def _aggregates(self) -> list[Column]:
        lifted = [
            getattr(F, lift)(F.col(slot.name)).alias(field)
            for slot in self.layout.primitive_slots()
            for lift, field in zip(slot.lifts, slot.fields(), strict=True)
        ]
        read = [F.count_if(F.col(READ)).alias(READ)] if self._joins else []
        span = [F.min(TIME).alias(OLDEST), F.max(TIME).alias(NEWEST)]
        return [F.count(F.lit(1)).alias(ROWS), *span, *read, *lifted, *self._failures.counts()]


def _or_null(value: Column | None, slot: Slot) -> Column:
    return (F.lit(None) if value is None else value).cast(str(slot.type)).alias(slot.name)


def _reads(relation: Relation) -> frozenset[str]:
    arguments = [one.argument for one in relation.primitives if one.argument is not None]
    predicates = [] if relation.predicate is None else [relation.predicate]
    return frozenset().union(*map(columns, (*relation.keys, *predicates, *arguments)))
