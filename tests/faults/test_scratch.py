"""A machine in trouble while Spark works: nobody is blamed, and nothing of the batch is consumed."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.disk import filled, small_disk
from tests.faults.driver import ROOT
from tests.faults.events import Events, write_files
from tests.faults.site import Site
from weft.runtime.info import read_registry

_LAUNCH = Path(__file__).with_name("launch.py")
START = datetime(2026, 1, 1, tzinfo=UTC)


def weft(*arguments: object, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Run a command whose Spark has its scratch files in a folder."""
    return subprocess.run(
        [sys.executable, str(_LAUNCH), *map(str, arguments)],
        env={**os.environ, "SPARK_LOCAL_DIRS": str(scratch), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command ended with, which must be a sentence."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_no_query_is_blamed_for_a_full_scratch_disk(tmp_path: Path) -> None:
    site, events, scratch = Site.made(tmp_path / "site"), Events(seed=41), tmp_path / "scratch"
    scratch.mkdir()
    command = ["run", site.workload, "--checkpoint", site.checkpoint, "--out", site.out, "--late", site.late]
    with small_disk(scratch, kibibytes=1_024) as mounted:
        write_files(site.input, events, 8)
        assert mounted, "mounting needs root"
        with filled(scratch):
            error = error_of(weft(*command, scratch=scratch))
        assert "the stream stopped: a disk is full (java.io.IOException: No space left on device)" in error
        assert (
            "nothing of batch 0 is consumed: free space (Spark's scratch folders, SPARK_LOCAL_DIRS" in error
        )
        assert {one.state for one in read_registry(site.checkpoint)} == {"running"}
        assert site.newest_batch() == -1
    done = weft(*command, "--flush", scratch=scratch)
    assert done.returncode == 0, done.stderr
    verdict = site.judged()
    assert verdict.exact, verdict


FAR = """
CREATE STREAM trades (time TIMESTAMP, vol BIGINT) USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY total AS SELECT sum(vol) AS v FROM trades [RANGE '1 day'];
CREATE QUERY every AS SELECT count(*) + 1 AS n FROM trades [RANGE '1 s'] EMIT EMPTY;
"""


def test_no_query_is_blamed_for_a_disk_that_is_too_small_for_results(tmp_path: Path) -> None:
    """A batch of two rows needs no room; two days of seconds between them do, when SELECT computes."""
    scratch, state = tmp_path / "scratch", tmp_path / "state"
    for folder in (scratch, tmp_path / "trades"):
        folder.mkdir()
    times = [START, START + timedelta(days=2)]
    pq.write_table(pa.table({"time": times, "vol": [1, 2]}), tmp_path / "trades" / "0.parquet")
    (tmp_path / "workload.sql").write_text(FAR)
    command = ["run", tmp_path / "workload.sql", "--checkpoint", state, "--out", tmp_path / "out"]
    with small_disk(scratch, kibibytes=1_024) as mounted:
        assert mounted, "mounting needs root"
        error = error_of(weft(*command, scratch=scratch))
        assert "the stream stopped: a disk is full (" in error
        assert "nothing of batch 0 is consumed" in error
        assert {one.state for one in read_registry(state)} == {"running"}
    assert weft(*command, scratch=scratch).returncode == 0
    assert pq.read_table(tmp_path / "out" / "every").num_rows == 2 * 86_400
