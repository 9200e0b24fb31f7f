"""Cumulative windows: start together, end step by step; against all of them spelled out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline_samples import asked

from weft.finals.readings import readings
from weft.optimizer.plan import answer, leaf
from weft.optimizer.slices import SLICINGS, Slicing, edge_classes
from weft.query.logical import LogicalQuery
from weft.state.clock import Clock
from weft.state.running_query import RunningQuery, first_window, through_start
from weft.window import Window

MS = 1000
moments = st.integers(-100_000, 100_000)
"""Microseconds; windows are up to 40 ms long."""


@st.composite
def cumulative(draw: st.DrawFn) -> Window:
    step = draw(st.integers(1, 8))
    size = step * draw(st.integers(2, 5))
    return Window(range_ms=size, slide_ms=size, offset_ms=draw(st.integers(0, size - 1)), step_ms=step)


def spelled_out(window: Window) -> list[tuple[int, int]]:
    """Return all windows around the epoch, as (start, end) in microseconds."""
    assert window.step_ms is not None
    starts = range(window.offset_ms - 10 * window.slide_ms * 20, 200 * window.slide_ms, window.slide_ms)
    lengths = range(window.step_ms, window.range_ms + 1, window.step_ms)
    return [(start * MS, (start + length) * MS) for start in starts for length in lengths]


def live(window: Window, through: int) -> RunningQuery:
    query: LogicalQuery = replace(asked("q", ("vol > 0", lambda row: True), (1, 1)).logical(), window=window)
    return RunningQuery(query=query, answered_through=through)


@given(cumulative())
def test_the_parts_are_the_windows_by_length(window: Window) -> None:
    some = {bounds for bounds in spelled_out(window) if -100_000 <= bounds[0] < 100_000}
    found = set()
    for part in window.parts:
        ends = (k * part.slide_ms + part.offset_ms for k in range(-1000, 1000))
        found |= {((end - part.range_ms) * MS, end * MS) for end in ends}
    assert {bounds for bounds in found if -100_000 <= bounds[0] < 100_000} == some
    assert all(part.step_ms is None for part in window.parts)


@given(cumulative(), st.sampled_from(Slicing))
def test_time_is_cut_where_any_of_them_starts_or_ends(window: Window, slicing: Slicing) -> None:
    [edges] = edge_classes([window], slicing)
    assert edges.modulus == window.step_ms
    bounds = {moment // MS for bounds in spelled_out(window) for moment in bounds}
    assert {(moment - edges.residue) % edges.modulus for moment in bounds} == {0}
    sliced = SLICINGS[slicing](window)
    assert (sliced.period, len(sliced)) == (window.slide_ms, len(window.parts))


@given(cumulative(), moments)
def test_who_joins_late_begins_with_windows_that_start_together(window: Window, since: int) -> None:
    through = through_start(since, window)
    own = {bounds for bounds in spelled_out(window) if bounds[1] > through}
    assert own == {bounds for bounds in spelled_out(window) if bounds[0] >= since}
    assert live(window, through).first_start == through


@given(cumulative(), moments)
def test_partials_are_kept_since_the_first_window_that_is_not_answered(window: Window, through: int) -> None:
    running = live(window, through)
    left = [bounds for bounds in spelled_out(window) if bounds[1] > through]
    assert running.first_start == min(start for start, _ in left)
    assert first_window(running, Clock()) == min(left, key=lambda bounds: bounds[1])


def test_a_query_of_cumulative_windows_shares_the_longest_with_others() -> None:
    hour = Window(range_ms=60, slide_ms=60)
    lives = {"q": live(replace(hour, step_ms=20), 0), "r": live(hour, 0)}
    lives["r"] = replace(lives["r"], query=replace(lives["r"].query, name="r"))
    [reading] = readings([answer(one.query, leaf(one.query)) for one in lives.values()], lives)
    read = {ask.window.range_ms: [reader.answer.query.name for reader in ask.readers] for ask in reading.asks}
    assert read == {20: ["q"], 40: ["q"], 60: ["q", "r"]}


@pytest.mark.parametrize("step", [0, 25, 60, 120])
def test_a_step_divides_the_size(step: int) -> None:
    with pytest.raises(ValueError, match="does not divide"):
        Window(range_ms=60, slide_ms=60, step_ms=step)
