"""Partials of one grouping in the driver's memory, by shard: by slice, key and fragment (STS 5)."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from weft.aggregates import Primitive
from weft.arrays import Bools, Ids, Rows, Times
from weft.predicates import Formula
from weft.state.groups import GroupIndex
from weft.state.signatures import Fragments
from weft.state.sorted_runs import (
    SortedRun,
    added_to,
    distinct_starts,
    joined,
    merged_in_order,
    used_numbers,
    without,
)
from weft.state.store import Block, Combined, DueWindows, GroupQuestion
from weft.state.ways import Kept, answers

_FORGET_GROUPS_FROM = 10_000
"""Number of keys or fragments below which forgetting some is not worth the renumbering."""


class DriverStore:
    """Merge blocks of all relations and plans into shards.

    A slice is known by its start alone. Since every block's edges include those of every window that it
    answers, a slice that starts in a window lies within it. A fragment is known by its signature alone: the
    predicates of relations are disjoint, so a row counts once for each predicate. So blocks mix freely.

    Blocks become sorted runs, and no shard is in two of them: a new block's partials are added to those of
    known shards. Runs are merged when the newer is not much smaller: each row is moved a logarithmic number
    of times.
    """

    def __init__(self, key_types: Sequence[pa.DataType]) -> None:
        self.groups = GroupIndex(key_types)
        self.fragments = Fragments()
        self._runs: list[SortedRun] = []
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
            self._runs = [without(run, dead[run.fragment]) for run in self._runs]
            self._forget()

    def starts(self) -> Times:
        """Return the distinct starts of the slices that are kept, in order, in microseconds."""
        return distinct_starts(self.runs())

    def runs(self) -> Sequence[SortedRun]:
        """Return all runs, with each shard in one of them."""
        self.settle()
        return self._runs

    def answer(
        self,
        due: DueWindows,
        asks: Rows,
        predicates: Sequence[Formula],
        primitives: Sequence[tuple[Primitive, ...]],
    ) -> Iterator[tuple[Rows, Combined]]:
        """Yield combined partials of the due windows of some asks, in pieces of bounded size."""
        kept = Kept(runs=self.runs(), fragments=self.fragments, keys=len(self.groups), starts=self.starts())
        return answers(kept, due, asks, predicates, primitives)

    def keys(self, numbers: Rows) -> pa.Table:
        """Return the keys of groups."""
        return self.groups.values(numbers)

    def groups_over(self, limit: int, questions: Iterable[tuple[int, GroupQuestion]]) -> dict[int, int]:
        """Return the questions, by number, that have more groups than a limit, and how many."""
        self.settle()
        if len(self.groups) <= limit:
            return {}
        size = len(self.fragments)
        shards = sum((np.bincount(run.fragment, minlength=size) for run in self._runs), np.zeros(size))
        counts: dict[int, int] = {}
        for number, question in questions:
            satisfied = self.fragments.bits([question.predicate], np.arange(size))[0]
            # Every group has a shard: if these are few, groups need not be counted.
            if shards[satisfied].sum() > limit:
                counts[number] = self._groups(satisfied, question)
        return {number: count for number, count in counts.items() if count > limit}

    def _groups(self, counting: Bools, question: GroupQuestion) -> int:
        """Return how many keys are in a question's windows, and in fragments that count."""
        window = question.window
        range_us, slide_us, offset_us = (
            1000 * length for length in (window.range_ms, window.slide_ms, window.offset_ms)
        )
        held = np.zeros(len(self.groups), dtype=bool)
        for run in self.runs():
            rows = slice(int(np.searchsorted(run.start, question.since)), None)
            # What lies between two windows is in neither.
            inside = (run.start[rows] - offset_us) % slide_us >= slide_us - range_us
            held[run.key[rows][inside & counting[run.fragment[rows]]]] = True
        return int(held.sum())

    def derive(self, predicate: Formula, sources: Sequence[Formula], patterns: Collection[int]) -> None:
        """Let rows satisfy a predicate where the bits of the sources, the first one lowest, are a pattern."""
        self.settle()
        self.fragments.derive(predicate, sources, patterns)

    def snapshot(self) -> list[Block]:
        """Return everything as blocks, from which another state can be made."""
        # Fragments of the latest blocks have numbers only once these are runs.
        runs, signatures = self.runs(), self.fragments.signatures()
        return [
            Block(
                starts=run.start,
                keys=self.groups.values(run.key.astype(np.int64)),
                fragments=run.fragment,
                signatures=signatures,
                partials=run.partials,
            )
            for run in runs
        ]

    def settle(self) -> None:
        """Merge the blocks added since the last time."""
        if not self._fresh:
            return
        blocks, self._fresh = self._fresh, []
        run = merged_in_order(joined([self._numbered(block) for block in blocks]))
        for older in self._runs:
            run = added_to(older, run)
        if len(run):
            self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs[-2:] = [merged_in_order(joined(self._runs[-2:]))]

    def _numbered(self, block: Block) -> SortedRun:
        key = self.groups.ids(block.keys).astype(np.int32)
        fragment = self.fragments.ids(block.signatures)[block.fragments]
        run = SortedRun(start=block.starts, key=key, fragment=fragment, partials=block.partials)
        return without(run, self.fragments.empty()[fragment])

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
        keys = used_numbers([run.key for run in self._runs], len(self.groups))
        if len(self.groups) > max(_FORGET_GROUPS_FROM, 2 * len(keys)):
            renamed = np.zeros(len(self.groups), dtype=np.int32)
            renamed[keys] = self.groups.keep(keys)
            self._renumber(keys=renamed)
        fragments = used_numbers([run.fragment for run in self._runs], len(self.fragments))
        if len(self.fragments) > max(_FORGET_GROUPS_FROM, 2 * len(fragments)):
            renamed = np.zeros(len(self.fragments), dtype=np.int32)
            renamed[fragments] = np.arange(len(fragments))
            self.fragments.forget(fragments)
            self._renumber(fragments=renamed)

    def _renumber(self, *, keys: Ids | None = None, fragments: Ids | None = None) -> None:
        for index, run in enumerate(self._runs):
            key = run.key if keys is None else keys[run.key]
            fragment = run.fragment if fragments is None else fragments[run.fragment]
            renamed = SortedRun(start=run.start, key=key, fragment=fragment, partials=run.partials)
            self._runs[index] = merged_in_order(joined([renamed]))
