"""The PostgreSQL sink, on a real server."""

import json
import logging
import math
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pyarrow as pa
import pytest

from tests.postgres.samples import FAST, MOMENT, ask, fail_at, keyless, result, rows, started
from tests.postgres.server import PASSWORD
from weft.sinks import Delivery, PostgresSink, Results, SinkError, with_keys


def test_rows_arrive_and_later_ones_replace_earlier_ones(dsn: str) -> None:
    sink = started(dsn)
    sink.deliver(0, {"a": result((1, "A", 1), (1, "B", 2)), "b": result((1, "A", 5))})
    sink.deliver(1, {"a": result((1, "A", 3), (2, "A", 4))})
    assert ask(dsn, "SELECT to_regclass('a')") == [(None,)]
    sink.flush()
    assert sink.done == 1
    assert rows(dsn, "a") == [("A", 3), ("B", 2), ("A", 4)]
    assert rows(dsn, "b") == [("A", 5)]
    sink.deliver(2, {"a": result((2, "A", 7))})
    sink.flush()
    assert rows(dsn, "a") == [("A", 3), ("B", 2), ("A", 7)]
    sink.close()


def test_null_is_a_key_like_any_other(dsn: str) -> None:
    sink = started(dsn)
    for commit, n in enumerate((1, 2, None)):
        sink.deliver(commit, {"a": result((1, None, n), (1, "A", n))})
        sink.flush()
    assert rows(dsn, "a") == [(None, None), ("A", None)]
    sink.close()


def test_a_query_without_groups_and_one_of_nothing_but_keys(dsn: str) -> None:
    sink = started(dsn)
    one = result((1, "A", 1)).drop_columns(["symbol"])
    none = result((1, "A", 1)).drop_columns(["n"])
    for commit in range(2):
        total = one.cast(with_keys(one.schema, []))
        sink.deliver(commit, {"total": total, "seen": none.cast(with_keys(none.schema, ["symbol"]))})
        sink.flush()
    assert ask(dsn, "SELECT n FROM total") == [(1,)]
    assert ask(dsn, "SELECT symbol FROM seen") == [("A",)]
    sink.close()


def test_a_query_without_a_key_gets_its_rows_once(dsn: str) -> None:
    twice = keyless(result((1, "A", 1), (1, "A", 1)))
    sink = started(dsn)
    sink.deliver(0, {"a": twice})
    sink.flush()
    again = started(dsn)
    assert again.done == 0
    again.deliver(0, {"a": twice})
    again.deliver(1, {"a": keyless(result((2, "B", 1)))})
    again.flush()
    assert rows(dsn, "a") == [("A", 1), ("A", 1), ("B", 1)]
    sink.close()
    again.close()


def test_every_type_comes_back_as_it_was(dsn: str) -> None:
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "boolean": (pa.bool_(), [True, False]),
        "tiny": (pa.int8(), [-128, 127]),
        "small": (pa.int16(), [-32768, 32767]),
        "int": (pa.int32(), [-(2**31), 2**31 - 1]),
        "big": (pa.int64(), [-(2**63), 2**63 - 1]),
        "real": (pa.float32(), [1.5, -math.inf]),
        "double": (pa.float64(), [0.1 + 0.2, 5e-324]),
        "dec": (
            pa.decimal128(38, 10),
            [Decimal("-1234567890123456789012345678.0123456789"), Decimal("1E-10")],
        ),
        "dec0": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(0)]),
        "text": (pa.string(), ["", "x"]),
        "bytes": (pa.binary(), [b"\x00\xff\\", b""]),
        "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
        "moment": (
            MOMENT,
            [
                datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
                datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
            ],
        ),
        "local": (pa.timestamp("us"), [datetime(1, 1, 1), datetime(2026, 3, 29, 2, 30, 0, 1)]),
        "nothing": (pa.null(), [None, None]),
    }
    columns = {name: pa.array([*given, None], type) for name, (type, given) in values.items()}
    windows = {name: pa.array([0, 1, 2], MOMENT) for name in ("window_start", "window_end")}
    table = pa.table({**windows, **columns})
    sink = started(dsn)
    sink.deliver(0, {"a": table.cast(with_keys(table.schema, ["day", "dec"]))})
    sink.flush()
    sink.close()
    names = ", ".join(f'"{name}"' for name in values)
    with psycopg.connect(dsn, options="-c timezone=UTC") as connection:
        found = connection.execute(f"SELECT {names} FROM a ORDER BY window_end".encode()).fetchall()
    assert list(zip(*found, strict=True)) == [(*given, None) for _, given in values.values()]


ODD = [
    "it's",
    'a "quote"',
    "back\\slash",
    "{a,b}",
    "NULL",
    "null",
    "100%s",
    "new\nline",
    "tab\t",
    "żółw 🐢",
    " ",
    "",
]


def test_strings_and_names_may_be_odd(dsn: str) -> None:
    names = ["by symbol", "x.y-z", "Ünïcode 2", "select", "a" * 128, "a" * 127 + "b"]
    columns = ['50% "off"', "semi;colon", "place0", "c" * 100, "c" * 101, "%s", "Größe"]
    table = result(*((1, odd, 1) for odd in ODD))
    table = pa.table(
        {
            **dict(zip(table.column_names, table.columns, strict=True)),
            **dict.fromkeys(columns, table["n"]),
        }
    )
    table = table.cast(with_keys(table.schema, ["symbol"]))
    sink = started(dsn)
    for commit in range(2):
        sink.deliver(commit, dict.fromkeys(names, table))
        sink.flush()
    sink.close()
    tables = [name for (name,) in ask(dsn, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    assert len(tables) == len(names) + 2
    assert set(names[:4]) < set(tables)
    for name in set(tables) - {"weft_delivered", "weft_written"}:
        assert {symbol for symbol, _ in rows(dsn, name)} == set(ODD)
        assert len(rows(dsn, name)) == len(ODD)


def test_a_nul_in_a_string_stops_nothing(dsn: str) -> None:
    sink = started(dsn)
    sink.deliver(0, {"a": result((1, "a\0b", 1))})
    sink.flush()
    assert rows(dsn, "a") == [("a␀b", 1)]
    sink.close()


def test_many_rows_are_taken_in_parts(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.sinks.postgres._ROWS_AT_ONCE", 7)
    sink = started(dsn)
    sink.deliver(0, {"a": result(*((1, f"s{n % 50}", n) for n in range(100)))})
    sink.flush()
    assert sorted(n for _, n in rows(dsn, "a") if n is not None) == list(range(50, 100))
    sink.close()


def test_few_tables_are_remembered_and_all_are_written_to(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.sinks.postgres._TABLES_KNOWN", 2)
    sink = started(dsn)
    for commit in range(2):
        sink.deliver(commit, {name: result((commit, name, commit)) for name in "abcd"})
        sink.flush()
    assert list(sink._ready) == ["c", "d"]
    assert [rows(dsn, name) for name in "abcd"] == [[(name, 0), (name, 1)] for name in "abcd"]
    sink.close()


def test_a_crash_after_the_transaction_and_before_the_note_repeats_nothing(dsn: str) -> None:
    sink = started(dsn)
    sink.deliver(0, {"a": keyless(result((1, "A", 1)))})
    sink.flush()
    sink.deliver(1, {"a": keyless(result((2, "A", 1)))})
    sink.flush()
    sink.close()
    # The engine had noted nothing but commit 0.
    told: list[int] = []
    read: list[int] = []

    def outbox(commit: int) -> Results:
        read.append(commit)
        return {"a": keyless(result((commit + 1, "A", 1)))}

    delivery = Delivery(
        PostgresSink(dsn),
        after=0,
        origin="c1",
        outbox=outbox,
        on_done=lambda _, n: told.append(n),
        limits=FAST,
    )
    for commit in range(1, 4):
        delivery.offer(commit, None)
    assert delivery.drain(30)
    delivery.close()
    assert rows(dsn, "a") == [("A", 1)] * 4
    assert (read, told[-1]) == ([2, 3], 3)


def test_a_crash_before_the_transaction_ends_leaves_nothing(dsn: str) -> None:
    sink = started(dsn)
    fail_at(dsn, "b", "deadlock_detected")
    sink.deliver(0, {"a": result((1, "A", 1))})
    sink.deliver(1, {"a": result((2, "A", 1)), "b": result((2, "A", 1))})
    with pytest.raises(SinkError, match=r"cannot write results of query b at .*: DeadlockDetected"):
        sink.flush()
    assert sink.done == -1
    assert ask(dsn, "SELECT to_regclass('a')") == [(None,)]
    again = started(dsn)
    assert again.done == -1
    again.close()


def test_killed_connections_cost_nothing_but_time(dsn: str) -> None:
    delivery = Delivery(PostgresSink(dsn), origin="c1", limits=FAST)
    kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'weft'"
    killed = 0
    for commit in range(60):
        delivery.offer(commit, {"a": keyless(result((commit, "A", commit))), "b": result((commit, "A", 1))})
        if commit % 7 == 0:
            killed += ask(dsn, kill)[0][0]
    assert killed > 0
    assert delivery.drain(60)
    delivery.close()
    assert [n for _, n in rows(dsn, "a")] == list(range(60))
    assert len(rows(dsn, "b")) == 60


def test_histories_are_told_apart(dsn: str) -> None:
    """A new checkpoint counts from zero again, and is not taken for the old one."""
    sink = started(dsn, origin="c1")
    sink.deliver(0, {"a": result((1, "A", 1))})
    sink.flush()
    other = started(dsn, origin="c2")
    assert other.done == -1
    other.deliver(0, {"a": result((2, "A", 1))})
    other.flush()
    assert rows(dsn, "a") == [("A", 1)] * 2
    assert counted(dsn) == [("postgres c1", 0), ("postgres c2", 0)]
    ahead = started(dsn, after=9)
    assert ahead.done == 9
    for one in (sink, other, ahead):
        one.close()


def test_without_a_checkpoint_every_sink_counts_for_itself_and_leaves_no_count(dsn: str) -> None:
    one, other = started(dsn, origin=""), started(dsn, origin="")
    for end in (1, 2):
        for commit, sink in enumerate((one, other, one)):
            sink.deliver(end * 3 + commit, {"a": keyless(result((end, "A", commit)))})
            sink.flush()
    assert [n for _, n in rows(dsn, "a")] == [0, 1, 2] * 2
    # An error does not make a sink begin again; another run does.
    one.resume(-1)
    assert one.done == 8
    one.close()
    one.resume(-1)
    assert one.done == -1
    assert sorted(commit for _, commit in counted(dsn)) == [-1, 7]
    one.close()
    other.close()
    assert counted(dsn) == []


def test_counts_that_a_crash_left_go_after_a_while_and_others_stay(dsn: str) -> None:
    started(dsn, origin="c1").close()
    crashed, silent = started(dsn, origin=""), started(dsn, origin="")
    ask(dsn, "UPDATE weft_delivered SET at = now() - interval '31 days'")
    new = started(dsn, origin="")
    assert [sink for sink, _ in counted(dsn)] == ["postgres c1", new._history]
    # One of them was no crash: it goes on.
    silent.deliver(0, {"a": keyless(result((1, "A", 1)))})
    with pytest.raises(SinkError, match="another engine"):
        silent.flush()
    silent.resume(-1)
    silent.deliver(0, {"a": keyless(result((1, "A", 1)))})
    silent.flush()
    assert rows(dsn, "a") == [("A", 1)]
    for one in (crashed, silent, new):
        one.close()


def counted(dsn: str) -> list[tuple[str, int]]:
    return ask(dsn, 'SELECT sink, "commit" FROM weft_delivered ORDER BY 1')


def test_an_engine_thought_dead_cannot_deliver_behind_the_new_ones_back(dsn: str) -> None:
    old, new = started(dsn), started(dsn)
    new.deliver(0, {"a": keyless(result((1, "A", 1)))})
    new.flush()
    old.deliver(0, {"a": keyless(result((1, "A", 1)))})
    with pytest.raises(SinkError, match="another engine delivers"):
        old.flush()
    assert rows(dsn, "a") == [("A", 1)]
    new.close()


def test_a_dropped_table_is_made_again(dsn: str) -> None:
    sink = started(dsn)
    delivery = Delivery(sink, origin="c1", limits=FAST)
    delivery.offer(0, {"a": result((1, "A", 1))})
    assert delivery.drain(30)
    ask(dsn, "DROP TABLE a")
    delivery.offer(1, {"a": result((2, "B", 1))})
    assert delivery.drain(30)
    delivery.close()
    assert rows(dsn, "a") == [("B", 1)]


def test_the_password_is_never_shown(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = "tell no% one"
    parts = urlsplit(dsn)
    wrong = urlunsplit(parts._replace(netloc="weft:tell%20no%25%20one@"))
    sink = PostgresSink(wrong)
    with pytest.raises(SinkError, match="password authentication failed") as raised:
        sink.resume(-1)
    seen = "".join(traceback.format_exception(raised.value)) + repr(sink) + str(sink)
    delivery = Delivery(sink, limits=FAST)
    with caplog.at_level(logging.DEBUG):
        assert not delivery.drain(0.2)
    seen += str(delivery.status) + caplog.text + json.dumps([str(vars(one)) for one in caplog.records])
    delivery.close()
    assert "user=weft" in seen
    assert secret not in seen
    assert "tell" not in seen
    for unreadable in (
        "postgresql://weft:se%cret@host/db",
        "host=a pasword=secret",
        "postgresql://x:secret@[::1",
    ):
        with pytest.raises(SinkError, match="cannot be read") as refused:
            PostgresSink(unreadable)
        assert "cret" not in "".join(traceback.format_exception(refused.value, chain=True)).replace(
            unreadable, ""
        )
    assert PASSWORD not in repr(PostgresSink(dsn))
