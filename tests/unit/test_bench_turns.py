"""Rounds by turns, options of benches, and what they refuse before they run."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.unit.bench_samples import console, printed

from weft.bench.bench import needs_matplotlib
from weft.bench.options import PAPER_ROWS, Options, row_count
from weft.cli.bench import BENCHES
from weft.errors import UserError


def test_things_take_turns_and_warm_ups_do_not_count() -> None:
    order: list[str] = []
    ticks: Iterator[float] = iter(range(100))

    def thing(name: str) -> float:
        order.append(name)
        return next(ticks)

    turns = [(name, partial(thing, name)) for name in "ab"]
    taken = Options(console=console(), repeats=3).alternate(turns)
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
    taken = Options(console=console(), repeats=2).alternate(turns, patience_s=5, clock=lambda: now)
    assert (taken["slow"].runs, taken["quick"].runs) == ((), (100.0, 100.0))
    assert order.count("slow") == 1


def test_rounds_are_shown_where_there_is_no_bar() -> None:
    options = Options(console=console(), repeats=1)
    options.alternate([("quick", lambda: 0.25)])
    lines = [line.strip() for line in printed(options.console).splitlines() if line.strip()]
    assert lines == ["warm-up: quick: 0.25 s", "round 1 of 1: quick: 0.25 s"]


def test_no_counted_round_is_refused() -> None:
    with pytest.raises(ValueError, match="repeats"):
        Options(console=console(), repeats=0).alternate([])


def test_rows_are_a_number_or_the_papers() -> None:
    assert row_count("paper") == PAPER_ROWS
    for wrong in ("999", "many", "-5", "1e6"):
        with pytest.raises(UserError, match="or paper, got"):
            row_count(wrong)
    with pytest.raises(UserError, match="a number of rows and a seed"):
        Options(console=console(), seeds=())


def test_a_missing_matplotlib_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    needs_matplotlib(None)
    for name in ("slices", "fragments", "windows", "figures", "churn"):
        with pytest.raises(UserError, match="or leave the picture out with --no-plot"):
            BENCHES[name](console=console(), plot=tmp_path / "it.png").run()
