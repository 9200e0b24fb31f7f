"""Sinks: what each does with results."""

import io

import pyarrow as pa
import pytest
from rich.console import Console

from weft.cli.running import Options, short_forms
from weft.engine import Engine
from weft.query import CreateSink
from weft.sinks import (
    ConsoleSink,
    Delivery,
    ForeachSink,
    MemorySink,
    PostgresSink,
    Sink,
    SinkError,
    keys_of,
    with_keys,
)


def result(*values: int) -> pa.Table:
    return pa.table({"window_end": pa.array(values, pa.timestamp("us", "UTC")), "x": pa.array(values)})


def test_memory_keeps_all_results() -> None:
    sink = MemorySink()

    def kept() -> list[int]:
        table = sink.results("a")
        return [] if table is None else table["x"].to_pylist()

    assert kept() == []
    sink.deliver(0, {"a": result(1)})
    sink.deliver(1, {"a": result(2, 3)})
    assert kept() == [1, 2, 3]
    sink.deliver(2, {"a": result(4)})
    assert kept() == [1, 2, 3, 4]
    assert sink.done == 2
    sink.resume(2)
    sink.deliver(2, {"a": result(4)})
    assert kept() == [1, 2, 3, 4]


def test_a_callback_sees_each_query_once_a_commit_with_a_key() -> None:
    calls: list[tuple[str, int, str]] = []
    sink = ForeachSink(lambda name, table, key: calls.append((name, table.num_rows, key)))
    sink.resume(11)
    sink.deliver(11, {"a": result(0)})
    sink.deliver(12, {"a": result(1, 2), "b": result(3)})
    sink.flush()
    assert calls == [("a", 2, "000000012-a"), ("b", 1, "000000012-b")]
    assert sink.done == 12


def test_a_callback_that_fails_is_called_again_with_the_same_key() -> None:
    calls: list[str] = []

    def call(name: str, table: pa.Table, key: str) -> None:
        calls.append(key)
        if calls.count("000000000-b") == 1 and name == "b":
            raise RuntimeError("not today")

    sink = ForeachSink(call)
    sink.resume(-1)
    results = {"a": result(1), "b": result(2), "c": result(3)}
    with pytest.raises(RuntimeError):
        sink.deliver(0, results)
    assert sink.done == -1
    sink.resume(sink.done)
    sink.deliver(0, results)
    sink.deliver(1, {"a": result(4)})
    assert calls == ["000000000-a", "000000000-b", "000000000-b", "000000000-c", "000000001-a"]


def test_the_console_shows_a_few_rows() -> None:
    text = io.StringIO()
    sink = ConsoleSink(Console(file=text, width=100))
    table = pa.table(
        {"symbol": ["A", None, "B", "C", "D", "E", "F"], "p": [1.5, 2.25, 1234.0, 0.0, 1.0, 2.0, 3.0]}
    )
    sink.deliver(0, {"by_symbol": table})
    shown = text.getvalue()
    assert all(word in shown for word in ("by_symbol", "symbol", "NULL", "1,234.0000", "2 more"))
    assert "F" not in shown.split("2 more")[0].split()
    assert sink.done == 0
    sink.deliver(0, {"by_symbol": table})
    assert text.getvalue() == shown


@pytest.mark.parametrize("make", [MemorySink, ConsoleSink, lambda: ForeachSink(lambda *_: None)])
def test_sinks_are_done_with_nothing_at_first(make: type[MemorySink]) -> None:
    sink: Sink = make()
    assert sink.done == -1
    sink.flush()
    assert sink.done == -1
    sink.resume(7)
    assert sink.done == 7
    sink.close()


def test_keys_are_noted_in_the_schema_and_survive_a_file() -> None:
    table = result(1).cast(with_keys(result(1).schema, ["x"]))
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, table.schema) as stream:
        stream.write_table(pa.concat_tables([table, table]))
    assert keys_of(pa.ipc.open_stream(written.getvalue()).read_all().schema) == ("x",)
    assert keys_of(with_keys(table.schema, [])) == ()
    assert keys_of(result(1).schema) is None


def test_another_delivery_to_a_sink_begins_with_its_own_first_commit() -> None:
    """Its commits are others, though they are counted by the same numbers."""
    seen: list[int] = []
    memory = MemorySink()
    foreach = ForeachSink(lambda name, table, key: seen.extend(table["x"].to_pylist()))
    for commits in (range(3), range(2)):
        for sink in (memory, foreach):
            delivery = Delivery(sink)
            for commit in commits:
                delivery.offer(commit, {"a": result(commit)})
            assert delivery.drain(20)
            delivery.close()
    kept = memory.results("a")
    assert kept is not None
    assert kept["x"].to_pylist() == seen == [0, 1, 2, 0, 1]


def test_a_call_that_was_made_is_not_taken_for_one_of_another_delivery() -> None:
    calls: list[str] = []

    def call(name: str, table: pa.Table, key: str) -> None:
        calls.append(name)
        if calls == ["a", "b"]:
            raise RuntimeError("not today")

    sink = ForeachSink(call)
    sink.resume(-1)
    with pytest.raises(RuntimeError):
        sink.deliver(0, {"a": result(1), "b": result(2)})
    sink.close()
    sink.resume(-1)
    sink.deliver(0, {"a": result(3), "b": result(4)})
    assert calls == ["a", "b", "a", "b"]


def options(postgres: str | None) -> Options:
    return Options(
        out=None, checkpoint=None, postgres=postgres, quarantine=None, late=None, follow=True, flush=False,
        interval="1 second", idle=None,
    )  # fmt: skip


def test_a_run_makes_sinks_for_each_stream_and_shows_no_password() -> None:
    engine = Engine()
    engine.load(
        CreateSink(definition=sink) for sink in short_forms(options("postgresql://me:secret@host/db"))
    )
    (one,), (other,) = engine.outlets(), engine.outlets()
    assert type(one.sink) is type(other.sink) is PostgresSink
    assert one.sink is not other.sink
    assert one.sink.name == "postgres"
    shown = repr((short_forms(options("postgresql://me:secret@host/db")), dict(engine.sinks), one))
    assert "host=host" in shown
    assert "secret" not in shown


def test_a_run_tells_at_once_that_a_connection_string_cannot_be_read() -> None:
    engine = Engine()
    engine.load(CreateSink(definition=sink) for sink in short_forms(options("host=a pasword=x")))
    with pytest.raises(SinkError, match="cannot be read"):
        engine.try_sinks(queries=())
