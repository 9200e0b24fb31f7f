"""The benches of many windows and of memory: tables, JSON and pictures."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.bench_samples import cells, check_legends, console, printed

from weft.bench.bench import save_figure
from weft.bench.memory import Memory, MemoryResult, MemoryRuns, Observed
from weft.bench.records import Seconds
from weft.bench.runs import WeftRun
from weft.bench.windows import Size, Windows, WindowsResult


@pytest.fixture
def windows() -> WindowsResult:
    sizes = tuple(
        Size(
            queries=count, run=WeftRun(rows=100, windows=9, slices=3),
            durable=Seconds((seconds, 9.0, 0.5)), as_scotty=Seconds((0.5,)),
        )
        for count, seconds in ((1, 1.0), (1000, 1.25))
    )  # fmt: skip
    return WindowsResult(bench=Windows(console=console(), rate=50), cores=2, rows=100, sizes=sizes)


def test_windows_as_table_and_json(windows: WindowsResult) -> None:
    shown = console()
    windows.show(shown)
    text = printed(shown)
    text, other = text[: text.index("results, and slices")], text[text.index("results, and slices") :]
    assert cells(other.replace("│   ", "│ "), "1,000") == ["9", "3"]
    assert cells(text, "1,000")[:4] == ["80", "0.80", "1.25", "0.50–9.00"]
    assert cells(text, "1,000, no checkpoint")[:4] == ["200", "1.00", "0.50", "0.50–0.50"]
    told = json.loads(json.dumps(windows.as_json()))
    assert told["ratio"] == 0.8
    assert [one["scotty_rows_per_s"] for one in told["sizes"]] == [200, 200]


def test_memory_as_table_and_json() -> None:
    one = Observed(
        rows=10, hours=1, batches=2, seconds=1.0, windows=4, most_retained=100, last_retained=90,
        heap_limit_mb=2048, jvm_live_mb=60, jvm_rss_mb=900, python_rss_mb=200,
    )  # fmt: skip
    durable = MemoryRuns(large=one, short=one, long=replace(one, most_retained=150))
    without = MemoryRuns(large=one, short=one, long=one)
    result = MemoryResult(
        bench=Memory(console=console()),
        queries=256,
        seed=1,
        heap="2g",
        durable=durable,
        without_checkpoint=without,
    )
    shown = console()
    result.show(shown)
    assert "event time: retained partials × 1.50" in printed(shown)
    assert "without a checkpoint: retained partials × 1.00" in printed(shown)
    assert (result.as_json()["rss_ratio"], result.as_json()["retained_ratio"]) == (1.0, 1.5)


def test_a_picture_of_windows(windows: WindowsResult, tmp_path: Path) -> None:
    figure = WindowsResult.draw([windows])
    check_legends(figure)
    save_figure(figure, tmp_path / "windows.png")
    assert {path.name for path in tmp_path.iterdir()} == {"windows.png"}


def test_no_number_of_windows_is_cut_in_80_columns(windows: WindowsResult) -> None:
    run = WeftRun(rows=80_000_000, windows=1_234_567, slices=12_345)
    slow = Seconds((1_100.0, 1_000.0, 1_200.0))
    huge = tuple(replace(size, run=run, durable=slow, as_scotty=slow) for size in windows.sizes)
    shown = Console(file=io.StringIO(), width=80)
    replace(windows, sizes=huge).show(shown)
    assert "…" not in printed(shown)
    assert printed(shown).count("1,000.00–1,200.00") == 2 * len(huge)
