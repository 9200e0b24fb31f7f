"""Published window cases hold for Weft's own window arithmetic: edges, slices and due windows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.test_oracle_cases import CASES

from weft.optimizer.slice_starts import slice_starts
from weft.optimizer.slices import Slicing, edge_classes
from weft.runtime.due import Advance, due_ends
from weft.window import Window

Case = dict[str, Any]
each_case = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
EVERYTHING = Advance(before=None, now=None)


def window_of(case: Case) -> Window:
    return Window(range_ms=case["range_ms"], slide_ms=case["slide_ms"], offset_ms=case["offset_ms"])


def starts_of(case: Case, slicing: Slicing = Slicing.PAIRED) -> npt.NDArray[np.int64]:
    """Return the start of each row's slice, in microseconds."""
    times = np.array(case["times_ms"], dtype=np.int64) * 1000
    return slice_starts(times, edge_classes([window_of(case)], slicing))


@each_case
@pytest.mark.parametrize("slicing", Slicing)
def test_the_windows_that_hold_a_slice_are_those_published(case: Case, slicing: Slicing) -> None:
    window, starts = window_of(case), starts_of(case, slicing)
    ends = due_ends(window, EVERYTHING, np.unique(starts)) // 1000
    found = [(end - window.range_ms, end) for end in ends.tolist()]
    wanted = [(start, end) for start, end in case["windows_ms"]]
    assert set(wanted) <= set(found)
    if case["complete"]:
        assert found == sorted(set(wanted))


@each_case
def test_a_row_lies_in_the_windows_that_its_slice_lies_in(case: Case) -> None:
    window, starts = window_of(case), starts_of(case)
    for start, end in case["windows_ms"]:
        by_time = [start <= time < end for time in case["times_ms"]]
        by_slice = ((start * 1000 <= starts) & (starts < end * 1000)).tolist()
        assert by_slice == by_time
    if "counts" in case:
        held = [int(((s * 1000 <= starts) & (starts < e * 1000)).sum()) for s, e in case["windows_ms"]]
        assert held == case["counts"]
    if "sums" in case:
        values = np.array(case["values"])
        inside = [(s * 1000 <= starts) & (starts < e * 1000) for s, e in case["windows_ms"]]
        assert [values[rows].sum() for rows in inside] == case["sums"]
    assert (starts <= np.array(case["times_ms"]) * 1000).all()
    assert window.slide_ms == case["slide_ms"]


@each_case
def test_each_published_window_is_due_once_and_no_earlier_than_its_end(case: Case) -> None:
    window, starts = window_of(case), np.unique(starts_of(case))
    for _, end_ms in case["windows_ms"]:
        end = end_ms * 1000
        assert end not in due_ends(window, Advance(before=None, now=end - 1), starts)
        assert end in due_ends(window, Advance(before=None, now=end), starts)
        assert end in due_ends(window, Advance(before=end - 1, now=None), starts)
        assert end not in due_ends(window, Advance(before=end, now=None), starts)
