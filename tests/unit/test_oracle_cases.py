"""Published window cases hold for the reference evaluator."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.reference import windows_of

FOLDER = Path(__file__).parents[1] / "cases"
CASES: list[dict[str, Any]] = [
    case for path in sorted(FOLDER.glob("*.json")) for case in json.loads(path.read_text("utf-8"))
]
REQUIRED = {
    "id",
    "source",
    "range_ms",
    "slide_ms",
    "start_offset_ms",
    "offset_ms",
    "times_ms",
    "windows_ms",
    "complete",
}
OPTIONAL = {"counts", "values", "sums", "differs", "published_ms", "note"}


def test_every_case_has_the_documented_form() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) > 60
    for case in CASES:
        assert set(case) >= REQUIRED, case["id"]
        assert set(case) <= REQUIRED | OPTIONAL, case["id"]
        assert ("differs" in case) == ("published_ms" in case), case["id"]
        end_offset_ms = (case["start_offset_ms"] + case["range_ms"]) % case["slide_ms"]
        assert case["offset_ms"] == end_offset_ms, case["id"]
        assert case["source"].keys() == {"project", "repository", "commit", "file", "test"}, case["id"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_published_windows_are_found(case: dict[str, Any]) -> None:
    held: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, time_ms in enumerate(case["times_ms"]):
        bounds = windows_of(time_ms * 1000, case["range_ms"], case["slide_ms"], case["offset_ms"])
        for start, end in bounds:
            held[start // 1000, end // 1000].append(row)
    wanted = [(start, end) for start, end in case["windows_ms"]]
    assert set(wanted) <= set(held)
    if case["complete"]:
        assert set(held) == set(wanted)
    if "counts" in case:
        assert [len(held[window]) for window in wanted] == case["counts"]
    if "sums" in case:
        assert [sum(case["values"][row] for row in held[window]) for window in wanted] == case["sums"]
