"""One Spark job per batch: rows in, the partials of every relation out.

Each row is read once. Where groups are few, Spark groups rows: a single relation is a plain GROUP BY of
slice and fragment; with several, a row is repeated once for each fragment that it is in. (Measured on 8
relations and 1 M rows: 0.74 s; repeating whole structs 1.6 s; GROUPING SETS 1.8 s.) Where groups are many, or
rows are few, the driver groups rows (weft.spark.job.forms, weft.spark.job.folding). The result is the same.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.expression import columns
from weft.optimizer.plan import Relation, RelationId, SharedPlan
from weft.predicates import tests
from weft.query.logical import StreamDef
from weft.spark.columns import Udf, named
from weft.spark.input.files import in_one_task
from weft.spark.input.records import corrupt_column, is_corrupt
from weft.spark.input.tables import StaticTable
from weft.spark.input.times import event_time
from weft.spark.job.asked_values import KnownValues, asked_values
from weft.spark.job.batch_groups import BatchGroups
from weft.spark.job.calls import FunctionCalls
from weft.spark.job.constants import Constants
from weft.spark.job.failures import Failures
from weft.spark.job.folding import Names
from weft.spark.job.forms import Forms, batch_bytes
from weft.spark.job.fragment_coder import NOBODYS, UNWANTED, FragmentCoder
from weft.spark.job.joins import Joins
from weft.spark.job.layout import ROWS, Layout, Slot, lay_out
from weft.spark.job.row_folder import FolderParts, RowFolder
from weft.spark.job.slicing import SliceCoder
from weft.spark.job.unknown_values import count_failures, missed_values
from weft.spark.job.word_coder import answer_name
from weft.spark.session.gateway import remember_functions

TIME = "__weft_time"
BAD = "__weft_bad"
UNREAD = "__weft_unread"
"""Whether a row's record could not be read as declared."""
FRAGMENT = "__weft_fragment"
SLICE = "__weft_slice"
_MOST_IN_ONE_STAGE = 8
"""Up to so many relations, the code that repeats and groups rows is small enough."""
WORD = "__weft_word"
"""How the names of words begin that rows are grouped by."""
OLDEST, NEWEST = "oldest", "newest"
READ = "read"
NO_TIME, LATE, FUTURE, CORRUPT = -1, -2, -3, -4
"""The fragment numbers of rows that are not good."""
_NEVER_LATE, _NEVER_FUTURE = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a batch's rows are judged by, in microseconds."""

    watermark: int | None
    """Rows before it are late."""
    future: int | None
    """Rows after it are set aside."""
    begin: int | None = None
    """When rows are expected to begin, if the watermark does not tell; affects speed only."""
    span: int = 0
    """How far past that rows are expected to reach; affects speed only."""
    groups: Mapping[RelationId, float] = field(default_factory=dict)
    """How many groups a slice of each relation is expected to have, if not one; affects speed only."""
    groups_per_row: float | None = 0.0
    """How many groups of all relations a row is expected to make; affects speed only."""

    @property
    def limits(self) -> tuple[int, int]:
        """The first and the last time that a good row can have."""
        return (
            _NEVER_LATE if self.watermark is None else self.watermark,
            _NEVER_FUTURE if self.future is None else self.future,
        )


def verdict(time: Column, first: Column, last: Column, unread: Column | None) -> Column:
    """Return why a row is not aggregated, as a fragment number; NULL for good rows."""
    by_time = (
        F.when(time.isNull(), F.lit(NO_TIME)).when(time < first, F.lit(LATE)).when(time > last, F.lit(FUTURE))
    )
    return by_time if unread is None else F.when(unread, F.lit(CORRUPT)).otherwise(by_time)


def in_job_order(roots: Iterable[Relation]) -> tuple[Relation, ...]:
    """Return the roots of a plan as a job numbers them.

    Rows are counted in the copy for the first, which every row must have: so that is a shared one, if any is.
    """
    return tuple(sorted(roots, key=lambda relation: not relation.shared))


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


@dataclass(frozen=True, slots=True)
class _FolderSteps:
    """The same where the driver groups rows."""

    inputs: list[Column]
    bad: Column
    folder: RowFolder


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
        """Lay the job out; `known` and `forms` are what jobs before it have learnt of values, and of rows."""
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
        self._values = asked_values(plan, stream, functions, known or KnownValues())
        elsewhere = {*self._values.expressions, *self._values.failing}
        self._calls = FunctionCalls(plan, self._joins.translator, functions, elsewhere)
        self.fragments = FragmentCoder(self.relations, self._joins, self._values)
        self._constants = Constants(TIME)
        self._give_failures()
        self._judge_by(Bounds(watermark=None, future=None))
        self._built: tuple[object, _Steps] | None = None
        self._folders: dict[tuple[bool, bool], _FolderSteps] = {}
        self._forms = forms or Forms()
        self.failures = Failures(
            [
                (answer, self._joins.translator(plan.relation(answer.relation)))
                for answer in plan.answers
                if answer.relation in self.index_of
            ],
            self._good(),
        )

    def run(self, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Return the batch's groups, and the counts of rows that are in none."""
        size = batch_bytes(batch)
        by_driver = self._values.are_ours and self._forms.driver_groups(
            size, bounds.groups_per_row, many_words=self.fragments.has_many_words
        )
        result = self.fold_rows(batch, bounds) if by_driver else self.group_rows(batch, bounds)
        self._forms.note(size, self._rows_read(result), len(result))
        return result

    def group_rows(self, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Have Spark repeat rows for each relation and group them."""
        self._values.prepare(batch)
        self._prepare(bounds)
        steps = self._steps()
        rows = self._rows(in_one_task(batch), steps.inputs)
        for step in (steps.searches, steps.positions, steps.words, steps.fragments):
            rows = rows.select("*", *step) if step else rows
        rows = rows.withColumn(FRAGMENT, steps.fragment)
        if self.fragments.repeats_rows:
            rows = rows.where(F.col(FRAGMENT) > UNWANTED)
        result = rows.select(*steps.fields).groupBy(*steps.grouping).agg(*steps.aggregates).toArrow()
        if self.fragments.has_words:
            result = self._settled(batch, result, steps)
        return BatchGroups(result, FRAGMENT, ROWS)

    def _settled(self, batch: DataFrame, result: pa.Table, steps: _Steps) -> pa.Table:
        """Return a result whose fragments are numbered by their words; values not known so far are learnt."""
        books = self.fragments.word_books()
        missed = missed_values(self._values, result)
        if missed:
            self._values.learn(batch, missed)
            fragment = np.asarray(result[FRAGMENT])
            counted = (fragment >= NOBODYS) & (fragment < self.fragments.coded_counting_end)
            result = count_failures(
                self._values, self.failures.tested, result, counted, READ if self._joins else ROWS
            )
        words = [name for name in steps.grouping if name.startswith(WORD)]
        return self.fragments.settled(result, FRAGMENT, words, books)

    def _give_failures(self) -> None:
        """Have failures of functions that are not called for each row read from what is known by value."""
        translators = {self._joins.translator(relation) for relation in self.relations}
        for number, (site, column) in enumerate(self._values.failing.items()):
            failed = F.get(self._constants.whole(f"failed{number}"), F.col(answer_name(column))) == 1
            for translate in translators:
                translate.given(site, F.lit(None).cast(str(site.type)), failed)

    def fold_rows(self, batch: DataFrame, bounds: Bounds) -> BatchGroups:
        """Have Spark hand over rows, and group them here."""
        self._judge_by(bounds)
        tables = self._joins.local_tables()
        steps = self._folder_steps(looks_up=tables is not None)
        if steps.folder.needs_joins:
            tables, steps = None, self._folder_steps(looks_up=False)
        rows = self._rows(batch, steps.inputs, joined=tables is None).withColumn(BAD, steps.bad)
        return steps.folder.fold(rows.select(*steps.folder.columns).toArrow(), tables or {})

    def _rows_read(self, result: BatchGroups) -> int:
        """Return how many rows a result counts."""
        counted = result.fragment < self.fragments.counting_end
        return int(np.asarray(result.counts[ROWS])[counted].sum())

    def _rows(self, batch: DataFrame, inputs: Sequence[Column], *, joined: bool = True) -> DataFrame:
        """Return the batch's rows with all that expressions read: tables' columns, calls of functions."""
        unread = [] if self._corrupt is None else [self._unread(batch, self._corrupt)]
        rows = batch.select(*inputs, *unread, *self._constants.literals())
        return self._calls.apply(self._joins.apply(rows) if joined else rows)

    def _steps(self) -> _Steps:
        """Return the columns of each step: built once, and again only if rows are coded in another way."""
        coded = tuple((coder.uses_table, coder.uses_panes, coder.depth) for coder in self.coders)
        forms = (coded, self._joins.repeats_rows, self.fragments.version)
        if self._built is None or self._built[0] != forms:
            fragments = self._fragments()
            names = [F.col(f"{FRAGMENT}{index}") for index in range(len(fragments))]
            steps = _Steps(
                inputs=self._inputs(),
                searches=self.fragments.searches(),
                positions=self._positions(),
                words=self.fragments.words(self._barrier()),
                fragments=fragments if self._is_wide else [],
                fragment=self.fragments.column(F.col(BAD), names if self._is_wide else fragments),
                fields=self._fields(),
                grouping=self._grouping(),
                aggregates=self._aggregates(),
            )
            self._built = forms, steps
        return self._built[1]

    def _positions(self) -> list[Column]:
        """Return the verdict on each row, and where its values stand."""
        return [self._bad().alias(BAD), *self.fragments.positions()]

    def _folder_steps(self, *, looks_up: bool) -> _FolderSteps:
        """Return the columns of rows that the driver groups, once for each way in which tables are joined."""
        repeats = self._joins.repeats_rows
        if (repeats, looks_up) not in self._folders:
            names = Names(
                time=TIME, verdict=BAD, first_copy=READ if repeats else None, read=READ, fragment=FRAGMENT,
                slice=SLICE, rows=ROWS, oldest=OLDEST, newest=NEWEST,
                failed_tests=tuple(self.failures.queries), failed_values=tuple(self.failures.answers),
            )  # fmt: skip
            parts = FolderParts(
                relations=self.relations, layout=self.layout, coders=self.coders, joins=self._joins,
                fragments=self.fragments, failures=self.failures,
            )  # fmt: skip
            folder = parts.folder(names, looks_up=looks_up)
            self._folders[repeats, looks_up] = _FolderSteps(self._inputs(), self._bad(), folder)
        return self._folders[repeats, looks_up]

    def _prepare(self, bounds: Bounds) -> None:
        self._judge_by(bounds)
        begin = bounds.begin if bounds.watermark is None else bounds.watermark
        for relation, coder in zip(self.relations, self.coders, strict=True):
            groups = bounds.groups.get(relation.id, 1.0)
            coder.prepare(self._constants, begin_us=begin, span_us=bounds.span, groups=groups)

        for number, (site, column) in enumerate(self._values.failing.items()):
            self._constants.array(f"failed{number}", column.failed(site))

    def _judge_by(self, bounds: Bounds) -> None:
        first, last = bounds.limits
        self._constants.number("watermark", first)
        self._constants.number("future", last)

    def _inputs(self) -> list[Column]:
        """Return the event time and the columns that anyone needs."""
        needed = frozenset().union(*map(_reads, self.relations), *map(columns, self.failures.sites))
        kept = [named(column.name) for column in self._stream.columns if column.name in needed]
        return [event_time(self._stream).alias(TIME), *kept]

    def _unread(self, batch: DataFrame, corrupt: str) -> Column:
        """Return whether a row is corrupt; a batch made for trying queries out has no such rows."""
        there = corrupt in batch.columns
        return (is_corrupt(corrupt, self._stream) if there else F.lit(False)).alias(UNREAD)

    def _bad(self) -> Column:
        """Return why a row is not aggregated, as a fragment number; NULL for good rows."""
        first, last = self._constants.read("watermark"), self._constants.read("future")
        return verdict(F.col(TIME), first, last, None if self._corrupt is None else F.col(UNREAD))

    def _good(self) -> Column:
        """Return whether a row is neither late nor set aside; NULL for one without a time."""
        time = F.col(TIME)
        inside = (time >= self._constants.read("watermark")) & (time <= self._constants.read("future"))
        return inside if self._corrupt is None else inside & ~F.col(UNREAD)

    def _barrier(self) -> Column:
        """Return a NULL that Spark generates no code for, and cannot know to be one.

        A row without a time is never good, so that there is no such row. (A function with a lambda would not
        do: newer versions of Spark generate code for it, with a new name for its variable each time, so that
        every job would be compiled anew.)
        """
        never = F.when(F.col(TIME).isNull() & F.col(BAD).isNull(), F.lit(b""))
        return F.hll_sketch_estimate(never)

    @property
    def _is_wide(self) -> bool:
        """Whether the code that repeats and groups rows would be too large as one."""
        return len(self.relations) > _MOST_IN_ONE_STAGE

    def _fragments(self) -> list[Column]:
        """Return the fragments of each relation."""
        found = []
        for index, relation in enumerate(self.relations):
            conditions = self._joins.taken(relation)
            taken = reduce(Column.__and__, conditions) if conditions else None
            fragment = self.fragments.fragment(index, taken)
            if index == 0:
                fragment = self._apart(fragment, "int" if relation.shared else "array<int>")
            found.append(fragment.alias(f"{FRAGMENT}{index}"))
        return found

    def _fields(self) -> list[Column]:
        """Return what is grouped and aggregated, each in its slot.

        A row that is in no fragment must not open a group: its slice and keys are NULL.
        """
        slices = [
            (coder.shape, coder.column(F.col(TIME), self._constants), index)
            for index, coder in enumerate(self.coders)
        ]
        fields = [F.col(TIME), F.col(FRAGMENT), self._joins.first_copy().alias(READ)]
        fields.append(self._apart(self._of_relation(slices).cast("bigint"), "bigint").alias(SLICE))
        for place, uses in enumerate(self.fragments.word_uses()):
            fields.append(self._of_relation(uses).cast("bigint").alias(f"{WORD}{place}"))
        fields += self.fragments.missed(F.col(FRAGMENT) >= NOBODYS)
        for slot in self.layout.key_slots():
            fields.append(self._of_relation(self._uses(slot)).cast(str(slot.type)).alias(slot.name))
        for slot in self.layout.primitive_slots():
            uses = self._uses(slot)
            alike = len({expression for expression, _, _ in uses}) == 1
            value = uses[0][1] if alike else self._of_relation(uses)
            fields.append(value.cast(str(slot.type)).alias(slot.name))
        first_of_row = (F.col(FRAGMENT) < self.fragments.coded_counting_end) & self._joins.first_copy()
        return [*fields, *self.failures.fields(first_of_row)]

    def _apart(self, column: Column, type: str) -> Column:
        """Have a column evaluated outside of the code of a whole stage, if that would be too large.

        Java never compiles a method of more than 8,000 bytes, and what a stage does for a row is one method.
        A projection on its own is cut into small ones. Spark takes one out of its stage for an expression
        that it generates no code for.
        """
        if not self._is_wide:
            return column
        number = self._barrier()
        if type.startswith("array"):
            return F.coalesce(column, F.when(number.isNotNull(), F.array(number)).cast(type))
        return F.coalesce(column, number.cast(type))

    def _uses(self, slot: Slot) -> list[tuple[Hashable, Column, int]]:
        """Return the expressions that relations keep in a slot, each with the relation's number."""
        found: list[tuple[Hashable, Column, int]] = []
        for index, relation in enumerate(self.relations):
            arguments = [primitive.argument for primitive in relation.primitives]
            places = (*self.layout.keys[index], *self.layout.primitives[index])
            for place, expression in zip(places, (*relation.keys, *arguments), strict=True):
                if place == slot and expression is not None:
                    # Equal expressions over different joins read different columns.
                    key = (expression, relation.joins if self._joins else ())
                    found.append((key, self._joins.translator(relation)(expression), index))
        return found

    def _of_relation(self, uses: Sequence[tuple[Hashable, Column, int]]) -> Column:
        """Return the value that a row's relation has, or NULL where it has none."""
        numbers: dict[Hashable, list[int]] = {}
        columns: dict[Hashable, Column] = {}
        for key, column, index in uses:
            numbers.setdefault(key, []).append(index)
            columns[key] = column
        chosen = F.lit(None)
        for key, members in numbers.items():
            chosen = F.when(self._is_one_of(members), columns[key]).otherwise(chosen)
        return chosen

    def _is_one_of(self, members: Sequence[int]) -> Column:
        """Return whether a row's fragment is one of the given relations'."""
        fragment = F.col(FRAGMENT)
        if len(members) == len(self.relations):
            return fragment > NOBODYS
        coded = [self.fragments.coded[index] for index in members]
        return reduce(Column.__or__, [(fragment >= one.first) & (fragment < one.bound) for one in coded])

    def _grouping(self) -> list[str]:
        words = [f"{WORD}{place}" for place in range(len(self.fragments.word_uses()))]
        keys = (slot.name for slot in self.layout.key_slots())
        return [FRAGMENT, SLICE, *words, *self.fragments.missed_names(), *keys]

    def _aggregates(self) -> list[Column]:
        lifted = [
            getattr(F, lift)(F.col(slot.name)).alias(field)
            for slot in self.layout.primitive_slots()
            for lift, field in zip(slot.lifts, slot.fields(), strict=True)
        ]
        read = [F.count_if(F.col(READ)).alias(READ)] if self._joins else []
        span = [F.min(TIME).alias(OLDEST), F.max(TIME).alias(NEWEST)]
        return [F.count(F.lit(1)).alias(ROWS), *span, *read, *lifted, *self.failures.counts()]


def _reads(relation: Relation) -> frozenset[str]:
    arguments = [one.argument for one in relation.primitives if one.argument is not None]
    tested = [one.expression for predicate in relation.predicates for one in tests(predicate)]
    partners = [left for join in relation.joins for left, _ in join.on]
    return frozenset().union(*map(columns, (*relation.keys, *tested, *arguments, *partners)))
