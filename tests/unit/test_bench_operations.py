"""The paper's operation counts, against counting by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.bench.operations import PAPER, Run, Strategy, count, count_all
from weft.bench.trades import HOUR_MS, NOON_MS
from weft.bench.workloads import paper_queries
from weft.optimizer.slices import Slicing
from weft.window import Window

windows = st.builds(
    lambda slide, more: Window(range_ms=slide + more, slide_ms=slide), st.integers(1, 12), st.integers(0, 20)
)


def is_edge(moment: int, window: Window, slicing: Slicing) -> bool:
    """Say whether a window cuts time at a moment, straight from the definitions."""
    if slicing is Slicing.PAIRED:
        return moment % window.slide_ms == 0 or (moment + window.range_ms) % window.slide_ms == 0
    panes = [pane for pane in range(1, 13) if window.range_ms % pane == window.slide_ms % pane == 0]
    return moment % max(panes) == 0


def slow_finals(several: list[Window], slicing: Slicing, run: Run) -> int:
    """Walk every moment of every window, and count a slice where one begins or the run does."""
    total = 0
    for window in several:
        for end in range(run.begin_ms + 1, run.end_ms + 1):
            if end % window.slide_ms == 0:
                held = range(max(run.begin_ms, end - window.range_ms), end)
                cut = [moment for moment in held[1:] if any(is_edge(moment, one, slicing) for one in several)]
                total += len(cut) + 1
    return total


@given(several=st.lists(windows, min_size=1, max_size=4), begin=st.integers(0, 50), length=st.integers(1, 60))
def test_finals_are_the_slices_of_every_window_that_ends_in_the_run(
    several: list[Window], begin: int, length: int
) -> None:
    run = Run(begin_ms=begin, end_ms=begin + length, rows=7)
    for strategy in Strategy:
        sets = [several] if strategy.shared else [[window] for window in several]
        counted = count(several, strategy, run)
        assert counted.final == sum(slow_finals(some, strategy.slicing, run) for some in sets)
        assert counted.partial == 7 * len(sets)


def test_a_case_small_enough_to_draw() -> None:
    # range 18, slide 15, edges 12, 15, 27, 30; the run is 0…30:
    #     0           12 15          27 30
    #     |-----------|--|-----------|--|
    # [-------------------)                 ends at 15: 2 slices of the run
    #              [--------------------)   ends at 30: 3 slices
    run = Run(begin_ms=0, end_ms=30, rows=1)
    assert count([Window(range_ms=18, slide_ms=15)], Strategy.UNSHARED_PAIRED, run).final == 5
    assert count([Window(range_ms=18, slide_ms=15)], Strategy.UNSHARED_PANED, run).final == 5 + 6


@pytest.mark.parametrize("seed", range(3))
def test_the_papers_workload_is_of_the_papers_order(seed: int) -> None:
    several = [query.window for query in paper_queries(256, seed=seed)]
    run = Run(begin_ms=NOON_MS, end_ms=NOON_MS + HOUR_MS, rows=1_138_636)
    counted = {one.strategy: one for one in count_all(several, run)}
    for strategy, printed in PAPER.items():
        assert counted[strategy].partial == printed.partial
        assert printed.final / 2 <= counted[strategy].final <= printed.final * 2
    ours, theirs = (
        found[Strategy.SHARED_PANED].final / found[Strategy.SHARED_PAIRED].final for found in (counted, PAPER)
    )
    assert ours == pytest.approx(theirs, rel=0.15)
