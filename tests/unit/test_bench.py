"""Benches without Spark: queries, turns, comparison of rows, and results as tables, JSON and pictures."""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from weft.bench import plot, plot_fragments
from weft.bench.against_spark import Figures
from weft.bench.churn_memory import trend
from weft.bench.equality import Check, Comparison, Span, difference
from weft.bench.fixed_cost import Ends
from weft.bench.fragments import FragmentsResult, run_fragments
from weft.bench.measure import alternate
from weft.bench.memory import MemoryResult
from weft.bench.memory_run import Observed
from weft.bench.operations import Counted, Run, count_all
from weft.bench.plan_change import PlanChange
from weft.bench.report import needs_matplotlib, save, show_memory, show_slices, show_windows
from weft.bench.report_fragments import show_fragments
from weft.bench.signatures import PAPER_COUNTS, PAPER_SPEEDUPS, Sharing, Signatures
from weft.bench.slices import SlicesResult, run_slices
from weft.bench.windows import Size, WindowsResult, run_windows
from weft.bench.workloads import Predicates, paper_queries, scotty_queries
from weft.errors import UserError
from weft.query import parse_select
from weft.runtime.clock import RowCounts
from weft.runtime.pipeline import BatchReport
from weft.window import Window

FIELDS = (
    "workload queries rows weft_s one_query_s unshared_s scan_s ratio_to_one_query speedup_vs_unshared "
    "partial_ops final_ops"
).split()


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def printed(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def cells(text: str, name: str) -> list[str]:
    """Return the cells of the one row of a table that has a name."""
    [row] = [line for line in text.splitlines() if line.startswith(f"│ {name} ")]
    return [cell.strip() for cell in row.strip("│").split("│")][1:]


def test_the_papers_queries_lie_in_its_ranges() -> None:
    queries = paper_queries(256)
    assert len({query.name for query in queries}) == 256
    for query in queries:
        assert 600_000 <= query.window.range_ms <= 900_000
        assert 300_000 <= query.window.slide_ms <= 600_000
        assert query.window.range_ms % 1000 == query.window.slide_ms % 1000 == 0
    assert paper_queries(16) == queries[:16]
    assert paper_queries(16, seed=2) != queries[:16]


def test_scottys_windows_tumble_and_last_1_to_20_s() -> None:
    for query in scotty_queries(1000):
        assert query.window.range_ms == query.window.slide_ms
        assert 1_000 <= query.window.range_ms < 20_000


@pytest.mark.parametrize("query", [*paper_queries(20), *scotty_queries(20)])
def test_the_text_says_the_window(query: object) -> None:
    assert parse_select(query.sql, name="q").name == "q"  # type: ignore[attr-defined]


def test_things_take_turns_and_warm_ups_do_not_count() -> None:
    order: list[str] = []
    ticks: Iterator[float] = iter(range(100))

    def thing(name: str) -> float:
        order.append(name)
        return next(ticks)

    turns = [(name, partial(thing, name)) for name in "ab"]
    taken = alternate(turns, repeats=3, warmups=1, console=console())
    assert order == list("abababab")
    assert taken["a"].runs == (2, 4, 6)
    assert (taken["b"].median, taken["b"].best) == (5, 3)


def test_no_counted_round_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats"):
        alternate([], repeats=0, warmups=1, console=console())


def rows(*values: tuple[int, int, float]) -> pa.Table:
    start, end, value = zip(*values, strict=True)
    moments = [pa.array(times).cast(pa.timestamp("us", "UTC")) for times in (start, end)]
    return pa.table([*moments, pa.array(value)], names=["window_start", "window_end", "value"])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (rows((5, 9, 2.0), (0, 4, 1.0 + 1e-12)), None),
        (rows((0, 4, 1.0)), "1 rows where plain Spark has 2"),
        (rows((0, 4, 1.0), (0, 4, 1.0), (5, 9, 2.0)), "3 rows"),
        (rows((0, 4, 1.0), (0, 4, 1.0)), "window_start differs"),
        (rows((0, 4, 1.0), (5, 8, 2.0)), "window_end differs"),
        (rows((0, 4, 1.0), (5, 9, 2.0 + 1e-8)), "2.00000001"),
        (rows((0, 4, 1.0), (5, 9, float("nan"))), "nan"),
    ],
)
def test_a_difference_is_seen(found: pa.Table, said: str | None) -> None:
    differences = difference("q", found, rows((0, 4, 1.0), (5, 9, 2.0)))
    assert (said is None) == (differences == [])
    assert said is None or said in differences[0]


def test_what_is_checked() -> None:
    queries = paper_queries(256)
    assert [len(check.choose(queries)) for check in Check] == [256, 16, 0]
    assert Comparison().equal is None
    assert Comparison(queries=1).equal is True
    assert Comparison(queries=1, differences=("q: no",)).equal is False


@pytest.fixture
def figures() -> Figures:
    return Figures(
        queries=256, rows=5, weft_s=2.0, one_query_s=2.5, unshared_s=640.0, scan_s=1.0, partial_ops=5,
        final_ops=9, relations=3, measured_queries=5, repeats=3, batches=8, windows=11, cores=2,
        pyspark="4.3.0", register_s=0.1, stages_s={"spark": 1.0}, runs_s={"Weft": (2.0,)}, ratio_by_pairs=0.8,
        rows_equal=True, compared_queries=256, compared_rows=11, differences=(), fixed_cost_ms=80.0,
        empty_batch_ms=50.0,
    )  # fmt: skip


@pytest.fixture
def slices(figures: Figures) -> SlicesResult:
    counted = [
        one
        for size in (16, 256)
        for one in count_all([Window(range_ms=3, slide_ms=2)] * size, Run(begin_ms=0, end_ms=9, rows=5))
    ]
    return SlicesResult(figures=figures, operations=tuple(counted))


@pytest.fixture(params=Predicates)
def fragments(figures: Figures, request: pytest.FixtureRequest) -> FragmentsResult:
    counted = [
        Signatures(
            queries=size, k=11_407.0, alpha=76.0, beta=77.5,
            unshared=Counted(queries=size, strategy=Sharing.UNSHARED, partial=0, final=500 * size),
            shared=Counted(queries=size, strategy=Sharing.SHARED, partial=100, final=9 * size),
        )
        for size in (16, 256)
    ]  # fmt: skip
    change = PlanChange(adds=5, batch_ms=100.0, changed_ms=350.0, add_ms=40.0)
    return FragmentsResult(workload=request.param, figures=figures, change=change, counted=tuple(counted))


def test_slices_as_json(slices: SlicesResult, tmp_path: Path) -> None:
    save([slices.as_json()], tmp_path / "deep" / "slices.json", console())
    told = json.loads((tmp_path / "deep" / "slices.json").read_text())
    assert set(FIELDS) <= set(told)
    assert (told["ratio_to_one_query"], told["speedup_vs_unshared"]) == (0.8, 320)
    assert told["operations"][0]["strategy"] == "unshared paned"
    assert told["relations"] == 3
    assert told["paper"][-1] == {
        "queries": 256, "strategy": "shared paired", "partial": 1_138_636, "final": 1_462_391
    }  # fmt: skip


def test_slices_as_tables(slices: SlicesResult) -> None:
    shown = console()
    show_slices(slices, shown)
    text = printed(shown)
    assert "5 measured, scaled" in text
    assert "1,462,391" in text
    assert "rows equal plain Spark's: 11 rows of 256 queries" in text
    assert "fixed_cost_ms 80 per micro-batch, planning aside, over Spark's own 50 ms" in text
    assert cells(text, "Weft's run, 3 relations") == ["5", "9", "2.00"]
    assert cells(text, "the paper, shared paired") == ["1,138,636", "1,462,391", ""]


def test_fragments_as_json(fragments: FragmentsResult) -> None:
    told = json.loads(json.dumps(fragments.as_json()))
    assert set(FIELDS) <= set(told)
    assert (told["k"], told["alpha"], told["beta"]) == (11_407, 76, 77.5)
    assert (told["plan_change_ms"], told["relations"]) == (250, 3)
    assert told["paper"]["queries"] == 256
    assert told["paper"]["speedup"] == pytest.approx(PAPER_SPEEDUPS[fragments.workload])
    assert told["paper"]["shared"]["final"] == PAPER_COUNTS[fragments.workload][Sharing.SHARED].final
    assert [(one["queries"], one["strategy"]) for one in told["operations"]] == [
        (16, "unshared"), (16, "shared"), (256, "unshared"), (256, "shared")
    ]  # fmt: skip


def test_readme_names_figures_as_the_json_does(fragments: FragmentsResult) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^\| figure \|.*\n\|.*\n((?:^\|.*\n)+)", readme, re.MULTILINE)
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert {"ratio_to_one_query", "plan_change_ms", "k", "relations", "paper"} <= named
    assert named <= set(fragments.as_json())


def test_fragments_as_tables(fragments: FragmentsResult) -> None:
    shown = console()
    show_fragments(fragments, shown)
    text = printed(shown)
    for sharing in Sharing:
        paper = PAPER_COUNTS[fragments.workload][sharing]
        printed_by_it = [f"{paper.partial:,}", f"{paper.final:,}", f"{paper.seconds:.2f}"]
        assert cells(text, f"the paper, {sharing}") == printed_by_it
    assert cells(text, "Weft's run, 3 relations") == ["5", "9", "2.00"]
    assert "two broadcast joins" in text
    assert "plan_change_ms 250" in text
    assert "11,407" in text


def test_no_number_is_cut_in_80_columns(fragments: FragmentsResult, slices: SlicesResult) -> None:
    # As large as with 4,096 queries over 10 M rows; their means are above 1,000.
    huge = 12_345_678_901
    counted = tuple(
        replace(
            one, alpha=1216.4, beta=1217.6, unshared=replace(one.unshared, partial=huge, final=0),
            shared=replace(one.shared, partial=0, final=huge + 1),
        )
        for one in fragments.counted
    )  # fmt: skip
    figures = replace(fragments.figures, partial_ops=huge + 2, final_ops=huge + 3, relations=12)
    shown = Console(file=io.StringIO(), width=80)
    show_fragments(replace(fragments, figures=figures, counted=counted), shown)
    show_slices(replace(slices, figures=figures), shown)
    text = printed(shown)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for number in range(4):
        assert f"{huge + number:,}" in text
    for paper in PAPER_COUNTS[fragments.workload].values():
        assert f"{paper.partial:,}" in text


def test_a_batch_costs_what_lies_between_ends_less_new_plans() -> None:
    times = iter((10.0, 13.0, 14.0, 16.5, 18.0))
    ends = Ends(lambda: next(times))
    for replanned in (True, True, False, True, False):
        ends.note(
            BatchReport(
                counts=RowCounts(), results={}, replanned=replanned, seconds={"plan": 0.5, "spark": 0.25}
            )
        )
    ends.note(BatchReport(counts=RowCounts(), results={}))  # The end of input is no batch.
    # The first two start the run; from 13 to 18 there are three batches, one of them with a new plan.
    assert ends.between == (5 - 0.5) / 3


def test_growth_is_told_from_noise() -> None:
    batches = np.arange(10.0, 310.0, 10.0)
    noise = np.random.default_rng(1).normal(0, 2, len(batches))
    flat, growing = trend(batches, 500 + noise), trend(batches, 500 + 0.1 * batches + noise)
    assert flat.flat
    assert not growing.flat
    least = trend(batches, 500 + 0.001 * batches, grain=1.0)
    assert least.flat
    assert not replace(least, grain=0.1).flat
    assert growing.per_100_batches == pytest.approx(10, abs=1)
    assert growing.growth == pytest.approx(29, abs=3)
    assert growing.spread == pytest.approx(2, abs=1)


def test_a_query_answers_the_windows_of_its_span() -> None:
    times = [pa.scalar(second * 1_000_000, pa.int64()).cast(pa.timestamp("us", "UTC")) for second in range(6)]
    windows = pa.table({"window_start": times[:4], "window_end": times[2:], "value": [0.0, 1.0, 2.0, 3.0]})

    def values(span: Span) -> object:
        return span.of(windows)["value"].to_pylist()

    assert values(Span()) == [0.0, 1.0, 2.0, 3.0]
    assert values(Span(since=1_000_000)) == [1.0, 2.0, 3.0]
    assert values(Span(until=3_000_000)) == [0.0, 1.0]
    assert values(Span(since=1_000_001, until=4_000_000)) == [2.0]


def test_a_missing_matplotlib_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    needs_matplotlib(None)
    benches: tuple[Callable[..., object], ...] = (run_slices, run_fragments, run_windows)
    for bench in benches:
        with pytest.raises(UserError, match="extra bench, or leave the picture out with --no-plot"):
            bench(console=console(), plot=tmp_path / "it.png")


@pytest.fixture
def windows() -> WindowsResult:
    sizes = tuple(
        Size(
            queries=count, rows_per_s=speed, seconds=1.0, runs_s=(1.0,), windows=9, slices=3, register_s=0.1,
            stages_s={},
        )
        for count, speed in ((1, 100.0), (1000, 95.0))
    )  # fmt: skip
    return WindowsResult(rows=100, rate=50, batches=8, repeats=1, cores=2, pyspark="4.3.0", sizes=sizes)


def test_windows_as_table_and_json(windows: WindowsResult) -> None:
    shown = console()
    show_windows(windows, shown)
    assert "0.95" in printed(shown)
    assert windows.as_json()["ratio"] == 0.95


def test_memory_as_table_and_json() -> None:
    one = Observed(
        rows=10, hours=1, batches=2, seconds=1.0, windows=4, most_retained=100, last_retained=90,
        heap_limit_mb=2048, jvm_live_mb=60, jvm_rss_mb=900, python_rss_mb=200,
    )  # fmt: skip
    result = MemoryResult(queries=256, heap="2g", large=one, short=one, long=one)
    shown = console()
    show_memory(result, shown)
    assert "retained partials × 1.00" in printed(shown)
    assert result.as_json()["rss_ratio"] == 1.0


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return a list that pictures are put in, instead of files."""
    figures: list[Figure] = []
    for module in (plot, plot_fragments):
        monkeypatch.setattr(module, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def check_legends(figure: Figure) -> None:
    figure.savefig(io.BytesIO())
    legends = [(axes, axes.get_legend()) for axes in figure.axes if axes.get_legend() is not None]
    assert legends
    for axes, legend in legends:
        assert legend is not None
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())


def test_legends_cover_no_point(slices: SlicesResult, windows: WindowsResult, drawn: list[Figure]) -> None:
    plot.plot_slices(slices, Path())
    plot.plot_windows(windows, Path())
    for figure in drawn:
        check_legends(figure)


def test_legends_of_fragments_cover_no_point(fragments: FragmentsResult, drawn: list[Figure]) -> None:
    plot_fragments.plot_fragments([fragments], Path())
    check_legends(drawn[0])


def test_pictures(slices: SlicesResult, windows: WindowsResult, tmp_path: Path) -> None:
    plot.plot_slices(slices, tmp_path / "slices.png")
    plot.plot_windows(windows, tmp_path / "windows.png")
    assert {path.name for path in tmp_path.iterdir()} == {"slices.png", "windows.png"}


def test_a_picture_of_fragments(fragments: FragmentsResult, tmp_path: Path) -> None:
    smaller = replace(fragments, figures=replace(fragments.figures, queries=16, unshared_s=40.0))
    plot_fragments.plot_fragments([fragments, smaller], tmp_path / "fragments.png")
    assert (tmp_path / "fragments.png").stat().st_size > 0
