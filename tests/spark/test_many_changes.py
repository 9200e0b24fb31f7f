"""Hundreds of queries come and go at once beside a running stream: one commit, and no stop waits."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

import weft
from tests.spark.trades import Feed, counted, stream
from weft import faultpoints
from weft.cli.app import app
from weft.storage import LocalFolder
from weft.storage.mailbox import Mailbox, Reply, Request

TUMBLING = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
MANY = 300
FEW = 12


def texts(count: int) -> dict[str, str]:
    """Return many queries that are all different."""
    ways = (
        "SELECT count(*) AS n FROM trades [RANGE '{range} s' SLIDE '5 s'] WHERE vol >= {number}",
        "SELECT symbol, sum(vol) AS n FROM trades [RANGE '{range} s'] WHERE price > {number} GROUP BY symbol",
        "SELECT max(price * vol) / 2 AS n FROM trades [RANGE '{range} s'] WHERE symbol = 's{number}'",
    )
    return {f"many_{n}": ways[n % 3].format(range=10 + 5 * (n % 7), number=n // 3) for n in range(count)}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    """Return a place for a checkpoint, and have no fault outlast the test."""
    yield tmp_path / "checkpoint"
    faultpoints.arm(None)


@contextmanager
def running(spark: SparkSession, feed: Feed, checkpoint: Path) -> Iterator[weft.Engine]:
    """Run an engine with one query, after two batches."""
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    engine.add(TUMBLING, name="first")
    engine.start(checkpoint=checkpoint)
    try:
        engine.process_available()
        yield engine
    finally:
        engine.stop()


def add_file(tmp_path: Path, checkpoint: Path, queries: dict[str, str], *options: object) -> Result:
    """Run `weft add --file`."""
    file = tmp_path / "more.sql"
    file.write_text(";\n".join(f"CREATE QUERY {name} AS {text}" for name, text in queries.items()))
    return CliRunner().invoke(app, ["add", str(checkpoint), "--file", str(file), *map(str, options)])


def files(checkpoint: Path) -> set[Path]:
    """Return all files of a checkpoint but Spark's own."""
    return {path for path in checkpoint.rglob("*") if path.is_file() and "spark" not in path.parts}


def commits(engine: weft.Engine, names: Iterable[str]) -> set[int | None]:
    """Return the commits with which queries joined."""
    return {engine.queries[name].info.added_commit for name in names}


def replies(box: Mailbox, requests: list[Request]) -> list[Reply]:
    """Return what an engine answers to all that was asked for at once."""
    found = box.fetch_all(requests, seconds=120)
    assert found is not None
    return found


def ask_all(box: Mailbox, do: str, queries: dict[str, str]) -> list[Request]:
    return box.ask_all(do, [{"name": name, "text": text} for name, text in queries.items()])


def test_hundreds_of_queries_join_by_one_commit(
    spark: SparkSession, feed: Feed, tmp_path: Path, checkpoint: Path
) -> None:
    feed.at(1, 12)
    queries = texts(MANY)
    with running(spark, feed, checkpoint) as engine:
        before, began = files(checkpoint), monotonic()
        done = add_file(tmp_path, checkpoint, queries, "--wait", 120)
        # Far less on a machine that does nothing else; one by one they took minutes.
        assert monotonic() - began < 60
        assert done.exit_code == 0, done.output
        assert [line.split(";")[0] for line in done.stdout.splitlines()] == [
            f"query {name} added" for name in queries
        ]
        assert len(files(checkpoint) - before) <= 5
        assert len(commits(engine, queries)) == 1
        feed.at(23, 34)
        engine.process_available()
        assert counted(engine.results("first")) == {10: 1, 20: 1, 30: 1}
        assert all(query.state == "running" for query in engine.queries.values())
        for do in ("pause", "resume", "drop"):
            before = files(checkpoint)
            changed = CliRunner().invoke(app, [do, str(checkpoint), *queries, "--wait", "120"])
            assert changed.exit_code == 0, changed.output
            assert len(changed.stdout.splitlines()) == MANY
            assert len(files(checkpoint) - before) <= 5
        assert list(engine.queries) == ["first"]


def test_one_bad_query_among_many_is_refused_alone(
    spark: SparkSession, feed: Feed, tmp_path: Path, checkpoint: Path
) -> None:
    feed.at(1, 12)
    queries = texts(FEW) | {"bad": "SELECT sum(prise) AS n FROM trades [RANGE '10 s']"} | {"last": TUMBLING}
    with running(spark, feed, checkpoint) as engine:
        done = add_file(tmp_path, checkpoint, queries, "--wait", 120)
        assert done.exit_code == 1
        assert len(done.stdout.splitlines()) == FEW + 1
        # The engine is in this process, and may log what it refuses.
        assert done.stderr.partition("error: ")[2] == (
            'query bad: unknown column "prise" in stream trades; did you mean "price"?\n'
            "  SELECT sum(prise) AS n FROM trades [RANGE '10 s']\n"
            "             ^^^^^\n"
        )
        assert list(engine.queries) == ["first", *texts(FEW), "last"]
        assert len(commits(engine, [*texts(FEW), "last"])) == 1


def test_a_function_that_spark_refuses_is_found_among_many(
    spark: SparkSession, feed: Feed, checkpoint: Path
) -> None:
    def unfit(column: object) -> object:
        raise ValueError("no columns, please")

    feed.at(1, 12)
    box = Mailbox(LocalFolder(checkpoint))
    queries = texts(FEW) | {"bad": f"{TUMBLING} WHERE unfit(vol)"}
    with running(spark, feed, checkpoint) as engine:
        engine.function("unfit", unfit)  # type: ignore[arg-type]
        *good, bad = replies(box, ask_all(box, "add", queries))
        assert all(one.ok for one in good)
        assert not bad.ok
        assert bad.said.startswith("query bad cannot be run: ValueError: no columns, please")
        assert list(engine.queries) == ["first", *texts(FEW)]


def test_a_stop_waits_for_no_change(spark: SparkSession, feed: Feed, checkpoint: Path) -> None:
    """Neither for those that are under way, nor for those that wait; the next start carries them out."""
    feed.at(1, 12)
    box, queries = Mailbox(LocalFolder(checkpoint)), texts(FEW)
    with running(spark, feed, checkpoint) as engine:
        assert engine._execution is not None
        before = files(checkpoint)
        # As a batch holds it.
        with engine._execution.streams["trades"].loop._lock:
            asked = ask_all(box, "add", queries)
            while not any("before" in path.read_text() for path in (checkpoint / "requests").iterdir()):
                threading.Event().wait(0.01)
            reply = box.fetch(box.ask("stop"), seconds=60)
            assert reply is not None
            assert reply.said == "stopping between batches"
        assert engine.wait(60)
        engine.stop()
        assert list(engine.queries) == ["first"]
        assert box.fetch_all(asked, seconds=0) is None
        assert {path.parent.name for path in files(checkpoint) - before} == {"requests"}
    with running(spark, feed, checkpoint) as engine:
        assert all(one.said.startswith("query many_") for one in replies(box, asked))
        assert list(engine.queries) == ["first", *queries]


def test_where_the_disk_is_full_none_of_many_joins(spark: SparkSession, feed: Feed, checkpoint: Path) -> None:
    feed.at(1, 12)
    box, queries = Mailbox(LocalFolder(checkpoint)), texts(FEW)
    with running(spark, feed, checkpoint) as engine:
        faultpoints.arm("commit.written:1:error")
        for name, one in zip(queries, replies(box, ask_all(box, "add", queries)), strict=True):
            assert not one.ok
            assert one.said.startswith(f"query {name} cannot be added: the checkpoint cannot be written (No")
            assert one.said.endswith("nothing has changed")
        assert list(engine.queries) == ["first"]
        assert all(one.ok for one in replies(box, ask_all(box, "add", queries)))
        faultpoints.arm("commit.written:1:error")
        assert not any(one.ok for one in replies(box, ask_all(box, "drop", queries)))
        assert sorted(engine.queries) == sorted(["first", *queries])
        feed.at(23, 34, 61)
        engine.process_available()
        assert engine.results("many_0").num_rows > 0


def test_many_that_come_again_are_answered_as_at_first(
    spark: SparkSession, feed: Feed, checkpoint: Path
) -> None:
    """When they were durable, nobody could be told: by this engine at first, by the one before it then."""
    feed.at(1, 12)
    box, queries = Mailbox(LocalFolder(checkpoint)), texts(FEW)
    with running(spark, feed, checkpoint) as engine:
        faultpoints.arm("request.carried_out:1:error")
        told = replies(box, ask_all(box, "add", queries))
        faultpoints.arm(None)
        assert [one.said.split(";")[0] for one in told] == [f"query {name} added" for name in queries]
        assert len(commits(engine, queries)) == 1
    left = ask_all(box, "add", queries)
    box.note([replace(one, before="") for one in left])
    with running(spark, feed, checkpoint) as engine:
        assert [one.said for one in replies(box, left)] == [one.said for one in told]
        assert len(commits(engine, queries)) == 1


def test_requests_of_two_terminals_are_one_commit_and_keep_their_order(
    spark: SparkSession, feed: Feed, checkpoint: Path
) -> None:
    feed.at(1, 12)
    box, queries = Mailbox(LocalFolder(checkpoint)), texts(FEW)
    with running(spark, feed, checkpoint) as engine:
        assert engine._execution is not None
        requests = engine._execution._requests
        assert requests is not None
        # Both are there when the engine looks.
        requests.close()
        requests._ending.clear()
        one, other = ask_all(box, "add", queries), box.ask("add", name="x", text=TUMBLING)
        box.ask("drop", name="x")
        again = box.ask("add", name="x", text=TUMBLING)
        before = files(checkpoint)
        requests.look()
        assert all(reply.ok for reply in replies(box, one))
        for request in (other, again):
            assert replies(box, [request])[0].said.startswith("query x added")
        assert len(commits(engine, queries)) == 1
        made = {path for path in files(checkpoint) - before if path.parent.name == "commits"}
        assert len(made) == 3
        feed.at(23, 34)
        engine.process_available()
        # The first of that name has given the window before.
        assert counted(engine.results("x")) == {20: 1, 30: 1}
