"""The command line, driven as a person would."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from weft.cli.app import app
from weft.errors import UserError

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKLOAD = """
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/', maxFilesPerTrigger '1') EVENT TIME time DELAY '2 seconds';
CREATE TABLE close USING csv OPTIONS (path 'close.csv', header 'true');
CREATE QUERY big AS
  SELECT sum(price * vol) AS value FROM trades [RANGE '12 s' SLIDE '5 s'] WHERE vol > 2;
CREATE QUERY by_symbol AS
  SELECT symbol, avg(price) AS p FROM trades GROUP BY symbol, window(time, '10 seconds', '5 seconds')
  HAVING count(*) > 1;
CREATE QUERY moved AS
  SELECT max(abs(price - cp) / cp) AS move FROM trades T [RANGE '10 s'], close C WHERE T.symbol = C.symbol;
CREATE QUERY gone AS SELECT count(*) AS n FROM trades [RANGE '10 s'];
DROP QUERY gone;
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Write a workload, its trades in four files, and its table."""
    (tmp_path / "trades").mkdir()
    for number in range(4):
        rows = [
            (START + timedelta(seconds=number * 9 + step), "ab"[step % 2], 10.0 + step, step)
            for step in range(6)
        ]
        table = pa.table(dict(zip(("time", "symbol", "price", "vol"), zip(*rows, strict=True), strict=True)))
        pq.write_table(table, tmp_path / "trades" / f"{number}.parquet")
        os.utime(tmp_path / "trades" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    (tmp_path / "close.csv").write_text("symbol,cp\na,8.0\nb,9.0\n")
    path = tmp_path / "workload.sql"
    path.write_text(WORKLOAD)
    return path


def run(*arguments: object) -> str:
    """Run a command that must succeed, and return what it printed."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def rows(folder: Path, name: str) -> list[dict[str, object]]:
    """Return a query's results, in an order of their own."""
    return sorted(pq.read_table(folder / name).to_pylist(), key=repr)


def test_shared_and_ordinary_runs_write_the_same_rows(
    spark: SparkSession, workload: Path, tmp_path: Path
) -> None:
    run("run", workload, "--out", tmp_path / "shared")
    run("run", workload, "--out", tmp_path / "paned", "--slicing", "paned")
    with workload.open("a") as text:
        text.write("CREATE SINK some USING parquet OPTIONS (path 'some') FOR big;")
    run("run", workload, "--out", tmp_path / "plain", "--sharing", "none")
    assert [path.name for path in (tmp_path / "some").iterdir()] == ["big"]
    assert rows(tmp_path / "some", "big") == rows(tmp_path / "plain", "big")
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {"big", "by_symbol", "moved"}
    for name in ("big", "by_symbol", "moved"):
        assert (
            rows(tmp_path / "shared", name)
            == rows(tmp_path / "plain", name)
            == rows(tmp_path / "paned", name)
        )
        # However many batches there were, a query's results are in few files.
        assert len(list((tmp_path / "shared" / name).iterdir())) == 1
    schema = pq.read_schema(next((tmp_path / "shared" / "by_symbol").iterdir()))
    assert schema.names == ["window_start", "window_end", "symbol", "p"]
    assert schema.field("window_start").type == pa.timestamp("us", "UTC")


def test_the_same_file_and_data_give_the_same_rows_again(
    spark: SparkSession, workload: Path, tmp_path: Path
) -> None:
    run("run", workload, "--out", tmp_path / "out")
    before = rows(tmp_path / "out", "by_symbol")
    run("run", workload, "--out", tmp_path / "out")
    assert rows(tmp_path / "out", "by_symbol") == before


def test_a_resumable_run_leaves_windows_open_until_flushed(
    spark: SparkSession, workload: Path, tmp_path: Path
) -> None:
    run("run", workload, "--out", tmp_path / "whole")
    arguments = ("run", workload, "--out", tmp_path / "parts", "--checkpoint", tmp_path / "checkpoint")
    run(*arguments)
    whole, open_ones = rows(tmp_path / "whole", "big"), rows(tmp_path / "parts", "big")
    assert len(open_ones) < len(whole)
    assert [row for row in whole if row in open_ones] == open_ones
    run(*arguments, "--flush")
    assert rows(tmp_path / "parts", "big") == whole


def test_results_are_shown_when_no_folder_is_named(spark: SparkSession, workload: Path) -> None:
    shown = run("run", workload)
    assert "by_symbol" in shown
    assert "window_start" in shown


def test_explain_shows_what_is_shared(spark: SparkSession, workload: Path) -> None:
    shown = run("explain", workload, "--rate", "100")
    assert "3 queries over 3 relations, read once, one Spark job a batch" in shown
    assert "rows where vol > 2" in shown


def weft(*arguments: object) -> list[str]:
    """Return a command line of its own process."""
    return [sys.executable, "-c", "from weft.cli import main; main()", *map(str, arguments)]


def test_mistakes_are_messages_not_tracebacks(tmp_path: Path) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(WORKLOAD.replace("CREATE TABLE", "--").replace("price * vol", "prise * vol"))
    failed = subprocess.run(weft("explain", path), capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith(
        f'error: {path}:6:14: query big: unknown column "prise" in stream trades; did you mean "price"?\n'
        "  SELECT sum(prise * vol) AS value FROM trades [RANGE '12 s' SLIDE '5 s'] WHERE vol > 2\n"
        "             ^^^^^\n"
    )
    missing = subprocess.run(weft("run", tmp_path / "no.sql"), capture_output=True, text=True, check=False)
    assert (missing.returncode, missing.stderr) == (1, f"error: no workload file {tmp_path / 'no.sql'}\n")


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("USING parquet OPTIONS (path 'trades/') EVENT TIME tmie",
         'event time "tmie" is not a column of stream trades; did you mean "time"?'),
        ("USING parquet OPTIONS (path 'trades/') EVENT TIME symbol",
         'event time "symbol" is a string; it must be a timestamp, a date or a number'),
        ("USING csv OPTIONS (path 'close.csv') EVENT TIME time",
         'event time "time" is not a column of stream trades; known are _c0, _c1; if the first line of its '
         "files has the names, add OPTIONS (header 'true')"),
    ],
)  # fmt: skip
def test_a_mistake_that_only_files_show_is_one_line(
    spark: SparkSession, workload: Path, declared: str, said: str
) -> None:
    workload.write_text(
        f"CREATE STREAM trades {declared}; CREATE QUERY q AS SELECT count(*) AS n FROM trades [RANGE '10 s'];"
    )
    failed = CliRunner().invoke(app, ["run", str(workload)])
    assert isinstance(failed.exception, UserError)
    assert str(failed.exception) == said


def test_rows_that_spark_cannot_read_are_told_by_weft_alone(workload: Path) -> None:
    """Spark's own log of the jobs that failed for them would be many lines of Java."""
    text = workload.read_text().replace("symbol STRING", "symbol TIMESTAMP")
    stream, _, _ = text.partition("CREATE TABLE")
    workload.write_text(stream + "CREATE QUERY q AS SELECT max(symbol) AS s FROM trades [RANGE '10 s'];")
    done = subprocess.run(weft("run", workload), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "has column symbol as STRING, declared TIMESTAMP; its rows (6) are set aside" in done.stderr
    assert "ERROR" not in done.stderr
    assert "org.apache" not in done.stderr


def test_a_stream_a_table_queries_and_sinks_may_be_called_like_folders_of_a_checkpoint(
    spark: SparkSession, workload: Path, tmp_path: Path
) -> None:
    run("run", workload, "--out", tmp_path / "usual")
    workload.write_text(
        """
        CREATE STREAM requests (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
          USING parquet OPTIONS (path 'trades/', maxFilesPerTrigger '1') EVENT TIME time DELAY '2 seconds';
        CREATE TABLE answers USING csv OPTIONS (path 'close.csv', header 'true');
        CREATE QUERY requests AS
          SELECT sum(price * vol) AS value FROM requests [RANGE '12 s' SLIDE '5 s'] WHERE vol > 2;
        CREATE QUERY commits AS
          SELECT symbol, avg(price) AS p FROM requests
          GROUP BY symbol, window(time, '10 seconds', '5 seconds') HAVING count(*) > 1;
        CREATE QUERY id AS
          SELECT max(abs(price - cp) / cp) AS move FROM requests T [RANGE '10 s'], answers C
          WHERE T.symbol = C.symbol;
        CREATE SINK requests USING parquet OPTIONS (path 'out') FOR requests, id;
        CREATE SINK commits USING parquet OPTIONS (path 'other');
        """
    )
    state = tmp_path / "state"
    run("run", workload, "--checkpoint", state)
    added = run("add", state, "SELECT count(*) AS n FROM requests [RANGE '10 s']", "--name", "queries")
    assert 'query "queries" will be added when one starts' in added
    run("run", workload, "--checkpoint", state, "--flush")
    assert rows(tmp_path / "out", "requests") == rows(tmp_path / "usual", "big")
    assert rows(tmp_path / "out", "id") == rows(tmp_path / "usual", "moved")
    assert rows(tmp_path / "other", "commits") == rows(tmp_path / "usual", "by_symbol")
    assert sorted(path.name for path in state.iterdir()) == [
        "%72equests", "answers", "id", "lock.json", "requests"
    ]  # fmt: skip
    listed = run("list", state)
    assert all(name in listed for name in ("requests", "commits", "id", "queries"))


@pytest.mark.parametrize("asked", ["SIGTERM", "SIGINT", "weft stop"])
def test_following_stops_cleanly_when_asked(workload: Path, tmp_path: Path, asked: str) -> None:
    out = tmp_path / "out"
    command = weft("run", workload, "--out", out, "--checkpoint", tmp_path / "checkpoint", "--follow")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    commits = tmp_path / "checkpoint" / "trades" / "commits"
    while process.poll() is None and (not commits.exists() or len(list(commits.glob("[0-9]*"))) < 4):
        time.sleep(0.05)
    if asked == "weft stop":
        said = subprocess.run(
            weft("stop", tmp_path / "checkpoint", "--wait", 60), capture_output=True, text=True
        )
        assert said.returncode == 0, said
    else:
        process.send_signal(signal.Signals[asked])
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    # The batch that Spark has begun meanwhile is put off, which is no error of anyone's.
    assert "ERROR" not in output
    # Results that were committed are there, though nothing was flushed before.
    assert rows(out, "big")


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "explain",
        "demo",
        "bench slices",
        "bench fragments",
        "bench shards",
        "bench windows",
        "bench queries",
        "bench memory",
    ],
)
def test_every_command_has_an_example(command: str) -> None:
    shown = run(*command.split(), "--help")
    assert "Example: weft " + command in " ".join(shown.split())
