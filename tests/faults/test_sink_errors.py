"""Sinks that fail in each phase of a delivery, or die in it: Parquet files, and the user's own functions."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.faults.events import Events, write_files
from tests.faults.inside import run
from tests.faults.oracle import Key, Value, by_key, judge
from tests.faults.outlet import (
    COMMITS,
    PHASES,
    QUERIES,
    ROWS,
    deliver_all,
    everything,
    opened,
    outbox,
    wait_until,
)
from tests.faults.phases import fail_once, kill_and_go_on
from tests.faults.site import Site
from tests.faults.workload import Asked
from weft.sinks import ForeachSink, MemorySink


def assert_each_row_once(folder: Path) -> None:
    for query in QUERIES:
        files = sorted((folder / query).glob("[!.]*.parquet"))
        found = [x for file in files for x in pq.ParquetFile(file).read()["x"].to_pylist()]
        assert sorted(found) == everything()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("point", PHASES)
def test_an_error_in_any_phase_leaves_each_row_once(
    tmp_path: Path, point: str, nth: int, restart: bool
) -> None:
    out = tmp_path / "out"
    fail_once("parquet", str(out), tmp_path / "notes", point, nth=nth, restart=restart)
    assert_each_row_once(out)


@pytest.mark.parametrize("point", PHASES)
def test_a_kill_in_any_phase_leaves_each_row_once(tmp_path: Path, point: str) -> None:
    out = tmp_path / "out"
    kill_and_go_on("parquet", str(out), tmp_path / "notes", point, nth=2)
    assert_each_row_once(out)


class Receiver:
    """A function of the user's own that fails at a row, the first few times that it comes to it."""

    def __init__(self, at: int, *, times: int = 2) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        """Every call: its key, and the rows that were taken until it ended or failed."""
        self._at, self._times = at, times

    def __call__(self, name: str, rows: pa.Table, key: str) -> None:
        taken: list[int] = []
        self.calls.append((key, taken))
        for value in rows["x"].to_pylist():
            if value == self._at and name == "b" and self._times:
                self._times -= 1
                raise ValueError("not this one")
            taken.append(value)

    def by_key(self) -> dict[str, list[int]]:
        """Return what a receiver has that lets the last call with a key count."""
        return dict(self.calls)


MIDDLE = COMMITS // 2 * ROWS
WHOLE = {
    f"{commit:09d}-{query}": rows["x"].to_pylist()
    for commit in range(COMMITS)
    for query, rows in outbox(commit).items()
}
"""What each call must bring, by key."""


@pytest.mark.parametrize("at", [0, MIDDLE, MIDDLE + 1, MIDDLE + 2, COMMITS * ROWS - 1])
def test_a_function_that_fails_at_a_row_gets_it_again_with_the_same_key(tmp_path: Path, at: int) -> None:
    received, other = Receiver(at), MemorySink()
    deliver_all(ForeachSink(received), tmp_path / "notes")
    deliver_all(other, tmp_path / "other")
    assert received.by_key() == WHOLE
    keys = [key for key, _ in received.calls]
    again = f"{at // ROWS:09d}-b"
    assert {key: keys.count(key) for key in keys} == {**dict.fromkeys(WHOLE, 1), again: 3}
    assert list(dict.fromkeys(keys)) == list(WHOLE)


@pytest.mark.parametrize("at", [0, MIDDLE + 1, COMMITS * ROWS - 1])
def test_a_function_that_goes_on_failing_gets_all_rows_after_a_restart(tmp_path: Path, at: int) -> None:
    before, other = Receiver(at, times=1_000_000), MemorySink()
    failing = opened(ForeachSink(before), tmp_path / "notes")
    wait_until(lambda: failing.status.attempts > 2)
    deliver_all(other, tmp_path / "other")
    assert other.done == COMMITS - 1
    assert failing.status.done == at // ROWS - 1
    failing.close()
    after = Receiver(-1)
    deliver_all(ForeachSink(after), tmp_path / "notes")
    assert before.by_key() | after.by_key() == WHOLE
    # What was finished before is not called again.
    assert min(key for key, _ in after.calls) == f"{at // ROWS:09d}-a"


def test_an_engine_goes_on_while_a_function_fails_at_the_first_a_middle_and_the_last_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=2)
    write_files(site.input, Events(seed=28), 12)
    kept: dict[str, tuple[str, pa.Table]] = {}
    fail_at = [0.0, 0.5, 1.0]

    def call(name: str, rows: pa.Table, key: str) -> None:
        assert key not in kept, "what was taken comes again"
        at = int(fail_at.pop() * (rows.num_rows - 1)) if fail_at else None
        for number, _ in enumerate(rows.to_pylist()):
            if number == at:
                raise ValueError("not this one")
        kept[key] = name, rows

    def received(query: Asked) -> list[tuple[Key, Value]]:
        return [row for name, rows in kept.values() if name == query.name for row in by_key(query, rows)]

    run(spark, site, flush=True, sinks=[ForeachSink(call)])
    assert not fail_at
    for verdict in (site.judged(), judge(site.queries, site.events(), received)):
        assert verdict.exact, verdict
