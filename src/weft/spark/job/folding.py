"""Fold a batch's rows into the groups of every relation, in the driver.

Where a batch has few rows, or nearly as many groups as copies of rows, it does not pay that Spark repeats
each row for every relation, sends the copies through a shuffle and hands over groups that are more than the
rows were. Then rows come to the driver once, with the columns that queries read, and are grouped here: what
queries compute of them is evaluated (weft.evaluation), they are sorted by one number a row, and aggregated
over stretches of equal numbers.

    row        time, verdict, columns                                      one Spark stage, no shuffle
               ─evaluate→ positions, keys, values                          each once, whoever uses it
    relation   its rows ─(slice, keys, fragment) as one number, sorted→ stretches ─aggregate→ groups

The groups are those that Spark's own grouping would give (weft.spark.job.job), but for the order in which
doubles are added up; and slices start at their edges.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation.evaluator import Truths
from weft.expression import Column, Expression
from weft.predicates import Attribute
from weft.spark.input.lookups import LocalTable
from weft.spark.job.batch_groups import BatchGroups
from weft.spark.job.cells import Cells, Lone, Worded
from weft.spark.job.handover import Handover
from weft.spark.job.layout import Slot
from weft.spark.job.lifting import Groups, Numbers, Rows, Values, lifted
from weft.threads import side_by_side

_MOST_CODES = 1 << 62
_LATEST = np.iinfo(np.int64).max
_WORTH_THREADS = 100_000
"""From so many rows of all relations on, relations are grouped side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the columns of rows and of groups are called, other than keys and values."""

    time: str
    verdict: str
    """Of rows: why a row is not aggregated, as a fragment number; NULL for good rows."""
    first_copy: str | None
    """Of rows: whether a row is the first copy of a row of the stream; None where there is one copy."""
    read: str
    """Of groups: how many first copies it has."""
    fragment: str
    slice: str
    rows: str
    oldest: str
    newest: str
    failed_tests: tuple[str, ...]
    """Of groups: where a predicate failed, and how often; a row counts once."""
    failed_values: tuple[str, ...]
    """Of groups: where a key or an aggregate's argument failed, and how often; each copy of a row counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedRelation:
    """What is grouped and aggregated for one relation, over the columns of rows."""

    fragments: Cells | Lone | Worded
    """How the fragments of rows are found."""
    taken: Expression | None
    """Whether the relation takes a row at all; None where it takes all."""
    starts: Callable[[Numbers], Numbers]
    """From times to the starts of their slices."""
    keys: tuple[tuple[Slot, Expression], ...]
    """Columns of groups, and what they are made of."""
    values: tuple[tuple[Slot, Expression], ...]
    """Where aggregates are kept, and what they are made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """What the columns of rows hold."""

    names: Names
    handover: Handover
    """The columns that expressions read."""
    failures: Mapping[str, tuple[Expression, ...]]
    """By the names of counted failures: the operations that may fail, or one column that says so."""


class RowTable:
    """A batch's rows, and what relations ask of them, found out once."""

    def __init__(self, rows: pa.Table, columns: RowColumns, tables: Mapping[int, LocalTable]) -> None:
        self._columns, self.names = columns, columns.names
        self._evaluator = columns.handover.evaluator(rows, tables)
        self._codes: dict[Expression, tuple[Numbers, int]] = {}
        self._keys: dict[Expression, pa.Array] = {}
        self._values: dict[Expression, Values] = {}
        self._positions: dict[int, Numbers] = {}
        self._failures: dict[str, Numbers | None] = {}
        self.times: Numbers = np.asarray(pc.fill_null(rows[self.names.time], 0))
        self.verdicts: Numbers = np.asarray(pc.fill_null(rows[self.names.verdict], 0)).astype(np.int64)
        """0 for good rows."""
        self._is_good = self.verdicts == 0
        first = self.names.first_copy
        self.first_copies = None if first is None else np.asarray(rows[first]).astype(np.int64)
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

    def codes(self, key: Expression) -> tuple[Numbers, int]:
        """Return a small number for each row's value of a key, and how many there are."""
        if key not in self._codes:
            floats = key.type.is_fractional
            encoded = self.key(key).dictionary_encode() if floats else self._evaluator.encoded(key)
            several = len(encoded.dictionary)
            numbers = np.asarray(encoded.indices.fill_null(several)).astype(np.int64)
            self._codes[key] = numbers, several + 1
        return self._codes[key]

    def values(self, expression: Expression) -> Values:
        """Return what is aggregated."""
        if expression not in self._values:
            self._values[expression] = Values(self._evaluator.values(expression), expression.type)
        return self._values[expression]

    def positions(self, attribute: Attribute) -> Numbers:
        """Return where the values of each row stand in an attribute."""
        # By what it is, not by what it holds: an attribute may have thousands of points.
        if id(attribute) not in self._positions:
            found = self._evaluator.positions(attribute.expression, attribute.points)
            self._positions[id(attribute)] = found
        return self._positions[id(attribute)]

    def truths(self, condition: Expression) -> Truths:
        """Return what a condition is for each row."""
        return self._evaluator.truths(condition)

    @cached_property
    def moments(self) -> tuple[Numbers, Numbers]:
        """The different times of good rows, in order, and which of them is each row's; 0 for others."""
        good = np.flatnonzero(self._is_good)
        times = self.times[good]
        own = _sorted(times - times.min(initial=_LATEST))
        which = np.zeros(len(self), dtype=np.int64)
        which[good[own.order]] = np.repeat(np.arange(len(own.begins)), own.sizes)
        return times[own.firsts], which

    def in_fragments(self, relation: FoldedRelation) -> tuple[Rows, Numbers]:
        """Return the good rows that a relation takes, once for each of their fragments, and these."""
        rows, numbers = relation.fragments.find(self)
        taken = self._is_good if relation.taken is None else self._taken(relation.taken)
        if taken.all():
            return rows, numbers
        kept = taken[rows]
        return rows[kept], numbers[kept]

    def _taken(self, condition: Expression) -> npt.NDArray[np.bool_]:
        taken: npt.NDArray[np.bool_] = self._evaluator.holds(condition) & self._is_good
        return taken

    def failures(self, name: str) -> Numbers | None:
        """Return 1 for each good row in which something failed, 0 for others; None where nothing did."""
        if name not in self._failures:
            self._failures[name] = self._failed(self._columns.failures[name])
        return self._failures[name]

    def _failed(self, sites: Sequence[Expression]) -> Numbers | None:
        found = [
            self._evaluator.holds(site) if isinstance(site, Column) else self._evaluator.failed_at(site)
            for site in sites
        ]
        failed = [one for one in found if one is not None]
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

    Every row is counted once: in the groups of the first relation, if that is what `first_counts` says and it
    takes the row, and otherwise by its verdict alone. `firsts` tells the number of the first fragment of each
    relation, when all have been found.
    """

    def grouped(index: int) -> tuple[Rows, pa.Table]:
        taken, fragments = rows.in_fragments(relations[index])
        counts = index == 0 and first_counts
        return taken, _groups(rows, relations[index], taken, fragments, counts=counts)

    many = len(rows) * len(relations) > _WORTH_THREADS
    found = side_by_side(grouped, range(len(relations)), worth=many)
    names = rows.names
    tables = [_numbered(one, names.fragment, first) for (_, one), first in zip(found, firsts(), strict=True)]
    uncounted = np.ones(len(rows), dtype=bool)
    if first_counts:
        uncounted[found[0][0]] = False
    counting = {names.fragment, names.rows, names.oldest, names.newest, names.read}
    counting |= {*names.failed_tests, *names.failed_values}
    counts = [one.select([name for name in one.column_names if name in counting]) for one in tables]
    counts.append(_rest(rows, np.flatnonzero(uncounted)))
    whole = pa.concat_tables(counts, promote_options="default")
    return BatchGroups(whole, names.fragment, names.rows, tables)


def _numbered(groups: pa.Table, fragment: str, first: int) -> pa.Table:
    """Return a relation's groups with its fragments numbered among those of all relations."""
    numbers = np.asarray(groups[fragment]) + np.int32(first)
    return groups.set_column(groups.column_names.index(fragment), fragment, pa.array(numbers))


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
        rows.names.fragment: pa.array(fragments[own.firsts].astype(np.int32)),
        rows.names.slice: pa.array(starts[moment[own.firsts]]),
        rows.names.rows: pa.array(groups.sizes),
    }
    for slot, key in relation.keys:
        columns[slot.name] = rows.key(key).take(pa.array(groups.firsts))
    for slot, value in relation.values:
        found = lifted(slot.lifts, rows.values(value), groups)
        columns |= dict(zip(slot.fields(), found, strict=True))
    if counts:
        columns |= _counted(rows, groups)
    columns |= {name: _failures(rows, name, groups) for name in rows.names.failed_values}
    return pa.table(columns)


def _rest(rows: RowTable, left: Rows) -> pa.Table:
    """Return groups that only count rows: one for each verdict, and one for good rows that nobody counts."""
    own = _sorted(rows.verdicts[left] - int(rows.verdicts.min(initial=0)))
    groups = Groups(left[own.order], own.begins)
    columns = {
        rows.names.fragment: pa.array(rows.verdicts[groups.firsts].astype(np.int32)),
        rows.names.rows: pa.array(groups.sizes),
        **_counted(rows, groups),
        **{name: pa.array(np.zeros(len(groups.begins), dtype=np.int64)) for name in rows.names.failed_values},
    }
    return pa.table(columns)


def _counted(rows: RowTable, groups: Groups) -> dict[str, pa.Array]:
    """Return what is counted once for each row of the stream."""
    times, names = rows.times[groups.order], rows.names
    columns = {
        names.oldest: pa.array(np.minimum.reduceat(times, groups.begins)),
        names.newest: pa.array(np.maximum.reduceat(times, groups.begins)),
    }
    first = rows.first_copies
    columns[names.read] = pa.array(groups.sizes if first is None else groups.added(first))
    for name in names.failed_tests:
        columns[name] = _failures(rows, name, groups, first)
    return columns


def _failures(rows: RowTable, name: str, groups: Groups, counted: Numbers | None = None) -> pa.Array:
    failed = rows.failures(name)
    if failed is None:
        return pa.array(np.zeros(len(groups.begins), dtype=np.int64))
    return pa.array(groups.added(failed if counted is None else failed * counted))


def _codes(
    rows: RowTable, relation: FoldedRelation, taken: Rows, slices: Numbers, fragments: Numbers
) -> Numbers:
    """Return slice, keys and fragment of each row that is taken, as one number."""
    parts = [(one, int(one.max(initial=0)) + 1) for one in (slices, fragments)]
    for _, key in relation.keys:
        codes, distinct = rows.codes(key)
        parts.append((codes[taken], distinct))
    whole, size = np.zeros(len(taken), dtype=np.int64), 1
    for codes, distinct in parts:
        if size * distinct >= _MOST_CODES:
            _, whole = np.unique(whole, return_inverse=True)
            size = len(taken) + 1
        if size * distinct >= _MOST_CODES:
            _, codes = np.unique(codes, return_inverse=True)
            distinct = len(taken) + 1
        whole, size = whole * distinct + codes, size * distinct
    return whole


def _sorted(codes: Numbers) -> Groups:
    """Return equal codes side by side."""
    bits = len(codes).bit_length()
    if int(codes.max(initial=0)) << bits < _MOST_CODES:
        # Numbers that carry their own place sort several times as fast as places do by their numbers.
        packed = np.sort((codes << bits) | np.arange(len(codes)))
        order, codes = packed & ((1 << bits) - 1), packed >> bits
    else:
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
    changes = np.ones(len(codes), dtype=bool)
    np.not_equal(codes[1:], codes[:-1], out=changes[1:])
    return Groups(order, np.flatnonzero(changes))
