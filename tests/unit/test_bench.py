"""Benches without Spark: queries, turns, comparison of rows, and results as tables, JSON and pictures."""

import io
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from weft.bench.against_spark import Figures, headlines
from weft.bench.bench import Bench, needs_matplotlib, save, save_figure
from weft.bench.changes import changes, spread_evenly
from weft.bench.churn import ChurnResult, Rounds
from weft.bench.churn_memory import trend
from weft.bench.equality import Comparison, Span, difference
from weft.bench.fragments import FragmentsResult
from weft.bench.memory import MemoryResult, MemoryRuns
from weft.bench.memory_run import Observed
from weft.bench.operations import Counted, Run, count_all
from weft.bench.options import PAPER_ROWS, Check, Options, alternate, row_count
from weft.bench.records import Seconds
from weft.bench.signatures import PAPER_COUNTS, PAPER_SPEEDUPS, Sharing, Signatures
from weft.bench.slices import SlicesResult
from weft.bench.tiny_batches import Ends, FixedCost, PlanChange
from weft.bench.ways import FIGURES, Taken, Way, WaysResult, ways_of, worth_running
from weft.bench.windows import Size, WindowsResult
from weft.bench.workloads import Predicates, paper_queries, scotty_queries, spread_over
from weft.cli.bench import BENCHES
from weft.errors import UserError
from weft.optimizer.slices import Slicing
from weft.query import parse_select
from weft.state.clock import RowCounts
from weft.stream.pipeline import BatchReport
from weft.window import Window

FIELDS = (
    "workload queries rows seeds weft_s weft_without_checkpoint_s one_query_s unshared_s scan_s "
    "ratio_to_one_query ratio_without_checkpoint ratio_by_pairs spread_s speedup_vs_unshared partial_ops "
    "final_ops"
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


@pytest.mark.parametrize("size", [256, 4_096, 20_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_two_windows_of_a_set_are_alike(size: int, seed: int) -> None:
    assert len({query.window for query in paper_queries(size, seed=seed)}) == size
    few = min(size, 5_000)
    assert len({query.window for query in scotty_queries(few, seed=seed)}) == few


def test_more_queries_than_there_are_windows_are_refused() -> None:
    with pytest.raises(UserError, match="90,601 different windows in whole seconds, got 90,602"):
        paper_queries(90_602)
    with pytest.raises(UserError, match="19,000 different tumbling windows"):
        scotty_queries(19_001)


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
    # Every second round goes backwards: nobody always has the same neighbour.
    assert order == list("baabbaab")
    assert (taken["a"].warmups, taken["b"].warmups) == ((1,), (0,))
    assert taken["a"].runs == (2, 5, 6)
    assert taken["b"].runs == (3, 4, 7)
    assert (taken["b"].median, taken["b"].least, taken["b"].most) == (4, 3, 7)
    assert taken["b"].spread == "3.00–7.00"


def test_who_takes_too_long_has_no_further_turn() -> None:
    order: list[str] = []
    now = 0.0

    def thing(name: str, lasts: float) -> float:
        nonlocal now
        order.append(name)
        now += lasts
        return 100.0  # What it tells may be scaled.

    turns = [("slow", partial(thing, "slow", 9.0)), ("quick", partial(thing, "quick", 1.0))]
    taken = alternate(turns, repeats=2, warmups=1, console=console(), patience_s=5, clock=lambda: now)
    assert (taken["slow"].runs, taken["quick"].runs) == ((), (100.0, 100.0))
    assert order.count("slow") == 1


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
        queries=256, rows=5, seeds=(1,), slicing=Slicing.PAIRED, weft=Seconds((1.0, 2.0, 9.0)),
        without_checkpoint=Seconds((1.5, 1.75, 1.8)), ordinary=Seconds((2.5, 2.0, 3.0)), scan=Seconds((1.0,)),
        pairs=(0.5, 0.7, 4.0), partial_ops=5, final_ops=9, relations=3, measured_queries=1, repeats=3,
        warmups=2, batches=8, windows=11, cores=2, pyspark="4.3.0", register_s=0.1, stages_s={"spark": 1.0},
        compared=Comparison(queries=256, rows=11),
        fixed=FixedCost(
            batches=20, weft=Seconds((0.13,)), without_checkpoint=Seconds((0.09,)), empty=Seconds((0.05,)),
            planning_ms=7.0,
        ),
    )  # fmt: skip


def test_figures_are_of_all_counted_rounds(figures: Figures) -> None:
    assert (figures.weft_s, figures.one_query_s) == (2.0, 2.5)
    assert figures.ratio_to_one_query == 0.8
    assert figures.ratio_without_checkpoint == 0.7
    assert figures.ratio_by_pairs == 0.7
    assert figures.unshared_s == 640
    assert figures.as_json()["spread_s"] == {
        "weft": (1.0, 9.0), "weft_without_checkpoint": (1.5, 1.8), "one_query": (2.0, 3.0), "scan": (1.0, 1.0)
    }  # fmt: skip


def test_several_seeds_are_told_together(figures: Figures) -> None:
    other = replace(
        figures,
        seeds=(2,),
        weft=Seconds((4.0, 5.0, 6.0)),
        compared=Comparison(queries=256, differences=("no",)),
    )
    both = Figures.pooled([figures, other])
    assert both.seeds == (1, 2)
    assert both.weft.runs == (1.0, 2.0, 9.0, 4.0, 5.0, 6.0)
    assert both.weft_s == 4.5
    assert both.pairs == 2 * figures.pairs
    assert (both.rows_equal, both.compared.queries, both.compared.rows) == (False, 512, 11)
    assert both.fixed.weft.runs == (0.13, 0.13)


def test_every_set_of_queries_is_measured(slices: SlicesResult) -> None:
    asked: list[tuple[int, int, int]] = []
    shown: list[SlicesResult] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Shown(SlicesResult):
        def show(self, console: Console) -> None:
            shown.append(self)

    def measure(rows: int, size: int, seed: int) -> SlicesResult:
        asked.append((rows, size, seed))
        figures = replace(slices.figures, rows=rows, queries=size, seeds=(seed,))
        return Shown(figures=figures, operations=slices.operations)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Sets(Bench[SlicesResult]):
        def measure(self) -> Iterator[SlicesResult]:
            return self.over_sets(measure)

    results = Sets(console=console(), queries=(4, 16), rows=(7, 8), seeds=(1, 3)).run()
    assert asked == [(rows, size, seed) for rows in (7, 8) for size in (4, 16) for seed in (1, 3)]
    assert list(results) == shown
    assert [one.figures.seeds for one in results] == 4 * [(1,), (3,), (1, 3)]
    assert [(one.figures.rows, one.figures.queries, one.figures.seeds) for one in headlines(results)] == [
        (7, 4, (1, 3)), (7, 16, (1, 3)), (8, 4, (1, 3)), (8, 16, (1, 3))
    ]  # fmt: skip


def test_rows_are_a_number_or_the_papers() -> None:
    assert row_count("paper") == PAPER_ROWS
    for wrong in ("999", "many", "-5", "1e6"):
        with pytest.raises(UserError, match="or paper, got"):
            row_count(wrong)
    with pytest.raises(UserError, match="a number of rows and a seed"):
        Options(console=console(), seeds=())


def test_what_is_measured_is_spread_over_the_queries() -> None:
    queries = paper_queries(10)
    assert spread_over(queries, 3) == [queries[0], queries[3], queries[6]]
    assert spread_over(queries, 99) == list(queries)


@pytest.mark.parametrize(("count", "boundaries"), [(1, 1), (3, 7), (250, 49), (500, 7), (0, 5)])
def test_changes_come_in_no_bursts(count: int, boundaries: int) -> None:
    spread = spread_evenly(count, boundaries)
    assert (len(spread), sum(spread)) == (boundaries, count)
    assert max(spread) - min(spread) <= 1


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
    change = PlanChange(quiet=Seconds((0.1, 0.1)), changed=Seconds((0.35,)), add=Seconds((0.04,)))
    without = replace(change, add=Seconds((0.01,)))
    return FragmentsResult(
        workload=request.param, figures=figures, change=change, change_without_checkpoint=without,
        counted=tuple(counted),
    )  # fmt: skip


def test_slices_as_json(slices: SlicesResult, tmp_path: Path) -> None:
    save(slices.as_json(), tmp_path / "deep" / "slices.json")
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
    slices.show(shown)
    text = printed(shown)
    assert cells(text, "Weft, 256 queries") == ["2.00", "1.00–9.00", "0.80"]
    assert cells(text, "Weft without a checkpoint") == ["1.75", "1.50–1.80", "0.70"]
    assert cells(text, "256 ordinary queries, scaled") == ["640.00", "", "256.00"]
    told = " ".join(text.split())
    assert "Medians of all 3 counted rounds" in told
    assert "1,462,391" in told
    assert "rows equal plain Spark's: 11 rows of 256 queries" in told
    assert "fixed_cost_ms 80 per micro-batch over Spark's own 50 ms" in told
    assert "(they took 7 ms a batch); without a checkpoint 40" in told
    assert "ratio_by_pairs 0.70 (0.50–4.00); without a checkpoint 0.70" in told
    assert cells(text, "Weft's run, 3 relations") == ["5", "9", "2.00"]
    assert cells(text, "the paper, shared paired") == ["1,138,636", "1,462,391", ""]


def test_fragments_as_json(fragments: FragmentsResult) -> None:
    told = json.loads(json.dumps(fragments.as_json()))
    assert set(FIELDS) <= set(told)
    assert (told["k"], told["alpha"], told["beta"]) == (11_407, 76, 77.5)
    # The call is counted: 40 ms, and 350 instead of 100.
    assert (told["plan_change_ms"], told["relations"]) == (pytest.approx(290), 3)
    assert told["plan_change_without_checkpoint_ms"] == pytest.approx(260)
    assert told["times_fewer"] == pytest.approx(500 * 256 / (100 + 9 * 256))
    assert told["paper"]["queries"] == 256
    assert told["paper"]["speedup"] == pytest.approx(PAPER_SPEEDUPS[fragments.workload])
    assert told["paper"]["shared"]["final"] == PAPER_COUNTS[fragments.workload][Sharing.SHARED].final
    assert [(one["queries"], one["strategy"]) for one in told["operations"]] == [
        (16, "unshared"), (16, "shared"), (256, "unshared"), (256, "shared")
    ]  # fmt: skip


def test_the_manual_names_figures_as_the_json_does(fragments: FragmentsResult) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    [table] = re.findall(r"^\| figure \| meaning \|\n\|.*\n((?:^\|.*\n)+)", manual, re.MULTILINE)
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert {"ratio_to_one_query", "plan_change_ms", "k", "relations", "paper"} <= named
    assert named <= set(fragments.as_json())


def test_fragments_as_tables(fragments: FragmentsResult) -> None:
    shown = console()
    fragments.show(shown)
    text = printed(shown)
    for sharing in Sharing:
        paper = PAPER_COUNTS[fragments.workload][sharing]
        printed_by_it = [f"{paper.partial:,}", f"{paper.final:,}", f"{paper.seconds:.2f}"]
        assert cells(text, f"the paper, {sharing}") == printed_by_it
    assert cells(text, "Weft's run, 3 relations") == ["5", "9", "2.00"]
    told = " ".join(text.split())
    assert "two broadcast joins of tables in memory" in told
    assert "plan_change_ms 290: the call that adds a query took 40 ms" in told
    premise = {Predicates.FRAGMENTS: "14.94", Predicates.REGULAR: "29.72", Predicates.LOW: "1.85"}
    assert "stand 1 : 53.24 over these 5 rows" in told
    assert f"in the paper 1 : {premise[fragments.workload]}" in told
    assert "11,407" in text


def test_several_seeds_as_tables_tell_no_operations_of_one(fragments: FragmentsResult) -> None:
    shown = console()
    replace(fragments, figures=replace(fragments.figures, seeds=(1, 2))).show(shown)
    assert "seeds 1, 2" in printed(shown)
    assert "the paper" not in printed(shown)


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
    replace(fragments, figures=figures, counted=counted).show(shown)
    replace(slices, figures=figures).show(shown)
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
    for name in ("slices", "fragments", "windows", "figures", "churn"):
        with pytest.raises(UserError, match="extra bench, or leave the picture out with --no-plot"):
            BENCHES[name](console=console(), plot=tmp_path / "it.png").run()


@pytest.fixture
def windows() -> WindowsResult:
    sizes = tuple(
        Size(
            queries=count, rows=100, durable=Seconds((seconds, 9.0, 0.5)), as_scotty=Seconds((0.5,)),
            windows=9, slices=3, register_s=0.1, stages_s={},
        )
        for count, seconds in ((1, 1.0), (1000, 1.25))
    )  # fmt: skip
    return WindowsResult(
        rows=100, rate=50, batches=8, repeats=3, warmups=1, seeds=(1,), cores=2, pyspark="4.3.0", sizes=sizes
    )


def test_windows_as_table_and_json(windows: WindowsResult) -> None:
    shown = console()
    windows.show(shown)
    assert cells(printed(shown).replace("│   ", "│ "), "1,000")[:4] == ["80", "0.80", "1.25", "0.50–9.00"]
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
    result = MemoryResult(queries=256, seed=1, heap="2g", durable=durable, without_checkpoint=without)
    shown = console()
    result.show(shown)
    assert "event time: retained partials × 1.50" in printed(shown)
    assert "without a checkpoint: retained partials × 1.00" in printed(shown)
    assert (result.as_json()["rss_ratio"], result.as_json()["retained_ratio"]) == (1.0, 1.5)


@pytest.fixture
def churn() -> ChurnResult:
    durable = Rounds(
        quiet=Seconds((4.0, 5.0, 6.0)), churned=Seconds((8.0, 5.0, 10.0)), calls=Seconds((0.01, 0.03))
    )
    return ChurnResult(
        queries=4, rows=100, seeds=(1,), batches=8, operations=6, warmups=1, durable=durable,
        without_checkpoint=replace(durable, churned=durable.quiet), plans=3, warm=2,
        compared=Comparison(queries=7, rows=9), memory=None,
    )  # fmt: skip


def test_churn_as_table_and_json(churn: ChurnResult) -> None:
    shown = console()
    churn.show(shown)
    text = printed(shown)
    assert cells(text, "with changes") == ["8.00", "5.00–10.00", "12"]
    assert "throughput_with_changes 0.62; by rounds 0.60 (0.50–1.00); without a checkpoint 1.00" in text
    told = json.loads(json.dumps(churn.as_json()))
    assert (told["throughput"], told["throughput_by_pairs"], told["call_ms"]) == (0.625, 0.6, 20)
    assert told["without_checkpoint"]["throughput"] == 1
    assert churn.passed
    assert not replace(churn, compared=Comparison(queries=1, differences=("no",))).passed


def test_churn_of_several_seeds_is_told_together(churn: ChurnResult) -> None:
    other = replace(churn, seeds=(5,), compared=Comparison(queries=2, differences=("no",)))
    both = ChurnResult.pooled([churn, other])
    assert (both.seeds, both.warm, both.passed, both.compared.queries) == ((1, 5), 4, False, 9)
    assert both.durable.quiet.runs == 2 * churn.durable.quiet.runs
    assert both.without_checkpoint.calls.runs == 2 * churn.durable.calls.runs


class Told:
    """An engine that adds and removes queries, and tells a first window."""

    def __init__(self, first: int | None) -> None:
        self.queries: dict[str, object] = {}
        self._first = first

    def add(self, sql: str, *, name: str) -> SimpleNamespace:
        window = None if self._first is None else (self._first, self._first + 1)
        return SimpleNamespace(info=SimpleNamespace(first_window=window))

    def remove(self, name: str) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("told", "since", "warm"),
    [
        (None, 50_000_001, 0),
        (50_000_001, 50_000_001, 0),
        (60_000_000, 50_000_001, 0),  # It owes the windows in between all the same.
        (40_000_000, 40_000_000, 1),  # It has promised more, and is held to it.
    ],
)
def test_what_a_query_owes_follows_from_the_files_read(told: int | None, since: int, warm: int) -> None:
    first, second = paper_queries(2)
    # In microseconds: the newest row of a batch, and of the one after it.
    made = changes(
        Told(told),  # type: ignore[arg-type]
        [("old", first), (first.name, second)],
        boundaries=2,
        newest=[50_000_000, 90_000_000],
    )
    batch = BatchReport(counts=RowCounts(), results={}, seconds={"spark": 1.0})
    made.note("trades", batch)
    assert made.spans == {first.name: Span(since=since), "old": Span(until=40_000_000)}
    assert made.warm == warm
    made.note("trades", BatchReport(counts=RowCounts(), results={}))
    made.note("trades", batch)
    assert made.spans[first.name] == Span(since=since, until=80_000_000)
    assert (made.operations, made.batches) == (4, 2)


@pytest.fixture(params=FIGURES)
def ways(request: pytest.FixtureRequest) -> WaysResult:
    taken = tuple(
        Taken(
            queries=size, way=way.name, seconds=Seconds(() if way.name == "separate" else (1.0, 3.0, 2.0)),
            relations=1, partial_ops=7, final_ops=8,
        )
        for size in (16, 256)
        for way in ways_of(FIGURES[request.param])
    )  # fmt: skip
    return WaysResult(
        figure=request.param, rows=100, seeds=(1,), repeats=3, warmups=1, measured=3, patience_s=30, cores=2,
        taken=taken, compared=Comparison(queries=4, rows=9),
    )  # fmt: skip


def test_a_way_that_would_take_too_long_is_not_run() -> None:
    joint = Way(name="joint")
    took = Taken(
        queries=16, way="joint", seconds=Seconds((4.0, 9.0, 5.0)), relations=1, partial_ops=7, final_ops=8
    )
    assert worth_running(joint, 64, [], 30.0)
    assert worth_running(joint, 64, [took], 30.0)
    assert not worth_running(joint, 256, [took], 30.0)
    assert not worth_running(joint, 64, [replace(took, seconds=Seconds(()))], 30.0)
    # An engine for each query takes as long however many there are: some are run.
    assert worth_running(replace(joint, alone=True), 256, [took], 30.0)
    assert worth_running(replace(joint, name="auto"), 256, [took], 30.0)


def test_every_way_of_the_papers_figures_is_told(ways: WaysResult) -> None:
    shown = console()
    ways.show(shown)
    text = printed(shown)
    names = {one.way for one in ways.taken}
    assert all(f"│ {name} " in text for name in names)
    if ways.figure == 13:
        assert names == {"unshared paned", "unshared paired", "shared paned", "shared paired"}
        assert "50.48" in text
    else:
        assert {"unshared", "separate", "joint", "auto"} <= names
        assert ("joint, paned" in names) == (ways.figure != 14)
        assert "> 30" in text
    told = json.loads(json.dumps(ways.as_json()))
    assert {one["seconds"] for one in told["taken"]} == ({2.0} if ways.figure == 13 else {2.0, None})


def check_legends(figure: Figure) -> None:
    figure.savefig(io.BytesIO())
    legends = [(axes, axes.get_legend()) for axes in figure.axes if axes.get_legend() is not None]
    assert legends
    for axes, legend in legends:
        assert legend is not None
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())


def test_legends_cover_no_point(slices: SlicesResult, windows: WindowsResult) -> None:
    for figure in (SlicesResult.draw([slices]), WindowsResult.draw([windows])):
        check_legends(figure)


def test_legends_of_fragments_cover_no_point(fragments: FragmentsResult) -> None:
    check_legends(FragmentsResult.draw([fragments]))


def test_legends_of_ways_cover_no_point(ways: WaysResult) -> None:
    check_legends(WaysResult.draw([ways, ways]))


def test_pictures(slices: SlicesResult, windows: WindowsResult, churn: ChurnResult, tmp_path: Path) -> None:
    smaller = replace(slices, figures=replace(slices.figures, rows=3))
    save_figure(SlicesResult.draw([slices, smaller]), tmp_path / "slices.png")
    save_figure(WindowsResult.draw([windows]), tmp_path / "windows.png")
    save_figure(ChurnResult.draw([churn]), tmp_path / "churn.png")
    assert {path.name for path in tmp_path.iterdir()} == {"slices.png", "windows.png", "churn.png"}


def test_a_picture_of_fragments(fragments: FragmentsResult, tmp_path: Path) -> None:
    smaller = replace(fragments, figures=replace(fragments.figures, queries=16))
    at_papers_size = replace(fragments, figures=replace(fragments.figures, rows=3))
    figure = FragmentsResult.draw([fragments, smaller, at_papers_size])
    save_figure(figure, tmp_path / "fragments.png")
    assert (tmp_path / "fragments.png").stat().st_size > 0
