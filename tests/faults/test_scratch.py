"""A machine in trouble while Spark works: nobody is blamed, and nothing of the batch is consumed."""

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.faults.disk import small_disk
from tests.faults.driver import ROOT
from weft.service.status import read_registry

START = datetime(2026, 1, 1, tzinfo=UTC)
_SHUFFLES = """
import weft.spark.input.files
import weft.spark.job.forms
weft.spark.input.files._SMALL_BYTES = weft.spark.job.forms.MOST_ROWS = 0
"""
_PLAIN = "from weft.cli import main; main()"
_STAND_IN = """
import {module}
def full(*given):
    raise OSError(28, "No space left on device")
{module}.{name} = full
"""


def weft(
    *arguments: object, scratch: Path, stand_in: str = "", shuffles: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command whose Spark has its scratch files in a folder.

    A function of Weft's may stand in for a disk that cannot be mounted: it finds none of its room. Where it
    `shuffles`, Spark groups all rows: those that the driver groups need no scratch files.
    """
    module, _, name = stand_in.partition(":")
    patch = _STAND_IN.format(module=module, name=name) if stand_in else ""
    patch += _SHUFFLES if shuffles else ""
    return subprocess.run(
        [sys.executable, "-c", patch + _PLAIN, *map(str, arguments)],
        env={**os.environ, "SPARK_LOCAL_DIRS": str(scratch)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command ended with, which must be a sentence."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


MANY = """
CREATE STREAM trades (time TIMESTAMP, id BIGINT, vol BIGINT)
  USING parquet OPTIONS (path 'trades/', maxFilesPerTrigger '1') EVENT TIME time;
CREATE QUERY total AS SELECT sum(vol) AS v FROM trades [RANGE '1 day'];
CREATE QUERY by_id AS SELECT id, sum(vol) AS v FROM trades [RANGE '1 day'] GROUP BY id;
"""
IDS = 100_000


def test_no_query_is_blamed_for_a_full_scratch_disk(tmp_path: Path) -> None:
    """The disk has room for a few groups, which is all that `total` needs, but not for those of `by_id`."""
    scratch, state, out = tmp_path / "scratch", tmp_path / "state", tmp_path / "out"
    scratch.mkdir()
    for number, ids in enumerate((10, IDS)):
        day = START + timedelta(days=number)
        write(tmp_path, number, {"time": [day] * ids, "id": range(ids), "vol": range(ids)})
    (tmp_path / "workload.sql").write_text(MANY)
    command = ["run", tmp_path / "workload.sql", "--checkpoint", state, "--out", out]
    with small_disk(scratch, kibibytes=256) as mounted:
        stand_in = "" if mounted else "weft.spark.job.job:BatchJob.run"
        error = error_of(weft(*command, scratch=scratch, stand_in=stand_in, shuffles=True))
        assert "error: the stream stopped: a disk is full (" in error
        batch = 1 if mounted else 0
        assert f"No space left on device); nothing of batch {batch} is consumed: free space (Spark's" in error
        assert {one.state for one in read_registry(state)} == {"running"}
    done = weft(*command, "--flush", scratch=scratch)
    assert done.returncode == 0, done.stderr
    found = pq.read_table(out / "by_id").filter(pc.field("window_start") == START + timedelta(days=1))
    assert sorted(zip(*(found[name].to_pylist() for name in ("id", "v")), strict=True)) == [
        (number, number) for number in range(IDS)
    ]
    assert pq.read_table(out / "total").sort_by("window_end")["v"].to_pylist() == [45, IDS * (IDS - 1) // 2]


def write(folder: Path, number: int, columns: Mapping[str, Any]) -> None:
    """Write a file of trades, newer than those before it."""
    path = folder / "trades" / f"{number}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)
    os.utime(path, (1_700_000_000 + number,) * 2)


FAR = """
CREATE STREAM trades (time TIMESTAMP, vol BIGINT) USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY total AS SELECT sum(vol) AS v FROM trades [RANGE '1 day'];
CREATE QUERY every AS SELECT cast(count(*) * 1.5e0 AS STRING) AS n FROM trades [RANGE '1 s'] EMIT EMPTY;
"""


def test_no_query_is_blamed_for_a_disk_that_is_too_small_for_results(tmp_path: Path) -> None:
    """A batch of two rows needs no room; two days of seconds between them do, when SELECT asks Spark."""
    scratch, state = tmp_path / "scratch", tmp_path / "state"
    scratch.mkdir()
    write(tmp_path, 0, {"time": [START, START + timedelta(days=2)], "vol": [1, 2]})
    (tmp_path / "workload.sql").write_text(FAR)
    command = ["run", tmp_path / "workload.sql", "--checkpoint", state, "--out", tmp_path / "out"]
    with small_disk(scratch, kibibytes=1_024) as mounted:
        stand_in = "" if mounted else "weft.finals.selecting:evaluate"
        error = error_of(weft(*command, scratch=scratch, stand_in=stand_in))
        assert "error: the stream stopped: a disk is full (" in error
        assert "No space left on device); nothing of batch 0 is consumed" in error
        assert {one.state for one in read_registry(state)} == {"running"}
    assert weft(*command, scratch=scratch).returncode == 0
    assert pq.read_table(tmp_path / "out" / "every").num_rows == 2 * 86_400


HUGE = """
CREATE STREAM trades (time TIMESTAMP, note STRING) USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY total AS SELECT count(*) AS n FROM trades [RANGE '1 day'];
CREATE QUERY notes AS SELECT note, count(*) AS n FROM trades [RANGE '1 day'] GROUP BY note;
"""


def test_no_query_is_blamed_for_a_java_that_is_short_of_memory(tmp_path: Path) -> None:
    """A gigabyte of keys, in a heap of half of that."""
    (tmp_path / "trades").mkdir()
    notes = [f"{number:04d}" + "x" * (1 << 20) for number in range(1_000)]
    times = [START + timedelta(seconds=number) for number in range(len(notes))]
    rows = pa.table({"time": times, "note": notes})
    pq.write_table(rows, tmp_path / "trades" / "0.parquet", compression="zstd", use_dictionary=False)
    (tmp_path / "workload.sql").write_text(HUGE)
    state = tmp_path / "state"
    command = ["run", tmp_path / "workload.sql", "--checkpoint", state, "--out", tmp_path / "out"]
    error = error_of(weft(*command, "--memory", "512m", "--cores", "2", scratch=tmp_path / "scratch"))
    assert "Spark's Java process has ended" in error or "memory ran out (java.lang.OutOfMemoryError" in error
    assert {one.state for one in read_registry(state)} == {"running"}
    assert not [*state.glob("trades/spark/commits/[0-9]*")]
