"""Fold a batch's rows into the groups of every relation, in the driver.

Where a batch has few rows, or nearly as many groups as copies of rows, it does not pay that Spark repeats
each row for every relation, sends the copies through a shuffle and hands over groups that are more than the
rows were. Then rows come to the driver once, with their positions in every attribute, and are grouped here:
sorted by one number a row, and aggregated over stretches of equal numbers.

    row        time, verdict, positions, keys, values                      one Spark stage, no shuffle
    relation   its rows ─(slice, keys, fragment) as one number, sorted→ stretches ─aggregate→ groups

The result is the table that Spark's own grouping would give (weft.spark.job), but for the order in which
doubles are added up; and slices start at their edges.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.spark.cells import Cells
from weft.spark.layout import Slot
from weft.spark.lifting import Groups, Numbers, Rows, Values, lifted

_MOST_CODES = 1 << 62
_MICROSECONDS = 1000
_LATEST = np.iinfo(np.int64).max


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
    """Of both: where a predicate failed, and how often; a row counts once."""
    failed_values: tuple[str, ...]
    """Of both: where a key or an aggregate's argument failed, and how often; each copy of a row counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedRelation:
    """What is grouped and aggregated for one relation, by the names of columns."""

    fragments: str | Cells
    """The column of each row's fragment, or of the list of its fragments; or how the driver finds it."""
    taken: str | None
    """The column that says whether the relation takes a row, unless the fragments say so."""
    first: int
    """The number of the relation's first fragment; what is less stands for none."""
    starts: Callable[[Numbers], Numbers]
    """From times to the starts of their slices."""
    keys: tuple[tuple[str, str], ...]
    """Columns of groups, and the columns of rows that they are made of."""
    values: tuple[tuple[Slot, str], ...]
    """Where aggregates are kept, and the columns of rows that they are made of."""


class RowTable:
    """A batch's rows, and what relations ask of them, found out once."""

    def __init__(self, rows: pa.Table, names: Names) -> None:
        self._rows, self.names = rows, names
        self._codes: dict[str, tuple[Numbers, int]] = {}
        self._keys: dict[str, pa.Array] = {}
        self._values: dict[str, Values] = {}
        self.times: Numbers = np.asarray(pc.fill_null(rows[names.time], 0))
        self.verdicts: Numbers = np.asarray(pc.fill_null(rows[names.verdict], 0)).astype(np.int64)
        """0 for good rows."""
        self._is_good = self.verdicts == 0

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self._rows[name]

    def key(self, name: str) -> pa.Array:
        """Return a key's values as Spark groups them: there is one zero."""
        if name not in self._keys:
            column = self[name].combine_chunks()
            floats = pa.types.is_floating(column.type)
            self._keys[name] = pc.add(column, pa.scalar(0.0, column.type)) if floats else column
        return self._keys[name]

    def codes(self, key: str) -> tuple[Numbers, int]:
        """Return a small number for each row's value of a key, and how many there are."""
        if key not in self._codes:
            encoded = self.key(key).dictionary_encode(null_encoding="encode")
            self._codes[key] = np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)
        return self._codes[key]

    def values(self, slot: Slot, name: str) -> Values:
        """Return a column that is aggregated."""
        if name not in self._values:
            self._values[name] = Values(self[name], slot.type)
        return self._values[name]

    def in_fragments(self, relation: FoldedRelation) -> tuple[Rows, Numbers]:
        """Return the good rows that a relation takes, once for each of their fragments, and these."""
        rows, numbers = self._fragments(relation)
        taken = numbers >= relation.first
        taken &= self._is_good[rows]
        if relation.taken is not None:
            taken &= np.asarray(pc.fill_null(self[relation.taken], False))[rows]
        return rows[taken], numbers[taken]

    def _fragments(self, relation: FoldedRelation) -> tuple[Rows, Numbers]:
        rows = np.arange(len(self))
        if isinstance(relation.fragments, Cells):
            return rows, np.broadcast_to(relation.fragments.look_up(self.__getitem__), len(self))
        column = self[relation.fragments].combine_chunks()
        if not pa.types.is_list(column.type):
            return rows, np.asarray(pc.fill_null(column, relation.first - 1)).astype(np.int64)
        parents = np.asarray(pc.list_parent_indices(column)).astype(np.intp)
        return parents, np.asarray(pc.list_flatten(column)).astype(np.int64)


def fold(rows: RowTable, relations: Sequence[FoldedRelation], *, first_counts: bool) -> pa.Table:
    """Return the groups of all relations, one after the other.

    Every row is counted once: in the groups of the first relation, if that is what `first_counts` says and it
    takes the row, and otherwise by its verdict alone.
    """
    tables = []
    uncounted = np.ones(len(rows), dtype=bool)
    for index, relation in enumerate(relations):
        taken, fragments = rows.in_fragments(relation)
        counts = index == 0 and first_counts
        if counts:
            uncounted[taken] = False
        tables.append(_groups(rows, relation, taken, fragments, counts=counts))
    return pa.concat_tables([*tables, _rest(rows, np.flatnonzero(uncounted))], promote_options="default")


def _groups(
    rows: RowTable, relation: FoldedRelation, taken: Rows, fragments: Numbers, *, counts: bool
) -> pa.Table:
    """Return the groups of one relation."""
    starts = relation.starts(rows.times[taken])
    own = _sorted(_codes(rows, relation, taken, starts, fragments - relation.first))
    groups = Groups(taken[own.order], own.begins)
    columns: dict[str, pa.Array] = {
        rows.names.fragment: pa.array(fragments[own.firsts].astype(np.int32)),
        rows.names.slice: pa.array(starts[own.firsts]),
        rows.names.rows: pa.array(groups.sizes),
    }
    for own_name, name in relation.keys:
        columns[own_name] = rows.key(name).take(pa.array(groups.firsts))
    for slot, name in relation.values:
        found = lifted(slot.lifts, rows.values(slot, name), groups)
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
    first = None if names.first_copy is None else np.asarray(rows[names.first_copy]).astype(np.int64)
    columns[names.read] = pa.array(groups.sizes if first is None else groups.added(first))
    for name in names.failed_tests:
        columns[name] = _failures(rows, name, groups)
    return columns


def _failures(rows: RowTable, name: str, groups: Groups) -> pa.Array:
    if rows[name].null_count == len(rows):
        return pa.array(np.zeros(len(groups.begins), dtype=np.int64))
    return pa.array(groups.added(np.asarray(pc.is_valid(rows[name])).astype(np.int64)))


def _codes(
    rows: RowTable, relation: FoldedRelation, taken: Rows, starts: Numbers, fragments: Numbers
) -> Numbers:
    """Return slice, keys and fragment of each row that is taken, as one number."""
    # Edges are whole milliseconds.
    places = (starts - starts.min(initial=_LATEST)) // _MICROSECONDS
    parts = [(places, int(places.max(initial=0)) + 1), (fragments, int(fragments.max(initial=0)) + 1)]
    for _, name in relation.keys:
        codes, distinct = rows.codes(name)
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
