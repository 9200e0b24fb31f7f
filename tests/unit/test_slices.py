"""Slices: every worked example of STS, sections 3.1 and 3.2, and what they are examples of."""

from itertools import accumulate, pairwise
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.window_samples import compose, edges_between, is_edge, stretch, windows

from weft.optimizer.slices import (
    SLICINGS,
    EdgeClass,
    SlicedWindow,
    SliceManager,
    Slicing,
    common_grid,
    edge_classes,
    paired,
    paned,
    slice_starts,
)
from weft.window import Window

slicings = st.sampled_from(Slicing)


def between(edges: set[int]) -> SlicedWindow:
    """Return the slices between edges of a period that begins at 0."""
    return SlicedWindow(tuple(after - before for before, after in pairwise([0, *sorted(edges)])))


def meets_lemma_1(sliced: SlicedWindow, window: Window) -> bool:
    """Say whether some last slices of the period add up to range mod slide (none of them to 0)."""
    lengths = accumulate(reversed(sliced.slices), initial=0)
    return window.range_ms % window.slide_ms in lengths


@st.composite
def cuts(draw: st.DrawFn, window: Window) -> set[int]:
    """Draw edges within a window's period; the period's end is always one."""
    return draw(st.sets(st.integers(1, window.slide_ms))) | {window.slide_ms}


# Figure 1: an aggregate over W[18, 15] from panes or from pairs.
#
#     W[18, 15]      |------------------18-----------------|
#     X(3,3,3,3,3)   |--3--|--3--|--3--|--3--|--3--|
#     Y(12, 3)       |-----------12----------|--3--|


def test_figure_1_paned_window() -> None:
    assert paned(Window(range_ms=18, slide_ms=15)) == SlicedWindow((3, 3, 3, 3, 3))


def test_figure_1_paired_window() -> None:
    assert paired(Window(range_ms=18, slide_ms=15)) == SlicedWindow((12, 3))


def test_definition_2_edges_are_the_running_sums_of_slices() -> None:
    sliced = SlicedWindow((12, 3))
    assert (sliced.edges, sliced.period, len(sliced)) == ((12, 15), 15, 2)


@pytest.mark.parametrize("slices", [(), (3, 0), (3, -1)])
def test_a_slice_has_a_length(slices: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):
        SlicedWindow(slices)


@pytest.mark.parametrize(
    ("range_ms", "slide_ms", "pairs", "panes"),
    [
        (10, 10, (10,), (10,)),  # tumbling: one slice either way
        (30, 10, (10,), (10,)),  # range a multiple of slide: Table 2's best case
        (4, 10, (6, 4), (2,) * 5),  # hopping
        (7, 5, (3, 2), (1,) * 5),  # relatively prime
        (12, 5, (3, 2), (1,) * 5),  # Query 1: RANGE '12 min' SLIDE '5 min'
        (1, 1, (1,), (1,)),
    ],
)
def test_slices_of_every_kind_of_window(
    range_ms: int, slide_ms: int, pairs: tuple[int, ...], panes: tuple[int, ...]
) -> None:
    window = Window(range_ms=range_ms, slide_ms=slide_ms)
    assert (paired(window).slices, paned(window).slices) == (pairs, panes)


@given(windows(), slicings)
def test_lemma_1_holds_for_panes_and_pairs(window: Window, slicing: Slicing) -> None:
    sliced = SLICINGS[slicing](window)
    assert sliced.period == window.slide_ms
    assert meets_lemma_1(sliced, window)


@settings(max_examples=60)
@given(st.data(), windows(offsets=False))
def test_lemma_1_says_just_which_slices_can_answer_a_window(data: st.DataObject, window: Window) -> None:
    sliced = between(data.draw(cuts(window)))
    edges = {number * sliced.period + edge for number in range(-101, 3) for edge in sliced.edges}
    ends = (0, window.slide_ms)
    # A window is made of whole slices if and only if both its ends are edges.
    answers = all(end in edges and end - window.range_ms in edges for end in ends)
    assert answers == meets_lemma_1(sliced, window)


@given(windows())
def test_pairs_are_never_more_than_panes(window: Window) -> None:
    assert len(paired(window)) <= min(2, len(paned(window)))


def test_figure_3_stretching() -> None:
    u, v = SlicedWindow((12, 3)), SlicedWindow((6, 3))
    assert stretch(u, 45).slices == (12, 3, 12, 3, 12, 3)
    assert stretch(v, 45).slices == (6, 3, 6, 3, 6, 3, 6, 3, 6, 3)


def test_figure_3_composition() -> None:
    # The paper prints (6,3,3,3,3,3,6,3,3,3,3,3,6,3): 14 slices and 51 long, although the period is
    # lcm(15, 9) = 45. The right vector has 12 slices:
    #
    #     U³   |-----------12----------|--3--|-----------12----------|--3--|-----------12----------|--3--|
    #     V⁵   |-----6-----|--3--|-----6-----|--3--|-----6-----|--3--|-----6-----|--3--|-----6-----|--3--|
    #     W    |-----6-----|--3--|3 |3 |  3  |-----6-----|…
    composed = compose([SlicedWindow((12, 3)), SlicedWindow((6, 3))])
    assert composed.slices == (6, 3, 3, 3, 3, 6, 3, 3, 3, 3, 6, 3)
    assert (len(composed), composed.period) == (12, 45)
    printed = (6, 3, 3, 3, 3, 3, 6, 3, 3, 3, 3, 3, 6, 3)
    assert sum(printed) == 51


def test_figure_3_shared_edges_are_counted_once() -> None:
    u, v = stretch(SlicedWindow((12, 3)), 45), stretch(SlicedWindow((6, 3)), 45)
    shared = set(u.edges) & set(v.edges)
    assert shared == {15, 27, 42, 45}  # the ovals of the figure
    assert len(compose([u, v])) == len(u) + len(v) - len(shared)


def test_only_whole_periods_can_be_filled() -> None:
    for period in (0, 5, 10):
        with pytest.raises(ValueError, match="cannot be stretched"):
            stretch(SlicedWindow((6, 3)), period)


@settings(max_examples=50)
@given(st.lists(windows(offsets=False), min_size=1, max_size=5), slicings)
def test_a_composition_has_the_edges_of_all_and_no_others(several: list[Window], slicing: Slicing) -> None:
    composed = compose(SLICINGS[slicing](window) for window in several)
    assert composed.period == lcm(*(window.slide_ms for window in several))
    assert list(composed.edges) == edges_between(several, 0, composed.period, slicing)


@settings(max_examples=60)
@given(st.data(), st.lists(windows(offsets=False), min_size=1, max_size=5))
def test_theorem_1_no_composition_has_fewer_slices_than_that_of_pairs(
    data: st.DataObject, several: list[Window]
) -> None:
    best = compose(map(paired, several))
    others = []
    for window in several:
        # Any slicing at all, with the one edge added that Lemma 1 asks for.
        needed = {window.slide_ms - window.range_ms % window.slide_ms}
        other = between(data.draw(cuts(window)) | needed)
        assert meets_lemma_1(other, window)
        others.append(data.draw(st.sampled_from((other, paned(window)))))
    assert len(best) <= len(compose(others))


@settings(max_examples=50)
@given(st.lists(windows(), min_size=1, max_size=5), slicings)
def test_edge_classes_are_the_edges(several: list[Window], slicing: Slicing) -> None:
    classes = edge_classes(several, slicing)
    for time in range(-100, 100):
        wanted = any(is_edge(time, window, slicing) for window in several)
        assert any(time % one.modulus == one.residue for one in classes) == wanted


def test_windows_that_cut_alike_have_their_edges_once() -> None:
    ranges = (10, 20, 50, 13, 3, 103)
    assert edge_classes(Window(range_ms=size, slide_ms=10) for size in ranges) == {
        EdgeClass(10, 0),
        EdgeClass(10, 7),
    }


@settings(max_examples=50)
@given(st.lists(windows(), min_size=1, max_size=4))
def test_the_common_grid_is_the_coarsest_that_has_every_edge(several: list[Window]) -> None:
    classes = edge_classes(several)
    grid = common_grid(classes)

    def includes_all(modulus: int, residue: int) -> bool:
        # residue + k·modulus contains a class exactly if it contains two neighbours of it.
        return all(
            edge % modulus == residue % modulus
            for one in classes
            for edge in (one.residue, one.residue + one.modulus)
        )

    assert 0 <= grid.residue < grid.modulus
    assert includes_all(grid.modulus, grid.residue)
    longest = 2 * max(one.modulus for one in classes)
    coarser = range(grid.modulus + 1, longest + 1)
    assert not any(includes_all(modulus, edge.residue) for modulus in coarser for edge in classes)


def test_the_common_grid_of_figure_3_is_its_panes() -> None:
    classes = edge_classes([Window(range_ms=18, slide_ms=15), Window(range_ms=12, slide_ms=9)])
    assert common_grid(classes) == EdgeClass(3, 0)


@settings(max_examples=50)
@given(
    st.lists(windows(), min_size=1, max_size=5),
    slicings,
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20),
)
def test_slice_starts_are_what_the_slice_manager_says(
    several: list[Window], slicing: Slicing, times_us: list[int]
) -> None:
    found = slice_starts(np.array(times_us), edge_classes(several, slicing)).tolist()
    for time, start in zip(times_us, found, strict=True):
        assert start <= time
        # Told from just before the start, the manager's first edge is the start and the next one lies ahead.
        manager = SliceManager(several, at_ms=start // 1000 - 1, slicing=slicing)
        assert manager.advance() * 1000 == start
        assert manager.advance() * 1000 > time


def test_slice_starts_keep_microseconds() -> None:
    classes = edge_classes([Window(range_ms=18, slide_ms=15)])
    times = np.array([11_999, 12_000, 14_999, 15_000, -1, -3_000, -3_001, 0])
    assert slice_starts(times, classes).tolist() == [0, 12_000, 12_000, 15_000, -3_000, -3_000, -15_000, 0]
