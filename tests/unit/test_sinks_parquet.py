"""The Parquet sink: results arrive once, in few files, however often they are delivered or a crash comes."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.sinks import ParquetSink, dataset, parquet
from weft.storage import LocalFolder

_HISTORY = re.compile("weft-r?[0-9a-f]{8}-[0-9a-f]{4}-")


def result(*values: int) -> pa.Table:
    return pa.table({"window_end": pa.array(values, pa.timestamp("us", "UTC")), "x": pa.array(values)})


def started(folder: Path, after: int = -1, run: str = "a run", **queries: pa.Schema) -> ParquetSink:
    sink = ParquetSink(LocalFolder(folder), queries=queries, run=run)
    sink.resume(after)
    return sink


def written(folder: Path, query: str) -> list[int]:
    """Return a query's results as anyone would read them."""
    path = folder / query
    return sorted(pq.read_table(path)["x"].to_pylist()) if any(path.glob("weft-*")) else []


def files(folder: Path) -> list[str]:
    """Return the names of all files, without the histories in them."""
    return sorted(_HISTORY.sub("weft-", path.name) for path in folder.rglob("*") if path.is_file())


def test_many_commits_are_one_file_for_each_query(tmp_path: Path) -> None:
    sink = started(tmp_path)
    for commit in range(100):
        sink.deliver(commit, {"a": result(commit), "b": result(commit, -commit)} if commit % 2 else {})
    assert files(tmp_path) == []
    assert sink.done == 0  # commit 0 had no results
    sink.flush()
    assert files(tmp_path) == ["weft-000000001-000000099.parquet"] * 2
    assert sink.done == 99
    assert written(tmp_path, "a") == list(range(1, 100, 2))
    assert len(written(tmp_path, "b")) == 100


def test_what_outgrows_memory_is_written_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_BUFFERED_BYTES", 100)
    sink = started(tmp_path)
    dones = []
    for commit in range(20):
        sink.deliver(commit, {"a": result(commit)})
        dones.append(sink.done)
    sink.flush()
    assert written(tmp_path, "a") == list(range(20))
    assert 1 < len(files(tmp_path)) < 10
    assert dones == sorted(dones)
    assert dones[-1] > 0


def test_results_are_due_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(parquet, "monotonic", lambda: now)
    sink = started(tmp_path)
    assert sink.flush_due_in() == float("inf")
    sink.deliver(0, {"a": result(1)})
    now += 45
    sink.deliver(1, {"a": result(1)})
    assert sink.flush_due_in() == 15
    sink.flush()
    assert sink.flush_due_in() == float("inf")


def test_a_flush_only_syncs_files_into_folders_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor))[1])
    sink = started(tmp_path)
    sink.deliver(0, {f"q{n}": result(n) for n in range(20)})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"q{n}" for n in range(20))
    assert len(synced) == 1  # all folders at once
    sink.deliver(1, {f"q{n}": result(n) for n in range(20)})
    assert len(synced) == 1
    sink.flush()
    assert len(synced) == 1 + 2 * 20  # each file, and its name


def test_flushing_twice_writes_nothing_new(tmp_path: Path) -> None:
    sink = started(tmp_path)
    sink.deliver(0, {"a": result(1)})
    sink.flush()
    sink.flush()
    sink.deliver(1, {})
    sink.flush()
    assert (files(tmp_path), sink.done) == (["weft-000000000-000000000.parquet"], 1)


def test_redelivery_leaves_no_duplicates(tmp_path: Path) -> None:
    first = started(tmp_path)
    first.deliver(0, {"a": result(0)})
    first.flush()
    first.deliver(1, {"a": result(1), "b": result(10)})
    first.deliver(2, {"a": result(2)})
    first.flush()
    # Commits 1 and 2 were written, but the note that they were got lost.
    again = started(tmp_path, after=0)
    assert again.done == 0
    for commit, results in (
        (0, {"a": result(0)}),
        (1, {"a": result(1), "b": result(10)}),
        (2, {"a": result(2)}),
        (3, {"b": result(13)}),
    ):
        again.deliver(commit, results)
    again.flush()
    assert written(tmp_path, "a") == [0, 1, 2]
    assert written(tmp_path, "b") == [10, 13]


def test_a_new_run_without_a_checkpoint_begins_afresh(tmp_path: Path) -> None:
    for run in range(2):
        sink = started(tmp_path, run="")
        sink.deliver(0, {"a": result(run), "b": result(run)})
        sink.flush()
    assert (written(tmp_path, "a"), written(tmp_path, "b")) == ([1], [1])


def test_results_of_the_first_commit_follow_an_early_flush(tmp_path: Path) -> None:
    sink = started(tmp_path, a=result(1).schema)
    sink.flush()
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
    noted, commit, sink = -1, 0, started(folder)
    while commit < 10:
        sink.deliver(commit, {f"q{commit % 2}": result(commit), "every": result(commit)})
        commit += 1
        step = data.draw(st.sampled_from(("go on", "flush", "flush and note", "crash")))
        if step.startswith("flush"):
            sink.flush()
        if step == "flush and note":
            noted = sink.done
        if step == "crash":
            sink, commit = started(folder, after=noted), noted + 1
    sink.flush()
    assert written(folder, "every") == list(range(10))
    assert written(folder, "q0") == [0, 2, 4, 6, 8]


def test_an_unfinished_file_is_removed_and_other_files_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / ".weft-000000000-000000000.parquet.1a2b3c4d").write_bytes(b"PAR1 cut off")
    (folder / "part-000000007-000000009.parquet").write_text("not ours")
    sink = started(tmp_path, a=result(1).schema)
    sink.deliver(0, {"a": result(1)})
    sink.flush()
    assert files(tmp_path) == ["part-000000007-000000009.parquet", "weft-000000000-000000000.parquet"]


def test_a_query_without_results_has_a_dataset_without_rows(tmp_path: Path) -> None:
    sink = started(tmp_path, a=result(1).schema, none=result(1).schema)
    sink.deliver(0, {"a": result(1)})
    sink.flush()
    sink.expect("later", result(1).schema)
    sink.deliver(1, {"a": result(2)})
    sink.flush()
    assert written(tmp_path, "a") == [1, 2]
    assert written(tmp_path, "none") == []
    assert len(list((tmp_path / "none").iterdir())) == 1
    assert len(list((tmp_path / "later").iterdir())) == 1


def test_a_name_that_is_given_to_another_query_has_files_with_the_columns_of_each(tmp_path: Path) -> None:
    sink = started(tmp_path, a=result().schema)
    sink.deliver(0, {"a": result(1)})
    sink.deliver(2, {"a": result(2)})
    sink.expect_no_more("a")
    other = pa.table({"y": [3.5]})
    sink.expect("a", other.schema)
    sink.deliver(5, {"a": other})
    sink.deliver(7, {"b": result(4)})
    sink.flush()
    assert files(tmp_path / "a") == ["weft-000000000-000000002.parquet", "weft-000000003-000000007.parquet"]
    first, second = sorted((tmp_path / "a").iterdir())
    assert pq.read_table(first)["x"].to_pylist() == [1, 2]
    assert pq.read_table(second)["y"].to_pylist() == [3.5]


def test_what_a_query_gave_is_there_when_it_has_left_and_when_its_name_comes_back(tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    pq.write_table(result(99), tmp_path / "late" / "weft-r0000000a-0000-000000001-000000009.parquet")
    sink = started(tmp_path, a=result().schema)
    for commit in range(3):
        sink.deliver(commit, {"a": result(commit)})
        sink.flush()
    # Some of it is still on its way.
    sink.deliver(3, {"a": result(3)})
    sink.expect_no_more("a")
    sink.flush()
    assert written(tmp_path, "a") == [0, 1, 2, 3]
    # Nothing is remembered of it.
    assert sink._datasets == {}
    sink.deliver(4, {"b": result(4)})
    sink.flush()
    sink.expect("a", result().schema)
    sink.expect("late", result().schema)
    sink.deliver(5, {"a": result(5), "late": result(6)})
    sink.flush()
    assert written(tmp_path, "a") == [0, 1, 2, 3, 5]
    # Files of another run are gone.
    assert written(tmp_path, "late") == [6]


def test_small_files_are_merged_a_few_queries_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_SMALL_FILES", 4)
    monkeypatch.setattr(parquet, "_MERGED_AT_ONCE", 1)
    sink = started(tmp_path)
    most = 0
    for commit in range(30):
        sink.deliver(commit, {"a": result(commit), "b": result(commit)})
        sink.flush()
        most = max(most, len(files(tmp_path / "a")), len(files(tmp_path / "b")))
    assert written(tmp_path, "a") == written(tmp_path, "b") == list(range(30))
    assert most == 5
    assert not any(name.startswith("_") for name in files(tmp_path))


def test_large_files_and_other_columns_are_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_SMALL_FILES", 4)
    sink = started(tmp_path)
    for commit in range(3):
        sink.deliver(commit, {"a": result(*range(10_000 * commit, 10_000 * (commit + 1)))})
        sink.flush()
    large = files(tmp_path)
    monkeypatch.setattr(dataset, "_LARGE_BYTES", 10_000)
    for commit in range(3, 9):
        rows = result(-commit) if commit < 6 else result(-commit).append_column("y", [[1.5]])
        sink.deliver(commit, {"a": rows})
        sink.flush()
    assert set(large) < set(files(tmp_path))
    assert len(files(tmp_path)) < 9
    sizes = [pq.read_metadata(path).num_rows for path in (tmp_path / "a").iterdir()]
    assert sum(sizes) == 30_006


class Crash(BaseException):
    """The process ends here."""


class FailingFolder(LocalFolder):
    """A local folder that fails at one of its changes; whoever watches sees every state in between."""

    def __init__(self, path: Path, step: Callable[[Path, str], bool]) -> None:
        super().__init__(path)
        self._step = step

    def folder(self, name: str) -> "FailingFolder":
        return FailingFolder(self.path / name, self._step)

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        if self._step(self.path, name):
            # Between write and rename: an unfinished file is left.
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / f".{name}.0badf00d").write_bytes(data[: len(data) // 2])
            raise Crash
        super().write(name, data, replace=replace)

    def rename(self, name: str, to: str) -> None:
        if self._step(self.path, name):
            raise Crash
        super().rename(name, to)

    def delete(self, name: str) -> None:
        if self._step(self.path, name):
            raise Crash
        super().delete(name)


def crashing_run(root: Path, *, crash_at: int, lag: int, origin: str) -> Iterator[int]:
    """Deliver ten commits, one flush each, crash once, go on; yield how many steps came before the crash.

    `lag` is by how many commits the note of what is delivered lags behind.
    """
    steps = 0

    def step(path: Path, name: str) -> bool:
        nonlocal steps
        steps += 1
        seen = [x for file in path.glob("weft-*") for x in pq.ParquetFile(file).read()["x"].to_pylist()]
        assert len(seen) == len(set(seen)), f"a row twice before step {steps} ({name})"
        return steps == crash_at

    def run(noted: int) -> int:
        sink = ParquetSink(FailingFolder(root, step), queries={"a": result(1).schema}, run="a run")
        done = noted
        try:
            sink.resume(noted, origin=origin)
            for commit in range(noted + 1, 10):
                sink.deliver(commit, {"a": result(commit), "b": result(commit)})
                sink.flush()
                done = max(done, sink.done - lag)
        except Crash:
            return done
        return sink.done

    noted = run(-1)
    yield steps
    for query in "ab":
        seen = written(root, query)
        assert len(seen) == len(set(seen))
    crash_at = -1
    assert run(noted) == 9


@pytest.mark.parametrize("origin", ["", "one trades"])
@pytest.mark.parametrize("lag", [0, 3])
def test_a_crash_at_each_step_of_writing_and_merging_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lag: int, origin: str
) -> None:
    monkeypatch.setattr(parquet, "_SMALL_FILES", 3)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    crash_at = 0
    while True:
        crash_at += 1
        root = tmp_path / str(crash_at)
        (taken,) = crashing_run(root, crash_at=crash_at, lag=lag, origin=origin)
        assert written(root, "a") == written(root, "b") == list(range(10))
        left = files(root)
        assert not [name for name in left if name.startswith((".", "_"))], (crash_at, left)
        if taken < crash_at:
            break
    assert crash_at > 40


def test_rows_are_missing_for_a_reader_only_beside_a_hidden_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_SMALL_FILES", 3)
    merged = "weft-000000000-000000003.parquet"
    states: list[tuple[bool, bool, str]] = []

    def look(path: Path, name: str) -> bool:
        complete = written(tmp_path, "a") in (list(range(commit)), list(range(commit + 1)))
        states.append((complete, any(path.glob("_weft-*")), name))
        return False

    commit = 0
    sink = ParquetSink(FailingFolder(tmp_path, look))
    sink.resume(-1)
    for commit in range(4):
        sink.deliver(commit, {"a": result(commit)})
        sink.flush()
    assert all(complete or hidden for complete, hidden, _ in states)
    # Nothing is written while rows are missing: the file that has them all is there, and gets its name.
    steps = [name for complete, _, name in states if not complete]
    assert len(steps) == 4
    assert merged not in steps
    assert files(tmp_path) == [merged]


def test_an_error_in_the_middle_of_a_flush_is_mended_by_the_next(tmp_path: Path) -> None:
    fail = True

    def step(path: Path, name: str) -> bool:
        return fail and path.name == "b"

    sink = ParquetSink(FailingFolder(tmp_path, step))
    sink.resume(-1)
    sink.deliver(0, {"a": result(1), "b": result(2)})
    with pytest.raises(Crash):
        sink.flush()
    assert sink.done == -1
    fail = False
    sink.resume(sink.done)
    sink.deliver(0, {"a": result(1), "b": result(2)})
    sink.deliver(1, {"a": result(3)})
    sink.flush()
    assert (written(tmp_path, "a"), written(tmp_path, "b")) == ([1, 3], [2])
