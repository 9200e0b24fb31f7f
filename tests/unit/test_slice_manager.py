"""The slice manager (STS, Algorithm 1): edges on the fly are the edges of the explicit composition."""

from collections import Counter
from math import lcm
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.window_samples import compose, edges_between, is_edge, windows

from weft.optimizer.slices import SLICINGS, SliceManager, Slicing, paired
from weft.window import Window

slicings = st.sampled_from(Slicing)
U, V = Window(range_ms=18, slide_ms=15), Window(range_ms=12, slide_ms=9)
"""Windows whose pairs are U(12, 3) and V(6, 3) of Figure 3."""


def queued(manager: SliceManager) -> int:
    """Return how many edges the manager holds."""
    return len(manager._queue)


def test_figure_3_on_the_fly() -> None:
    manager = SliceManager([U, V])
    period = [6, 9, 12, 15, 18, 24, 27, 30, 33, 36, 42, 45]
    assert [manager.advance() for _ in range(24)] == period + [45 + edge for edge in period]


@settings(max_examples=50)
@given(st.lists(windows(offsets=False), min_size=1, max_size=5), slicings)
def test_edges_are_those_of_the_explicit_composition(several: list[Window], slicing: Slicing) -> None:
    composed = compose(SLICINGS[slicing](window) for window in several)
    manager = SliceManager(several, slicing=slicing)
    assert [manager.advance() for _ in composed.slices] == list(composed.edges)


@settings(max_examples=50)
@given(st.lists(windows(), min_size=1, max_size=5), slicings, st.integers(-500, 500))
def test_edges_are_the_union_of_residue_classes_wherever_one_begins(
    several: list[Window], slicing: Slicing, at_ms: int
) -> None:
    manager = SliceManager(several, at_ms=at_ms, slicing=slicing)
    assert list(manager.until(at_ms + 100)) == edges_between(several, at_ms, at_ms + 99, slicing)


@given(st.lists(windows(), min_size=1, max_size=5), st.integers(-(10**15), 10**15))
def test_seek_goes_anywhere_at_once(several: list[Window], at_ms: int) -> None:
    manager = SliceManager(several)
    manager.advance()
    manager.seek(at_ms)
    fresh = SliceManager(several, at_ms=at_ms)
    assert [manager.advance() for _ in range(5)] == [fresh.advance() for _ in range(5)]


def test_until_stops_before_its_end_and_goes_on_from_there() -> None:
    manager = SliceManager([U])
    assert list(manager.until(12)) == []
    assert list(manager.until(27)) == [12, 15]
    assert list(manager.until(28)) == [27]
    assert list(SliceManager().until(10**9)) == []


class WindowsComeAndGo(RuleBasedStateMachine):
    """Whatever windows join and leave, and when, the next edge is the one found from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = SliceManager()
        self.live: Counter[Window] = Counter()
        self.now = 0

    @rule(window=windows())
    def join(self, window: Window) -> None:
        self.manager.add(window)
        self.live[window] += 1

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        window = data.draw(st.sampled_from(sorted(self.live, key=str)))
        self.manager.remove(window)
        self.live[window] -= 1
        self.live = +self.live

    @precondition(lambda self: self.live)
    @rule(steps=st.integers(1, 5))
    def advance(self, steps: int) -> None:
        for _ in range(steps):
            longest = max(window.slide_ms for window in self.live)
            expected = edges_between(self.live, self.now, self.now + longest)[0]
            assert self.manager.advance() == expected
            self.now = expected

    @rule(at_ms=st.integers(-300, 300))
    def seek(self, at_ms: int) -> None:
        self.manager.seek(at_ms)
        self.now = at_ms

    @invariant()
    def holds_at_most_two_edges_for_each_window(self) -> None:
        assert queued(self.manager) <= 2 * len(self.live)


TestWindowsComeAndGo = WindowsComeAndGo.TestCase
TestWindowsComeAndGo.settings = settings(max_examples=30, stateful_step_count=25)


def test_a_window_that_joins_late_keeps_to_the_epoch() -> None:
    # Algorithm 1 would count its slices from the moment it joins; a result must not depend on that moment.
    manager = SliceManager([U])
    assert manager.advance() == 12
    manager.add(V)
    assert [manager.advance() for _ in range(4)] == [15, 18, 24, 27]


def test_a_window_leaves_with_the_last_query_that_has_it() -> None:
    manager = SliceManager([U, U, V])
    manager.remove(U)
    assert [manager.advance() for _ in range(3)] == [6, 9, 12]
    manager.remove(U)
    assert [manager.advance() for _ in range(3)] == [15, 18, 24]
    with pytest.raises(KeyError):
        manager.remove(U)


def test_the_common_period_is_never_in_memory() -> None:
    # Section 3.3: the common period of tens of windows is astronomic. 60 windows with prime slides:
    primes = [number for number in range(300, 1000) if all(number % small for small in range(2, 32))][:60]
    several = [Window(range_ms=prime + prime // 3, slide_ms=prime) for prime in primes]
    assert lcm(*primes) > 10**150
    manager = SliceManager(several)
    most = 0
    edges = []
    for _ in range(3_000):
        edges.append(manager.advance())
        most = max(most, queued(manager))
    assert most <= 2 * len(several)
    assert edges == edges_between(several, 0, edges[-1])


def test_section_3_3_tens_of_windows_have_a_period_of_a_million_seconds() -> None:
    # "Tens of queries each with periods under 100 s": 20 drawn slides already exceed it, every time.
    for seed in range(20):
        chance = Random(seed)
        slides = [chance.randint(10, 99) for _ in range(20)]
        assert lcm(*slides) >= 10**6


def test_times_far_from_the_epoch_and_before_it() -> None:
    for at_ms in (-(10**15), -1, 0, 4 * 10**15):
        manager = SliceManager([U, V], at_ms=at_ms)
        edges = [manager.advance() for _ in range(6)]
        assert edges == edges_between([U, V], at_ms, edges[-1])
        assert all(is_edge(edge, U) or is_edge(edge, V) for edge in edges)


def test_pairs_of_a_whole_multiple_are_one_slice() -> None:
    window = Window(range_ms=30, slide_ms=10)
    assert len(paired(window)) == 1
    manager = SliceManager([window])
    assert [manager.advance() for _ in range(3)] == [10, 20, 30]
    assert queued(manager) == 1
