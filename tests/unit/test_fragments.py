"""Fragments have small numbers, and a predicate's fragments are found again."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.predicates import signatures as signatures_module
from weft.predicates.signatures import Signatures, signatures_of
from weft.state.signatures import Fragments

signatures = st.lists(st.frozensets(st.integers(0, 40), max_size=6), max_size=20)


def shuffled(sets: list[frozenset[int]], order: Random) -> Signatures:
    predicates: Any = sorted({one for some in sets for one in some} | {0})
    order.shuffle(predicates)
    bits = np.array([[one in some for one in predicates] for some in sets], dtype=bool)
    return signatures_of(tuple(predicates), bits.reshape(len(sets), len(predicates)))


def satisfying(fragments: Fragments, predicate: Any) -> Any:
    return fragments.bits([predicate], np.arange(len(fragments)))[0]


def sets_of(fragments: Fragments) -> list[frozenset[Any]]:
    known = {one: satisfying(fragments, one) for one in fragments.predicates}
    return [frozenset(one for one in known if known[one][number]) for number in range(len(fragments))]


@settings(max_examples=60)
@given(st.lists(signatures, max_size=5), st.randoms(), st.sampled_from((1, 30, 1 << 24)))
def test_equal_sets_have_one_number_whatever_block_they_come_from(
    blocks: list[list[frozenset[int]]], order: Random, unpacked: int
) -> None:
    fragments = Fragments()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signatures_module, "_UNPACKED", unpacked)
        for sets in blocks:
            several = shuffled(sets, order)
            numbers = fragments.ids(several)
            found = sets_of(fragments)
            assert [found[number] for number in numbers] == sets
            assert fragments.ids(several) is numbers
    assert len(set(sets_of(fragments))) == len(fragments)
    assert set(sets_of(fragments)) == {one for sets in blocks for one in sets}
    assert fragments.empty().tolist() == [not one for one in sets_of(fragments)]
    assert not satisfying(fragments, "unknown").any()


@settings(max_examples=60)
@given(st.lists(st.tuples(signatures, st.frozensets(st.integers(0, 40))), max_size=4), st.randoms())
def test_forgotten_predicates_leave_no_bits_behind(
    steps: list[tuple[list[frozenset[int]], frozenset[int]]], order: Random
) -> None:
    fragments = Fragments()
    wanted: list[frozenset[int]] = []
    width = 0
    for sets, kept in steps:
        numbers = fragments.ids(shuffled(sets, order))
        wanted += [frozenset()] * (len(fragments) - len(wanted))
        for number, one in zip(numbers, sets, strict=True):
            wanted[number] = one
        assert sets_of(fragments) == wanted
        width = max(width, len(fragments.predicates))
        fragments.keep(kept)  # type: ignore[arg-type]
        wanted = [one & kept for one in wanted]
        assert sets_of(fragments) == wanted
        assert fragments.empty().tolist() == [not one for one in wanted]
        if order.random() < 0.3:
            live = np.flatnonzero([order.random() < 0.7 for _ in wanted])
            fragments.forget(live)
            wanted = [wanted[number] for number in live]
            assert sets_of(fragments) == wanted
    assert 8 * len(fragments._bytes) <= 64 + 2 * width


@settings(max_examples=60)
@given(signatures, st.lists(st.integers(0, 45), max_size=8, unique=True), st.randoms())
def test_fragments_that_agree_are_one_class(
    sets: list[frozenset[int]], asked: list[Any], order: Random
) -> None:
    fragments = Fragments()
    fragments.ids(shuffled(sets, order))
    classes = fragments.classes(asked)
    found = sets_of(fragments)
    for number, several in enumerate(found):
        same = [other for other, one in enumerate(found) if (one ^ several).isdisjoint(asked)]
        if several.isdisjoint(asked):
            assert classes.of[number] == -1
        elif set(asked) < set(fragments.predicates):
            assert (classes.of == classes.of[number]).nonzero()[0].tolist() == same
        assert classes.of[number] == -1 or classes.samples[classes.of[number]] in same
    assert sorted(set(classes.of.tolist()) - {-1}) == list(range(len(classes)))


@settings(max_examples=40)
@given(signatures, st.lists(st.integers(0, 45), max_size=8), st.randoms(), st.data())
def test_bits_of_some_fragments(
    sets: list[frozenset[int]], asked: list[Any], order: Random, data: st.DataObject
) -> None:
    fragments = Fragments()
    fragments.ids(shuffled(sets, order))
    found = sets_of(fragments)
    some = data.draw(st.lists(st.sampled_from(range(len(found))), max_size=9)) if found else []
    chosen = np.array(some, dtype=np.intp)
    bits = [[one in found[number] for number in some] for one in asked]
    assert fragments.bits(asked, chosen).tolist() == bits
    assert fragments.satisfied(asked, chosen).tolist() == [any(row) for row in bits]


def test_many_signatures_take_little_memory() -> None:
    chance = np.random.default_rng(7)
    fragments = Fragments()
    for root in range(3):
        predicates: Any = tuple(range(root * 1400, root * 1400 + 1400))
        several = signatures_of(predicates, chance.random((12_000, 1400)) < 0.5)
        assert len(set(fragments.ids(several).tolist())) == 12_000
    assert fragments._bytes.nbytes < 30_000_000


@given(signatures, st.randoms())
def test_rows_are_counted_by_predicate(sets: list[frozenset[int]], order: Random) -> None:
    fragments = Fragments()
    fragments.ids(shuffled(sets, order))
    rows = np.array([order.randrange(1 << 40) for _ in range(len(fragments))], dtype=np.int64)
    counts = fragments.rows_satisfying((*fragments.predicates, "unknown"), rows)  # type: ignore[arg-type]
    held = [
        sum(count for count, members in zip(rows.tolist(), sets_of(fragments), strict=True) if one in members)
        for one in fragments.predicates
    ]
    assert counts.tolist() == [*held, 0]
