"""Whose fault a failure is: queries are blamed for what they do again and alone, and for nothing else."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf
from typer.testing import CliRunner

import weft
from tests.spark.trades import Feed, counted, stream
from weft.cli.app import app
from weft.errors import EngineError
from weft.service.status import read_registry

COUNT = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
CHECKED = "SELECT sum(checked(vol)) AS n FROM trades [RANGE '10 s']"
CHECKED_OUTPUT = "SELECT checked(sum(vol)) AS n FROM trades [RANGE '10 s']"


def raising(error: str, *, once: Path | None = None) -> Any:
    """Return a function that raises, always or only until a file is there."""

    def check(values: pd.Series) -> pd.Series:
        if once is None or not once.exists():
            if once is not None:
                once.touch()
            raise {"OSError": OSError, "MemoryError": MemoryError, "ValueError": ValueError}[error]("13")
        return values

    return pandas_udf(check, "bigint")  # type: ignore[call-overload]


def engine_with(spark: SparkSession, feed: Feed, function: Any, **queries: str) -> weft.Engine:
    """Return an engine over two trades."""
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    engine.function("checked", function)
    for name, text in queries.items():
        engine.add(text, name=name)
    return engine


def test_all_queries_at_fault_are_found_and_the_others_go_on(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    texts = {"good": COUNT, "in_row": CHECKED, "in_output": CHECKED_OUTPUT, "where": f"{COUNT} WHERE vol > 0"}
    engine = engine_with(spark, feed, raising("ValueError"), **texts, also=f"{CHECKED} WHERE vol > 0")
    engine.run(checkpoint=tmp_path / "state", flush=True)
    states = {name: query.state for name, query in engine.queries.items()}
    assert states == {
        "good": "running", "in_row": "failed", "in_output": "failed", "where": "running", "also": "failed",
    }  # fmt: skip
    assert counted(engine.results("good")) == counted(engine.results("where")) == {10: 1, 20: 1}
    # Told is what was raised, not what it came wrapped in, and so by weft show.
    told = {one.name: one.error for one in read_registry(tmp_path / "state") if one.error is not None}
    assert told == dict.fromkeys(("in_row", "in_output", "also"), "ValueError: 13")
    assert engine.status().streams["trades"].failed == ("in_output", "in_row", "also")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "state"), "in_row"])
    assert "ValueError: 13" in shown.output


@pytest.mark.parametrize("text", [CHECKED, CHECKED_OUTPUT], ids=["argument", "output"])
@pytest.mark.parametrize("others", [{}, {"good": COUNT}], ids=["alone", "with another"])
def test_what_a_function_raises_only_once_is_nobodys_fault(
    spark: SparkSession, feed: Feed, tmp_path: Path, text: str, others: dict[str, str]
) -> None:
    feed.at(1, 12)
    function = raising("ValueError", once=tmp_path / "raised")
    for run in range(2):
        engine = engine_with(spark, feed, function, checked=text, **others)
        if run:
            engine.run(checkpoint=tmp_path / "state", flush=True)
            continue
        with pytest.raises(EngineError) as caught:
            engine.run(checkpoint=tmp_path / "state", flush=True)
        assert str(caught.value) == (
            "the stream stopped: something failed, and no query is shown to be at fault (ValueError: 13); "
            "nothing of batch 0 is consumed: mend what is wrong, and start it again"
        )
        assert {one.state for one in read_registry(tmp_path / "state")} == {"running"}
    assert {query.state for query in engine.queries.values()} == {"running"}
    for name in others:
        assert counted(engine.results(name)) == {10: 1, 20: 1}
    assert engine.results("checked").num_rows == 2


@pytest.mark.parametrize("error", ["OSError", "MemoryError"])
@pytest.mark.parametrize("text", [CHECKED, CHECKED_OUTPUT], ids=["argument", "output"])
def test_trouble_of_the_machine_inside_a_function_is_not_its_querys_fault(
    spark: SparkSession, feed: Feed, tmp_path: Path, text: str, error: str
) -> None:
    feed.at(1, 12)
    engine = engine_with(spark, feed, raising(error), good=COUNT, checked=text)
    with pytest.raises(EngineError, match=rf"the stream stopped: .*\({error}: 13\); nothing of batch 0 is"):
        engine.run(checkpoint=tmp_path / "state", flush=True)
    assert {one.state for one in read_registry(tmp_path / "state")} == {"running"}
    assert engine.results("good").num_rows == 0


def test_a_static_frame_that_cannot_be_processed_is_told_likewise(spark: SparkSession, feed: Feed) -> None:
    feed.at(1, 12)
    engine = weft.Engine(spark)
    engine.stream("trades", spark.read.parquet(str(feed.folder)), time="time")
    engine.function("checked", raising("OSError"))
    engine.add(CHECKED, name="checked")
    with pytest.raises(EngineError, match=r"the stream stopped: .*\(OSError: 13\); nothing of batch 0"):
        engine.run()
    assert engine.queries["checked"].state == "running"


def test_windows_that_cannot_be_closed_at_the_end_stay_open(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    function = raising("OSError", once=tmp_path / "raised")
    (tmp_path / "raised").touch()
    for run in range(2):
        engine = engine_with(spark, feed, function, checked=CHECKED_OUTPUT)
        engine.start(checkpoint=tmp_path / "state", follow=False)
        engine.wait()
        if run:
            engine.stop(flush=True)
            assert engine.results("checked").num_rows == 1
            continue
        (tmp_path / "raised").unlink()
        with pytest.raises(EngineError, match=r"the stream stopped: .*\(OSError: 13\)"):
            engine.stop(flush=True)
        assert engine.results("checked").num_rows == 1


def test_a_query_is_not_refused_for_good_while_the_machine_is_in_trouble(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    function = raising("OSError", once=tmp_path / "raised")
    # It keeps what past windows of the other are answered from.
    total = "SELECT sum(vol) AS v FROM trades [RANGE '60 s' SLIDE '10 s']"
    engine = engine_with(spark, feed, function, total=total)
    engine.start()
    engine.process_available()
    with pytest.raises(EngineError, match=r"query late cannot be added: .*\(OSError: 13\).*, and try again"):
        engine.add(CHECKED_OUTPUT, name="late")
    engine.add(CHECKED_OUTPUT, name="late")
    assert engine.queries["late"].state == "running"
    engine.stop()


# The exit code.

WORKLOAD = """
CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
  USING parquet OPTIONS (path 'trades/') EVENT TIME time;
CREATE QUERY total AS SELECT count(*) AS n FROM trades [RANGE '10 s'];
CREATE QUERY wide AS SELECT symbol, count(*) AS n FROM trades [RANGE '10 s'] GROUP BY symbol;
"""


@pytest.mark.parametrize("durable", [True, False], ids=["checkpoint", "none"])
def test_a_run_in_which_a_query_failed_says_so_by_its_exit_code(
    spark: SparkSession, feed: Feed, tmp_path: Path, durable: bool
) -> None:
    feed((1, "a", 1.0, 1), (2, "b", 1.0, 1), (12, "a", 1.0, 2))
    workload, state = tmp_path / "workload.sql", tmp_path / "state"
    workload.write_text(WORKLOAD)
    options = ["--checkpoint", str(state), "--flush"] if durable else []

    def run(*more: str) -> Any:
        return CliRunner().invoke(
            app, ["run", str(workload), "--out", str(tmp_path / "out"), *options, *more]
        )

    done = run("--limit", "groups_per_query=1")
    assert done.exit_code == 3, done.output
    told = "1 query failed in this run: wide; weft show has the errors"
    assert done.output.splitlines()[-1] == told + ("" if durable else " of a run with --checkpoint")
    if durable:
        assert "groups" in CliRunner().invoke(app, ["show", str(state), "wide"]).output
        # It is not this run in which it failed.
        assert run().exit_code == 0
    else:
        assert run().exit_code == 0


def test_a_query_that_does_not_fit_any_more_is_told_by_the_exit_code(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    workload, state = tmp_path / "workload.sql", tmp_path / "state"
    workload.write_text(WORKLOAD)
    runner, command = CliRunner(), ["run", str(workload), "--checkpoint", str(state)]
    assert runner.invoke(app, command).exit_code == 0
    added = ["add", str(state), f"{COUNT} WHERE vol > 1 AND vol < 5", "--name", "large"]
    assert runner.invoke(app, added).exit_code == 0
    assert runner.invoke(app, command).exit_code == 0
    done = runner.invoke(app, [*command, "--limit", "expression_nodes=6"])
    assert done.exit_code == 3, done.output
    assert "1 query failed in this run: large; weft show has the errors" in done.output
