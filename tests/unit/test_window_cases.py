"""Published window cases hold for Weft's own window arithmetic: edges, slices and due windows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.language_samples import query
from tests.unit.test_oracle_cases import CASES
from tests.unit.window_samples import Advance, due_ends

from weft.optimizer.slices import Slicing, edge_classes, slice_starts
from weft.window import Window

Case = dict[str, Any]
each_case = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
EVERYTHING = Advance(before=None, now=None)


def window_of(case: Case) -> Window:
    return Window(range_ms=case["range_ms"], slide_ms=case["slide_ms"], offset_ms=case["offset_ms"])


@each_case
def test_offsets_of_starts_mean_what_they_mean_to_their_authors(case: Case) -> None:
    """Spark's are less than a slide, to either side; Flink's, of any length, are those of HOP and TUMBLE."""
    range_ms, slide_ms, start_ms = (
        f"'{case[name]} ms'" for name in ("range_ms", "slide_ms", "start_offset_ms")
    )
    calls = []
    if abs(case["start_offset_ms"]) < case["slide_ms"]:
        calls.append(f"window(time, {range_ms}, {slide_ms}, {start_ms})")
    if case["slide_ms"] <= case["range_ms"]:
        calls.append(f"HOP(time, {slide_ms}, {range_ms}, {start_ms})")
    assert calls
    for call in calls:
        assert query(f"SELECT count(*) AS n FROM trades GROUP BY {call}").window == window_of(case), call


def starts_of(case: Case, slicing: Slicing = Slicing.PAIRED) -> npt.NDArray[np.int64]:
    """Return the start of each row's slice, in microseconds."""
    times = np.array(case["times_ms"], dtype=np.int64) * 1000
    return slice_starts(times, edge_classes([window_of(case)], slicing))


@each_case
def test_the_windows_that_hold_a_slice_are_those_published(case: Case) -> None:
    window = window_of(case)
    wanted = [(start, end) for start, end in case["windows_ms"]]
    for slicing in Slicing:
        ends = due_ends(window, EVERYTHING, np.unique(starts_of(case, slicing)))
        found = [(end // 1000 - window.range_ms, end // 1000) for end in ends]
        assert set(wanted) <= set(found)
        if case["complete"]:
            assert found == sorted(set(wanted))


@each_case
def test_a_row_lies_in_the_windows_that_its_slice_lies_in(case: Case) -> None:
    starts = starts_of(case)
    values = np.array(case.get("values", [0] * len(starts)))
    counts, sums = [], []
    for start, end in case["windows_ms"]:
        inside = (start * 1000 <= starts) & (starts < end * 1000)
        assert inside.tolist() == [start <= time < end for time in case["times_ms"]]
        counts.append(int(inside.sum()))
        sums.append(values[inside].sum())
    assert counts == case.get("counts", counts)
    assert sums == case.get("sums", sums)


def test_each_published_window_is_due_once_and_no_earlier_than_its_end() -> None:
    for case in CASES:
        window, starts = window_of(case), np.unique(starts_of(case))
        for _, end_ms in case["windows_ms"]:
            end = end_ms * 1000
            assert end not in due_ends(window, Advance(before=None, now=end - 1), starts), case["id"]
            assert end in due_ends(window, Advance(before=None, now=end), starts), case["id"]
            assert end in due_ends(window, Advance(before=end - 1, now=None), starts), case["id"]
            assert end not in due_ends(window, Advance(before=end, now=None), starts), case["id"]
