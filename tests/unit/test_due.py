"""Which windows are due, against all windows spelled out; and the clock that makes them so."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import TRADES
from tests.unit.pipeline_samples import asked
from tests.unit.window_samples import END, Advance, due_between, due_ends, windows

from weft.finals.readings import readings
from weft.optimizer.plan import answer, leaf
from weft.state.clock import ALWAYS, Clock, RowCounts, Seen, oldest_needed
from weft.state.running_query import RunningQuery, through_start
from weft.window import Window

Times = npt.NDArray[np.int64]
YEAR_US = 365 * 86_400_000_000
moments = st.integers(-300_000, 300_000)
"""Microseconds; windows are up to 100 ms long."""
maybe = st.none() | moments


def all_ends(window: Window, after: int, until: int) -> list[int]:
    """Return the window ends in `(after, until]`, looking at each millisecond."""
    milliseconds = range(after // 1000, until // 1000 + 1)
    ends = [ms * 1000 for ms in milliseconds if ms % window.slide_ms == window.offset_ms % window.slide_ms]
    return [end for end in ends if after < end <= until]


def holds(window: Window, end: int, starts: list[int]) -> bool:
    return any(end - window.range_ms * 1000 <= start < end for start in starts)


@settings(max_examples=150)
@given(windows(), st.lists(moments, max_size=6), st.none() | moments, st.none() | moments)
def test_due_windows_are_those_that_hold_a_slice_and_were_reached(
    window: Window, starts: list[int], before: int | None, now: int | None
) -> None:
    #     slices   |--|--|--|      |--|            W before        W now
    #     windows  [-----) [-----)   [-----)          |               |
    found = due_ends(window, Advance(before=before, now=now), np.unique(np.array(starts, dtype=np.int64)))
    after = -500_000 if before is None else before
    until = 500_000 if now is None else now
    assert found == [end for end in all_ends(window, after, until) if holds(window, end, starts)]


@settings(max_examples=50)
@given(windows(), st.lists(moments, min_size=1, max_size=4), st.lists(moments, max_size=6))
def test_every_window_is_due_once_wherever_the_watermark_stops(
    window: Window, starts: list[int], stops: list[int]
) -> None:
    slices = np.unique(np.array(starts, dtype=np.int64))
    marks: list[int | None] = [None, *sorted(stops), None]
    moves = [Advance(before=a, now=b) for a, b in pairwise(marks)]
    in_steps = [end for move in moves for end in due_ends(window, move, slices)]
    assert in_steps == due_ends(window, Advance(before=None, now=None), slices)


def test_due_windows_reach_no_further_than_the_watermark_and_the_slices() -> None:
    window = Window(range_ms=5, slide_ms=1)
    starts = np.array([-20 * YEAR_US, 0, 30 * YEAR_US])
    everything = due_between(window, Advance(before=None, now=None), starts)
    assert everything == (-20 * YEAR_US + 1000, 30 * YEAR_US + 5000)
    assert due_between(window, Advance(before=0, now=29 * YEAR_US), starts) == (1000, 29 * YEAR_US)
    day = Window(range_ms=86_400_000, slide_ms=1)
    step = Advance(before=86_400_000_000, now=86_400_010_000)
    assert due_between(day, step, np.arange(0, 86_400_000_000, 1_000_000)) == (86_400_001_000, 86_400_010_000)


def test_nothing_is_due_without_slices_or_a_move() -> None:
    window = Window(range_ms=10, slide_ms=5)
    none = np.empty(0, dtype=np.int64)
    assert len(due_ends(window, Advance(before=None, now=None), none)) == 0
    assert len(due_ends(window, Advance(before=20_000, now=20_000), np.array([0, 15_000]))) == 0
    # A watermark that is not beyond the end of any window.
    assert len(due_ends(window, Advance(before=None, now=4_999), np.array([0]))) == 0


@settings(max_examples=150)
@given(
    st.lists(st.tuples(windows(), maybe, maybe, st.booleans()), min_size=1, max_size=4),
    maybe, maybe, moments, moments,
)  # fmt: skip
def test_empty_windows_are_due_in_the_span_of_stream_and_query_and_no_other_is_built(
    several: list[tuple[Window, int | None, int | None, bool]],
    before: int | None, now: int | None, one: int, other: int,
) -> None:  # fmt: skip
    oldest, newest = min(one, other), max(one, other)
    clock = Clock(oldest=oldest, newest=newest, watermark=END if now is None else now)
    answers, live = [], {}
    for place, (window, first, until, late) in enumerate(several):
        query = replace(asked(f"q{place}", ("TRUE", bool), (1, 1)).logical(), window=window, emit_empty=True)
        answers.append(answer(query, leaf(query)))
        through = max(
            ALWAYS if first is None else through_start(first, window),
            ALWAYS if before is None or late else before,
        )
        live[query.name] = RunningQuery(query=query, answered_through=through, until=until)
    (reading,) = readings(answers, live)
    every = reading.due(clock, np.empty(0, dtype=np.int64))
    for place, (window, first, until, late) in enumerate(several):
        name = answers[place].query.name
        (ask,) = (
            ask for ask in range(len(reading.asks))
            if name in {reader.answer.query.name for reader in reading.asks[ask].readers}
        )  # fmt: skip
        after = oldest if before is None or late else max(oldest, before)
        length = window.range_ms * 1000
        ends = all_ends(window, after, newest + length if now is None else min(now, newest + length))
        wanted = [
            end for end in ends
            if (first is None or end - length >= first) and (until is None or end <= until)
        ]  # fmt: skip
        numbers = range(int(every.first[ask]), int(every.last[ask]) + 1)
        assert [number * window.slide_ms * 1000 + window.offset_ms * 1000 for number in numbers] == wanted


@settings(max_examples=50)
@given(st.lists(windows(), min_size=1, max_size=5), moments)
def test_the_oldest_needed_slice_is_where_the_oldest_open_window_begins(
    several: list[Window], watermark: int
) -> None:
    shapes = np.array([(one.range_ms, one.slide_ms, one.offset_ms) for one in several])
    oldest = oldest_needed(shapes, watermark)
    begins = [
        end - one.range_ms * 1000 for one in several for end in all_ends(one, watermark, watermark + 200_000)
    ]
    assert oldest == min(begins)


# The clock.


def seen(newest: int | None, **counts: int) -> Seen:
    return Seen(counts=RowCounts(**counts), oldest=newest, newest=newest)


def test_the_watermark_is_the_newest_row_less_the_delay() -> None:
    stream = replace(TRADES, delay_ms=10)
    clock = Clock().after(seen(50_000, good=3), stream)
    assert (clock.watermark, clock.newest, clock.counts.read) == (40_000, 50_000, 3)
    # Older rows move neither; a batch of rows that are all late leaves only its counts.
    assert clock.after(seen(45_000, good=1), stream).watermark == 40_000
    later = clock.after(seen(None, late=2), stream)
    assert (later.watermark, later.counts.late, later.counts.read) == (40_000, 2, 5)
    assert (clock.watermark, clock.reached, later.reached) == (40_000, 40_000, 40_000)


@given(st.lists(st.sampled_from(("batch", "idle", "end")) | moments, max_size=8))
def test_the_watermark_never_goes_back(steps: list[str | int]) -> None:
    stream = replace(TRADES, delay_ms=10)
    clock = Clock()
    for step in steps:
        before = clock
        if step == "idle":
            clock = clock.idle()
        elif step == "end":
            clock = clock.ended(20)
        else:
            clock = clock.after(seen(step if isinstance(step, int) else None), stream)
        if before.watermark is not None:
            assert clock.watermark is not None
            assert clock.watermark >= before.watermark
