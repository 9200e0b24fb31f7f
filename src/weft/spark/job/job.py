"""One Spark job per batch: rows in, the partials of every relation out.

Each row is read once. Where groups are few, Spark groups rows: a single relation is a plain GROUP BY of
slice and fragment; with several, a row is repeated once for each fragment that it is in. (Measured on 8
relations and 1 M rows: 0.74 s; repeating whole structs 1.6 s; GROUPING SETS 1.8 s.) Where groups are many, or
rows are few, the driver groups rows (weft.spark.job.forms, weft.spark.job.folding). The result is the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.expression import columns
from weft.optimizer.plan import Relation, SharedPlan
from weft.query.logical import StreamDef
from weft.spark.columns import Udf, named
from weft.spark.input.files import in_one_task
from weft.spark.input.rows import corrupt_column, event_time, is_corrupt
from weft.spark.input.tables import StaticTable
from weft.spark.job.batch_groups import FRAGMENT, READ, ROWS, BatchGroups, Layout, lay_out
from weft.spark.job.calls import FunctionCalls, relation_values
from weft.spark.job.constants import Constants
from weft.spark.job.failures import Failures
from weft.spark.job.forms import Forms, batch_bytes
from weft.spark.job.fragment_coder import IN_NO_FRAGMENT, UNWANTED, FragmentCoder
from weft.spark.job.group_columns import WORD, GroupColumns
from weft.spark.job.joins import Joins
from weft.spark.job.row_folder import RowFolder
from weft.spark.job.slicing import SliceCoder
from weft.spark.job.value_predicates import KnownValues, value_predicates
from weft.spark.job.verdicts import BAD, TIME, Bounds, verdict
from weft.spark.job.word_coder import tested_expressions
from weft.spark.session.gateway import remember_functions

_UNREAD = "__weft_unread"
"""The column that says whether a row's record could not be read as declared."""
_MOST_IN_ONE_STAGE = 8
"""Maximum number of relations for which the code that repeats and groups rows is one stage."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """The columns of a job's steps."""

    inputs: list[Column]
    searches: list[Column]
    positions: list[Column]
    words: list[Column]
    fragments: list[Column]
    """Those of each relation, if they are columns of their own."""
    fragment: Column
    fields: list[Column]
    grouping: list[str]
    aggregates: list[Column]


def in_job_order(roots: Iterable[Relation]) -> tuple[Relation, ...]:
    """Return the roots of a plan as a job numbers them.

    Rows are counted in the copy for the first, which every row must have: so that is a shared one, if any is.
    """
    return tuple(sorted(roots, key=lambda relation: not relation.shared))


class BatchJob:
    """The job of a plan; built once per plan."""

    def __init__(
        self,
        plan: SharedPlan,
        stream: StreamDef,
        tables: Mapping[str, StaticTable],
        functions: Mapping[str, Udf],
        known: KnownValues | None = None,
        forms: Forms | None = None,
    ) -> None:
        """Lay the job out; `known` and `forms` are what earlier jobs have found out about values and rows."""
        remember_functions()
        self.relations = in_job_order(plan.roots)
        self.index_of = {relation.id: index for index, relation in enumerate(self.relations)}
        """Where each root of the plan is among the job's relations."""
        self.layout: Layout = lay_out(self.relations)
        self.coders = tuple(
            SliceCoder(relation, plan.slicing, f"slices{index}")
            for index, relation in enumerate(self.relations)
        )
        self._stream = stream
        self._corrupt = corrupt_column(stream)
        self._joins = Joins(self.relations, tables, functions)
        self._by_value = value_predicates(plan, stream, functions, {} if known is None else known)
        elsewhere = {*self._by_value.expressions, *self._by_value.failing}
        self._calls = FunctionCalls(plan, self._joins.translator, functions, elsewhere)
        self.fragments = FragmentCoder(self.relations, self._joins, self._by_value)
        self._constants = Constants(TIME)
        self._read_failures_by_value()
        self._judge_by(Bounds(watermark=None, future=None))
        self._built: tuple[object, _Steps] | None = None
        self._folders: dict[tuple[bool, bool], tuple[list[Column], Column, RowFolder]] = {}
        self._forms = forms or Forms()
        self.failures = Failures(
            [
                (answer, self._joins.translator(plan.relation(answer.relation)))
                for answer in plan.answers
                if answer.relation in self.index_of
            ],
            self._good(),
        )
        self._groups = GroupColumns(self.relations, self.layout, self._joins, self.fragments, self.failures)

    def run(self, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Return the batch's groups, and the counts of rows that are in none."""
        size = batch_bytes(batch)
        by_driver = self._by_value.driver_can_evaluate and self._forms.driver_groups(
            size, bounds.groups_per_row, many_words=self.fragments.has_many_words
        )
        result = self.fold_rows(batch, bounds) if by_driver else self.group_rows(batch, bounds)
        counted = result.fragment < self.fragments.counting_end()
        self._forms.note(size, int(np.asarray(result.counts[ROWS])[counted].sum()), len(result))
        return result

    def group_rows(self, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Have Spark repeat rows for each relation and group them."""
        self._by_value.prepare(batch)
        self._prepare(bounds)
        steps = self._steps()
        rows = self._rows(in_one_task(batch), steps.inputs)
        for step in (steps.searches, steps.positions, steps.words, steps.fragments):
            rows = rows.select("*", *step) if step else rows
        rows = rows.withColumn(FRAGMENT, steps.fragment)
        if self.fragments.repeats_rows:
            rows = rows.where(F.col(FRAGMENT) > UNWANTED)
        result = rows.select(*steps.fields).groupBy(*steps.grouping).agg(*steps.aggregates).toArrow()
        if self.fragments.word_coders:
            result = self._resolved(batch, result, steps)
        return BatchGroups(result)

    def _resolved(self, batch: DataFrame, result: pa.Table, steps: _Steps) -> pa.Table:
        """Return a result whose fragments are numbered by their words; unknown values are evaluated now."""
        # Those that words now evaluated are to be read by.
        books = {index: coder.book for index, coder in self.fragments.word_coders.items()}
        unknown = self._by_value.unknown_values(result)
        if unknown:
            self._by_value.learn(batch, unknown)
            fragment = np.asarray(result[FRAGMENT])
            counted = (fragment >= IN_NO_FRAGMENT) & (fragment < self.fragments.counting_end(coded=True))
            rows = READ if self._joins else ROWS
            result = self._by_value.count_failures(self.failures.tested, result, counted, rows)
        words = [name for name in steps.grouping if name.startswith(WORD)]
        return self.fragments.resolve_words(result, FRAGMENT, words, books)

    def _read_failures_by_value(self) -> None:
        """Have failures of functions that are called once for each value read from tables of answers."""
        translators = {self._joins.translator(relation) for relation in self.relations}
        for number, (site, column) in enumerate(self._by_value.failing.items()):
            failed = F.get(self._constants.whole(f"failed{number}"), F.col(column.answer_name)) == 1
            for translate in translators:
                translate.given(site, F.lit(None).cast(str(site.type)), failed)

    def fold_rows(self, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Have Spark hand over rows, and group them here."""
        self._judge_by(bounds)
        tables = self._joins.local_tables()
        inputs, bad, folder = self._folder_steps(looks_up=tables is not None)
        if folder.needs_joins:
            tables, (inputs, bad, folder) = None, self._folder_steps(looks_up=False)
        rows = self._rows(batch, inputs, joined=tables is None).withColumn(BAD, bad)
        return folder.fold(rows.select(*folder.columns).toArrow(), tables or {})

    def _rows(self, batch: DataFrame, inputs: Sequence[Column], *, joined: bool = True) -> DataFrame:
        """Return the batch's rows with all that expressions read: tables' columns, calls of functions."""
        unread = []
        if self._corrupt is not None:
            # A batch on which queries are tried has no corrupt rows.
            has_any = self._corrupt in batch.columns
            corrupt = is_corrupt(self._corrupt, self._stream) if has_any else F.lit(False)
            unread.append(corrupt.alias(_UNREAD))
        rows = batch.select(*inputs, *unread, *self._constants.literals())
        return self._calls.apply(self._joins.apply(rows) if joined else rows)

    def _steps(self) -> _Steps:
        """Return the columns of each step; they are built again only if rows are coded in another way."""
        coded = tuple((coder.uses_table, coder.uses_panes, coder.depth) for coder in self.coders)
        forms = (coded, self._joins.repeats_rows, self._by_value.version)
        if self._built is None or self._built[0] != forms:
            fragments = self._fragments()
            names = [F.col(f"{FRAGMENT}{index}") for index in range(len(fragments))]
            steps = _Steps(
                inputs=self._inputs(),
                searches=self.fragments.searches(),
                positions=[self._bad().alias(BAD), *self.fragments.positions()],
                words=self.fragments.words(self._barrier()),
                fragments=fragments if self._is_wide else [],
                fragment=self.fragments.column(F.col(BAD), names if self._is_wide else fragments),
                fields=self._groups.fields(self._slice()),
                grouping=self._groups.grouping(),
                aggregates=self._groups.aggregates(),
            )
            self._built = forms, steps
        return self._built[1]

    def _folder_steps(self, *, looks_up: bool) -> tuple[list[Column], Column, RowFolder]:
        """Return inputs, verdict and folder of rows that the driver groups, built once a way of joining."""
        repeats = self._joins.repeats_rows
        if (repeats, looks_up) not in self._folders:
            folder = RowFolder(
                self.relations, self.layout, self.coders, self._joins, self.fragments, self.failures,
                looks_up=looks_up,
            )  # fmt: skip
            self._folders[repeats, looks_up] = self._inputs(), self._bad(), folder
        return self._folders[repeats, looks_up]

    def _prepare(self, bounds: Bounds) -> None:
        self._judge_by(bounds)
        begin = bounds.begin if bounds.watermark is None else bounds.watermark
        for relation, coder in zip(self.relations, self.coders, strict=True):
            groups = bounds.groups.get(relation.id, 1.0)
            coder.prepare(self._constants, begin_us=begin, span_us=bounds.span, groups=groups)

        for number, (site, column) in enumerate(self._by_value.failing.items()):
            self._constants.array(f"failed{number}", column.failed(site))

    def _judge_by(self, bounds: Bounds) -> None:
        first, last = bounds.limits
        self._constants.number("watermark", first)
        self._constants.number("future", last)

    def _inputs(self) -> list[Column]:
        """Return the event time and the columns that any expression reads."""
        read = list(self.failures.sites)
        for relation in self.relations:
            partners = [left for join in relation.joins for left, _ in join.on]
            read += [*relation_values(relation), *tested_expressions(relation), *partners]
        needed = frozenset().union(*map(columns, read))
        kept = [named(column.name) for column in self._stream.columns if column.name in needed]
        return [event_time(self._stream).alias(TIME), *kept]

    def _bad(self) -> Column:
        """Return why a row is not aggregated, as a fragment number; NULL for good rows."""
        first, last = self._constants.read("watermark"), self._constants.read("future")
        return verdict(F.col(TIME), first, last, None if self._corrupt is None else F.col(_UNREAD))

    def _good(self) -> Column:
        """Return whether a row is neither late nor set aside; NULL for one without a time."""
        time = F.col(TIME)
        inside = (time >= self._constants.read("watermark")) & (time <= self._constants.read("future"))
        return inside if self._corrupt is None else inside & ~F.col(_UNREAD)

    def _barrier(self) -> Column:
        """Return a NULL that Spark generates no code for, and that the optimizer cannot know to be NULL.

        A row without a time is never good, so there is no such row. (A function with a lambda would not do:
        newer versions of Spark generate code for it, with a new name for its variable each time, so every job
        would be recompiled.)
        """
        return F.hll_sketch_estimate(F.when(F.col(TIME).isNull() & F.col(BAD).isNull(), F.lit(b"")))

    @property
    def _is_wide(self) -> bool:
        """Whether the code that repeats and groups rows would be too large as one."""
        return len(self.relations) > _MOST_IN_ONE_STAGE

    def _fragments(self) -> list[Column]:
        """Return the fragments of each relation."""
        fragments = []
        for index, relation in enumerate(self.relations):
            conditions = self._joins.taken(relation)
            taken = reduce(Column.__and__, conditions) if conditions else None
            fragment = self.fragments.fragment(index, taken)
            if index == 0:
                fragment = self._apart(fragment, "int" if relation.shared else "array<int>")
            fragments.append(fragment.alias(f"{FRAGMENT}{index}"))
        return fragments

    def _slice(self) -> Column:
        """Return the slice of each row; NULL for a row that is in no fragment."""
        slices = [
            (coder.shape, coder.column(F.col(TIME), self._constants), index)
            for index, coder in enumerate(self.coders)
        ]
        return self._apart(self._groups.of_relation(slices).cast("bigint"), "bigint")

    def _apart(self, column: Column, type: str) -> Column:
        """Have a column evaluated outside the code of its stage, if that would be too large.

        Java never compiles a method of more than 8,000 bytes, and the code of a stage for a row is one
        method. A projection on its own is split into small ones, and Spark takes a projection out of its
        stage if it has an expression without generated code.
        """
        if not self._is_wide:
            return column
        number = self._barrier()
        if type.startswith("array"):
            return F.coalesce(column, F.when(number.isNotNull(), F.array(number)).cast(type))
        return F.coalesce(column, number.cast(type))
