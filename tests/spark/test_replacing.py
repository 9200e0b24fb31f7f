"""Queries that take the places of others: by a call, from another terminal, and by another workload."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import weft
from tests.spark.test_live_queries import SLIDING, TUMBLING, more, running
from tests.spark.trades import Feed, counted, ends, seconds, stream
from weft.cli.app import app

LARGE = "SELECT count(*) AS n FROM trades [RANGE '10 s'] WHERE vol > 1"
TOTAL = "SELECT sum(vol) AS total FROM trades [RANGE '10 s' SLIDE '5 s']"


def test_a_query_is_replaced_while_it_runs(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    heard: list[tuple[str, float]] = []
    feed((1, "a", 1.0, 1), (12, "a", 1.0, 2))
    options = {"checkpoint": tmp_path / "state", "out": tmp_path / "out"}
    with running(spark, feed, TUMBLING, SLIDING, **options) as engine:
        former = engine.queries["q0"]

        def hear(rows: pa.Table) -> None:
            heard.extend((rows.column_names[-1], end) for end in ends(rows))

        former.subscribe(hear)
        # However it is formatted, it is the same.
        assert engine.add(TUMBLING.replace(" ", "  "), name="q0", replace=True) is former
        with pytest.raises(weft.EngineError, match='there is a query "q0" already'):
            engine.add(TOTAL, name="q0")
        new = engine.add(f"CREATE OR REPLACE QUERY q0 AS {TOTAL}")
        assert engine.queries["q0"] is new
        assert (former.state, new.state, counted(former.results())) == ("dropped", "running", {10: 1})
        more(engine, feed, 23, 34)
        # The window to 15 began before; the partials of q1 count rows, and do not add volumes.
        assert seconds(new.first_window) == (15, 25)
        assert counted(new.results(), "total") == {25: 1, 30: 1}
        assert counted(former.results()) == {10: 1}
        assert heard == [("total", 25), ("total", 30)]
        other = engine.add("SELECT count(*) AS n FROM trades [RANGE '5 s']", name="q0", replace=True)
        # Rows were counted all along, and cut at every 5 s.
        assert seconds(other.first_window) == (30, 35)
        more(engine, feed, 47)
        assert counted(other.results()) == {35: 1}
        with pytest.raises(weft.QueryError, match="unknown column"):
            engine.add("SELECT sum(prise) AS n FROM trades [RANGE '5 s']", name="q0", replace=True)
        assert other.state == "running"
    written = [pq.read_table(path) for path in sorted((tmp_path / "out" / "q0").glob("*.parquet"))]
    assert [end for rows in written for end in ends(rows)] == [10, 25, 30, 35]


def test_a_query_of_any_state_is_replaced(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1, 12)
    with running(spark, feed, TUMBLING, SLIDING, checkpoint=tmp_path / "state") as engine:
        engine.pause("q0")
        new = engine.add(TUMBLING, name="q0", replace=True)
        assert new.state == "running"
        engine.remove("q0")
        again = engine.add(LARGE, name="q0", replace=True)
        assert again.state == "running"
        assert engine.add(TUMBLING, name="other", replace=True).state == "running"
        assert sorted(engine.queries) == ["other", "q0", "q1"]
        engine.stream(
            "more", spark.readStream.schema("time TIMESTAMP").parquet(str(feed.folder)), time="time"
        )
        with pytest.raises(
            weft.EngineError, match="query other is one of stream trades, and no query of stre"
        ):
            engine.add("SELECT count(*) AS n FROM more [RANGE '5 s']", name="other", replace=True)
    # It does not run: nothing has to be made durable.
    engine.add(SLIDING, name="q0", replace=True)
    assert engine.queries["q0"].logical.text == SLIDING


def test_another_terminal_replaces_queries(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1, 12)
    checkpoint, runner = tmp_path / "state", CliRunner()
    with running(spark, feed, TUMBLING, SLIDING, checkpoint=checkpoint) as engine:
        refused = runner.invoke(app, ["add", str(checkpoint), TOTAL, "--name", "q0"])
        assert refused.exit_code == 1
        assert 'there is a query "q0" already' in refused.stderr
        done = runner.invoke(app, ["add", str(checkpoint), TOTAL, "--name", "q0", "--replace"])
        assert done.stdout.startswith("query q0 replaced; its first window is 2026-01-01 00:00:15+00:00 to")
        done = runner.invoke(app, ["add", str(checkpoint), f"CREATE OR REPLACE QUERY q0 AS {TOTAL}"])
        assert done.stdout.startswith("query q0 is there already")
        done = runner.invoke(app, ["add", str(checkpoint), LARGE, "--name", "new", "--replace"])
        assert done.stdout.startswith("query new added")
        assert {query.logical.text for query in engine.queries.values()} == {TOTAL, SLIDING, LARGE}
    # The workload has the former text, and what was done meanwhile stays.
    with running(spark, feed, TUMBLING, SLIDING, checkpoint=checkpoint) as engine:
        [notice] = engine.status().streams["trades"].notices
        assert notice.words.startswith("query q0 was replaced while the engine ran, and stays so")
        assert engine.queries["q0"].info.text == TOTAL
        more(engine, feed, 23, 34)
        assert counted(engine.results("q0"), "total") == {25: 1, 30: 1}


def test_many_queries_are_replaced_by_one_commit(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1, 12)
    checkpoint, count = tmp_path / "state", 40
    file = tmp_path / "more.sql"
    texts = [
        f"SELECT count(*) AS n FROM trades [RANGE '{10 + 5 * (n % 3)} s' SLIDE '5 s']" for n in range(count)
    ]
    with running(spark, feed, TUMBLING, checkpoint=checkpoint) as engine:
        for suffix in ("", " WHERE vol > 0"):
            statements = [f"CREATE OR REPLACE QUERY m{n} AS {text}{suffix};" for n, text in enumerate(texts)]
            file.write_text("\n".join(statements))
            before = len(list((checkpoint / "trades" / "commits").iterdir()))
            done = CliRunner().invoke(app, ["add", str(checkpoint), "--file", str(file), "--wait", "120"])
            assert done.exit_code == 0, done.output
            assert len(list((checkpoint / "trades" / "commits").iterdir())) == before + 1
        more(engine, feed, 23, 34)
        assert all(engine.queries[f"m{n}"].state == "running" for n in range(count))
        assert max(ends(engine.results("m0"))) == 30


def test_a_workload_replaces_queries_where_it_says_so(spark: SparkSession, feed: Feed) -> None:
    engine = weft.Engine(spark)
    stream(engine, spark, feed.at(1, 12))
    engine.load(f"CREATE QUERY q AS {TUMBLING}; CREATE OR REPLACE QUERY q AS {LARGE}")
    assert engine.queries["q"].logical.text == LARGE
    with pytest.raises(weft.EngineError, match='there is a query "q" already'):
        engine.load(f"CREATE QUERY q AS {TUMBLING}")


def test_a_workload_is_applied_to_a_running_engine(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1, 12)
    checkpoint, runner, workload = tmp_path / "state", CliRunner(), tmp_path / "workload.sql"
    statements = {"q0": TUMBLING, "q1": LARGE, "new": TUMBLING, "other": SLIDING}
    workload.write_text("".join(f"CREATE QUERY {name} AS {text};\n" for name, text in statements.items()))
    with running(spark, feed, TUMBLING, SLIDING, SLIDING, checkpoint=checkpoint) as engine:
        heard = engine.queries["q0"]
        before = len(list((checkpoint / "trades" / "commits").iterdir()))
        done = runner.invoke(app, ["apply", str(checkpoint), str(workload), "--yes", "--wait", "120"])
        assert (done.exit_code, done.stdout.splitlines()[:5]) == (
            0, ["- q2", "~ q1", "+ new", "+ other", "1 dropped, 1 replaced, 2 added, 1 unchanged"],
        )  # fmt: skip
        assert len(list((checkpoint / "trades" / "commits").iterdir())) == before + 1
        assert {name: query.logical.text for name, query in engine.queries.items()} == statements
        assert engine.queries["q0"] is heard
        more(engine, feed, 23, 34)
        assert counted(heard.results()) == {10: 1, 20: 1, 30: 1}
        again = runner.invoke(app, ["apply", str(checkpoint), str(workload)])
        assert again.stdout == "0 dropped, 0 replaced, 0 added, 4 unchanged\n"
