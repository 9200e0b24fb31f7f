"""Queries that come and go: changes, what they owe, memory over batches, and figures."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.bench_samples import cells, console, printed

from weft.bench.bench import save_figure
from weft.bench.changes import changes, spread_evenly, trend
from weft.bench.churn import Churn, ChurnResult, Rounds
from weft.bench.equality import Comparison, Span
from weft.bench.records import Seconds
from weft.bench.workloads import paper_queries
from weft.errors import EngineError
from weft.state.clock import RowCounts
from weft.state.report import BatchReport


@pytest.mark.parametrize(("count", "boundaries"), [(1, 1), (3, 7), (250, 49), (500, 7), (0, 5)])
def test_changes_come_in_no_bursts(count: int, boundaries: int) -> None:
    spread = spread_evenly(count, boundaries)
    assert (len(spread), sum(spread)) == (boundaries, count)
    assert max(spread) - min(spread) <= 1


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


@pytest.fixture
def churn() -> ChurnResult:
    durable = Rounds(
        quiet=Seconds((4.0, 5.0, 6.0)), churned=Seconds((8.0, 5.0, 10.0)), calls=Seconds((0.01, 0.03))
    )
    return ChurnResult(
        bench=Churn(console=console()), queries=4, rows=100, seeds=(1,), batches=8, operations=6,
        durable=durable, without_checkpoint=replace(durable, churned=durable.quiet), plans=3, warm=2,
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


class Waiting(Told):
    """An engine whose calls wait for the end of a batch, or until all callers are there."""

    def __init__(self, callers: int) -> None:
        super().__init__(None)
        self.together, self.done = threading.Barrier(callers, timeout=30), list[str]()

    def add(self, sql: str, *, name: str) -> SimpleNamespace:
        self.together.wait()
        self.done.append(f"+{name}")
        return super().add(sql, name=name)

    def remove(self, name: str) -> None:
        if f"+{name}" not in self.done:
            self.together.wait()
        if name == "gone":
            raise EngineError("it is gone")
        self.done.append(f"-{name}")


def test_callers_wait_together_and_a_query_leaves_after_it_has_joined() -> None:
    first, second = paper_queries(2)
    engine = Waiting(3)
    made = changes(engine, [("old", first), (first.name, second)], boundaries=1)  # type: ignore[arg-type]
    with made.callers():
        made.note("trades", BatchReport(counts=RowCounts(), results={}, seconds={"spark": 1.0}))
    assert made.operations == len(made.calls_s) == 4
    joined, left = engine.done.index(f"+{first.name}"), engine.done.index(f"-{first.name}")
    assert joined < left
    assert {*engine.done} == {f"+{first.name}", f"+{second.name}", "-old", f"-{first.name}"}


def test_the_error_of_a_caller_is_raised() -> None:
    [first] = paper_queries(1)
    made = changes(Waiting(2), [("gone", first)], boundaries=1)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="it is gone"), made.callers():
        made.note("trades", BatchReport(counts=RowCounts(), results={}, seconds={"spark": 1.0}))


def test_a_picture_of_churn(churn: ChurnResult, tmp_path: Path) -> None:
    save_figure(ChurnResult.draw([churn]), tmp_path / "churn.png")
    assert {path.name for path in tmp_path.iterdir()} == {"churn.png"}
