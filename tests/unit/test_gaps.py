"""EMIT EMPTY over a long gap: as many results as windows, in memory that is in proportion to them."""

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.pipeline_samples import MS, Asked, Row, asked, plain_pipeline, process

from weft.limits import Limits, over_limit
from weft.notices import Failure
from weft.state import repeating as repeating_module

_WINDOWS = 200_000
_SLIDE = 5
_BYTES = 200
"""How much memory a result row may take at the peak."""


def every(name: str, least: int) -> Asked:
    """Return a query that answers every window."""
    return asked(name, (f"vol > {least}", lambda row: True), (_SLIDE, _SLIDE), suffix="EMIT EMPTY")


def test_a_long_gap_takes_memory_in_proportion_to_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    answers = repeating_module._answers

    def counting(*given: Any) -> Any:
        for windows in answers(*given):
            looked_at.append(len(windows.key))
            yield windows

    monkeypatch.setattr(repeating_module, "_answers", counting)
    pipeline = plain_pipeline(monkeypatch)
    for least in range(5):
        pipeline.add(every(f"q{least}", least).logical())
    process(pipeline, [Row(MS, "a", 9, 1)])
    tracemalloc.start()
    try:
        before = pa.total_allocated_bytes()
        report = process(pipeline, [Row(_WINDOWS * _SLIDE * MS + 1, "a", 9, 1)])
        rows = sum(table.num_rows for table in report.results.values())
        peak = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
    finally:
        tracemalloc.stop()
    assert rows == 5 * _WINDOWS
    assert peak < _BYTES * rows, peak / rows
    # Windows without a row are not looked for among the rows.
    assert sum(looked_at) == 5


def test_a_gap_beyond_the_limit_fails_alone_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(result_rows=1_000_000)
    pipeline = plain_pipeline(monkeypatch, limits=limits)
    seldom = asked("seldom", ("vol > 0", lambda row: True), (50 * _SLIDE, 50 * _SLIDE), suffix="EMIT EMPTY")
    for one in (*(every(f"q{least}", least) for least in range(5)), seldom):
        pipeline.add(one.logical())
    process(pipeline, [Row(MS, "a", 9, 1)])
    tracemalloc.start()
    try:
        report = process(pipeline, [Row(2_000_000 * _SLIDE * MS + 1, "a", 9, 1)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    told = Failure(kind="TooLarge", text=over_limit("result_rows", 2_000_000, limits))
    assert report.broken == {f"q{least}": told for least in range(5)}
    assert report.results["seldom"].num_rows == 40_000
    assert peak < 40_000 * _BYTES
