"""Queries by name, what changed of them, and what other terminals are told."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.checkpoint_samples import BIG, PAUSED, commit
from tests.unit.language_samples import CATALOG

from weft.durability.checkpoint import Checkpoint
from weft.durability.registry import QueryState, Registered, Registry, from_record
from weft.durability.rejoining import rejoin
from weft.errors import UnknownName
from weft.notices import Notice, NoticeKind
from weft.query import bind, parse_select
from weft.query.logical import LogicalQuery
from weft.service.status import cannot_run, read_registry, stored_info
from weft.state.clock import ALWAYS
from weft.storage import LocalFolder
from weft.storage.lock import Lock
from weft.storage.mailbox import Mailbox

NAMES = st.sampled_from("abc")
entries = st.builds(
    Registered, name=NAMES, text=st.text(max_size=3), state=st.sampled_from(QueryState), live=st.booleans(),
    answered_through=st.integers(), until=st.none() | st.integers(), failures=st.integers(0, 3),
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


Step = Registered | tuple[str, int] | int
"""A query is put, or leaves as answered through a time; or all partials before a time go."""
steps = entries | st.tuples(NAMES, st.just(ALWAYS) | st.integers(0, 9)) | st.integers(0, 9)


@given(st.lists(st.lists(steps, max_size=5), max_size=5))
def test_changes_applied_in_order_give_the_same_registry(batches: list[list[Step]]) -> None:
    registry, again = Registry(), Registry()
    for several in batches:
        for one in several:
            if isinstance(one, Registered):
                registry.put(one)
            elif isinstance(one, tuple):
                registry.forget(one[0], answered_through=one[1])
            else:
                registry.evict(one)
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
            assert [copy.answered_through(name) for name in "abc"] == [
                registry.answered_through(name) for name in "abc"
            ]
            assert not copy.changed


def test_a_name_is_remembered_until_its_windows_are_past() -> None:
    registry = Registry([BIG])
    registry.forget("big", answered_through=50)
    assert ("big" in registry, registry.answered_through("big"), list(registry)) == (False, 50, [])
    assert registry.changes() == [{"name": "big", "answered_through": 50}]
    registry.committed()
    registry.evict(49)
    assert not registry.changed
    registry.evict(50)
    assert (registry.answered_through("big"), registry.changes()) == (ALWAYS, [{"name": "big"}])
    registry.forget("big", answered_through=60)
    registry.put(BIG)
    assert (registry.answered_through("big"), registry.changes()) == (ALWAYS, [BIG.as_record()])


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
    assert ("b" in registry, registry.answered_through("b")) == (False, 50)
    assert registry.changes() == [{"name": "b", "answered_through": 50}]


def test_what_is_over_is_kept_while_a_workload_names_it() -> None:
    query = bind(parse_select("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="b"), CATALOG)
    registry = Registry([replace(PAUSED, state=QueryState.ENDED, text=query.text)])
    found = rejoin([query], registry, unable, watermark=50)
    assert (found.resting, found.notices) == (
        {"b": query}, [Notice(kind=NoticeKind.QUERY_STAYS, subject="b", about="ended")],
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
    assert [notice.words for notice in found.notices] == [
        f"query b is another one than that which was {state}: it joins"
    ]
    assert registry.answered_through("b") == 50


def test_what_cannot_be_bound_any_more_is_known_as_failed() -> None:
    registry = Registry([replace(PAUSED, error=None)])
    found = rejoin([], registry, unable, watermark=50)
    failed = replace(PAUSED, state=QueryState.FAILED, error='query b: unknown column "prise"')
    assert (found.running, found.resting, found.unbound) == ({}, {}, [failed])
    [notice] = found.notices
    assert notice.words == 'query b cannot run on: query b: unknown column "prise"'
    assert notice.error_kind == "UnknownName"
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
