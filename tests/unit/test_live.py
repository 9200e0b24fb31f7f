"""What a run shows while it goes on, and how it is stopped."""

import os
import signal
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import count
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from weft.cli import live, stopping
from weft.cli.app import app
from weft.cli.figures import Figures
from weft.cli.live import LiveView
from weft.cli.screen import draw
from weft.cli.stopping import Stop, await_end
from weft.logs import Level, logs
from weft.notices import Notice, NoticeKind
from weft.state.clock import Clock, RowCounts
from weft.state.report import BatchReport

END = datetime(2026, 1, 1, 0, 17, tzinfo=UTC)
NEWEST = int(END.timestamp() * 1e6)


@dataclass(frozen=True)
class Sink:
    sink: str = "parquet"
    done: int = 41
    behind: int = 1
    waiting_bytes: int = 3 << 20
    attempts: int = 0
    error: str | None = None
    retry_in_s: float | None = None
    notice: Notice | None = None


CLOCK = Clock(
    watermark=NEWEST - 10_000_000,
    oldest=0,
    newest=NEWEST,
    counts=RowCounts(good=996, late=3, no_time=1),
)


@dataclass(frozen=True)
class Stream:
    clock: Clock = CLOCK
    batches: int = 2
    queries: Counter[str] = field(default_factory=lambda: Counter(running=254, paused=2, failed=1, dropped=9))
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Status:
    streams: dict[str, Stream]
    sinks: tuple[Sink, ...] = ()


REFUSED = Sink(
    sink="postgres", attempts=4, error="connection refused\nIs it running?", retry_in_s=3.25,
    notice=Notice(kind=NoticeKind.SINK_FAILS, subject="postgres", about="connection refused"),
)  # fmt: skip


def failed(query: str, error: str, *, kind: str = "ValueError") -> Notice:
    """Return the notice of a failed query."""
    return Notice(kind=NoticeKind.QUERY_FAILED, subject=query, error_kind=kind, detail=error)


def ended(query: str) -> Notice:
    """Return the notice of a query that is over."""
    return Notice(kind=NoticeKind.QUERY_ENDED, subject=query)


def results(queries: int, rows: int = 1) -> dict[str, pa.Table]:
    table = {"window_start": [END - timedelta(minutes=12)] * rows, "window_end": [END] * rows}
    values = {"symbol": ["a"] * rows, "value": [1234.5] * rows, "n": [None] * rows}
    return {f"query {number}": pa.table({**table, **values}) for number in range(queries)}


def batch(rows: int = 1000, queries: int = 2) -> BatchReport:
    return BatchReport(
        counts=RowCounts(good=rows),
        results=results(queries) if rows else {},
        partial_ops=rows,
        unshared_ops=rows * 12,
        seconds={"plan": 0.01, "spark": 0.5, "finals": 0.2, "commit": 0.1},
    )


def drawn(figures: Figures, status: Status, *, width: int = 100, height: int = 30) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    wall = NEWEST / 1e6 + 3.2
    console.print(draw(figures, status, now=20.0, began=0.0, wall=wall, lines=height))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


# Figures


def test_the_rate_is_that_of_the_last_seconds() -> None:
    figures = Figures()
    for second in range(20):
        figures.add("trades", batch(1000), float(second))
    assert figures.rate("trades", 19.5, 0.0) == pytest.approx(1000)
    assert figures.rate("trades", 60.0, 0.0) == 0
    assert figures.rate("quotes", 60.0, 0.0) == 0


def test_a_run_that_has_just_begun_has_a_rate() -> None:
    figures = Figures()
    figures.add("trades", batch(1000), 2.0)
    assert figures.rate("trades", 2.0, 0.0) == pytest.approx(500)


def test_the_sharing_ratio_is_over_all_batches() -> None:
    figures = Figures()
    assert figures.sharing is None
    figures.add("trades", batch(1000), 1.0)
    figures.add("trades", replace(batch(1000), unshared_ops=4000), 2.0)
    assert figures.sharing == 8


def test_the_queries_that_last_had_results_are_shown() -> None:
    figures = Figures()
    figures.add("trades", batch(queries=300), 1.0)
    figures.add("trades", replace(batch(), results={"late one": results(1, rows=3)["query 0"]}), 2.0)
    first, second, *_ = newest = figures.newest()
    assert (first.query, first.window, first.more) == ("late one", "00:05:00 – 00:17:00", 2)
    assert first.values == "symbol a  value 1,234.50  n NULL"
    assert second.query == "query 299"
    assert len(newest) == 12


def test_a_batch_without_rows_is_no_batch() -> None:
    figures = Figures()
    figures.add("trades", batch(1000), 1.0)
    figures.add("trades", batch(0), 2.0)
    assert (figures.batches, figures.last and figures.last.rows) == (1, 1000)


# The screen


def test_the_screen_tells_all_there_is_to_know() -> None:
    figures = Figures()
    figures.add("trades", batch(), 15.0)
    status = Status({"trades": Stream(notices=(failed("bad", "overflow\n  SELECT …"),))}, (Sink(), REFUSED))
    text = "\n".join(drawn(figures, status))
    assert "weft · 20.0 s · batches 1 · results 2" in text
    [stream] = [line for line in text.splitlines() if line.startswith("trades")]
    assert stream.split() == ["trades", "100", "1,000", "3.2", "s", "2026-01-01", "00:16:50", "3", "1", "0"]
    assert "254 running, 2 paused, 1 failed" in text
    assert "12.0 ×  1,000 rows aggregated, 12,000 without sharing" in text
    assert "0.810 s for 1,000 rows of trades, results 2" in text
    assert "plan 0.010 s  spark 0.500 s  finals 0.200 s  commit 0.100 s" in text
    assert "failed 4 times, again in 3.2 s: connection refused" in text
    assert "query 1         00:05:00 – 00:17:00  symbol a  value 1,234.50  n NULL" in text
    assert "! query bad failed: overflow" in text


def test_a_run_without_a_batch_has_a_screen() -> None:
    assert "none" in "\n".join(drawn(Figures(), Status({})))
    never = Stream(clock=Clock(), queries=Counter())
    assert "trades" in "\n".join(drawn(Figures(), Status({"trades": never})))


@given(
    streams=st.integers(0, 9),
    sinks=st.integers(0, 9),
    notices=st.integers(0, 9),
    queries=st.integers(0, 40),
    words=st.text(max_size=200),
)
def test_the_screen_fits_however_much_there_is(
    streams: int, sinks: int, notices: int, queries: int, words: str
) -> None:
    figures = Figures()
    figures.add("trades", batch(10**12, queries), 15.0)
    counts = RowCounts(good=10**12, late=10**9, future=10**9)
    notice = Notice(kind=NoticeKind.COLUMNS_DIFFER, stream="s", subject=words, about=words)
    stream = Stream(
        clock=Clock(watermark=NEWEST, newest=0, counts=counts),
        notices=(notice, failed(words, words)) * notices,
    )
    failing = replace(REFUSED, sink="s" + words, error=words or "failed")
    status = Status({f"{number} {words}": stream for number in range(streams)}, (failing,) * sinks)
    lines = drawn(figures, status)
    assert len(lines) < 30
    assert max(cell_len(line.rstrip()) for line in lines) <= 100


def test_a_small_screen_goes_without_results() -> None:
    figures = Figures()
    figures.add("trades", batch(queries=40), 15.0)
    lines = drawn(figures, Status({"trades": Stream()}, (Sink(),)), height=14)
    assert len(lines) < 14


# The view


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two seconds pass whenever it is looked, so that a batch takes four."""
    ticks = count(step=2)
    monkeypatch.setattr(live, "monotonic", lambda: float(next(ticks)))
    # Nor is it looked between batches.
    monkeypatch.setattr(live, "_TICK_SECONDS", 3600.0)


@pytest.mark.usefixtures("clock")
def test_without_a_terminal_lines_come_now_and_then() -> None:
    console = Console(file=StringIO(), force_terminal=False, width=200)
    status = Status({"trades": Stream(notices=(ended("a"),))}, (REFUSED,))
    with LiveView(console, lambda: status) as observe:
        for _ in range(4):
            observe("trades", batch())
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    told = [line for line in lines if line.startswith("trades: ") and "rows/s" in line]
    # With the first batch, ten seconds later, and at the end.
    assert len(told) == 3
    assert "1,000 rows, lag " in told[0]
    counts = "3 late, 1 quarantined, 0 files missing"
    assert f"watermark 2026-01-01 00:16:50, {counts}, queries: 254 running, 2 paused" in told[0]
    assert "4 batches, 8 results, sharing 12.0 ×, last batch 0.810 s (plan 0.010 s, spark" in lines[-1]
    # What is new is told once.
    assert lines.count("trades: query a has ended") == 1
    assert lines.count("sink postgres fails: connection refused") == 1


def test_without_a_terminal_lines_come_while_no_batch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_TICK_SECONDS", 0.001)
    monkeypatch.setattr(live, "_STATUS_SECONDS", 0.0)
    console = Console(file=(file := StringIO()), force_terminal=False, width=200)
    notices = list[Notice]()
    with LiveView(console, lambda: Status({"trades": Stream(notices=tuple(notices))})):
        for notice in (ended("a"), ended("b")):
            notices.append(notice)
            deadline = monotonic() + 20
            while f"trades: {notice.words}" not in file.getvalue() and monotonic() < deadline:
                sleep(0.001)
        told = file.getvalue().splitlines()
    assert "1,000 rows, lag " in told[0]
    assert told[1:] == [f"trades: {notice.words}" for notice in notices]


def test_without_a_terminal_no_value_of_a_row_is_told() -> None:
    """Lines of a service are kept in its log; the screen of a terminal is not."""
    error = "[CAST_INVALID_INPUT] The value '4711' of the type STRING cannot be cast\nat row 4711"
    unreadable = f"table close cannot be read: {error}"
    changed = "table rate: its files had columns 4711, 4712; now there are 4713"
    refused = f"add failed: {error}"
    kept, raised = NoticeKind.TABLE_NOT_REFRESHED, "ValueError: 4711"
    notices = (
        failed("bad", error, kind="CAST_INVALID_INPUT"),
        Notice(kind=NoticeKind.QUERY_UNBOUND, subject="gone", about="query gone: unknown column"),
        Notice(kind=kept, subject="close", error_kind="CAST_INVALID_INPUT", detail=unreadable),
        Notice(kind=kept, subject="rate", error_kind="other", detail=changed),
        Notice(kind=NoticeKind.REQUEST_REFUSED, subject="add q", error_kind="other", detail=refused),
    )
    fails = Notice(kind=NoticeKind.SINK_RAISES, subject="foreach", error_kind="ValueError", detail=raised)
    failing = replace(REFUSED, sink="foreach", error=raised, notice=fails)
    status = Status({"trades": Stream(notices=notices)}, (failing,))
    shown = {}
    for terminal in (False, True):
        console = Console(file=StringIO(), force_terminal=terminal, width=200, height=30, color_system=None)
        with LiveView(console, lambda: status) as observe:
            observe("trades", batch())
        assert isinstance(console.file, StringIO)
        shown[terminal] = console.file.getvalue()
    assert "4711" not in shown[False]
    lines = shown[False].splitlines()
    why = "weft show and the screen of a terminal show why"
    assert f"trades: query bad failed (CAST_INVALID_INPUT); {why}" in lines
    assert "trades: query gone cannot run on: query gone: unknown column" in lines
    screen = "the screen of a terminal shows why"
    assert f"trades: table close keeps its old contents (CAST_INVALID_INPUT); {screen}" in lines
    assert f"trades: table rate keeps its old contents (other); {screen}" in lines
    assert f"trades: add q was refused (other); {screen}, and so does a repeated request" in lines
    assert f"sink foreach fails: ValueError; {screen}" in lines
    # There is room for the newest notices only.
    for said in ("add q was refused: add failed: [CAST_INVALID_INPUT] The value '4711'", "ValueError: 4711"):
        assert said in shown[True]


def test_what_never_began_is_not_told() -> None:
    console = Console(file=StringIO(), force_terminal=False)

    def fail() -> None:
        with LiveView(console, lambda: Status({"trades": Stream()})):
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == ""


def test_on_a_terminal_the_screen_is_drawn_last_as_it_ended() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=100, height=30, color_system=None)
    states = iter([Status({"trades": Stream(queries=Counter(running=1))})])
    last = Status({"trades": Stream(queries=Counter(paused=7))})
    with LiveView(console, lambda: next(states, last)) as observe:
        observe("trades", batch())
    assert isinstance(console.file, StringIO)
    assert "7 paused" in console.file.getvalue()


# Stopping


def test_a_signal_asks_for_a_stop_and_handlers_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGINT):
        stop = Stop()
        with stop.listening():
            os.kill(os.getpid(), number)
            assert not await_end(lambda seconds: False, stop)
        assert stop.asked
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))


def test_an_end_is_an_end() -> None:
    assert await_end(lambda seconds: True, Stop())


def test_only_a_second_ctrl_c_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, left, said = [100.0], list[int](), list[str]()
    monkeypatch.setattr(stopping, "monotonic", lambda: now[0])
    monkeypatch.setattr(os, "_exit", left.append)
    stop = Stop(lambda: said.append("left"))
    stop.handle(signal.SIGINT, None)
    # Passed on by a wrapper of the command: the same one.
    stop.handle(signal.SIGINT, None)
    now[0] += 5
    stop.handle(signal.SIGTERM, None)
    assert (left, said) == ([], [])
    stop.handle(signal.SIGINT, None)
    assert (left, said) == ([130], ["left"])


# Options


def test_logs_go_to_a_file(tmp_path: Path) -> None:
    import logging

    with logs(None, file=tmp_path / "weft.log", as_json=True):
        logging.getLogger("weft.test").info("began", extra={"stream": "trades"})
        logging.getLogger("weft.test").debug("unseen")
    logging.getLogger("weft.test").info("after")
    [line] = (tmp_path / "weft.log").read_text().splitlines()
    assert '"began"' in line
    assert '"trades"' in line


def test_py4j_tells_nothing_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    """What fails there is raised, too; its text may hold values of rows."""
    import logging

    before = logging.getLogger("py4j").propagate
    with logs(None, file=None, as_json=False):
        logging.getLogger("py4j.clientserver").error("There was an exception: 4711")
        logging.getLogger().error("Exception while sending command.")
        logging.getLogger().error("of another")
    assert [record.getMessage() for record in caplog.records] == ["of another"]
    assert logging.getLogger("py4j").propagate is before


def test_logs_follow_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    with logs(Level.INFO, file=None, as_json=False):
        logging.getLogger("weft.test").info("began")
    assert "began" in capsys.readouterr().err


def test_a_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    failed = CliRunner().invoke(app, ["run", "w.sql", "--log-file", str(tmp_path / "no" / "weft.log")])
    assert "choose another --log-file" in str(failed.exception)


def test_a_wrong_limit_is_refused_before_spark_starts() -> None:
    failed = CliRunner().invoke(app, ["run", "w.sql", "--limit", "querys=5"])
    assert str(failed.exception) == 'unknown limit "querys"; did you mean "queries"?'


def test_a_password_need_not_be_on_the_command_line() -> None:
    assert "WEFT_POSTGRES" in CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
