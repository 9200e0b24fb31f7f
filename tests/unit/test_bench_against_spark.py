"""Benches against ordinary Spark: figures of all rounds, tables, JSON and pictures."""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.bench_samples import cells, check_legends, console, printed

from weft.bench.against_spark import Figures, headlines
from weft.bench.bench import Bench, save, save_figure
from weft.bench.equality import Comparison
from weft.bench.fragments import Fragments, FragmentsResult
from weft.bench.records import Seconds
from weft.bench.runs import WeftRun
from weft.bench.signatures import PAPER_COUNTS, PAPER_SPEEDUPS, Counted, Run, Sharing, Signatures, count_all
from weft.bench.slices import Slices, SlicesResult
from weft.bench.tiny_batches import Ends, FixedCost, PlanChange
from weft.bench.workloads import Predicates
from weft.state.clock import RowCounts
from weft.state.report import BatchReport
from weft.window import Window

FIELDS = (
    "workload queries rows seeds weft_s weft_without_checkpoint_s one_query_s unshared_s scan_s "
    "ratio_to_one_query ratio_without_checkpoint ratio_by_pairs spread_s speedup_vs_unshared partial_ops "
    "final_ops"
).split()


@pytest.fixture
def figures() -> Figures:
    return Figures(
        queries=256, seeds=(1,), weft=Seconds((1.0, 2.0, 9.0)),
        without_checkpoint=Seconds((1.5, 1.75, 1.8)), ordinary=Seconds((2.5, 2.0, 3.0)), scan=Seconds((1.0,)),
        pairs=(0.5, 0.7, 4.0), measured_queries=1,
        run=WeftRun(rows=5, partial_ops=5, final_ops=9, relations=3, batches=8, windows=11),
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
    assert (both.compared.equal, both.compared.queries, both.compared.rows) == (False, 512, 11)
    assert both.fixed.weft.runs == (0.13, 0.13)


def test_every_set_of_queries_is_measured(slices: SlicesResult) -> None:
    asked: list[tuple[int, int, int]] = []
    prepared: list[int] = []
    shown: list[SlicesResult] = []

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Shown(SlicesResult):
        def show(self, console: Console) -> None:
            shown.append(self)

    def measure(rows: int, size: int, seed: int) -> SlicesResult:
        asked.append((rows, size, seed))
        figures = replace(slices.figures, run=WeftRun(rows=rows), queries=size, seeds=(seed,))
        return Shown(bench=slices.bench, figures=figures, operations=slices.operations)

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Sets(Bench[SlicesResult]):
        def measure(self) -> Iterator[SlicesResult]:
            return self.over_sets(lambda rows: prepared.append(rows) or rows, measure)

    results = Sets(console=console(), queries=(4, 16), rows=(7, 8), seeds=(1, 3)).run()
    assert asked == [(rows, size, seed) for rows in (7, 8) for size in (4, 16) for seed in (1, 3)]
    assert prepared == [7, 8]
    assert list(results) == shown
    assert [one.figures.seeds for one in results] == 4 * [(1,), (3,), (1, 3)]
    assert [(one.figures.run.rows, one.figures.queries, one.figures.seeds) for one in headlines(results)] == [
        (7, 4, (1, 3)), (7, 16, (1, 3)), (8, 4, (1, 3)), (8, 16, (1, 3))
    ]  # fmt: skip


@pytest.fixture
def slices(figures: Figures) -> SlicesResult:
    counted = [
        one
        for size in (16, 256)
        for one in count_all([Window(range_ms=3, slide_ms=2)] * size, Run(begin_ms=0, end_ms=9, rows=5))
    ]
    asked = Slices(console=console(), repeats=3, warmups=2)
    return SlicesResult(bench=asked, cores=2, figures=figures, operations=tuple(counted))


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
        bench=Fragments(console=console(), repeats=3, warmups=2), cores=2, workload=request.param,
        figures=figures, change=change, change_without_checkpoint=without, counted=tuple(counted),
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
    run = replace(fragments.figures.run, partial_ops=huge + 2, final_ops=huge + 3, relations=12)
    figures = replace(fragments.figures, run=run)
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


def test_legends_of_slices_cover_no_point(slices: SlicesResult) -> None:
    check_legends(SlicesResult.draw([slices]))


def test_legends_of_fragments_cover_no_point(fragments: FragmentsResult) -> None:
    check_legends(FragmentsResult.draw([fragments]))


def test_a_picture_of_slices(slices: SlicesResult, tmp_path: Path) -> None:
    smaller = replace(slices, figures=replace(slices.figures, run=WeftRun(rows=3)))
    save_figure(SlicesResult.draw([slices, smaller]), tmp_path / "slices.png")
    assert {path.name for path in tmp_path.iterdir()} == {"slices.png"}


def test_a_picture_of_fragments(fragments: FragmentsResult, tmp_path: Path) -> None:
    smaller = replace(fragments, figures=replace(fragments.figures, queries=16))
    at_papers_size = replace(fragments, figures=replace(fragments.figures, run=WeftRun(rows=3)))
    figure = FragmentsResult.draw([fragments, smaller, at_papers_size])
    save_figure(figure, tmp_path / "fragments.png")
    assert (tmp_path / "fragments.png").stat().st_size > 0
