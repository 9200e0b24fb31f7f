"""Queries that come, pause, fail, end and leave while the stream runs; the others go on exactly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf

import weft
from tests.spark.trades import Feed, counted, ends, seconds, stream, windows
from weft import faultpoints
from weft.errors import InUse, TooLarge
from weft.storage import LocalFolder
from weft.storage.mailbox import Mailbox, Reply

TUMBLING = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
SLIDING = "SELECT count(*) AS n FROM trades [RANGE '20 s' SLIDE '5 s']"
OTHER = "SELECT sum(vol) AS n FROM trades [RANGE '10 s'] WHERE symbol = 'b'"


@contextmanager
def running(spark: SparkSession, feed: Feed, *queries: str, **options: Any) -> Iterator[weft.Engine]:
    """Run an engine with queries q0, q1 and so on over a stream of trades, and stop it."""
    engine = weft.Engine(
        spark, limits=options.pop("limits", weft.Limits()), sharing=options.pop("sharing", "auto")
    )
    stream(engine, spark, feed.folder)
    for number, text in enumerate(queries):
        engine.add(text, name=f"q{number}")
    engine.start(**options)
    try:
        engine.process_available()
        yield engine
    finally:
        engine.stop()


def more(engine: weft.Engine, feed: Feed, *moments: float) -> None:
    """Let rows of some moments come, and wait until they are processed."""
    feed.at(*moments)
    engine.process_available()


def test_a_paused_query_gives_nothing_until_it_is_resumed(spark: SparkSession, feed: Feed) -> None:
    feed.at(1, 12)
    with running(spark, feed, TUMBLING, SLIDING) as engine:
        query, other = engine.queries["q0"], engine.queries["q1"]
        engine.pause("q0")
        assert query.state == "paused"
        more(engine, feed, 13, 22, 31)
        assert counted(query.results()) == {10: 1}
        assert engine.resume("q0") is query
        assert query.state == "running"
        # What ended meanwhile is not given; the first window is told, and is whole.
        first = seconds(query.first_window)
        assert first[1] >= 40
        more(engine, feed, 39, 45, 62)
        moments = (1, 12, 13, 22, 31, 39, 45, 62)
        assert counted(other.results()) == windows(moments, range=20, slide=5, until=62)
        later = windows(moments, range=10, slide=10, until=62, since=first[0])
        assert counted(query.results()) == {10: 1} | later


def test_a_query_that_is_resumed_at_once_repeats_nothing(spark: SparkSession, feed: Feed) -> None:
    feed.at(1, 12, 23)
    # What is kept for the long one would answer windows that were given already.
    long = "SELECT count(*) AS n FROM trades [RANGE '60 s' SLIDE '5 s']"
    with running(spark, feed, SLIDING, SLIDING, long) as engine:
        query, other = engine.queries["q0"], engine.queries["q1"]
        for _ in range(2):
            engine.pause("q0")
            engine.resume("q0")
        more(engine, feed, 24, 41)
        assert counted(query.results()) == counted(other.results())


def test_calls_that_do_not_fit_are_refused(spark: SparkSession, feed: Feed) -> None:
    feed.at(1)
    with running(spark, feed, TUMBLING) as engine:
        with pytest.raises(weft.EngineError, match="query q0 is running; there is nothing to resume"):
            engine.resume("q0")
        engine.pause("q0")
        with pytest.raises(weft.EngineError, match="query q0 is paused: there is nothing to pause"):
            engine.pause("q0")
        for call in (engine.pause, engine.resume, engine.remove):
            with pytest.raises(weft.QueryError, match='unknown query "q1"; known are q0'):
                call("q1")
        with pytest.raises(weft.EngineError, match="the engine is running already"):
            engine.start()
    for call in (engine.pause, engine.resume):
        with pytest.raises(weft.EngineError, match="the engine is not running"):
            call("q0")


def test_a_lifetime_ends_a_query(spark: SparkSession, feed: Feed) -> None:
    feed.at(1, 12)
    with running(spark, feed, OTHER) as engine:
        short = engine.add(f"{TUMBLING} LIFETIME '20 s'", name="short")
        assert seconds(short.first_window) == (20, 30)
        more(engine, feed, 21, 31)
        assert short.state == "running"
        assert short.info.expires is not None
        more(engine, feed, 33, 45, 56)
        assert short.state == "ended"
        assert counted(short.results()) == {30: 1}
        notices = engine.status().streams["trades"].notices
        assert "query short has ended" in [notice.words for notice in notices]
        # As if it were added now.
        first = seconds(engine.resume("short").first_window)
        more(engine, feed, 61, 71, 90)
        moments = (33, 45, 56, 61, 71, 90)
        later = windows(moments, range=10, slide=10, until=56 + 20, since=first[0])
        assert counted(short.results()) == {30: 1} | later
        assert 70 in later
        assert short.state == "ended"


def test_limits_hold_while_running(spark: SparkSession, feed: Feed) -> None:
    feed.at(1)
    with running(spark, feed, TUMBLING, limits=weft.Limits(queries=2)) as engine:
        engine.add(SLIDING, name="second")
        with pytest.raises(TooLarge, match="query third: 3 queries at once, more than the limit queries = 2"):
            engine.add(OTHER, name="third")
        assert list(engine.queries) == ["q0", "second"]
        engine.pause("second")
        engine.add(OTHER, name="third")
        with pytest.raises(TooLarge, match="query second: 3 queries at once"):
            engine.resume("second")
        engine.remove("third")
        engine.resume("second")


def test_an_engine_tells_how_it_fares(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1)
    feed.at(12, 23)
    assert dict(weft.Engine(spark).status().streams) == {}
    with running(spark, feed, TUMBLING, OTHER, out=tmp_path / "out") as engine:
        engine.pause("q1")
        status = engine.status()
        fares = status.streams["trades"]
        assert (fares.batches, dict(fares.queries), fares.notices) == (2, {"running": 1, "paused": 1}, ())
        assert (fares.clock.counts.good, fares.clock.counts.read) == (3, 3)
        assert [one.sink for one in status.sinks] == ["parquet"]
        assert [one.error for one in status.sinks] == [None]
    assert engine.status().sinks[0].behind == 0


# One query's trouble stays its own.


def unlucky() -> Any:
    """Return a function that fails for a whole piece of rows if one of them has an unlucky value."""

    def check(values: pd.Series) -> pd.Series:
        if (values == 13).any():
            raise ValueError("an unlucky number")
        return values

    return pandas_udf(check, "bigint")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(checked(vol)) AS n FROM trades [RANGE '10 s']",
        "SELECT count(*) AS n FROM trades [RANGE '10 s'] WHERE checked(vol) > 0",
        "SELECT checked(sum(vol)) AS n FROM trades [RANGE '10 s']",
    ],
    ids=["argument", "predicate", "output"],
)
def test_a_query_that_raises_inside_spark_fails_alone(
    spark: SparkSession, feed: Feed, tmp_path: Path, text: str
) -> None:
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    engine.function("checked", unlucky())
    good = [engine.add(one, name=f"good{number}") for number, one in enumerate((TUMBLING, SLIDING))]
    bad = engine.add(text, name="bad")
    feed((1, "a", 1.0, 1), (12, "a", 1.0, 2))
    engine.start(checkpoint=tmp_path / "checkpoint")
    engine.process_available()
    before = bad.results()
    feed((13, "a", 1.0, 13), (25, "a", 1.0, 13), (36, "a", 1.0, 13))
    engine.process_available()
    more(engine, feed, 37, 48)
    assert bad.state == "failed"
    assert bad.error is not None
    assert "an unlucky number" in bad.error
    assert bad.results() == before
    notices = engine.status().streams["trades"].notices
    assert any(one.words.startswith("query bad failed: ") for one in notices)
    assert "an unlucky number" not in "".join(map(str, notices))
    assert [one.state for one in good] == ["running"] * 2
    moments = (1, 12, 13, 25, 36, 37, 48)
    assert counted(good[0].results()) == windows(moments, range=10, slide=10, until=48)
    assert counted(good[1].results()) == windows(moments, range=20, slide=5, until=48)
    # Its trouble is over with the rows that made it.
    engine.resume("bad")
    more(engine, feed, 61, 72)
    assert bad.state == "running"
    assert bad.error is None
    engine.stop()
    assert set(ends(bad.results())) > set(ends(before))


@pytest.mark.parametrize("retyped", [False, True], ids=["damaged", "retyped"])
def test_a_query_that_fails_beside_a_damaged_file_fails_alone(
    spark: SparkSession, feed: Feed, retyped: bool
) -> None:
    feed((1, "a", 1.0, 1), (12, "a", 1.0, 13))
    feed((2, "a", 1.0, 2), (11, "a", 1.0, 2))
    spoilt = feed.folder / "0001.parquet"
    if retyped:
        rows = pq.read_table(spoilt)
        pq.write_table(rows.set_column(3, "vol", rows["vol"].cast("string")), spoilt)
    else:
        spoilt.write_bytes(spoilt.read_bytes()[:-9])
    engine = weft.Engine(spark)
    engine.load(
        "CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT) USING parquet "
        f"OPTIONS (path '{feed.folder}') EVENT TIME time"
    )
    engine.function("checked", unlucky())
    total = "SELECT sum(vol) AS n FROM trades [RANGE '10 s']"
    good = [engine.add(one, name=f"good{number}") for number, one in enumerate((TUMBLING, total))]
    bad = engine.add(total.replace("vol", "checked(vol)"), name="bad")
    engine.run()
    assert [one.state for one in good] == ["running"] * 2
    assert (bad.state, bad.results().num_rows) == ("failed", 0)
    assert "an unlucky number" in str(bad.error)
    assert [counted(one.results()) for one in good] == [{10: 1, 20: 1}, {10: 1, 20: 13}]
    counts = engine.clock("trades").counts
    assert (counts.good, counts.corrupt) == (2, 2 if retyped else 1)


def test_a_query_that_cannot_be_made_durable_was_never_added(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    with running(spark, feed, TUMBLING, checkpoint=tmp_path / "checkpoint") as engine:
        engine.pause("q0")
        try:
            faultpoints.arm(",".join(f"registry.before:{nth}:error" for nth in (1, 2, 3)))
            full = r"the checkpoint cannot be written \(No space left on device"
            with pytest.raises(weft.EngineError, match=f"query late cannot be added: {full}"):
                engine.add(SLIDING, name="late")
            with pytest.raises(weft.EngineError, match=f"query q0 cannot be added: {full}"):
                engine.resume("q0")
            with pytest.raises(weft.EngineError, match=f"query q0 cannot leave: {full}"):
                engine.remove("q0")
        finally:
            faultpoints.arm(None)
        assert list(engine.queries) == ["q0"]
        assert engine.queries["q0"].state == "paused"
        more(engine, feed, 23)
        assert dict(engine.status().streams["trades"].queries) == {"paused": 1}
        late = engine.add(SLIDING, name="late")
        more(engine, feed, 31, 55)
        assert counted(late.results())[50] == 1


# Other terminals, and other engines.


def asked(box: Mailbox, do: str, **given: object) -> Reply:
    """Ask an engine, and return what it says."""
    reply = box.fetch(box.ask(do, **given), seconds=60)
    assert reply is not None
    return reply


def test_requests_of_other_terminals_are_carried_out(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1, 12)
    checkpoint = tmp_path / "checkpoint"
    box = Mailbox(LocalFolder(checkpoint))
    # Who asked for a stop before meant another engine; who asked for a query still wants it.
    box.ask("stop")
    early = box.ask("add", name="early", text=OTHER)
    with running(spark, feed, TUMBLING, checkpoint=checkpoint) as engine:
        reply = box.fetch(early, seconds=60)
        assert reply is not None
        assert reply.ok
        said = asked(box, "add", name="new", text=SLIDING)
        assert said.said == (
            "query new added; its first window is 2026-01-01 00:00:15+00:00 to 2026-01-01 00:00:35+00:00"
        )
        assert asked(box, "add", name="new", text=SLIDING).said.startswith("query new is there already")
        assert asked(box, "pause", name="q0").said == "query q0 paused"
        listed = asked(box, "list").found["queries"]
        assert {one["name"]: one["state"] for one in listed} == {
            "q0": "paused", "early": "running", "new": "running",
        }  # fmt: skip
        assert asked(box, "resume", name="q0").ok
        assert asked(box, "show", name="q0").found["query"]["state"] == "running"
        assert asked(box, "drop", name="early").said == "query early dropped"
        assert list(engine.queries) == ["q0", "new"]
        for do, given, why in (
            ("drop", {"name": "nw"}, 'unknown query "nw"; did you mean "new"?'),
            ("add", {"name": "x", "text": "SELECT prise FROM trades"}, "query x: "),
            ("pause", {}, "pause failed: KeyError: 'name'"),
        ):
            refused = asked(box, do, **given)
            assert not refused.ok
            assert refused.said.startswith(why)
        more(engine, feed, 21, 36)
        assert counted(engine.results("new")) == {35: 1}
        assert asked(box, "stop").ok
        assert engine.wait()


def test_a_request_that_comes_again_is_answered_as_at_first(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    checkpoint = tmp_path / "checkpoint"
    box = Mailbox(LocalFolder(checkpoint))
    with running(spark, feed, TUMBLING, checkpoint=checkpoint) as engine:
        # Each is carried out, its answer is lost, and it is found again.
        faultpoints.arm(",".join(f"request.carried_out:{nth}:error" for nth in (1, 3, 5, 7, 9)))
        try:
            for do, name, said in (
                ("add", "new", "query new added; its first window is 2026-01-01 00:00:15+00:00 to "),
                ("pause", "new", "query new paused"),
                ("resume", "new", "query new resumed; its first window is 2026-01-01 00:00:15+00:00 to "),
                ("drop", "new", "query new dropped"),
                ("drop", "q0", "query q0 dropped"),
            ):
                reply = asked(box, do, name=name, text=SLIDING)
                assert reply.ok, (do, reply.said)
                assert reply.said.startswith(said)
        finally:
            faultpoints.arm(None)
        assert dict(engine.queries) == {}
        # What was refused is refused.
        assert asked(box, "drop", name="new").said == 'unknown query "new"'


def test_a_second_engine_is_refused(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.at(1, 12)
    checkpoint = tmp_path / "checkpoint"
    with running(spark, feed, TUMBLING, checkpoint=checkpoint) as engine:
        second = weft.Engine(spark)
        stream(second, spark, feed.folder)
        second.add(SLIDING, name="q")
        with pytest.raises(InUse, match=r"checkpoint .* is in use by process .* stop that engine first"):
            second.start(checkpoint=checkpoint)
        # The one that has it goes on, and the other may have a checkpoint of its own.
        second.run(checkpoint=tmp_path / "another", out=tmp_path / "out")
        more(engine, feed, 23)
        assert counted(engine.results("q0")) == {10: 1, 20: 1}
    with running(spark, feed, TUMBLING, checkpoint=checkpoint) as engine:
        assert engine.status().streams["trades"].clock.counts.good == 3
    assert ends(pq.read_table(tmp_path / "out" / "q")) == [5, 10]


def test_a_query_that_was_removed_speaks_for_itself_alone(spark: SparkSession, feed: Feed) -> None:
    engine = weft.Engine(spark)
    stream(engine, spark, feed((1, "a", 1.0, 1), (12, "a", 1.0, 1)))
    first = engine.add("SELECT count(*) AS n FROM trades [RANGE '5 s']", name="q")
    engine.remove("q")
    second = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    engine.start(keep=False)
    engine.process_available()
    engine.remove("q")
    third = engine.add("SELECT sum(vol) AS s FROM trades [RANGE '10 s']", name="q")
    assert [one.info.state for one in (first, second, third)] == ["dropped", "dropped", "running"]
    assert second.info.first_window is None
    assert first.results().num_rows == 0
    with pytest.raises(weft.EngineError, match="not kept in memory"):
        second.results()
    with pytest.raises(weft.EngineError, match="query q was removed"):
        second.subscribe(print)
    engine.stop()
