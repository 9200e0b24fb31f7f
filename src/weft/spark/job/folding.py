"""Fold a batch's rows into the groups of every relation, in the driver.

Where a batch has few rows, or nearly as many groups as copies of rows, it does not pay for Spark to repeat
each row for every relation, shuffle the copies and return more groups than there were rows. Then rows come to
the driver once, with the columns that queries read, and are grouped here: expressions are evaluated
(weft.evaluation), rows are sorted by one number each and aggregated over stretches of equal numbers.

    row        time, verdict, columns                                      one Spark stage, no shuffle
               ─evaluate→ positions, keys, values                          each once, for all relations
    relation   its rows ─(slice, keys, fragment) as one number, sorted→ stretches ─aggregate→ groups

The groups are those of Spark's own grouping (weft.spark.job.job), except for the order in which doubles are
added up; and slices start at their edges.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.arrays import Numbers, Rows, as_one, changes, in_order
from weft.evaluation.evaluator import Truths
from weft.expression import Column, Expression
from weft.predicates import Attribute
from weft.spark.input.tables import LocalTable
from weft.spark.job.batch_groups import FRAGMENT, NEWEST, OLDEST, READ, ROWS, SLICE, BatchGroups, Slot
from weft.spark.job.cells import Cells, Lone, Worded
from weft.spark.job.handover import Handover
from weft.spark.job.lifting import Groups, Values, lifted
from weft.spark.job.verdicts import BAD, TIME
from weft.threads import side_by_side

_LATEST = np.iinfo(np.int64).max
_WORTH_THREADS = 100_000
"""With more rows in all relations, relations are grouped in threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedRelation:
    """The grouping and aggregation of one relation, over the columns of rows."""

    fragments: Cells | Lone | Worded
    """How the fragments of rows are found."""
    taken: Expression | None
    """Whether a row is one of the relation's; None where all are."""
    starts: Callable[[Numbers], Numbers]
    """From times to the starts of their slices."""
    keys: tuple[tuple[Slot, Expression], ...]
    """Columns of groups, and the keys in them."""
    values: tuple[tuple[Slot, tuple[Expression, ...]], ...]
    """Columns of groups, and what is aggregated in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """What the columns of rows hold."""

    handover: Handover
    """The columns that expressions read."""
    has_copies: bool
    """Whether joins may repeat a row of the stream: then READ is true of the first copy of each."""
    failed_tests: Mapping[str, tuple[Expression, ...]]
    """Counts of failed predicates, once per row: the operations that may fail, or a column that says so."""
    failed_values: Mapping[str, tuple[Expression, ...]]
    """The same for keys and aggregates' arguments, once per copy of a row."""


class RowTable:
    """A batch's rows, and what relations evaluate over them, each once."""

    def __init__(self, rows: pa.Table, columns: RowColumns, tables: Mapping[int, LocalTable]) -> None:
        self.columns = columns
        self._evaluator = columns.handover.evaluator(rows, tables)
        self._codes: dict[Expression, Numbers] = {}
        self._keys: dict[Expression, pa.Array] = {}
        self._values: dict[Expression, Values] = {}
        self._positions: dict[int, Numbers] = {}
        self._failures: dict[str, Numbers | None] = {}
        self.times: Numbers = np.asarray(pc.fill_null(rows[TIME], 0))
        self.verdicts: Numbers = np.asarray(pc.fill_null(rows[BAD], 0)).astype(np.int64)
        """0 for good rows."""
        self._is_good = self.verdicts == 0
        self.first_copies = np.asarray(rows[READ]).astype(np.int64) if columns.has_copies else None
        """1 for the first copy of each row of the stream; None where there is one copy."""

    def __len__(self) -> int:
        return len(self.times)

    def key(self, expression: Expression) -> pa.Array:
        """Return a key's values as Spark groups them: there is one zero."""
        if expression not in self._keys:
            column = self._evaluator.values(expression)
            floats = pa.types.is_floating(column.type)
            self._keys[expression] = pc.add(column, pa.scalar(0.0, column.type)) if floats else column
        return self._keys[expression]

    def codes(self, key: Expression) -> Numbers:
        """Return a small number for each row's value of a key."""
        if key not in self._codes:
            floats = key.type.is_fractional
            encoded = self.key(key).dictionary_encode() if floats else self._evaluator.encoded(key)
            null = len(encoded.dictionary)
            self._codes[key] = np.asarray(encoded.indices.fill_null(null)).astype(np.int64)
        return self._codes[key]

    def values(self, expression: Expression) -> Values:
        """Return the values of an expression, to be aggregated."""
        if expression not in self._values:
            self._values[expression] = Values(self._evaluator.values(expression), expression.type)
        return self._values[expression]

    def positions(self, attribute: Attribute) -> Numbers:
        """Return the position of each row's value in an attribute."""
        # By identity: an attribute may have thousands of points to be hashed.
        if id(attribute) not in self._positions:
            positions = self._evaluator.positions(attribute.expression, attribute.points)
            self._positions[id(attribute)] = positions
        return self._positions[id(attribute)]

    def truths(self, condition: Expression) -> Truths:
        """Return the truth of a condition for each row."""
        return self._evaluator.truths(condition)

    @cached_property
    def moments(self) -> tuple[Numbers, Numbers]:
        """The distinct times of good rows in order, and the index of each row's; 0 for other rows."""
        good = np.flatnonzero(self._is_good)
        times = self.times[good]
        own = _sorted(times - times.min(initial=_LATEST))
        which = np.zeros(len(self), dtype=np.int64)
        which[good[own.order]] = np.repeat(np.arange(len(own.begins)), own.sizes)
        return times[own.firsts], which

    def in_fragments(self, relation: FoldedRelation) -> tuple[Rows, Numbers]:
        """Return the good rows of a relation, each once for each of its fragments, and these fragments."""
        rows, numbers = relation.fragments.find(self)
        taken = self._is_good
        if relation.taken is not None:
            taken = taken & self._evaluator.holds(relation.taken)
        if taken.all():
            return rows, numbers
        kept = taken[rows]
        return rows[kept], numbers[kept]

    def failures(self, name: str, sites: Sequence[Expression]) -> Numbers | None:
        """Return 1 for each good row in which an operation failed, 0 for others; None where none did."""
        if name not in self._failures:
            self._failures[name] = self._failed(sites)
        return self._failures[name]

    def _failed(self, sites: Sequence[Expression]) -> Numbers | None:
        by_site = [
            self._evaluator.holds(site) if isinstance(site, Column) else self._evaluator.failed_at(site)
            for site in sites
        ]
        failed = [rows for rows in by_site if rows is not None]
        if not failed:
            return None
        any_failed = np.logical_or.reduce(failed) & self._is_good
        return any_failed.astype(np.int64) if any_failed.any() else None


def fold(
    rows: RowTable,
    relations: Sequence[FoldedRelation],
    *,
    first_counts: bool,
    firsts: Callable[[], Sequence[int]],
) -> BatchGroups:
    """Return the groups of all relations.

    Every row is counted once: in the groups of the first relation, if `first_counts` and the row is in any,
    and otherwise by its verdict alone. `firsts` returns the number of the first fragment of each relation,
    once all fragments have been found.
    """

    def grouped(index: int) -> tuple[Rows, pa.Table]:
        taken, fragments = rows.in_fragments(relations[index])
        counts = index == 0 and first_counts
        return taken, _groups(rows, relations[index], taken, fragments, counts=counts)

    many = len(rows) * len(relations) > _WORTH_THREADS
    by_relation = side_by_side(grouped, range(len(relations)), worth=many)
    tables = [_numbered(groups, first) for (_, groups), first in zip(by_relation, firsts(), strict=True)]
    uncounted = np.ones(len(rows), dtype=bool)
    if first_counts:
        uncounted[by_relation[0][0]] = False
    failures = {*rows.columns.failed_tests, *rows.columns.failed_values}
    counting = {FRAGMENT, ROWS, OLDEST, NEWEST, READ, *failures}
    counts = [table.select([name for name in table.column_names if name in counting]) for table in tables]
    counts.append(_rest(rows, np.flatnonzero(uncounted)))
    return BatchGroups(pa.concat_tables(counts, promote_options="default"), tables)


def _numbered(groups: pa.Table, first: int) -> pa.Table:
    """Return a relation's groups with its fragments numbered among those of all relations."""
    numbers = np.asarray(groups[FRAGMENT]) + np.int32(first)
    return groups.set_column(groups.column_names.index(FRAGMENT), FRAGMENT, pa.array(numbers))


def _groups(
    rows: RowTable, relation: FoldedRelation, taken: Rows, fragments: Numbers, *, counts: bool
) -> pa.Table:
    """Return the groups of one relation."""
    moments, which = rows.moments
    starts, moment = relation.starts(moments), which[taken]
    # Moments are in order, and so are the slices that they lie in.
    slices = np.cumsum(np.diff(starts, prepend=starts[:1]) != 0)
    own = _sorted(_codes(rows, relation, taken, slices[moment], fragments))
    groups = Groups(taken[own.order], own.begins)
    columns: dict[str, pa.Array] = {
        FRAGMENT: pa.array(fragments[own.firsts].astype(np.int32)),
        SLICE: pa.array(starts[moment[own.firsts]]),
        ROWS: pa.array(groups.sizes),
    }
    for slot, key in relation.keys:
        columns[slot.name] = rows.key(key).take(pa.array(groups.firsts))
    for slot, arguments in relation.values:
        values = [rows.values(argument) for argument in arguments]
        fields = iter(slot.fields())
        for argument in arguments[: slot.grouped_by]:
            columns[next(fields)] = rows.key(argument).take(pa.array(groups.firsts))
        columns |= dict(zip(fields, lifted(slot, values, groups), strict=True))
    if counts:
        columns |= _counted(rows, groups)
    for name, sites in rows.columns.failed_values.items():
        columns[name] = _failures(rows.failures(name, sites), groups)
    return pa.table(columns)


def _rest(rows: RowTable, left: Rows) -> pa.Table:
    """Return groups that only count rows: one for each verdict, and one for good rows that are left."""
    own = _sorted(rows.verdicts[left] - int(rows.verdicts.min(initial=0)))
    groups = Groups(left[own.order], own.begins)
    columns = {
        FRAGMENT: pa.array(rows.verdicts[groups.firsts].astype(np.int32)),
        ROWS: pa.array(groups.sizes),
        **_counted(rows, groups),
        **{name: _failures(None, groups) for name in rows.columns.failed_values},
    }
    return pa.table(columns)


def _counted(rows: RowTable, groups: Groups) -> dict[str, pa.Array]:
    """Return what is counted once for each row of the stream."""
    times, first = rows.times[groups.order], rows.first_copies
    columns = {
        OLDEST: pa.array(np.minimum.reduceat(times, groups.begins)),
        NEWEST: pa.array(np.maximum.reduceat(times, groups.begins)),
        READ: pa.array(groups.sizes if first is None else groups.added(first)),
    }
    for name, sites in rows.columns.failed_tests.items():
        columns[name] = _failures(rows.failures(name, sites), groups, first)
    return columns


def _failures(failed: Numbers | None, groups: Groups, counted: Numbers | None = None) -> pa.Array:
    if failed is None:
        return pa.array(np.zeros(len(groups.begins), dtype=np.int64))
    return pa.array(groups.added(failed if counted is None else failed * counted))


def _codes(
    rows: RowTable, relation: FoldedRelation, taken: Rows, slices: Numbers, fragments: Numbers
) -> Numbers:
    """Return slice, keys, fragment and bagged values of each row that is taken, as one number."""
    bagged = [own for slot, arguments in relation.values for own in arguments[: slot.grouped_by]]
    grouped_by = (*(key for _, key in relation.keys), *bagged)
    return as_one((slices, fragments, *(rows.codes(key)[taken] for key in grouped_by)), len(taken))


def _sorted(codes: Numbers) -> Groups:
    """Return equal codes side by side."""
    order, codes = in_order(codes)
    return Groups(order, np.flatnonzero(changes(codes)))
