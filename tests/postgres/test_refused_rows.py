"""Rows that PostgreSQL refuses are set aside, and stop no others."""

import json
import logging
import random
import time

import pyarrow as pa
import pytest

from tests.postgres.samples import COLUMNS, FAST, MOMENT, ask, fail_at, keyless, result, rows, started
from weft.sinks import Delivery, PostgresSink, with_keys


def test_refused_rows_are_set_aside_and_the_others_arrive(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    ask(dsn, f"CREATE TABLE a ({COLUMNS} CHECK (n < 100))")
    bad = {7: 81547114711, 8: 81547114712, 30: 81547114713}
    delivery = Delivery(PostgresSink(dsn), origin="c1", limits=FAST)
    with caplog.at_level(logging.DEBUG):
        delivery.offer(0, {"a": result(*((end, f"s{end}", bad.get(end, 1)) for end in range(40)))})
        delivery.offer(1, {"a": result((41, "last", 1)), "b": result((41, "B", 1))})
        assert delivery.drain(30)
    assert (delivery.status.done, delivery.status.refused, delivery.status.error) == (1, 3, None)
    delivery.close()
    assert [n for _, n in rows(dsn, "a")] == [1] * 38
    assert rows(dsn, "b") == [("B", 1)]
    kept = ask(dsn, 'SELECT sink, query, reason, "row" FROM weft_refused ORDER BY "row"')
    assert [one[:3] for one in kept] == [("postgres c1", "a", "CheckViolation (23514)")] * 3
    assert [json.loads(row)["n"] for *_, row in kept] == ["81547114711", "81547114712", "81547114713"]
    assert json.loads(kept[0][3]) == {
        "window_start": "1970-01-01 00:00:07.000000Z", "window_end": "1970-01-01 00:00:07.000000Z",
        "symbol": "s7", "n": "81547114711",
    }  # fmt: skip
    # The log says why, and not what.
    (told,) = [one for one in caplog.records if "refuses rows" in one.getMessage()]
    fields = vars(told)
    assert (fields["query"], fields["rows"], fields["reasons"]) == ("a", 3, ["CheckViolation (23514)"])
    assert not [one for one in caplog.records if "8154711471" in str(vars(one))]
    # They are counted for good, each once, and for their own history.
    sink = started(dsn)
    assert (sink.done, sink.refused) == (1, 3)
    sink.deliver(2, {"a": result((42, "worse", 999))})
    sink.flush()
    assert sink.refused == 4
    sink.close()
    other = started(dsn, origin="c2")
    assert other.refused == 0
    other.close()


def _broken_text(data: bytes) -> pa.Array:
    lengths = pa.py_buffer(len(data).to_bytes(8, "little")[:4].rjust(8, b"\0"))
    return pa.Array.from_buffers(pa.string(), 1, [None, lengths, pa.py_buffer(data)])


@pytest.mark.parametrize(
    ("value", "reason", "shown"),
    [
        (
            pa.array([2**31 - 1], pa.date32()),
            "a time before the year 1 or after the year 32767",
            "2147483647",
        ),
        (pa.array([-719_163], pa.date32()), "a time before the year 1 or after the year 32767", "-719163"),
        (pa.array([2**63 - 1], MOMENT), "a time before the year 1 or after the year 32767", str(2**63 - 1)),
        (_broken_text(b"\xffab"), "text that is not UTF-8", "\\xffab"),
        # Longer than an index can hold.
        (pa.array([random.Random(1).randbytes(20_000).hex()]), "ProgramLimitExceeded (54000)", None),
    ],
    ids=["late date", "early date", "late time", "text", "long key"],
)
def test_values_that_no_table_can_hold_stop_nothing(
    dsn: str, value: pa.Array, reason: str, shown: str | None
) -> None:
    windows = {name: pa.array([0, 0], MOMENT) for name in ("window_start", "window_end")}
    none = pa.array([None], value.type)
    table = pa.table({**windows, "key": pa.chunked_array([value, none]), "n": [1, 2]})
    sink = started(dsn)
    sink.deliver(0, {"a": table.replace_schema_metadata(with_keys(table.schema, ["key"]).metadata)})
    sink.flush()
    sink.close()
    assert sink.refused == 1
    assert ask(dsn, "SELECT key, n FROM a") == [(None, 2)]
    ((why, row),) = ask(dsn, 'SELECT reason, "row" FROM weft_refused')
    assert why == reason
    assert shown is None or json.loads(row)["key"] == shown


def test_times_far_away_arrive_as_they_are(dsn: str) -> None:
    days = [-719_162, 2_932_897, 11_248_737]
    windows = {name: pa.array([0, 1, 2], MOMENT) for name in ("window_start", "window_end")}
    moments = pa.array([day * 86_400_000_000 for day in days], MOMENT)
    sink = started(dsn)
    sink.deliver(0, {"a": pa.table({**windows, "day": pa.array(days, pa.date32()), "moment": moments})})
    sink.flush()
    sink.close()
    found = ask(dsn, "SELECT day - DATE '1970-01-01', EXTRACT(epoch FROM moment) FROM a ORDER BY window_end")
    assert [(day, int(second)) for day, second in found] == [(day, day * 86_400) for day in days]


def test_what_is_not_about_values_is_tried_again(dsn: str) -> None:
    fail_at(dsn, "a", "deadlock_detected")
    delivery = Delivery(PostgresSink(dsn), origin="c1", limits=FAST)
    delivery.offer(0, {"a": keyless(result((1, "A", 1)))})
    deadline = time.monotonic() + 30
    while delivery.status.attempts < 3 and time.monotonic() < deadline:
        assert not delivery.drain(0.05)
    assert "DeadlockDetected" in str(delivery.status.error)
    assert delivery.status.refused == 0
    ask(dsn, "DROP TRIGGER no ON a")
    assert delivery.drain(30)
    delivery.close()
    assert rows(dsn, "a") == [("A", 1)]
