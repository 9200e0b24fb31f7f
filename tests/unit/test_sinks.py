"""Sinks: results arrive once, in few files, however often a commit is delivered."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from weft.runtime import sinks
from weft.runtime.sinks import CallbackSink, ConsoleSink, MemorySink, ParquetSink, Sink


def result(*values: int) -> pa.Table:
    return pa.table({"window_end": pa.array(values, pa.timestamp("us", "UTC")), "x": pa.array(values)})


def written(folder: Path, query: str) -> list[int]:
    """Return a query's results as anyone would read them."""
    path = folder / query
    return pq.read_table(path)["x"].to_pylist() if path.exists() else []


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_many_commits_are_one_file_for_each_query(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    for commit in range(100):
        sink.deliver(commit, {"a": result(commit), "b": result(commit, -commit)} if commit % 2 else {})
    assert files(tmp_path) == []
    assert sink.done == -1
    sink.flush()
    assert files(tmp_path) == ["weft-000000001-000000099.parquet"] * 2
    assert sink.done == 99
    assert written(tmp_path, "a") == list(range(1, 100, 2))
    assert len(written(tmp_path, "b")) == 100


def test_what_outgrows_memory_is_written_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_BUFFERED_BYTES", 100)
    sink = ParquetSink(tmp_path)
    dones = []
    for commit in range(20):
        sink.deliver(commit, {"a": result(commit)})
        dones.append(sink.done)
    sink.flush()
    assert written(tmp_path, "a") == list(range(20))
    assert 1 < len(files(tmp_path)) < 10
    assert dones == sorted(dones)
    assert dones[-1] > 0


def test_flushing_twice_writes_nothing_new(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path)
    sink.deliver(0, {"a": result(1)})
    sink.flush()
    sink.flush()
    sink.deliver(1, {})
    sink.flush()
    assert (files(tmp_path), sink.done) == (["weft-000000000-000000000.parquet"], 1)


def test_redelivery_leaves_no_duplicates(tmp_path: Path) -> None:
    first = ParquetSink(tmp_path)
    first.deliver(0, {"a": result(0)})
    first.flush()
    first.deliver(1, {"a": result(1), "b": result(10)})
    first.deliver(2, {"a": result(2)})
    first.flush()
    # Commits 1 and 2 were written, but the note that they were got lost.
    again = ParquetSink(tmp_path, resume_after=0)
    assert again.done == 0
    for commit, results in (
        (1, {"a": result(1), "b": result(10)}),
        (2, {"a": result(2)}),
        (3, {"b": result(13)}),
    ):
        again.deliver(commit, results)
    again.flush()
    assert written(tmp_path, "a") == [0, 1, 2]
    assert written(tmp_path, "b") == [10, 13]


def test_a_new_run_without_a_checkpoint_begins_afresh(tmp_path: Path) -> None:
    for _ in range(2):
        sink = ParquetSink(tmp_path)
        sink.deliver(0, {"a": result(5)})
        sink.flush()
    assert written(tmp_path, "a") == [5]


@settings(max_examples=25)
@given(data=st.data())
def test_crashes_at_any_point_lose_and_repeat_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Deliver ten commits; crash now and then, after a flush or before, and go on from what was noted."""
    folder = tmp_path_factory.mktemp("results")
    noted, commit, sink = -1, 0, ParquetSink(folder)
    while commit < 10:
        sink.deliver(commit, {f"q{commit % 2}": result(commit), "every": result(commit)})
        commit += 1
        step = data.draw(st.sampled_from(("go on", "flush", "flush and note", "crash")))
        if step.startswith("flush"):
            sink.flush()
        if step == "flush and note":
            noted = sink.done
        if step == "crash":
            sink, commit = ParquetSink(folder, resume_after=noted), noted + 1
    sink.flush()
    assert written(folder, "every") == list(range(10))
    assert written(folder, "q0") == [0, 2, 4, 6, 8]


def test_an_unfinished_file_is_written_anew_and_other_files_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / ".weft-000000000-000000000.parquet.tmp").write_bytes(b"PAR1 cut off")
    (folder / "part-000000007-000000009.parquet").write_text("not ours")
    sink = ParquetSink(tmp_path, queries={"a": result(1).schema})
    sink.deliver(0, {"a": result(1)})
    sink.flush()
    assert files(tmp_path) == ["part-000000007-000000009.parquet", "weft-000000000-000000000.parquet"]


def test_a_query_without_results_has_a_dataset_without_rows(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, queries={"a": result(1).schema, "none": result(1).schema})
    sink.deliver(0, {"a": result(1)})
    sink.flush()
    sink.deliver(1, {"a": result(2)})
    sink.flush()
    assert written(tmp_path, "a") == [1, 2]
    assert written(tmp_path, "none") == []
    assert len(list((tmp_path / "none").iterdir())) == 1


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


def test_a_callback_sees_each_query_once_a_commit() -> None:
    calls: list[tuple[str, int]] = []
    sink = CallbackSink(lambda name, table: calls.append((name, table.num_rows)))
    sink.deliver(0, {"a": result(1, 2), "b": result(3)})
    sink.flush()
    assert (calls, sink.done) == ([("a", 2), ("b", 1)], 0)


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


@pytest.mark.parametrize("make", [MemorySink, ConsoleSink, lambda: CallbackSink(lambda *_: None)])
def test_sinks_are_done_with_nothing_at_first(make: type[MemorySink]) -> None:
    sink: Sink = make()
    assert sink.done == -1
    sink.flush()
    assert sink.done == -1
