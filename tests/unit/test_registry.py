"""Queries by name, what changed of them, and what other terminals are told."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.checkpoint_samples import BIG, PAUSED, commit
from tests.unit.language_samples import CATALOG

from weft.errors import EngineError, UnknownName
from weft.query import bind, parse_select
from weft.query.logical import LogicalQuery
from weft.runtime.checkpoint import Checkpoint
from weft.runtime.control import Control
from weft.runtime.info import QueryInfo, cannot_run, read_registry, stored_info
from weft.runtime.registry import QueryState, Registered, Registry, from_record
from weft.runtime.rejoining import rejoin
from weft.storage import LocalFolder
from weft.storage.lock import Lock
from weft.storage.mailbox import Mailbox, Reply, Request

NAMES = st.sampled_from("abc")
entries = st.builds(
    Registered, name=NAMES, text=st.text(max_size=3), state=st.sampled_from(QueryState), live=st.booleans(),
    first_start=st.none() | st.integers(), until=st.none() | st.integers(), failures=st.integers(0, 3),
    error=st.none() | st.text(max_size=3), commit=st.integers(0, 9),
)  # fmt: skip


@given(entries)
def test_an_entry_comes_back_as_it_was(entry: Registered) -> None:
    again = from_record(json.loads(json.dumps(entry.as_record())))
    assert again == entry
    assert isinstance(again.state, QueryState)


@pytest.mark.parametrize("entry", [BIG, PAUSED])
def test_all_of_an_entry_is_kept(entry: Registered) -> None:
    assert from_record(json.loads(json.dumps(entry.as_record()))) == entry


Step = Registered | tuple[str, int | None] | int
"""A query is put, or leaves at a watermark; or all partials before a time go."""
steps = entries | st.tuples(NAMES, st.none() | st.integers(0, 9)) | st.integers(0, 9)


@given(st.lists(st.lists(steps, max_size=5), max_size=5))
def test_changes_applied_in_order_give_the_same_registry(batches: list[list[Step]]) -> None:
    registry, again = Registry(), Registry()
    for several in batches:
        for one in several:
            if isinstance(one, Registered):
                registry.put(one)
            elif isinstance(one, tuple):
                registry.forget(one[0], left=one[1])
            else:
                registry.outdate(one)
        changes = json.loads(json.dumps(registry.changes()))
        assert registry.changed == bool(changes)
        assert len({one["name"] for one in changes}) == len(changes)
        registry.committed()
        assert not registry.changed
        again.apply(changes)
        folded = Registry()
        folded.apply(json.loads(json.dumps(registry.records())))
        for copy in (again, folded):
            assert {one.name: one for one in copy} == {one.name: one for one in registry}
            assert [copy.left(name) for name in "abc"] == [registry.left(name) for name in "abc"]
            assert not copy.changed


def test_a_name_is_remembered_until_its_windows_are_past() -> None:
    registry = Registry([BIG])
    registry.forget("big", left=50)
    assert ("big" in registry, registry.left("big"), list(registry)) == (False, 50, [])
    assert registry.changes() == [{"name": "big", "left": 50}]
    registry.committed()
    registry.outdate(49)
    assert not registry.changed
    registry.outdate(50)
    assert (registry.left("big"), registry.changes()) == (None, [{"name": "big"}])
    registry.forget("big", left=60)
    registry.put(BIG)
    assert (registry.left("big"), registry.changes()) == (None, [BIG.as_record()])


def test_only_what_changed_is_committed() -> None:
    registry = Registry([BIG, PAUSED])
    assert not registry.changed
    registry.put(BIG)
    registry.change("b", state=QueryState.PAUSED)
    registry.forget("none")
    assert registry.changes() == []
    registry.change("b", state=QueryState.RUNNING)
    registry.forget("big")
    changes = registry.changes()
    assert [(one["name"], one.get("state")) for one in changes] == [("b", "running"), ("big", None)]
    assert changes[1] == {"name": "big"}
    assert ("b" in registry, "big" in registry, registry.get("big")) == (True, False, None)


def test_changes_are_kept_until_they_are_durable() -> None:
    registry = Registry()
    registry.put(BIG)
    assert registry.changes() == registry.changes() == [BIG.as_record()]
    registry.forget("big")
    assert registry.changes() == [{"name": "big"}]
    registry.put(BIG)
    assert registry.changes() == [BIG.as_record()]


def test_a_checkpoint_that_no_engine_runs_on_can_be_asked(tmp_path: Path) -> None:
    root = LocalFolder(tmp_path)
    Lock(root).release()
    root.write("id", b"1")
    Mailbox(root).ask("list")
    checkpoint = Checkpoint(root.folder("tr%2Fades"))
    checkpoint.write(commit(0), [BIG.as_record()], {}, {})
    checkpoint.write(commit(1), [PAUSED.as_record()], {}, {})
    big, paused = read_registry(tmp_path)
    assert (big.name, big.stream, big.state, big.failures) == ("big", "tr/ades", "running", 2)
    assert (paused.state, paused.error, paused.expires, paused.added_commit) == ("paused", "no", 9, 3)
    assert read_registry(tmp_path / "none") == []


# What a start makes of them.


@pytest.mark.parametrize("live", [False, True])
def test_what_is_over_is_forgotten_when_nobody_names_it(live: bool) -> None:
    state = QueryState.ENDED if live else QueryState.DROPPED
    registry = Registry([replace(PAUSED, state=state, live=live)])
    found = rejoin([], registry, unable, watermark=50)
    assert (found.running, found.resting, found.unbound, found.notices) == ({}, {}, [], [])
    # The name is free, and who takes it repeats no window.
    assert ("b" in registry, registry.left("b")) == (False, 50)
    assert registry.changes() == [{"name": "b", "left": 50}]


def test_what_is_over_is_kept_while_a_workload_names_it() -> None:
    query = bind(parse_select("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="b"), CATALOG)
    registry = Registry([replace(PAUSED, state=QueryState.ENDED, text=query.text)])
    found = rejoin([query], registry, unable, watermark=50)
    assert (found.resting, found.notices) == (
        {"b": query}, ["query b stays ended; weft resume brings it back"],
    )  # fmt: skip
    assert not registry.changed


@pytest.mark.parametrize("state", [QueryState.ENDED, QueryState.DROPPED])
def test_a_workload_may_give_the_name_of_what_is_over_to_another_query(state: QueryState) -> None:
    query = bind(parse_select("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="b"), CATALOG)
    registry = Registry([replace(PAUSED, state=state)])
    # However its text is set, the same query stays as it is.
    spaced = bind(parse_select("SELECT COUNT(*) AS n\nFROM trades [RANGE '10 s']", name="b"), CATALOG)
    same = rejoin([query], Registry([replace(PAUSED, state=state)]), lambda name, text: spaced, watermark=50)
    assert (same.new, same.resting) == ([], {"b": query})
    found = rejoin([query], registry, unable, watermark=50)
    assert (found.running, found.new, found.resting) == ({"b": query}, [query], {})
    assert found.notices == [f"query b is another one than that which was {state}: it joins"]
    assert registry.left("b") == 50


def test_what_cannot_be_bound_any_more_is_known_as_failed() -> None:
    registry = Registry([replace(PAUSED, error=None)])
    found = rejoin([], registry, unable, watermark=50)
    failed = replace(PAUSED, state=QueryState.FAILED, error='query b: unknown column "prise"')
    assert (found.running, found.resting, found.unbound) == ({}, {}, [failed])
    assert found.notices == ['query b cannot run on: query b: unknown column "prise"']
    assert list(registry) == [failed]
    told = stored_info(failed, "trades")
    assert (told.state, told.stream, told.first_window) == ("failed", "trades", None)
    assert str(cannot_run(told)) == (
        "query b does not fit its stream, its tables or the limits any more; start the engine with what it "
        'needs and resume it, or drop it\nquery b: unknown column "prise"'
    )


def unable(name: str, text: str) -> LogicalQuery:
    """Bind nothing."""
    raise UnknownName('unknown column "prise"', query=name)


# What other terminals are told.


@dataclass
class Fake:
    """A query that tells of itself."""

    info: QueryInfo


def info(name: str, *, state: str = "running", text: str = "SELECT 1", first: int | None = None) -> QueryInfo:
    window = None if first is None else (first, first + 10_000_000)
    return QueryInfo(
        name=name, text=text, stream="s", state=state, first_window=window, error=None, failures=0,
        added_commit=0, expires=None,
    )  # fmt: skip


@dataclass
class FakeEngine:
    """An engine that does as it is told, and notes it."""

    queries: dict[str, Fake] = field(default_factory=lambda: {"q": Fake(info("q", first=0))})
    unbound: dict[str, QueryInfo] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def add(self, query: str, *, name: str = "") -> Fake:
        self.done.append(f"add {name}")
        self.queries[name] = Fake(info(name, text=query))
        return self.queries[name]

    def remove(self, name: str) -> None:
        self.done.append(f"remove {name}")
        if name not in self.queries and self.unbound.pop(name, None) is None:
            raise EngineError(f'unknown query "{name}"')

    def pause(self, name: str) -> None:
        self.done.append(f"pause {name}")

    def resume(self, name: str) -> Fake:
        self.done.append(f"resume {name}")
        return self.queries[name]

    def stop_later(self) -> None:
        self.done.append("stop")


def carry_out(engine: FakeEngine, do: str, **given: object) -> Reply:
    """Have an engine do something."""
    return Control(engine).carry_out(Request(id="1", do=do, given=given))


@pytest.mark.parametrize(
    ("do", "done", "said"),
    [
        ("drop", "remove q", "query q dropped"),
        ("pause", "pause q", "query q paused"),
        ("resume", "resume q", "query q resumed; its first window is 1970-01-01 00:00:00+00:00 to "
         "1970-01-01 00:00:10+00:00"),
        ("stop", "stop", "stopping between batches"),
    ],
)  # fmt: skip
def test_requests_are_carried_out(do: str, done: str, said: str) -> None:
    engine = FakeEngine()
    reply = carry_out(engine, do, name="q")
    assert (engine.done, reply.ok, reply.said) == ([done], True, said)


def test_queries_are_listed_and_shown() -> None:
    engine = FakeEngine()
    listed = carry_out(engine, "list")
    assert (listed.said, [one["name"] for one in listed.found["queries"]]) == ("1 queries", ["q"])
    shown = carry_out(engine, "show", name="q")
    assert (shown.found["query"]["state"], shown.found["query"]["first_window"]) == (
        "running", (0, 10_000_000),
    )  # fmt: skip
    assert engine.done == []
    assert json.loads(json.dumps(dict(listed.found)))


def test_a_query_that_cannot_be_bound_is_listed_shown_and_dropped() -> None:
    engine = FakeEngine(unbound={"lost": info("lost", state="failed")})
    listed = carry_out(engine, "list")
    assert [(one["name"], one["state"]) for one in listed.found["queries"]] == [
        ("q", "running"), ("lost", "failed"),
    ]  # fmt: skip
    assert carry_out(engine, "show", name="lost").found["query"]["state"] == "failed"
    drop = Request(id="1", do="drop", given={"name": "lost"})
    assert Control(engine).before(drop) == "failed"
    assert carry_out(engine, "drop", name="lost").said == "query lost dropped"
    # Should the request come again after a crash, it is told as at first.
    assert again(engine, "drop", "failed", name="lost").said == "query lost dropped"
    assert (engine.done, engine.unbound) == (["remove lost"], {})


def test_an_add_that_comes_again_is_no_error() -> None:
    engine = FakeEngine()
    assert carry_out(engine, "add", name="p", text="SELECT 2 ").said == "query p added"
    assert carry_out(engine, "add", name="p", text="SELECT 2").said == "query p is there already"
    assert engine.done == ["add p"]
    # Another text, or one that is over, is for the engine to judge.
    carry_out(engine, "add", name="p", text="SELECT 3")
    engine.queries["p"] = Fake(info("p", text="SELECT 3", state="failed"))
    carry_out(engine, "add", name="p", text="SELECT 3")
    assert engine.done == ["add p"] * 3


def test_a_pause_that_comes_again_is_no_error() -> None:
    engine = FakeEngine({"q": Fake(info("q", state="paused"))})
    assert carry_out(engine, "pause", name="q").said == "query q paused"
    assert engine.done == []


def again(engine: FakeEngine, do: str, before: str, **given: object) -> Reply:
    """Have an engine do something that it had begun to do before a crash."""
    return Control(engine).carry_out(Request(id="1", do=do, given=given, before=before))


def test_what_was_done_before_a_crash_is_told_as_if_it_were_done_now() -> None:
    """The engine is as the request left it; the answer is what it would have been."""
    engine = FakeEngine()
    assert again(engine, "drop", "running", name="gone").said == "query gone dropped"
    first = again(engine, "add", "", name="q", text="SELECT 1 ")
    assert first.said.startswith("query q added; its first window is 1970")
    assert again(engine, "resume", "paused", name="q").said.startswith("query q resumed; its first window is")
    engine.queries["q"] = Fake(info("q", state="paused"))
    assert again(engine, "pause", "running", name="q").said == "query q paused"
    engine.queries["q"] = Fake(info("q", state="dropped"))
    assert again(engine, "drop", "running", name="q").said == "query q dropped"
    # Added, and failed since.
    engine.queries["q"] = Fake(info("q", state="failed"))
    assert again(engine, "add", "", name="q", text="SELECT 1").ok
    assert engine.done == []


def test_what_was_not_done_before_a_crash_is_done() -> None:
    engine = FakeEngine()
    again(engine, "drop", "running", name="q")
    again(engine, "pause", "running", name="q")
    again(engine, "add", "", name="p", text="SELECT 2")
    engine.queries["q"] = Fake(info("q", state="paused"))
    again(engine, "resume", "paused", name="q")
    assert engine.done == ["remove q", "pause q", "add p", "resume q"]
    # What could not be done before cannot be done now.
    with pytest.raises(EngineError, match='unknown query "x"'):
        again(engine, "drop", "", name="x")
    assert again(engine, "add", "running", name="p", text="SELECT 2").said == "query p is there already"


def test_only_of_changes_it_is_noted_how_things_were() -> None:
    control = Control(FakeEngine())
    assert control.before(Request(id="1", do="drop", given={"name": "q"})) == "running"
    assert control.before(Request(id="1", do="add", given={"name": "p"})) == ""
    assert control.before(Request(id="1", do="pause")) == ""
    assert [control.before(Request(id="1", do=do)) for do in ("list", "show", "stop", "x")] == [None] * 4


def test_what_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(EngineError, match='"ad" cannot be asked for; did you mean "add"'):
        carry_out(FakeEngine(), "ad")
    with pytest.raises(EngineError, match='unknown query "p"; known are q'):
        carry_out(FakeEngine(), "show", name="p")
