"""A state with bags is that of all its rows: merged, evicted, restored from snapshots and checkpoints."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import one_element
from tests.unit.checkpoint_samples import GROUPING, commit, recovered
from tests.unit.state_samples import (
    BAGS,
    COUNT,
    HEATS,
    NAMES,
    TOTAL,
    Asked,
    Row,
    block,
    contents,
    grouped,
    rows,
    shards,
    state_of,
)

from weft.aggregates import Primitive
from weft.durability.checkpoint import Checkpoint
from weft.durability.encoding import StoredBlock, block_bytes
from weft.durability.registry import Registry
from weft.state.driver_store import DriverStore
from weft.state.sorted_runs import SortedRun, added_to
from weft.state.store import Block
from weft.storage import LocalFolder

WITH_BAGS = (COUNT, *BAGS)
NONE = np.empty(0, np.int32)


def bags_of(several: list[Row], *, keyed: bool = True) -> dict[Any, Any]:
    """Return what a state of rows has, from the rows: their number, their names, their heats."""
    return {
        place: (
            (len(group),),
            (Counter(row.name for row in group if row.name is not None),),
            (Counter(one_element(row.x) for row in group if row.x is not None),),
        )
        for place, group in grouped(several, keyed=keyed).items()
    }


@settings(max_examples=60)
@given(rows, st.sets(st.integers(1, 14)), st.randoms(), st.booleans(), st.booleans())
def test_any_cut_into_batches_gives_the_bags_of_all_rows(
    several: list[Row], cuts: set[int], chance: Random, keyed: bool, settling: bool
) -> None:
    shuffled = list(several)
    chance.shuffle(shuffled)
    state = state_of(keyed=keyed)
    for begin, end in pairwise([0, *sorted(cut for cut in cuts if cut < len(several)), len(several)]):
        state.add(block(shuffled[begin:end], WITH_BAGS, keyed=keyed))
        if settling:
            state.settle()
    wanted = bags_of(several, keyed=keyed)
    assert contents(state) == wanted
    taken = state.snapshot()
    assert contents(state_of(*taken, keyed=keyed)) == wanted
    assert contents(state_of(*(stored(one) for one in taken), keyed=keyed)) == wanted


def stored(before: Block) -> Block:
    """Return a block as it comes back from a file."""
    found = StoredBlock("block/0", block_bytes(GROUPING, before, "book"))
    return found.block(WITH_BAGS, before.signatures)


@settings(max_examples=60)
@given(st.lists(st.tuples(rows, st.booleans(), st.sampled_from(("settle", "evict", ""))), max_size=6))
def test_blocks_without_bags_are_mixed_with_others(steps: list[tuple[list[Row], bool, str]]) -> None:
    """A query that needs a bag comes and goes: what blocks lack is empty."""
    state, kept = state_of(), []
    for number, (several, bagged, step) in enumerate(steps):
        state.add(block(several, WITH_BAGS if bagged else (COUNT, TOTAL)))
        kept += [(row, bagged) for row in several]
        state.settle()
        if step == "evict":
            state.evict((number - 4) * 1000)
            kept = [(row, bagged) for row, bagged in kept if row.start >= (number - 4) * 1000]
    counts: dict[Any, tuple[int, Counter[Any]]] = {}
    for row, bagged in kept:
        count, names = counts.get((row.key, row.start), (0, Counter()))
        names = names + Counter([row.name] if bagged and row.name is not None else [])
        counts[row.key, row.start] = count + 1, names
    assert _counts_and_names(state) == counts


def _counts_and_names(state: DriverStore) -> dict[Any, tuple[int, Counter[Any]]]:
    found: dict[Any, tuple[int, Counter[Any]]] = {}
    for run in state.runs():
        keys = state.groups.values(run.key).column(0).to_pylist()
        bags = run.partial(NAMES).fields[0]
        counts = run.partial(COUNT).fields[0].tolist()
        for row, (key, start) in enumerate(zip(keys, run.start.tolist(), strict=True)):
            bag = bags[row : row + 1]
            count, names = found.get((key, start), (0, Counter()))
            own = Counter(dict(zip(bag.values(bag.codes).to_pylist(), bag.counts.tolist(), strict=True)))
            found[key, start] = count + counts[row], names + own
    return found


@settings(max_examples=60)
@given(rows, rows, st.booleans())
def test_partials_are_added_to_the_shards_of_an_older_run(
    earlier: list[Row], later: list[Row], lacking: bool
) -> None:
    older = _one_run(earlier, (COUNT,) if lacking else WITH_BAGS)
    newer = _one_run(later, WITH_BAGS)
    starts = {row.start for row in earlier}
    rest = added_to(older, newer)
    common = [row for row in later if row.start in starts]
    assert _names(rest) == _slow_names([row for row in later if row.start not in starts])
    known = common if lacking else [*earlier, *common]
    assert _names(older) == {start: Counter() for start in starts} | _slow_names(known)


def _one_run(several: list[Row], primitives: Sequence[Primitive]) -> SortedRun:
    runs = state_of(block(several, primitives, keyed=False), keyed=False).runs()
    nothing = SortedRun(start=np.empty(0, np.int64), key=NONE, fragment=NONE, partials={})
    return runs[0] if runs else nothing


def _names(run: SortedRun) -> dict[int, Counter[Any]]:
    """Return the names of a run without keys, by slice."""
    bags = run.partial(NAMES).fields[0]
    return {
        start: Counter(dict(zip(bag.values(bag.codes).to_pylist(), bag.counts.tolist(), strict=True)))
        for row, start in enumerate(run.start.tolist())
        for bag in (bags[row : row + 1],)
    }


def _slow_names(several: list[Row]) -> dict[int, Counter[Any]]:
    return {
        start: Counter(row.name for row in group if row.name is not None)
        for (_, start), group in grouped(several, keyed=False).items()
    }


def test_memory_of_values_that_are_gone_is_given_back() -> None:
    state = state_of()
    for number in range(300):
        state.add(block([Row(number * 1000, "k", None, f"user {number}", None, float(number))], WITH_BAGS))
        state.settle()
        state.evict((number - 5) * 1000)
    for primitive in (NAMES, HEATS):
        assert sum(len(run.partial(primitive).fields[0].dictionary) for run in state.runs()) < 60


@pytest.mark.parametrize("primitive", BAGS, ids=str)
def test_a_snapshot_with_bags_is_read_back(tmp_path: Path, primitive: Any) -> None:
    several = [
        Row(0, "a", 1, "x", None, 0.5),
        Row(0, "a", 2, "x", None, float("nan")),
        Row(0, None, 1, None, None),
    ]
    folder = LocalFolder(tmp_path / "checkpoint")
    checkpoint = Checkpoint(folder)
    for number, row in enumerate(several):
        checkpoint.write(commit(number), (), {(GROUPING, 0): block([row], WITH_BAGS)}, {})
    assert _restored(folder) == bags_of(several)
    state = state_of(block(several, WITH_BAGS))
    checkpoint.snapshot(commit(2), Registry(), {(GROUPING, 0): state.snapshot()[0]})
    assert _restored(folder) == bags_of(several)
    assert shards(state) == shards(state_of(*_blocks(folder)))
    more = Row(0, "a", 3, "y", None, 0.5)
    Checkpoint(folder).write(commit(3), (), {(GROUPING, 0): block([more], WITH_BAGS)}, {})
    assert _restored(folder) == bags_of([*several, more])
    assert np.sum(state_of(*_blocks(folder)).snapshot()[0].partials[primitive].fields[0].counts) > 0


def _blocks(folder: LocalFolder) -> list[Block]:
    found = recovered(folder).blocks({GROUPING: [Asked("all")]}, ())
    return [stored.block(WITH_BAGS, signatures) for _, stored, signatures in found]


def _restored(folder: LocalFolder) -> dict[Any, Any]:
    return contents(state_of(*_blocks(folder)))
