"""Partials by shard, in order: how blocks become runs, and how runs are merged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.aggregates import Bags, Partial, Primitive, combine, concatenate, empty, merged
from weft.arrays import Bools, Ids, Rows, Times, as_one, changes, in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRun:
    """Partials by shard, each shard once, sorted by slice, then key, then fragment."""

    start: Times
    key: Ids
    fragment: Ids
    partials: dict[Primitive, Partial]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Rows) -> "SortedRun":
        """Return the given rows, in that order."""
        return SortedRun(
            start=self.start[rows], key=self.key[rows], fragment=self.fragment[rows],
            partials={primitive: partial.take(rows) for primitive, partial in self.partials.items()},
        )  # fmt: skip

    def since(self, start: int) -> "SortedRun":
        """Return what begins at a time or later; the memory of the rest is freed if that is much."""
        cut = int(np.searchsorted(self.start, start))
        if cut > len(self) // 2:
            return self.take(np.arange(cut, len(self)))
        return SortedRun(
            start=self.start[cut:], key=self.key[cut:], fragment=self.fragment[cut:],
            partials={
                primitive: between(partial, slice(cut, None)) for primitive, partial in self.partials.items()
            },
        )  # fmt: skip

    def partial(self, primitive: Primitive) -> Partial:
        """Return a primitive's partials; empty ones if none were kept."""
        # No window of a query that needs the primitive holds rows from before it was kept.
        partial = self.partials.get(primitive)
        return empty(primitive, len(self)) if partial is None else partial


class ShardsByKey:
    """Shards sorted by key, then slice, then fragment; their partials are gathered when asked for."""

    def __init__(self, start: Times, key: Ids, fragment: Ids, gather: Callable[[Primitive], Partial]) -> None:
        self.start, self.key, self.fragment = start, key, fragment
        self._gather = gather
        self._gathered: dict[Primitive, Partial] = {}

    def __len__(self) -> int:
        return len(self.start)

    def partial(self, primitive: Primitive) -> Partial:
        """Return a primitive's partials for all shards."""
        if primitive not in self._gathered:
            self._gathered[primitive] = self._gather(primitive)
        return self._gathered[primitive]

    def satisfying(self, fragments: Bools) -> "ShardsByKey":
        """Return the shards of some fragments, those of one key and slice merged."""
        rows = np.flatnonzero(fragments[self.fragment])
        new = changes(self.key[rows])
        new[1:] |= changes(self.start[rows])[1:]
        lo = np.flatnonzero(new)
        hi = np.append(lo[1:], len(rows))

        def gather(primitive: Primitive) -> Partial:
            return combine(primitive, self.partial(primitive).take(rows), lo, hi)

        first = rows[lo]
        return ShardsByKey(self.start[first], self.key[first], self.fragment[first], gather)


def shards_by_key(runs: Sequence[SortedRun], since: int, until: int) -> ShardsByKey:
    """Return the shards whose slices start in a span of time, by key, then slice, then fragment."""
    spans = [(run, slice(*np.searchsorted(run.start, [since, until]).tolist())) for run in runs]
    spans = [(run, rows) for run, rows in spans if rows.start < rows.stop]
    shards = joined([shards_only(run, rows) for run, rows in spans], ())
    order = in_order(shard_codes(shards, key_first=True)[0])[0]

    def gather(primitive: Primitive) -> Partial:
        return concatenate([between(run.partial(primitive), rows) for run, rows in spans]).take(order)

    return ShardsByKey(shards.start[order], shards.key[order], shards.fragment[order], gather)


def distinct_starts(runs: Sequence[SortedRun]) -> Times:
    """Return the distinct starts of slices, in order."""
    starts = [run.start[changes(run.start)] for run in runs]
    if len(starts) == 1:
        return starts[0]
    # Of runs in order, sorting is several times as fast as np.unique.
    merged = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *starts]), kind="stable")
    return merged[changes(merged)]


def between(partial: Partial, rows: slice) -> Partial:
    """Return partials of rows that follow each other, without a copy."""
    valid = None if partial.valid is None else partial.valid[rows]
    return Partial(tuple(field[rows] for field in partial.fields), valid, partial.types)


def without(run: SortedRun, dead: npt.NDArray[np.bool_]) -> SortedRun:
    """Return a run less some rows."""
    return run.take(np.flatnonzero(~dead)) if dead.any() else run


def used_numbers(columns: Sequence[Ids], size: int) -> Rows:
    """Return the numbers below a size that occur in any of the columns."""
    used = np.zeros(size, dtype=bool)
    for numbers in columns:
        used[numbers] = True
    return np.flatnonzero(used)


def joined(runs: Sequence[SortedRun], primitives: Sequence[Primitive] | None = None) -> SortedRun:
    """Return the rows of all runs one after the other, as a copy."""
    if primitives is None:
        primitives = tuple(dict.fromkeys(primitive for run in runs for primitive in run.partials))
    no_numbers = np.empty(0, dtype=np.int32)
    return SortedRun(
        start=np.concatenate([np.empty(0, dtype=np.int64), *(run.start for run in runs)]),
        key=np.concatenate([no_numbers, *(run.key for run in runs)]),
        fragment=np.concatenate([no_numbers, *(run.fragment for run in runs)]),
        partials={
            primitive: concatenate([run.partial(primitive) for run in runs] or [empty(primitive, 0)])
            for primitive in primitives
        },
    )  # fmt: skip


def shard_codes(*runs: SortedRun, key_first: bool = False) -> list[Times]:
    """Return each shard as one number, in the order of runs: slice, key, fragment; or with the key first."""
    starts = np.concatenate([run.start for run in runs])
    keys = np.concatenate([run.key for run in runs])
    fragments = np.concatenate([run.fragment for run in runs])
    # Edges are whole milliseconds; other starts are replaced by their ranks.
    slices, rest = np.divmod(starts - int(starts.min(initial=np.iinfo(np.int64).max)), 1000)
    if rest.any():
        slices = np.unique(starts, return_inverse=True)[1]
    first, second = (keys, slices) if key_first else (slices, keys)
    codes = as_one((first, second, fragments), len(starts))
    return np.split(codes, np.cumsum([len(run) for run in runs])[:-1])


def merged_in_order(run: SortedRun) -> SortedRun:
    """Return the run with its rows in order, and those of one shard merged."""
    (codes,) = shard_codes(run)
    if not (codes[1:] > codes[:-1]).all():
        order, codes = in_order(codes)
        run = run.take(order)
        lo = np.flatnonzero(changes(codes))
        if len(lo) < len(run):
            hi = np.append(lo[1:], len(run))
            partials = {own: merged(own, partial, lo, hi) for own, partial in run.partials.items()}
            run = SortedRun(
                start=run.start[lo], key=run.key[lo], fragment=run.fragment[lo], partials=partials
            )
    return run


def added_to(older: SortedRun, newer: SortedRun) -> SortedRun:
    """Add to the older run the partials of shards that it has; return the rest of the newer one."""
    if not len(older) or not len(newer):
        return newer
    first, last = max(older.start[0], newer.start[0]), min(older.start[-1], newer.start[-1])
    if first > last:
        return newer
    spans = [np.searchsorted(run.start, [first, last + 1]) for run in (older, newer)]
    (left, right) = (shards_only(run, slice(*span)) for run, span in zip((older, newer), spans, strict=True))
    if not len(left) or not len(right):
        return newer
    known, asked = shard_codes(left, right)
    indices = np.searchsorted(known, asked)
    common = np.flatnonzero(known[np.minimum(indices, len(known) - 1)] == asked)
    if not len(common):
        return newer
    taken = common + spans[1][0]
    _merge_into(older, indices[common] + spans[0][0], newer.take(taken))
    rest = np.ones(len(newer), dtype=bool)
    rest[taken] = False
    return newer.take(np.flatnonzero(rest))


def shards_only(run: SortedRun, rows: slice) -> SortedRun:
    """Return rows that follow each other, without their partials."""
    return SortedRun(start=run.start[rows], key=run.key[rows], fragment=run.fragment[rows], partials={})


def replaced(partial: Partial, rows: Rows, others: Partial) -> Partial:
    """Return partials with others in some rows: in place, where each is a value of fixed size."""
    if isinstance(partial.fields[0], Bags):
        index = np.arange(len(partial))
        index[rows] = np.arange(len(others)) + len(partial)
        return concatenate([partial, others]).take(index)
    for field, values in zip(partial.fields, others.fields, strict=True):
        field[rows] = values
    if partial.valid is not None:
        partial.valid[rows] = others.valid_mask()
    return partial


def _merge_into(older: SortedRun, rows: Rows, newer: SortedRun) -> None:
    """Combine given rows of a run, in place, with those of another."""
    lo = np.arange(0, 2 * len(rows), 2)
    pairs = np.arange(2 * len(rows)).reshape(2, -1).T.ravel()
    for primitive, added in newer.partials.items():
        partial = older.partials.setdefault(primitive, older.partial(primitive))
        both = concatenate([partial.take(rows), added]).take(pairs)
        older.partials[primitive] = replaced(partial, rows, merged(primitive, both, lo, lo + 2))
