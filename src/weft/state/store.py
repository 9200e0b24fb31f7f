"""The partials of one grouping, back to the oldest window still open.

A grouping is what queries with the same joins and keys have in common. Its partials are kept by shard: by
slice, key and fragment (STS 5).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import Partial, Primitive, combine, concatenate, empty
from weft.predicates import Formula
from weft.state.groups import GroupIndex
from weft.state.signatures import Fragments, Signatures

Times = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Rows = npt.NDArray[np.intp]
_FORGET_GROUPS_FROM = 10_000
"""Below so many keys or fragments, forgetting some is not worth the renumbering."""
_CODES = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The partials of a relation that one batch gave."""

    starts: Times
    """The start of each row's slice, in microseconds."""
    keys: pa.Table
    fragments: Numbers
    """Each row's fragment, as a row of the signatures."""
    signatures: Signatures
    partials: dict[Primitive, Partial]
    rows: int = 0
    """How many rows were aggregated into it."""

    def __len__(self) -> int:
        return len(self.starts)

    def since(self, start: int) -> "Block":
        """Return the part whose slices begin at a time or later."""
        kept = np.flatnonzero(self.starts >= start)
        if len(kept) == len(self):
            return self
        return replace(
            self,
            starts=self.starts[kept],
            keys=self.keys.take(kept) if self.keys.num_columns else self.keys.slice(0, len(kept)),
            fragments=self.fragments[kept],
            partials={one: partial.take(kept) for one, partial in self.partials.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Partials by shard, each shard once, sorted by slice, then key, then fragment."""

    start: Times
    key: Numbers
    fragment: Numbers
    partials: dict[Primitive, Partial]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Rows) -> "Run":
        """Return the given rows, in that order."""
        return Run(
            start=self.start[rows], key=self.key[rows], fragment=self.fragment[rows],
            partials={one: partial.take(rows) for one, partial in self.partials.items()},
        )  # fmt: skip

    def since(self, start: int) -> "Run":
        """Return what begins at a time or later, without the rest's memory if that is much."""
        cut = int(np.searchsorted(self.start, start))
        if cut > len(self) // 2:
            return self.take(np.arange(cut, len(self)))
        return Run(
            start=self.start[cut:], key=self.key[cut:], fragment=self.fragment[cut:],
            partials={one: _between(partial, slice(cut, None)) for one, partial in self.partials.items()},
        )  # fmt: skip

    def partial(self, primitive: Primitive) -> Partial:
        """Return a primitive's partials, empty where nobody had asked for it."""
        # What was aggregated before anyone asked for a primitive is in no window of those who ask.
        found = self.partials.get(primitive)
        return empty(primitive, len(self)) if found is None else found


class RelationState:
    """Merge blocks of all relations and plans into shards.

    A slice is known by its start alone. Since every block's edges include those of every window that it
    answers, a slice that starts in a window lies within it. A fragment is known by its signature alone: the
    predicates of relations are disjoint, so a row counts once for each predicate. So blocks mix freely.

    Blocks become runs, and no shard is in two of them: a new block's partials are added to those of shards
    already there. Runs are joined when the newer is not much the smaller: each row is moved a logarithmic
    number of times.
    """

    def __init__(self, key_types: Sequence[pa.DataType]) -> None:
        self.groups = GroupIndex(key_types)
        self.fragments = Fragments()
        self._runs: list[Run] = []
        self._fresh: list[Block] = []
        self._evicted = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + sum(map(len, self._fresh))

    def add(self, block: Block) -> None:
        """Take in a batch's partials."""
        if len(block):
            self._fresh.append(block)

    def keep(self, primitives: Iterable[Primitive], predicates: Iterable[Formula]) -> None:
        """Forget the partials of all other primitives, and shards that satisfy none of the predicates."""
        self.settle()
        wanted = set(primitives)
        for run in self._runs:
            for primitive in run.partials.keys() - wanted:
                del run.partials[primitive]
        if self.fragments.keep(predicates):
            dead = self.fragments.empty()
            self._runs = [_without(run, dead[run.fragment]) for run in self._runs]
            self._forget()

    def starts(self) -> Times:
        """Return the distinct slice starts."""
        self.settle()
        several = [run.start[_changes(run.start)] for run in self._runs]
        if len(several) == 1:
            return several[0]
        # Of runs in order, sorting is several times as fast as np.unique.
        merged = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *several]), kind="stable")
        return merged[_changes(merged)]

    def runs(self) -> Sequence[Run]:
        """Return everything, with each shard in one place."""
        self.settle()
        return self._runs

    def by_key(self, since: int, until: int) -> "ShardsByKey":
        """Return the shards whose slices start in a span of time, by key, then slice, then fragment."""
        self.settle()
        spans = [(run, slice(*np.searchsorted(run.start, [since, until]).tolist())) for run in self._runs]
        spans = [(run, rows) for run, rows in spans if rows.start < rows.stop]
        shards = [_shards(run, rows) for run, rows in spans]
        return ShardsByKey(_joined(shards, ()), spans)

    def snapshot(self) -> list[Block]:
        """Return everything as blocks, from which another state can be made."""
        predicates = tuple(self.fragments.predicates)
        bits = self.fragments.bits(predicates, np.arange(len(self.fragments))).T
        signatures = Signatures(predicates=predicates, bits=np.ascontiguousarray(bits))
        return [
            Block(
                starts=run.start,
                keys=self.groups.values(run.key.astype(np.int64)),
                fragments=run.fragment,
                signatures=signatures,
                partials=run.partials,
            )
            for run in self.runs()
        ]

    def settle(self) -> None:
        """Merge what came since the last time."""
        if not self._fresh:
            return
        blocks, self._fresh = self._fresh, []
        run = _sorted(_joined([self._numbered(block) for block in blocks]))
        for older in self._runs:
            run = _added(older, run)
        if len(run):
            self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs[-2:] = [_sorted(_joined(self._runs[-2:]))]

    def _numbered(self, block: Block) -> Run:
        key = self.groups.ids(block.keys).astype(np.int32)
        fragment = self.fragments.ids(block.signatures)[block.fragments]
        run = Run(start=block.starts, key=key, fragment=fragment, partials=block.partials)
        return _without(run, self.fragments.empty()[fragment])

    def evict(self, before_us: int) -> None:
        """Forget slices that no open or future window holds."""
        if any(run.start[0] < before_us for run in self._runs):
            rows = sum(map(len, self._runs))
            kept = [run.since(before_us) if run.start[0] < before_us else run for run in self._runs]
            self._runs = [run for run in kept if len(run)]
            self._evicted += rows - sum(map(len, self._runs))
            if self._evicted >= sum(map(len, self._runs)):
                self._forget()
        self._fresh = [block for block in self._fresh if block.starts.max() >= before_us]

    def _forget(self) -> None:
        """Forget keys and fragments that no shard has, once they are many."""
        self._evicted = 0
        self._runs = [run for run in self._runs if len(run)]
        keys = _used([run.key for run in self._runs], len(self.groups))
        if len(self.groups) > max(_FORGET_GROUPS_FROM, 2 * len(keys)):
            renamed = np.zeros(len(self.groups), dtype=np.int32)
            renamed[keys] = self.groups.keep(keys)
            self._renumber(keys=renamed)
        fragments = _used([run.fragment for run in self._runs], len(self.fragments))
        if len(self.fragments) > max(_FORGET_GROUPS_FROM, 2 * len(fragments)):
            renamed = np.zeros(len(self.fragments), dtype=np.int32)
            renamed[fragments] = np.arange(len(fragments))
            self.fragments.forget(fragments)
            self._renumber(fragments=renamed)

    def _renumber(self, *, keys: Numbers | None = None, fragments: Numbers | None = None) -> None:
        for place, run in enumerate(self._runs):
            key = run.key if keys is None else keys[run.key]
            fragment = run.fragment if fragments is None else fragments[run.fragment]
            renamed = Run(start=run.start, key=key, fragment=fragment, partials=run.partials)
            self._runs[place] = _sorted(_joined([renamed]))


class ShardsByKey:
    """Shards sorted by key, then slice, then fragment; their partials are gathered when asked for."""

    def __init__(self, shards: Run, spans: Sequence[tuple[Run, slice]]) -> None:
        order = _order(_codes(shards, key_first=True)[0])[0]
        self.start, self.key, self.fragment = shards.start[order], shards.key[order], shards.fragment[order]
        self._order, self._spans = order, spans
        self._gathered: dict[Primitive, Partial] = {}

    def __len__(self) -> int:
        return len(self.start)

    def partial(self, primitive: Primitive) -> Partial:
        """Return a primitive's partials for all shards."""
        gathered = self._gathered.get(primitive)
        if gathered is None:
            parts = [_between(run.partial(primitive), rows) for run, rows in self._spans]
            gathered = self._gathered[primitive] = concatenate(parts).take(self._order)
        return gathered


def _between(partial: Partial, rows: slice) -> Partial:
    valid = None if partial.valid is None else partial.valid[rows]
    return Partial(tuple(field[rows] for field in partial.fields), valid, partial.types)


def _without(run: Run, dead: npt.NDArray[np.bool_]) -> Run:
    return run.take(np.flatnonzero(~dead)) if dead.any() else run


def _used(several: Sequence[Numbers], size: int) -> Rows:
    found = np.zeros(size, dtype=bool)
    for numbers in several:
        found[numbers] = True
    return np.flatnonzero(found)


def _changes(values: Times) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before it."""
    changes = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def _joined(runs: Sequence[Run], primitives: Sequence[Primitive] | None = None) -> Run:
    """Return the rows of all runs one after the other, as a copy."""
    if primitives is None:
        primitives = tuple(dict.fromkeys(one for run in runs for one in run.partials))
    none = np.empty(0, dtype=np.int32)
    return Run(
        start=np.concatenate([np.empty(0, dtype=np.int64), *(run.start for run in runs)]),
        key=np.concatenate([none, *(run.key for run in runs)]),
        fragment=np.concatenate([none, *(run.fragment for run in runs)]),
        partials={
            one: concatenate([run.partial(one) for run in runs] or [empty(one, 0)]) for one in primitives
        },
    )  # fmt: skip


def _codes(*runs: Run, key_first: bool = False) -> list[Times]:
    """Return each shard as one number, in the order of runs: slice, key, fragment; or with the key first."""
    starts = np.concatenate([run.start for run in runs])
    keys = np.concatenate([run.key for run in runs]).astype(np.int64)
    fragments = np.concatenate([run.fragment for run in runs]).astype(np.int64)
    # Edges are whole milliseconds; what is not is ranked like what would not fit.
    slices, rest = np.divmod(starts - int(starts.min(initial=_CODES - 1)), 1000)
    if rest.any():
        slices = np.unique(starts, return_inverse=True)[1]
    high, low = (keys, slices) if key_first else (slices, keys)
    low = low * (int(fragments.max(initial=0)) + 1) + fragments
    if (int(high.max(initial=0)) + 1) * (int(low.max(initial=0)) + 1) >= _CODES:
        high, low = (np.unique(numbers, return_inverse=True)[1] for numbers in (high, low))
    codes = high * (int(low.max(initial=0)) + 1) + low
    return np.split(codes, np.cumsum([len(run) for run in runs])[:-1])


def _sorted(run: Run) -> Run:
    """Return the run with its rows in order, and those of one shard merged."""
    (codes,) = _codes(run)
    if not (codes[1:] > codes[:-1]).all():
        order, codes = _order(codes)
        run = run.take(order)
        lo = np.flatnonzero(_changes(codes))
        if len(lo) < len(run):
            hi = np.append(lo[1:], len(run))
            merged = {one: combine(one, partial, lo, hi) for one, partial in run.partials.items()}
            run = Run(start=run.start[lo], key=run.key[lo], fragment=run.fragment[lo], partials=merged)
    return run


def _order(codes: Times) -> tuple[Rows, Times]:
    """Return the order of the codes, and the codes in order."""
    bits = len(codes).bit_length()
    if int(codes.max(initial=0)) << bits < _CODES:
        # Numbers that carry their own place sort several times as fast as places do by their numbers.
        packed = np.sort((codes << bits) | np.arange(len(codes)))
        return packed & ((1 << bits) - 1), packed >> bits
    order = np.argsort(codes, kind="stable")
    return order, codes[order]


def _added(older: Run, newer: Run) -> Run:
    """Add to the older run the partials of shards that it has; return the rest of the newer one."""
    if not len(older) or not len(newer):
        return newer
    first, last = max(older.start[0], newer.start[0]), min(older.start[-1], newer.start[-1])
    if first > last:
        return newer
    spans = [np.searchsorted(run.start, [first, last + 1]) for run in (older, newer)]
    (left, right) = (_shards(run, slice(*span)) for run, span in zip((older, newer), spans, strict=True))
    if not len(left) or not len(right):
        return newer
    known, asked = _codes(left, right)
    places = np.searchsorted(known, asked)
    found = np.flatnonzero(known[np.minimum(places, len(known) - 1)] == asked)
    if not len(found):
        return newer
    taken = found + spans[1][0]
    _merge_into(older, places[found] + spans[0][0], newer.take(taken))
    rest = np.ones(len(newer), dtype=bool)
    rest[taken] = False
    return newer.take(np.flatnonzero(rest))


def _shards(run: Run, rows: slice) -> Run:
    return Run(start=run.start[rows], key=run.key[rows], fragment=run.fragment[rows], partials={})


def _merge_into(older: Run, rows: Rows, newer: Run) -> None:
    """Combine given rows of a run, in place, with those of another."""
    lo = np.arange(0, 2 * len(rows), 2)
    pairs = np.arange(2 * len(rows)).reshape(2, -1).T.ravel()
    for primitive, added in newer.partials.items():
        partial = older.partials.setdefault(primitive, older.partial(primitive))
        both = concatenate([partial.take(rows), added]).take(pairs)
        merged = combine(primitive, both, lo, lo + 2)
        for field, values in zip(partial.fields, merged.fields, strict=True):
            field[rows] = values
        if partial.valid is not None:
            partial.valid[rows] = merged.valid_mask()
