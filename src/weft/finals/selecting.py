"""From finals to each query's own results: SELECT and HAVING, for all readers of a program at once."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from weft.aggregates import Constants, Partial, Primitive, aggregate
from weft.arrays import Bools, Rows, Times
from weft.errors import InternalError
from weft.evaluation import Evaluator
from weft.expression import Slot, SlotKind, walk
from weft.finals.limiting import selected_schema
from weft.finals.readings import Absent, Program, Reader
from weft.finals.thresholds import Passing, constant_parts, passing, passing_alike
from weft.spark.columns import Udf
from weft.spark.job.outputs import OutputRows, evaluate
from weft.types import TIMESTAMP, DataType

_MOMENT = pa.timestamp("us", "UTC")
Call = tuple[str, tuple[Primitive, ...], DataType, Constants]
"""Function, primitives, result type and constants of an aggregate."""


class Finals:
    """Combined partials of asks, as the columns that programs read; each is made when first asked for."""

    def __init__(
        self,
        keys_of: Callable[[Rows], pa.Table],
        key: Rows,
        start: Times,
        end: Times,
        partials: dict[Primitive, Partial],
        absent: Absent = frozenset(),
    ) -> None:
        self._keys_of, self._key, self._partials = keys_of, key, partials
        self.absent = absent
        """The grouping's keys by which rows are not grouped."""
        self._bounds = {SlotKind.WINDOW_START: start, SlotKind.WINDOW_END: end}
        self._keys: pa.Table | None = None
        self._columns: dict[object, pa.Array] = {}
        self._overflows: dict[Call, Bools] = {}

    def __len__(self) -> int:
        return len(self._key)

    def column(self, program: Program, slot: Slot) -> pa.Array:
        """Return the values of a program's slot."""
        if slot.kind is SlotKind.KEY:
            return self._cached(program.keys[slot.index], self._key_column)
        if slot.kind is SlotKind.AGGREGATE:
            return self._cached(program.aggregates[slot.index], self._aggregate)
        if slot.kind is SlotKind.GROUPING:
            bits = (str(int(key in self.absent)) for key in program.keys)
            return pa.array(np.full(len(self), int("0" + "".join(bits), 2)))
        return self._cached(slot.kind, lambda kind: pa.array(self._bounds[kind]).cast(_MOMENT))

    def overflows(self, program: Program) -> list[Bools]:
        """Return, for each aggregate that does not fit its type in some rows, which rows these are."""
        for call in program.aggregates:
            self._cached(call, self._aggregate)
        return [self._overflows[call] for call in program.aggregates if call in self._overflows]

    def _cached(self, what: object, make: Callable[..., pa.Array]) -> pa.Array:
        if what not in self._columns:
            self._columns[what] = make(what)
        return self._columns[what]

    def _key_column(self, index: int) -> pa.Array:
        if self._keys is None:
            self._keys = self._keys_of(self._key)
        column = self._keys.column(index)
        if index in self.absent:
            return pa.nulls(len(self), column.type)
        # One chunk would be copied.
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def _aggregate(self, call: Call) -> pa.Array:
        name, primitives, type, constants = call
        function = aggregate(name)
        if function is None:
            raise InternalError(f"no aggregate {name}")
        lowered = function.lower([self._partials[primitive] for primitive in primitives], type, constants)
        if function.can_overflow and lowered.null_count:
            null = np.asarray(lowered.is_null())
            self._overflows[call] = self._partials[primitives[0]].seen_mask() & null
        return lowered


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """The rows of some finals that the readers of one program read, ask by ask."""

    program: Program
    finals: Finals
    rows: slice | Rows
    """Which of the finals' rows."""
    bounds: Rows
    """Where the rows of each ask begin among them, and where those of the last ask end."""
    readers: Sequence[Sequence[Reader]]
    """Who reads each ask."""

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def column(self, slot: Slot) -> pa.Array:
        """Return the values of a slot in these rows."""
        whole = self.finals.column(self.program, slot)
        if isinstance(self.rows, slice):
            return whole.slice(self.rows.start, self.rows.stop - self.rows.start)
        return whole.take(pa.array(self.rows))

    def overflows(self) -> list[Bools]:
        """Return, for each aggregate that does not fit its type in some rows, which rows these are."""
        return [mask[self.rows] for mask in self.finals.overflows(self.program)]


@dataclass(slots=True)
class Selected:
    """Results by query, and how many of each query's rows failed."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, columns: Sequence[pa.Array], bounds: Rows, readers: Sequence[Sequence[Reader]]) -> None:
        """Add results, which are in the order of the groups of readers."""
        cuts = bounds.tolist()
        for group, begin, end in zip(readers, cuts, cuts[1:], strict=False):
            if begin < end:
                parts = [column.slice(begin, end - begin) for column in columns]
                for reader in group:
                    query = reader.answer.query
                    table = pa.Table.from_arrays(parts, schema=selected_schema(query))
                    self.tables.setdefault(query.name, []).append(table)

    def take(self, other: "Selected") -> None:
        """Add the results of other queries."""
        self.tables |= other.tables
        self.failures.update(other.failures)

    def add_passing(self, columns: Sequence[pa.Array], passed: Passing) -> None:
        """Add the results that pass HAVING."""
        rows, bounds = pa.array(passed.rows), np.concatenate(([0], np.cumsum(passed.counts)))
        self.add([column.take(rows) for column in columns], bounds, [(reader,) for reader in passed.readers])

    def fail(self, read: ReadRows, *masks: Bools | None) -> None:
        """Count rows in which anything failed, for the readers of each."""
        marked = [mask for mask in masks if mask is not None]
        if not marked:
            return
        failed = np.logical_or.reduce(marked)
        counts = np.diff(np.concatenate(([0], np.cumsum(failed)))[read.bounds])
        for group, count in zip(read.readers, counts.tolist(), strict=True):
            if count:
                self.failures.update({reader.answer.query.name: count for reader in group})


def select(read: ReadRows, selected: Selected) -> None:
    """Evaluate a program's SELECT and HAVING on rows of finals."""
    program, having = read.program, read.program.having
    evaluator = Evaluator({slot: read.column(slot) for slot in slots(program)}, len(read))
    columns = [read.column(slot) for slot in WINDOW]
    columns += [evaluator.values(output) for output in program.outputs]
    for mask in read.overflows():
        selected.fail(read, mask)
    conditions = [] if having is None else constant_parts(having)
    selected.fail(read, *map(evaluator.failed, (*program.outputs, *conditions)))
    if having is None:
        selected.add(columns, read.bounds, read.readers)
        return
    selected.add_passing(columns, passing(having, evaluator, read.bounds, read.readers))


WINDOW = (Slot(SlotKind.WINDOW_START, 0, TIMESTAMP), Slot(SlotKind.WINDOW_END, 0, TIMESTAMP))
"""The first two columns of all results."""


def slots(program: Program) -> frozenset[Slot]:
    """Return what a program reads of finals."""
    expressions = (*program.outputs, *(() if program.having is None else (program.having,)))
    nodes = (node for expression in expressions for node in walk(expression))
    return frozenset(node for node in nodes if isinstance(node, Slot) and node.kind is not SlotKind.PARAMETER)


def select_by_spark(
    spark: SparkSession, parts: Sequence[ReadRows], functions: Mapping[str, Udf], selected: Selected
) -> None:
    """Have Spark evaluate what only it can, for all programs in one job."""
    asked = [
        OutputRows(
            columns={slot: read.column(slot) for slot in slots(read.program)},
            rows=len(read), outputs=read.program.outputs, having=read.program.having,
        )
        for read in parts
    ]  # fmt: skip
    for read, computed in zip(parts, evaluate(spark, asked, functions), strict=True):
        for mask in read.overflows():
            selected.fail(read, mask)
        selected.fail(read, np.asarray(computed.failed))
        columns = [*(read.column(slot) for slot in WINDOW), *computed.outputs]
        passed = passing_alike(np.asarray(computed.kept), read.bounds, read.readers)
        selected.add_passing(columns, passed)
