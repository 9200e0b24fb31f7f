"""Every way to share: what is run, tables, JSON and pictures."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console
from tests.unit.bench_samples import check_legends, console, printed

from weft.bench.equality import Comparison
from weft.bench.records import Seconds
from weft.bench.runs import WeftRun
from weft.bench.ways import FIGURES, PaperFigures, Timing, Way, WaysResult, ways_of, worth_running


@pytest.fixture(params=FIGURES)
def ways(request: pytest.FixtureRequest) -> WaysResult:
    taken = tuple(
        Timing(
            queries=size, way=way.name, seconds=Seconds(() if way.name == "separate" else (1.0, 3.0, 2.0)),
            run=WeftRun(relations=1, partial_ops=7, final_ops=8),
        )
        for size in (16, 256)
        for way in ways_of(FIGURES[request.param])
    )  # fmt: skip
    return WaysResult(
        bench=PaperFigures(console=console()), cores=2, figure=request.param, rows=100, taken=taken,
        compared=Comparison(queries=4, rows=9),
    )  # fmt: skip


def test_a_way_that_would_take_too_long_is_not_run() -> None:
    joint = Way(name="joint")
    took = Timing(
        queries=16,
        way="joint",
        seconds=Seconds((4.0, 9.0, 5.0)),
        run=WeftRun(relations=1, partial_ops=7, final_ops=8),
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


def test_no_number_of_a_way_is_cut_in_80_columns(ways: WaysResult) -> None:
    run = WeftRun(relations=1, partial_ops=12_345_678_901, final_ops=98_765_432_109)
    huge = tuple(replace(taken, run=run) for taken in ways.taken)
    shown = Console(file=io.StringIO(), width=80)
    replace(ways, taken=huge).show(shown)
    assert "…" not in printed(shown)
    assert printed(shown).count("12,345,678,901") == printed(shown).count("98,765,432,109") == len(huge)


def test_legends_of_ways_cover_no_point(ways: WaysResult) -> None:
    check_legends(WaysResult.draw([ways, ways]))
