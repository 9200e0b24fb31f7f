"""Every way to write a window."""

import dataclasses

import pytest
from tests.unit.language_samples import CATALOG, TCP, query

from weft.expression import Call, Literal, Slot, SlotKind
from weft.query.logical import Catalog, TimeUnit
from weft.types import BIGINT, TIMESTAMP
from weft.window import Refresh, Window

MIN = 60_000


def minutes(range_: float, slide: float, offset: float = 0, refresh: Refresh = Refresh.EXACT) -> Window:
    return Window(
        range_ms=int(range_ * MIN), slide_ms=int(slide * MIN), offset_ms=int(offset * MIN), refresh=refresh
    )


def cumulative(step: int, size: int, offset: int = 0) -> Window:
    return Window(range_ms=size * MIN, slide_ms=size * MIN, offset_ms=offset * MIN, step_ms=step * MIN)


BRACKETS = [
    ("[RANGE '12 min' SLIDE '5 min']", minutes(12, 5)),
    ("[range 12 minutes slide 5 minutes]", minutes(12, 5)),
    ("[RANGE 12min SLIDE 300s]", minutes(12, 5)),
    ("[RANGE INTERVAL 12 MINUTES SLIDE INTERVAL '5' MINUTE]", minutes(12, 5)),
    ("[RANGE INTERVAL '1 hour 30 minutes' SLIDE INTERVAL 1 HOUR 30 MINUTES]", minutes(90, 90)),
    ("[RANGE '12 min']", minutes(12, 12)),
    ("[RANGE '12 min' SLIDE '5 min' OFFSET '1 min']", minutes(12, 5, 1)),
    ("[RANGE '12 min' SLIDE '5 min' OFFSET '7 min']", minutes(12, 5, 2)),
    ("[RANGE '12 min' SLIDE '5 min' OFFSET '-1 min']", minutes(12, 5, 4)),
    ("[RANGE '12 min' SLIDE '5 min' OFFSET INTERVAL -16 MINUTES]", minutes(12, 5, 4)),
    ("[RANGE '1 min' SLIDE '5 min']", minutes(1, 5)),
    ("[WINDOW '12 min' SLIDE '5 min']", minutes(12, 5, refresh=Refresh.AT_MOST)),
]


@pytest.mark.parametrize(("bracket", "window"), BRACKETS)
@pytest.mark.parametrize(
    "source", ["trades {}", "trades {} T", "trades {} AS T", "trades T {}", "trades AS T {}"]
)
def test_brackets_place_ends_at_multiples_of_the_slide(source: str, bracket: str, window: Window) -> None:
    bound = query(f"SELECT count(*) AS c FROM {source.format(bracket)}")
    assert bound.window == window
    assert bound.notes == ()


# Spark and Flink place starts at multiples of the slide:
#
#     window(time, 12, 5)   start 5 |-----------| 17, so ends ≡ 17 mod 5 = 2
CALLS = [
    ("window(time, '12 minutes', '5 minutes')", minutes(12, 5, 2), ()),
    ("window(time, '10 minutes', '5 minutes')", minutes(10, 5), ()),
    ("window(time, '5 minutes')", minutes(5, 5), ()),
    ("WINDOW(trades.time, INTERVAL 5 MINUTES, INTERVAL '1' MINUTE)", minutes(5, 1), ()),
    ("window(time, '5 minutes', '1 minute', '15 seconds')", minutes(5, 1, 0.25), ()),
    ("window(time, '12 minutes', '5 minutes', '4 minutes')", minutes(12, 5, 1), ()),
    ("window(time, '12 minutes', '5 minutes', '-1 minutes')", minutes(12, 5, 1), ()),
    ("window(time, '12 minutes', '5 minutes', '-4 minutes -30 seconds')", minutes(12, 5, 2.5), ()),
    ("CUMULATE(time, INTERVAL '10' MINUTE, INTERVAL '1' HOUR)", cumulative(10, 60), ()),
    ("cumulate(time, '10 min', '1 hour', '-5 min')", cumulative(10, 60, 55), ()),
    ("CUMULATE(time, '1 hour', '1 hour')", minutes(60, 60), ()),
    ("window(time, '10 minutes', '5 minutes', '1 minute - 2 minutes')", minutes(10, 5, 4), ()),
    ("window(time, '5 minutes', '5 minutes', INTERVAL '-1' MINUTE)", minutes(5, 5, 4), ()),
    ("window(time, '5 minutes', '5 minutes', '-0 minutes')", minutes(5, 5), ()),
    ("TUMBLE(time, INTERVAL '5' MINUTE)", minutes(5, 5), ()),
    ("TUMBLE(time, INTERVAL '10' MINUTE, INTERVAL '-16' MINUTE)", minutes(10, 10, 4), ()),
    ("TUMBLE(time, INTERVAL '10' MINUTE, INTERVAL '14' MINUTE)", minutes(10, 10, 4), ()),
    ("TUMBLE(time, INTERVAL '5' MINUTE, INTERVAL '1' MINUTE)", minutes(5, 5, 1), ()),
    ("HOP(time, INTERVAL '5' MINUTE, INTERVAL '12' MINUTE)", minutes(12, 5, 2),
     ("HOP read as range 12 min, slide 5 min",)),
    ("HOP(time, INTERVAL '12' MINUTE, INTERVAL '5' MINUTE)", minutes(12, 5, 2),
     ("HOP read as range 12 min, slide 5 min",)),
    ("HOP(time, '5 min', '10 min', '1 min')", minutes(10, 5, 1), ("HOP read as range 10 min, slide 5 min",)),
    ("HOP(time, '5 min', '10 min', '-6 min')", minutes(10, 5, 4), ("HOP read as range 10 min, slide 5 min",)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "window", "notes"), CALLS)
def test_calls_place_starts_at_multiples_of_the_slide(
    call: str, window: Window, notes: tuple[str, ...]
) -> None:
    bound = query(f"SELECT symbol, count(*) AS c FROM trades GROUP BY {call}, symbol")
    assert bound.window == window
    assert bound.notes == notes
    assert [key.name for key in bound.keys] == ["symbol"]


TABLE_FUNCTIONS = [
    (
        "TABLE(HOP(TABLE trades, DESCRIPTOR(time), INTERVAL '5' MINUTES, INTERVAL '12' MINUTES))",
        minutes(12, 5, 2),
    ),
    ("HOP(trades, time, INTERVAL 5 MINUTES, INTERVAL 12 MINUTES)", minutes(12, 5, 2)),
    ("TABLE(TUMBLE(TABLE trades, DESCRIPTOR(time), INTERVAL '5' MINUTES)) AS T", minutes(5, 5)),
    ("tumble(trades, time, '5 min', '1 min') T", minutes(5, 5, 1)),
]


@pytest.mark.parametrize(("source", "window"), TABLE_FUNCTIONS)
def test_table_functions_are_windows(source: str, window: Window) -> None:
    text = f"SELECT window_start, window_end, count(*) AS c FROM {source} GROUP BY window_start, window_end"
    bound = query(text)
    assert (bound.window, bound.keys) == (window, ())
    assert [output.name for output in bound.outputs] == ["c"]


def index(micros: int) -> Call:
    start = Slot(SlotKind.WINDOW_START, 0, TIMESTAMP)
    return Call("floor_div", (Call("unix_micros", (start,), BIGINT), Literal(micros, BIGINT)), BIGINT)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT tb, srcIP, count(*) AS c FROM tcp GROUP BY ts/300 AS tb, srcIP HAVING tb > 5",
        "SELECT ts/300 AS tb, srcIP, count(*) AS c FROM tcp GROUP BY tb, srcIP HAVING tb > 5",
        "SELECT ts/300 AS tb, srcIP, count(*) AS c FROM tcp GROUP BY 1, 2 HAVING ts/300 > 5",
        "SELECT ts / 300 tb, srcIP, count(*) AS c FROM tcp t GROUP BY t.ts / 300, srcIP HAVING tb > 5",
        "SELECT ts div 300 tb, srcIP, count(*) AS c FROM tcp GROUP BY ts div 300, srcIP HAVING tb > 5",
    ],
)
def test_dividing_the_event_time_is_a_tumbling_window(text: str) -> None:
    bound = query(text)
    assert bound.window == minutes(5, 5)
    assert bound.notes == ("ts/300 read as windows of 5 min",)
    assert [key.name for key in bound.keys] == ["srcIP"]
    assert bound.outputs[0].name == "tb"
    assert bound.outputs[0].expression == index(300_000_000)
    assert isinstance(bound.having, Call)
    assert bound.having.args[0] == index(300_000_000)


@pytest.mark.parametrize(
    ("unit", "divisor", "milliseconds"),
    [("s", 60, 60_000), ("ms", 250, 250), ("us", 5_000, 5), ("ns", 7_000_000, 7)],
)
def test_the_divisor_counts_in_the_unit_of_the_stream(unit: str, divisor: int, milliseconds: int) -> None:
    catalog = Catalog(streams=(dataclasses.replace(TCP, time_unit=TimeUnit(unit)),))
    bound = query(f"SELECT ts/{divisor}, count(*) AS c FROM tcp GROUP BY ts/{divisor}", catalog)
    assert (bound.window.range_ms, bound.window.slide_ms) == (milliseconds, milliseconds)
    assert bound.outputs[0].expression == index(milliseconds * 1_000)


def test_timestamps_are_divided_by_seconds() -> None:
    bound = query("SELECT time/60 + 1 AS m, count(*) AS c FROM trades GROUP BY time/60", CATALOG)
    assert bound.window == minutes(1, 1)
    assert str(bound.outputs[0].expression) == "(floor_div(unix_micros(window_start0), 60000000) + 1)"
    assert bound.outputs[0].expression.type == BIGINT


def test_the_bounds_of_the_window_are_outputs_only_under_other_names() -> None:
    bound = query(
        "SELECT window.start, window_end, window.start AS s, unix_seconds(window_end) AS e, count(*) AS c "
        "FROM trades [RANGE '5 min'] "
        "HAVING window_start > '2026-01-01' AND window.end < TIMESTAMP '2027-01-01'"
    )
    assert [(output.name, str(output.expression)) for output in bound.outputs] == [
        ("s", "window_start0"), ("e", "unix_seconds(window_end0)"), ("c", "aggregate0"),
    ]  # fmt: skip
    assert "window_start0 > 2026-01-01 00:00:00+00:00" in str(bound.having)


DAY = 24 * 60
# Weeks start on Mondays, as 5 January 1970 was; the origin of other buckets is 3 January 2000.
BUCKETS = [
    ("date_trunc('second', time)", minutes(1 / 60, 1 / 60)),
    ("date_trunc('MINUTE', trades.time)", minutes(1, 1)),
    ("date_trunc('hour', time)", minutes(60, 60)),
    ("date_trunc('day', time)", minutes(DAY, DAY)),
    ("date_trunc('week', time)", minutes(7 * DAY, 7 * DAY, 4 * DAY)),
    ("time_bucket('5 min', time)", minutes(5, 5)),
    ("time_bucket(INTERVAL 5 MINUTES, time)", minutes(5, 5)),
    ("TIME_BUCKET('1 week', time)", minutes(7 * DAY, 7 * DAY, 4 * DAY)),
    ("time_bucket('11 min', time)", minutes(11, 11, 946_857_600 // 60 % 11)),
]


@pytest.mark.parametrize(("bucket", "window"), BUCKETS)
def test_buckets_of_the_event_time_are_windows(bucket: str, window: Window) -> None:
    for text in (
        f"SELECT {bucket} AS at, symbol, count(*) AS c FROM trades GROUP BY {bucket}, symbol HAVING c > 1",
        f"SELECT {bucket} AS at, symbol, count(*) AS c FROM trades GROUP BY at, 2",
        f"SELECT at, symbol, count(*) AS c FROM trades GROUP BY {bucket} AS at, symbol",
    ):
        bound = query(text)
        assert bound.window == window
        assert [key.name for key in bound.keys] == ["symbol"]
        assert bound.outputs[0].name == "at"
        assert bound.outputs[0].expression == Slot(SlotKind.WINDOW_START, 0, TIMESTAMP)


def test_equal_buckets_may_be_written_differently() -> None:
    bucket = "time_bucket('60 s', time)"
    text = f"SELECT {bucket} AS at, count(*) AS c FROM trades GROUP BY date_trunc('minute', time)"
    assert query(text).outputs[0].expression == Slot(SlotKind.WINDOW_START, 0, TIMESTAMP)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS c FROM trades [RANGE '1 hour'] GROUP BY date_trunc('minute', time)",
        "SELECT count(*) AS c FROM trades GROUP BY date_trunc('minute', time), TUMBLE(time, '1 hour')",
    ],
)
def test_beside_a_window_truncated_time_is_a_key(text: str) -> None:
    bound = query(text)
    assert bound.window == minutes(60, 60)
    assert [str(key.expression) for key in bound.keys] == ["date_trunc('minute', time)"]
