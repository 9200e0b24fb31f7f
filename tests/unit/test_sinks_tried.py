"""Mistakes in sinks are found at the start: one line, exit code 1, and Spark is not started for it."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest
from typer.testing import CliRunner

from weft.cli.app import app
from weft.durability.checkpoint import Checkpoint
from weft.engine import Engine
from weft.errors import UnknownName, UserError
from weft.sinks import SinkError
from weft.storage import LocalFolder, local

WORKLOAD = """
CREATE STREAM trades (time TIMESTAMP, vol BIGINT) USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE TABLE close (symbol STRING) USING csv OPTIONS (path 'close.csv');
CREATE QUERY big AS SELECT count(*) AS n FROM trades [RANGE '10 s'];
"""
"""Its table starts Spark as soon as it is declared."""
MAIN = "from weft.cli import main; main()"
NOWHERE = "postgresql://me:p4ss@127.0.0.1:1/db"
"""A port on which nobody listens."""


def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sinks: str, *options: str) -> str:
    """Run a workload with sinks up to its mistake; return the one line that tells it."""

    def started(**_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("weft.cli.workload.local_session", started)
    workload = tmp_path / "workload.sql"
    workload.write_text(sinks + WORKLOAD)
    (tmp_path / "trades").mkdir(exist_ok=True)
    (tmp_path / "close.csv").write_text("symbol\na\n")
    before = {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}
    done = CliRunner().invoke(app, ["run", str(workload), *options])
    assert isinstance(done.exception, UserError), done.exception
    assert {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")} == before
    (line,) = str(done.exception).splitlines()
    assert "p4ss" not in line + done.output
    return line


def test_a_file_is_no_folder_for_results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for options in ([], ["--checkpoint", str(tmp_path / "state"), "--follow"]):
        line = told(monkeypatch, tmp_path, "", "--out", str(tmp_path / "file"), *options)
        assert line == (
            f"sink parquet: {tmp_path}/file is a file, and no folder; give another --out, or path in OPTIONS"
        )
    line = told(monkeypatch, tmp_path, "CREATE SINK f USING parquet OPTIONS (path 'file/x/y');")
    assert line == (
        f"sink f: {tmp_path}/file is a file, and no folder, so there can be no folder {tmp_path}/file/x/y; "
        "give another --out, or path in OPTIONS"
    )


@pytest.mark.parametrize(
    ("code", "mending"),
    [
        (errno.ENOSPC, "free space there"),
        (errno.EACCES, "let this user write there"),
        (errno.EROFS, "let this user write there"),
        (errno.EIO, "repair what is wrong there"),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_that_cannot_be_written_is_found_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, mending: str, exists: bool
) -> None:
    (tmp_path / "out").mkdir()
    folder = tmp_path / "out" if exists else tmp_path / "out" / "a" / "b"

    def failing(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(local.os, "fsync", failing)
    line = told(monkeypatch, tmp_path, "", "--out", str(folder))
    assert (
        line
        == f"sink parquet cannot write to {folder}: {os.strerror(code)}; {mending}, or give another folder"
    )


def test_a_trial_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "out" / "big").mkdir(parents=True)
    (tmp_path / "out" / "big" / "weft-r01234567-0123-000000000-000000001.parquet").write_bytes(
        b"an earlier run's"
    )
    before = sorted(tmp_path.rglob("*"))
    engine = Engine()
    engine.sink("a", "parquet", path=tmp_path / "out")
    engine.sink("b", "parquet", path=tmp_path / "new" / "folder")
    engine.try_sinks(queries=())
    assert sorted(tmp_path.rglob("*")) == before


def test_a_server_that_does_not_answer_is_found_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    began = monotonic()
    line = told(monkeypatch, tmp_path, "", "--postgres", NOWHERE)
    assert monotonic() - began < 10
    assert line.startswith("sink postgres: cannot connect at host=127.0.0.1 port=1 dbname=db user=me: ")
    assert "refused" in line
    assert line.endswith("; start the server, or mend the connection string")
    monkeypatch.setenv("SINK_DSN", NOWHERE)
    sink = "CREATE SINK pg USING postgres OPTIONS (connection_env 'SINK_DSN') FOR big;"
    assert told(monkeypatch, tmp_path, sink) == line.replace("sink postgres", "sink pg")
    monkeypatch.delenv("SINK_DSN")
    assert told(monkeypatch, tmp_path, sink) == (
        "sink pg: the environment variable SINK_DSN is not set; set it to a connection string, such as "
        "postgresql://user:password@host:5432/database"
    )
    sink = "CREATE SINK pg USING postgres OPTIONS (connection 'host=a pasword=p4ss');"
    assert told(monkeypatch, tmp_path, sink).startswith("the connection string for PostgreSQL cannot be read")


def test_a_missing_driver_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    line = told(monkeypatch, tmp_path, "", "--postgres", NOWHERE)
    assert line == (
        "PostgreSQL needs the package psycopg, which is not installed: pip install 'weft[postgres]' "
        "(from a checkout '.[postgres]')"
    )


def test_a_sink_for_an_unknown_query_is_found_at_the_start() -> None:
    engine = Engine()
    engine.sink("c", "console", queries=["big"])
    with pytest.raises(UnknownName, match='sink c is FOR "big", which is no query; there are no queries'):
        engine.start()


def test_two_sinks_of_one_name_or_one_place_are_found_at_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sink = "CREATE SINK parquet USING parquet OPTIONS (path 'out') FOR big;"
    assert told(monkeypatch, tmp_path, sink, "--out", "other") == (
        'there is a sink "parquet" already (--out is the sink parquet, and --postgres the sink postgres); '
        "choose another name"
    )
    line = told(
        monkeypatch, tmp_path, sink.replace("K parquet", "K files"), "--out", str(tmp_path / "x/../out/")
    )
    assert line == (
        f"sinks parquet and files both write to {tmp_path}/out, where results would get mixed up; give "
        "each a place of its own, or make them one sink"
    )


def noted(state: Path, sink: str) -> None:
    """Let a checkpoint know a sink, as one does once an engine was ready to deliver to it."""
    Checkpoint(LocalFolder(state / "trades")).deliver_to({sink: 7})


def test_a_server_that_is_away_keeps_no_service_from_going_on(tmp_path: Path) -> None:
    """Its results wait in the checkpoint; but a first start, or one that ends with its input, is refused."""
    engine, state = Engine(), tmp_path / "state"
    engine.sink("pg", "postgres", connection=NOWHERE)

    def tried(follow: bool) -> None:
        engine.try_sinks(queries=(), checkpoint=state, follow=follow)

    for known, follow, refused in ((False, True, True), (True, False, True), (True, True, False)):
        if known:
            noted(state, "pg")
        if refused:
            with pytest.raises(SinkError, match="cannot connect"):
                tried(follow)
        else:
            tried(follow)
    # A sink that the checkpoint does not know, beside one that it knows.
    engine.sink("new", "postgres", connection=NOWHERE.replace("db", "other"))
    with pytest.raises(SinkError, match="sink new: cannot connect"):
        tried(True)


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_the_command_says_it_in_one_line_within_three_seconds(tmp_path: Path) -> None:
    (tmp_path / "workload.sql").write_text(WORKLOAD)
    (tmp_path / "trades").mkdir()
    (tmp_path / "close.csv").write_text("symbol\na\n")
    (tmp_path / "file").write_text("mine")
    command = [sys.executable, "-c", MAIN, "run", "workload.sql", "--out", "file/results"]
    before = cpu_seconds()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: sink parquet: {tmp_path}/file is a file, and no folder, so there can be ")
    # It waits for nothing, so this is the time that it takes on a machine that does nothing else.
    assert cpu_seconds() - before < 3
