"""What a restart makes of queries that were added, paused, dropped or renamed in the run before."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, counted, seconds, stream, windows
from weft.durability import checkpoint as checkpoint_module
from weft.service.status import read_registry

TUMBLING = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
SLIDING = "SELECT count(*) AS n FROM trades [RANGE '20 s' SLIDE '5 s']"
OTHER = "SELECT sum(vol) AS n FROM trades [RANGE '10 s'] WHERE price < 5"


class Restarted:
    """Run after run of engines on one checkpoint, with results as Parquet."""

    def __init__(self, spark: SparkSession, feed: Feed, root: Path) -> None:
        self.spark, self.feed = spark, feed
        self.sharing = "auto"
        self.checkpoint, self.out = root / "checkpoint", root / "out"

    @contextmanager
    def run(self, workload: dict[str, str], *moments: float) -> Iterator[weft.Engine]:
        """Run an engine over what is new, and stop it."""
        engine = weft.Engine(self.spark, sharing=self.sharing)
        stream(engine, self.spark, self.feed.folder)
        for name, text in workload.items():
            engine.add(text, name=name)
        engine.start(checkpoint=self.checkpoint, out=self.out)
        try:
            self.more(engine, *moments)
            yield engine
        finally:
            engine.stop()

    def more(self, engine: weft.Engine, *moments: float) -> None:
        """Let rows come, and wait until they are processed."""
        if moments:
            self.feed.at(*moments)
        engine.process_available()

    def written(self, name: str) -> dict[float, int]:
        """Return all results of a query so far."""
        return counted(pq.read_table(self.out / name).sort_by("window_end"))

    def states(self) -> dict[str, str]:
        """Return what the checkpoint says of queries while no engine runs."""
        return {one.name: one.state for one in read_registry(self.checkpoint)}


@pytest.fixture
def runs(spark: SparkSession, feed: Feed, tmp_path: Path) -> Restarted:
    """Return a checkpoint to run on."""
    return Restarted(spark, feed, tmp_path)


def notices(engine: weft.Engine) -> tuple[str, ...]:
    """Return what the user is told of the stream."""
    return tuple(notice.words for notice in engine.status().streams["trades"].notices)


def test_queries_that_were_added_live_come_back(runs: Restarted) -> None:
    with runs.run({"q": TUMBLING}, 1, 12) as engine:
        cold = engine.add(SLIDING, name="cold")
        warm = engine.add(TUMBLING, name="warm")
        first = {one.name: one.first_window for one in (cold, warm)}
        assert seconds(first["cold"]) == (15, 35)
        assert seconds(first["warm"]) == (10, 20)
    assert runs.states() == {"q": "running", "cold": "running", "warm": "running"}
    with runs.run({"q": TUMBLING}, 13, 22) as engine:
        assert notices(engine) == ()
        assert {name: engine.queries[name].first_window for name in first} == first
    with runs.run({"q": TUMBLING}, 34, 47) as engine:
        assert {name: engine.queries[name].first_window for name in first} == first
    assert runs.written("q") == {10: 1, 20: 2, 30: 1, 40: 1}
    assert runs.written("warm") == {20: 2, 30: 1, 40: 1}
    assert runs.written("cold") == {35: 2, 40: 2, 45: 1}


def test_a_derived_query_is_answered_by_what_was_kept(runs: Restarted) -> None:
    workload = {
        "low": "SELECT count(*) AS n FROM trades [RANGE '20 s' SLIDE '10 s'] WHERE vol < 3",
        "more": "SELECT count(*) AS n FROM trades [RANGE '20 s' SLIDE '10 s'] WHERE vol < 7",
    }
    runs.sharing = "joint"
    runs.feed(*((second, "a", 1.0, second) for second in range(1, 13)))
    with runs.run(workload) as engine:
        middle = engine.add(
            "SELECT count(*) AS n FROM trades [RANGE '20 s' SLIDE '10 s'] WHERE vol >= 3 AND vol < 7",
            name="middle",
        )
        first = middle.first_window
        assert middle.entry is not None
        assert middle.entry.derivation is not None
    with runs.run(workload) as engine:
        assert engine.queries["middle"].first_window == first
        runs.feed((15, "a", 1.0, 4), (41, "a", 1.0, 4))
        runs.more(engine)
    # Volumes from 3 to 6: those of the first run were aggregated before anybody asked for them.
    expected = windows((3, 4, 5, 6, 15), range=20, slide=10, until=41, since=seconds(first)[0])
    assert 20 in expected
    assert runs.written("middle") == expected


def test_paused_queries_stay_paused_and_can_be_resumed(runs: Restarted) -> None:
    workload = {"q": TUMBLING, "other": OTHER}
    with runs.run(workload, 1, 12) as engine:
        engine.add(SLIDING, name="live")
        engine.pause("other")
        engine.pause("live")
    with runs.run(workload, 13, 22) as engine:
        for name in ("other", "live"):
            assert engine.queries[name].state == "paused"
            assert f"query {name} stays paused; weft resume brings it back" in notices(engine)
        engine.resume("other")
        engine.resume("live")
        runs.more(engine, 31, 45)
        assert seconds(engine.queries["live"].first_window) == (25, 45)
    with runs.run(workload, 62):
        pass
    assert runs.states() == {"q": "running", "other": "running", "live": "running"}
    assert runs.written("q") == {10: 1, 20: 2, 30: 1, 40: 1, 50: 1}
    assert runs.written("other") == {10: 1, 40: 1, 50: 1}
    assert runs.written("live") == {45: 1, 50: 2, 55: 1, 60: 1}


def test_a_query_of_the_workload_that_was_dropped_stays_dropped(runs: Restarted) -> None:
    workload = {"q": TUMBLING, "other": OTHER}
    with runs.run(workload, 1, 12) as engine:
        # Resumed or not, it is still the workload's.
        engine.pause("other")
        engine.resume("other")
        engine.remove("other")
        engine.add(SLIDING, name="live")
        engine.remove("live")
    assert runs.states() == {"q": "running", "other": "dropped"}
    with runs.run(workload, 22) as engine:
        assert engine.queries["other"].state == "dropped"
        assert notices(engine) == ("query other stays dropped; weft resume brings it back",)
        assert "live" not in engine.queries
    assert runs.written("other") == {10: 1}
    with runs.run(workload) as engine:
        engine.resume("other")
        runs.more(engine, 31, 45)
    assert runs.written("q") == {10: 1, 20: 1, 30: 1, 40: 1}
    assert runs.written("other") == {10: 1, 40: 1}


def test_a_query_that_the_workload_names_no_more_is_dropped(runs: Restarted) -> None:
    with runs.run({"q": TUMBLING, "other": OTHER}, 1, 12):
        pass
    with runs.run({"q": TUMBLING}, 22) as engine:
        assert notices(engine) == ("query other is not in the workload any more: dropped",)
        assert list(engine.queries) == ["q"]
    assert runs.states() == {"q": "running"}
    # Its name is free, and who has it now begins anew.
    with runs.run({"q": TUMBLING, "other": SLIDING}, 31) as engine:
        assert notices(engine) == ()
        assert seconds(engine.queries["other"].first_window) == (25, 45)
    assert runs.written("q") == {10: 1, 20: 1, 30: 1}


def test_a_name_that_is_used_again_repeats_nothing(runs: Restarted) -> None:
    # What is kept for the long one would answer windows that were given already.
    workload = {"long": "SELECT count(*) AS n FROM trades [RANGE '60 s' SLIDE '5 s']"}
    with runs.run(workload, 1, 12) as engine:
        live = engine.add(SLIDING, name="live")
        first = seconds(live.first_window)
        runs.more(engine, 23, 34)
        engine.remove("live")
    with runs.run(workload, 41) as engine:
        again = engine.add(SLIDING, name="live")
        assert seconds(again.first_window)[1] == 35
        runs.more(engine, 47, 58)
    moments = (1, 12, 23, 34, 41, 47, 58)
    assert runs.written("live") == windows(moments, range=20, slide=5, until=58, since=first[0])


def test_a_query_is_changed_by_dropping_it_and_adding_another_of_its_name(runs: Restarted) -> None:
    workload = {"long": "SELECT count(*) AS n FROM trades [RANGE '60 s' SLIDE '5 s']", "q": SLIDING}
    with runs.run(workload, 1, 12, 23, 34) as engine:
        old = engine.queries["q"]
        engine.remove("q")
        runs.more(engine, 41)
        new = engine.add(TUMBLING, name="q")
        # The long one's partials answer what ended since then, but not what was given before.
        assert seconds(new.first_window) == (40, 50)
        runs.more(engine, 47, 58)
        engine.remove("q")
        engine.add(SLIDING, name="q")
        assert (old.state, new.state, engine.queries["q"].state) == ("dropped", "dropped", "running")
        moments = (1, 12, 23, 34, 41, 47, 58)
        before = windows(moments, range=20, slide=5, until=34, since=-20)
        assert counted(old.results()) == before
        assert counted(new.results()) == {50: 2}
        assert counted(engine.results("q")) == {}
        runs.more(engine, 66)
    after = windows((*moments, 66), range=20, slide=5, until=66, since=40)
    assert runs.written("q") == {**before, 50: 2, **after}
    replaced = "query q has another text than before: it is replaced"
    with runs.run({**workload, "q": TUMBLING}, 71) as engine:
        assert (notices(engine), engine.queries["q"].state) == ((replaced,), "running")
        assert counted(engine.results("q")) == {70: 1}
    with runs.run(workload, 76) as engine:
        # What ended before was given by the others.
        assert (notices(engine), counted(engine.results("q"))) == ((replaced,), {75: 3})
        engine.remove("q")
    with runs.run(workload) as engine:
        assert engine.queries["q"].state == "dropped"
        engine.add(OTHER, name="q")
        engine.remove("q")
    # What was dropped may be another one in the workload.
    with runs.run({**workload, "q": TUMBLING}, 84, 95) as engine:
        assert notices(engine) == ("query q is another one than that which was dropped: it joins",)
        assert counted(engine.results("q")) == {90: 1}


def test_a_lifetime_goes_on_after_a_restart(runs: Restarted) -> None:
    workload = {"q": TUMBLING, "short": f"{SLIDING} LIFETIME '30 s'"}
    with runs.run(workload, 1, 12) as engine:
        expires = engine.queries["short"].info.expires
        assert expires is not None
    with runs.run(workload, 22) as engine:
        assert engine.queries["short"].info.expires == expires
        runs.more(engine, 33, 44)
        assert engine.queries["short"].state == "ended"
    with runs.run(workload, 55) as engine:
        assert notices(engine) == ("query short stays ended; weft resume brings it back",)
    assert runs.written("short") == {5: 1, 10: 1, 15: 2, 20: 2, 25: 2, 30: 2}


def test_a_live_query_that_does_not_fit_any_more_can_be_dropped(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)

    def start(nodes: int) -> weft.Engine:
        engine = weft.Engine(spark, limits=weft.Limits(expression_nodes=nodes))
        stream(engine, spark, feed.folder)
        engine.add(TUMBLING, name="q")
        engine.start(checkpoint=tmp_path / "checkpoint")
        engine.process_available()
        return engine

    engine = start(100)
    engine.add(OTHER, name="live")
    engine.stop()
    engine = start(2)
    try:
        assert (list(engine.queries), list(engine.unbound)) == (["q"], ["live"])
        for call in (engine.resume, engine.pause, engine.results):
            with pytest.raises(weft.EngineError, match=r"query live does not fit .*\n.*expression_nodes = 2"):
                call("live")
        with pytest.raises(weft.EngineError, match='there is a query "live" already'):
            engine.add(TUMBLING, name="live")
        engine.remove("live")
        assert engine.unbound == {}
        assert [one.name for one in read_registry(tmp_path / "checkpoint")] == ["q"]
        assert engine.add(TUMBLING, name="live").state == "running"
    finally:
        engine.stop()


def test_a_stream_that_only_a_live_query_asks_for_comes_back(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(1, 12)
    other = Feed(tmp_path / "quotes")
    other.at(1, 12)
    for number in range(2):
        engine = weft.Engine(spark)
        stream(engine, spark, feed.folder)
        stream(engine, spark, other.folder, name="quotes")
        engine.add(TUMBLING, name="q")
        engine.start(checkpoint=tmp_path / "checkpoint", out=tmp_path / "out")
        if number == 0:
            engine.add("SELECT count(*) AS n FROM quotes [RANGE '10 s']", name="live")
        else:
            assert list(engine.queries) == ["q", "live"]
            assert engine.status().streams["quotes"].notices == ()
        engine.process_available()
        engine.stop()
        other.at(15, 23)
    assert counted(pq.read_table(tmp_path / "out" / "live")) == {10: 1, 20: 2}


def test_snapshots_change_nothing(runs: Restarted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_module, "_SNAPSHOT_COMMITS", 2)
    workload = {"q": TUMBLING, "sliding": SLIDING}
    for number in range(4):
        with runs.run(workload, 10 * number + 1, 10 * number + 8) as engine:
            if number == 1:
                engine.add(OTHER, name="live")
            runs.more(engine, 10 * number + 9)
    folders = [runs.checkpoint / "trades" / kind for kind in ("commits", "snapshots")]
    kept = [sorted(int(path.name) for path in folder.iterdir()) for folder in folders]
    assert len(kept[1]) == 2
    assert kept[0][0] == kept[1][0] + 1
    moments = [10 * number + second for number in range(4) for second in (1, 8, 9)]
    assert runs.written("q") == windows(moments, range=10, slide=10, until=39)
    assert runs.written("sliding") == windows(moments, range=20, slide=5, until=39)
    assert runs.written("live") == {30: 3}


@pytest.mark.parametrize("delivered", [True, False])
def test_a_last_commit_that_is_gone_is_missed(runs: Restarted, delivered: bool) -> None:
    with runs.run({"q": TUMBLING}, 1) as engine:
        runs.more(engine, 12)
    last = max((runs.checkpoint / "trades" / "commits").iterdir())
    last.unlink()
    if not delivered:
        # Then it is the sink itself that has results of it.
        (runs.checkpoint / "trades" / "delivered" / "parquet").unlink()
    engine = weft.Engine(runs.spark)
    expected = rf"commit {last.name} is missing; restore it|has results through commit {last.name}"
    stream(engine, runs.spark, runs.feed.at(23))
    engine.add(TUMBLING, name="q")
    with pytest.raises(weft.UserError, match=expected):
        engine.run(checkpoint=runs.checkpoint, out=runs.out)
