"""The slice that Spark gives a row begins at the last edge before it, on the grid and by table, anywhere."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import gcd
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.unit.window_samples import Advance, due_ends, edges_between
from weft.arrays import Times
from weft.optimizer.plan import Relation
from weft.optimizer.slices import SliceManager, Slicing, common_grid, edge_classes
from weft.spark.job import slicing
from weft.spark.job.constants import Constants
from weft.spark.job.slicing import SliceCoder, Table, build_table
from weft.window import Window

CASES: list[dict[str, Any]] = [
    case
    for path in sorted((Path(__file__).parents[1] / "cases").glob("*.json"))
    for case in json.loads(path.read_text("utf-8"))
]
TIME = "time"
LIMIT = (1 << 62) - 1
"""No event time is further from the epoch than this."""
SEEDS = range(24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """Windows, and what a batch knows of its times."""

    windows: tuple[Window, ...]
    slicing: Slicing = Slicing.PAIRED
    begin_us: int | None = None
    """The watermark; None before the first batch."""
    span_us: int = 0
    times: list[int] = field(default_factory=list)

    def coder(self, name: str) -> SliceCoder:
        return SliceCoder(Relation(windows=frozenset(self.windows)), self.slicing, name)


def slow_start(windows: tuple[Window, ...], how: Slicing, time_us: int) -> int:
    """Return the last edge at or before a time: of each window its last end, start or pane (STS 3.1)."""
    time, edges = time_us // 1000, []
    for window in windows:
        since_end = time - window.offset_ms
        if how is Slicing.PANED:
            edges.append(time - since_end % gcd(window.range_ms, window.slide_ms))
        else:
            edges.append(time - since_end % window.slide_ms)
            edges.append(time - (since_end + window.range_ms) % window.slide_ms)
    return max(edges) * 1000


@pytest.mark.parametrize("how", Slicing)
def test_the_expected_edges_are_those_of_the_definitions(how: Slicing) -> None:
    chance = Random(1)
    for _ in range(20):
        windows = tuple(random_window(chance, longest=40) for _ in range(chance.randint(1, 3)))
        for time in range(-60, 60):
            edges = edges_between(windows, time - 41, time, how)
            assert slow_start(windows, how, 1000 * time + chance.randrange(1000)) == 1000 * edges[-1]


def random_window(chance: Random, *, longest: int) -> Window:
    slide = chance.randint(1, longest)
    return Window(
        range_ms=chance.randint(1, 3 * longest),
        slide_ms=slide,
        offset_ms=chance.choice((0, chance.randrange(slide))),
    )


def random_coding(seed: int) -> Coding:
    """Draw windows with few panes or many, a watermark of any sign, and times in and out of the table."""
    chance = Random(seed)
    how = Slicing.PANED if seed % 6 == 5 else Slicing.PAIRED
    longest = chance.choice((50, 1_000, 600_000 if how is Slicing.PAIRED else 200))
    windows = tuple(random_window(chance, longest=longest) for _ in range(chance.randint(1, 6)))
    begin = None if seed % 7 == 3 else chance.randint(-(10**13), 10**13)
    span = chance.choice((0, 1, 999, 1_500, chance.randint(1, 20 * longest * 1000)))
    coding = Coding(windows=windows, slicing=how, begin_us=begin, span_us=span)
    around = 0 if begin is None else begin
    for place in (around, around + span, around // 1000 * 1000 + span):
        coding.times.extend(place + near for near in (-1_000, -1, 0, 1, 1_000))
        edge = slow_start(windows, how, place)
        coding.times.extend((edge - 1, edge, edge + 1))
    inside = [around + chance.randint(0, max(span, 1)) for _ in range(30)]
    coding.times.extend(inside)
    coding.times.extend(slow_start(windows, how, time) for time in inside)
    return coding


# The table itself, without a session.


def look_up(table: Table, time: int) -> int:
    """Return what the column computes for a time within the table."""
    cell = (time - table.begin) // table.width
    start = table.before[cell]
    for edges in table.inside:
        start = edges[cell] if time - table.begin >= edges[cell] else start
    return int(table.begin + start)


def table_of(coding: Coding) -> Table:
    assert coding.begin_us is not None
    manager = SliceManager(coding.windows, slicing=coding.slicing)
    return build_table(manager, edge_classes(coding.windows, coding.slicing), coding.begin_us, coding.span_us)


@pytest.mark.parametrize("seed", range(60))
def test_a_table_knows_every_edge_within_it(seed: int) -> None:
    chance, coding = Random(seed), random_coding(seed)
    if coding.begin_us is None:
        # No table is made before the first watermark; it may be that of the next batch.
        coding = replace(coding, begin_us=chance.randint(-(10**13), 10**13))
    assert coding.begin_us is not None
    table = table_of(coding)
    assert table.begin <= coding.begin_us < table.end
    # Both bounds are rounded to milliseconds.
    assert coding.begin_us + coding.span_us < table.end + 1_000
    inside = {time for time in coding.times if table.begin <= time < table.end}
    times = inside | {chance.randrange(table.begin, table.end) for _ in range(50)}
    starts = {time: slow_start(coding.windows, coding.slicing, time) for time in times}
    # Either side of each edge, too.
    near = {edge + by for edge in starts.values() for by in (-1, 0)} | {table.begin, table.end - 1}
    near = {time for time in near if table.begin <= time < table.end}
    starts |= {time: slow_start(coding.windows, coding.slicing, time) for time in near}
    assert len(starts) >= 50
    assert {time: look_up(table, time) for time in starts} == starts


def test_an_edge_in_the_last_millisecond_of_a_table_is_known() -> None:
    #     begin              edge   end
    #       |------ 997 ms ----|-0.5-|        a span that ends within a millisecond
    coding = Coding(windows=(Window(range_ms=997, slide_ms=997),), begin_us=0, span_us=997_500)
    table = table_of(coding)
    assert look_up(table, 996_999) == 0
    assert [look_up(table, time) for time in (997_000, 997_499)] == [997_000] * 2


def test_a_table_of_too_many_edges_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing, "_MAX_EDGES", 100)
    monkeypatch.setattr(slicing, "_MAX_EDGES_IN_CELL", 2)
    windows = tuple(Window(range_ms=prime, slide_ms=prime) for prime in (97, 89, 83, 1009))
    coding = Coding(windows=windows, begin_us=-5_000, span_us=10**12)
    table = table_of(coding)
    assert 1_000_000 < table.end < 100 * 97_000
    for time in range(table.begin, table.end, 7_001):
        assert look_up(table, time) == slow_start(windows, Slicing.PAIRED, time)


# Spark.


@cache
def codings() -> tuple[Coding, ...]:
    """Return the cases of the one job: random ones, and windows with thousands of edges."""
    primes = (997, 991, 983, 977, 971)
    dense = Coding(
        windows=tuple(Window(range_ms=2 * prime + 5, slide_ms=prime) for prime in primes),
        begin_us=1_700_000_000_123_456,
        span_us=200_000_500,
        times=[1_700_000_000_123_456 + step * 7_654_321 for step in range(40)],
    )
    return (*(random_coding(seed) for seed in SEEDS), dense)


@pytest.fixture(autouse=True)
def _tables_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tables used wherever slices are coarser than panes, however short the batch."""
    monkeypatch.setattr(slicing, "_MAX_PANES", 0)


def coded(spark: SparkSession, several: Sequence[Coding], times: Times) -> list[tuple[SliceCoder, Times]]:
    """Return each case's code for each time, all by one job."""
    constants = Constants(TIME)
    columns = []
    for number, coding in enumerate(several):
        coder = coding.coder(f"slices{number}")
        coder.prepare(constants, begin_us=coding.begin_us, span_us=coding.span_us)
        columns.append((coder, f"code{number}"))
    rows = spark.createDataFrame([(time,) for time in times.tolist()], f"{TIME} bigint").coalesce(1)
    rows = rows.select(TIME, *constants.literals())
    found = rows.select(
        *(coder.column(F.col(TIME), constants).alias(name) for coder, name in columns)
    ).toArrow()
    return [(coder, np.asarray(found[name])) for coder, name in columns]


def expected_starts(coding: Coding, times: Times) -> Times:
    """Return the start of each time's slice."""
    starts = [slow_start(coding.windows, coding.slicing, time) for time in times.tolist()]
    return np.array(starts, dtype=np.int64)


def ahead(coding: Coding, times: Times) -> Any:
    """Say which times lie where a batch is expected to, but for the last millisecond."""
    if coding.begin_us is None:
        return np.zeros(len(times), dtype=bool)
    return (times >= coding.begin_us) & (times < coding.begin_us + coding.span_us - 1_000)


def test_spark_gives_the_slices_that_times_lie_in(spark: SparkSession) -> None:
    several = codings()
    chance = Random(0)
    anywhere = [chance.randint(-LIMIT, LIMIT) for _ in range(20)]
    everywhere = {0, -1, 999, -1_000, LIMIT, -LIMIT, *anywhere}
    times = np.array(sorted(everywhere.union(*(coding.times for coding in several))), dtype=np.int64)
    modes, looked_up = set(), 0
    for coding, (coder, codes) in zip(several, coded(spark, several, times), strict=True):
        modes.add((coder.uses_table, coding.begin_us is not None))
        assert (codes <= times).all()
        starts = expected_starts(coding, times)
        np.testing.assert_array_equal(coder.starts(codes), starts, err_msg=str(coding))
        if coder.uses_table:
            # The table names the slice itself, not a pane of it.
            inside = ahead(coding, times)
            np.testing.assert_array_equal(codes[inside], starts[inside], err_msg=str(coding))
            looked_up += np.count_nonzero(inside)
    assert looked_up > 150
    # Both ways of coding, and a first batch without a watermark, were among the cases.
    assert modes == {(False, False), (False, True), (True, True)}


def test_slices_looked_up_by_pane_are_those_that_times_lie_in(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slicing, "_MAX_PANES", 1 << 60)
    monkeypatch.setattr(slicing, "_FEW_GROUPS", -1)
    monkeypatch.setattr(slicing, "_PANES_PER_SLICE", 0)
    monkeypatch.setattr(slicing, "_MOST_LOOKED_UP", 500)
    several = codings()
    near = {time for coding in several if coding.begin_us for time in (coding.begin_us - 1, coding.begin_us)}
    everywhere = {0, -1, 999, -1_000, LIMIT, -LIMIT, *near}
    times = np.array(sorted(everywhere.union(*(coding.times for coding in several))), dtype=np.int64)
    looked_up = 0
    for coding, (coder, codes) in zip(several, coded(spark, several, times), strict=True):
        assert coder.uses_panes
        assert (codes <= times).all()
        starts = expected_starts(coding, times)
        np.testing.assert_array_equal(coder.starts(codes), starts, err_msg=str(coding))
        grid = common_grid(edge_classes(coding.windows, coding.slicing)).modulus * 1000
        if coding.span_us < 500 * grid:
            # The look-up names the slice, or the slice's part after the beginning.
            inside = ahead(coding, times)
            begin = 0 if coding.begin_us is None else coding.begin_us
            assert (codes[inside] <= np.maximum(starts[inside], begin)).all(), coding
            looked_up += np.count_nonzero(inside)
    assert looked_up > 50


def test_spark_puts_published_times_into_the_published_windows(spark: SparkSession) -> None:
    cases = [case for case in CASES if max(map(abs, case["times_ms"])) * 1000 <= LIMIT]
    assert len(cases) > 250
    shapes = {(case["range_ms"], case["slide_ms"], case["offset_ms"]) for case in cases}
    windows = {one: Window(range_ms=one[0], slide_ms=one[1], offset_ms=one[2]) for one in sorted(shapes)}
    times = np.array(sorted({time * 1000 for case in cases for time in case["times_ms"]}))
    several = tuple(Coding(windows=(window,), begin_us=0, span_us=10**9) for window in windows.values())
    codes = dict(zip(windows, coded(spark, several, times), strict=True))
    for case in cases:
        shape = case["range_ms"], case["slide_ms"], case["offset_ms"]
        rows = np.isin(times, [time * 1000 for time in case["times_ms"]])
        coder, coded_times = codes[shape]
        starts = np.unique(coder.starts(coded_times[rows]))
        ends = np.array(due_ends(windows[shape], Advance(before=None, now=None), starts)) // 1000
        found = {(end - case["range_ms"], end) for end in ends.tolist()}
        wanted = {(start, end) for start, end in case["windows_ms"]}
        assert wanted <= found if not case["complete"] else wanted == found, case["id"]


def test_columns_built_once_serve_later_batches(spark: SparkSession) -> None:
    # A plan builds its columns once; only the constants change with the watermark.
    windows = (Window(range_ms=1_500, slide_ms=997), Window(range_ms=3_000, slide_ms=1_009, offset_ms=5))
    coder = Coding(windows=windows).coder("slices")
    constants = Constants(TIME)
    times = np.array([step * 123_457 - 5_000_000 for step in range(100)])
    frame = spark.createDataFrame([(time,) for time in times.tolist()], f"{TIME} bigint").coalesce(1)
    column, depth = None, -1
    for watermark in (None, -2_000_001, 1_234_567, 3_000_000):
        coder.prepare(constants, begin_us=watermark, span_us=4_000_123)
        assert coder.uses_table == (watermark is not None)
        if column is None or coder.depth != depth:
            column, depth = coder.column(F.col(TIME), constants), coder.depth
        found = frame.select(TIME, *constants.literals()).select(column.alias("code")).toArrow()
        starts = expected_starts(Coding(windows=windows), times)
        np.testing.assert_array_equal(coder.starts(np.asarray(found["code"])), starts)
