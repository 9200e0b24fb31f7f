"""What other terminals may ask for, what comes of it, and what they are told."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from weft.errors import EngineError, UnknownName, WeftError
from weft.query.logical import LogicalQuery
from weft.service.control import Control
from weft.service.status import QueryInfo
from weft.storage.mailbox import CHANGES, Reply, Request
from weft.stream.membership import Changes


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
    refused: dict[str, WeftError] = field(default_factory=dict)
    """What Spark refuses."""
    tried: list[list[str]] = field(default_factory=list)
    groups: list[Changes] = field(default_factory=list)
    streams: set[str] = field(default_factory=lambda: {"s"})
    commit: Callable[[Changes], None] = lambda changes: None

    def bind(self, name: str, text: str) -> LogicalQuery:
        if "prise" in text:
            raise UnknownName('unknown column "prise"', text=text, span=(7, 12), query=name)
        bound: Any = SimpleNamespace(name=name, text=text, stream="other" if "other" in text else "s")
        return bound  # type: ignore[no-any-return]

    def is_running(self, stream: str) -> bool:
        return stream in self.streams

    def try_out(self, queries: Iterable[LogicalQuery], *, halted: Callable[[], bool]) -> dict[str, WeftError]:
        self.tried.append([one.name for one in queries])
        return self.refused

    @contextmanager
    def together(self, stream: str) -> Iterator[Changes]:
        changes = Changes()
        self.groups.append(changes)
        self.done.append(f"begin {stream}")
        with changes.attempt():
            yield changes
            self.commit(changes)
        self.done.append("commit")

    def join(self, logical: LogicalQuery) -> Fake:
        name = logical.name
        self.done.append(f"add {name}")
        self.streams.add(logical.stream)
        self.queries[name] = Fake(info(name, text=logical.text))
        if self.groups:
            self.groups[-1].note(
                name, problem=f"query {name} cannot be added", undo=lambda: self.queries.pop(name, None)
            )
        return self.queries[name]

    def remove(self, name: str) -> None:
        self.done.append(f"remove {name}")
        if name not in self.queries and self.unbound.pop(name, None) is None:
            raise EngineError(f'unknown query "{name}"')

    def pause(self, name: str) -> None:
        self.done.append(f"pause {name}")

    def resume(self, name: str, *, tried: bool) -> Fake:
        self.done.append(f"resume {name}")
        return self.queries[name]

    def stop(self) -> None:
        self.done.append("stop")

    @property
    def changed(self) -> list[str]:
        """What was done, but for when it was made durable."""
        return [one for one in self.done if one != "commit" and not one.startswith("begin")]


def control_of(engine: FakeEngine) -> Control:
    return Control(engine, stop=engine.stop)


def carry_out(engine: FakeEngine, do: str, before: str | None = None, **given: object) -> Reply:
    """Have an engine do something."""
    control, request = control_of(engine), Request(id="1", do=do, given=given, before=before)
    if do not in CHANGES:
        return control.carry_out(request)
    [reply] = control.change([request], halted=lambda: False)
    assert reply is not None
    return reply


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
    assert (engine.changed, reply.ok, reply.said) == ([done], True, said)


def test_queries_are_listed_and_shown() -> None:
    engine = FakeEngine()
    listed = carry_out(engine, "list")
    assert (listed.said, [one["name"] for one in listed.found["queries"]]) == ("1 queries", ["q"])
    shown = carry_out(engine, "show", name="q")
    assert (shown.found["query"]["state"], shown.found["query"]["first_window"]) == (
        "running", (0, 10_000_000),
    )  # fmt: skip
    assert engine.changed == []
    assert json.loads(json.dumps(dict(listed.found)))


def test_a_query_that_cannot_be_bound_is_listed_shown_and_dropped() -> None:
    engine = FakeEngine(unbound={"lost": info("lost", state="failed")})
    listed = carry_out(engine, "list")
    assert [(one["name"], one["state"]) for one in listed.found["queries"]] == [
        ("q", "running"), ("lost", "failed"),
    ]  # fmt: skip
    assert carry_out(engine, "show", name="lost").found["query"]["state"] == "failed"
    drop = Request(id="1", do="drop", given={"name": "lost"})
    assert control_of(engine).before(drop) == "failed"
    assert carry_out(engine, "drop", name="lost").said == "query lost dropped"
    # Should the request come again after a crash, it is told as at first.
    assert again(engine, "drop", "failed", name="lost").said == "query lost dropped"
    assert (engine.changed, engine.unbound) == (["remove lost"], {})


def test_an_add_that_comes_again_is_no_error() -> None:
    engine = FakeEngine()
    assert carry_out(engine, "add", name="p", text="SELECT 2 ").said == "query p added"
    assert carry_out(engine, "add", name="p", text="SELECT 2").said == "query p is there already"
    assert engine.changed == ["add p"]
    # Another text, or one that is over, is for the engine to judge.
    carry_out(engine, "add", name="p", text="SELECT 3")
    engine.queries["p"] = Fake(info("p", text="SELECT 3", state="failed"))
    carry_out(engine, "add", name="p", text="SELECT 3")
    assert engine.changed == ["add p"] * 3


def test_a_pause_that_comes_again_is_no_error() -> None:
    engine = FakeEngine({"q": Fake(info("q", state="paused"))})
    assert carry_out(engine, "pause", name="q").said == "query q paused"
    assert engine.changed == []


def again(engine: FakeEngine, do: str, before: str, **given: object) -> Reply:
    """Have an engine do something that it had begun to do before a crash."""
    return carry_out(engine, do, before, **given)


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
    assert engine.changed == []


def test_what_was_not_done_before_a_crash_is_done() -> None:
    engine = FakeEngine()
    again(engine, "drop", "running", name="q")
    again(engine, "pause", "running", name="q")
    again(engine, "add", "", name="p", text="SELECT 2")
    engine.queries["q"] = Fake(info("q", state="paused"))
    again(engine, "resume", "paused", name="q")
    assert engine.changed == ["remove q", "pause q", "add p", "resume q"]
    # What could not be done before cannot be done now.
    assert again(engine, "drop", "", name="x").said == 'unknown query "x"'
    assert again(engine, "add", "running", name="p", text="SELECT 2").said == "query p is there already"


def test_only_of_changes_it_is_noted_how_things_were() -> None:
    control = control_of(FakeEngine())
    assert control.before(Request(id="1", do="drop", given={"name": "q"})) == "running"
    assert control.before(Request(id="1", do="add", given={"name": "p"})) == ""
    assert control.before(Request(id="1", do="pause")) == ""
    assert [control.before(Request(id="1", do=do)) for do in ("list", "show", "stop", "x")] == [None] * 4


def test_what_cannot_be_asked_for_is_refused() -> None:
    with pytest.raises(EngineError, match='"ad" cannot be asked for; did you mean "add"'):
        carry_out(FakeEngine(), "ad")
    with pytest.raises(EngineError, match='unknown query "p"; known are q'):
        carry_out(FakeEngine(), "show", name="p")


# Many at once.


def asked(*changes: str) -> list[Request]:
    """Return requests to do something with a query each, such as `add a`."""
    named = [one.split(maxsplit=2) for one in changes]
    return [
        Request(id=str(n), do=do, given={"name": name, "text": " ".join(rest) or f"SELECT {name}"})
        for n, (do, name, *rest) in enumerate(named)
    ]


def said(replies: Sequence[Reply | None]) -> list[str | None]:
    return [None if one is None else one.said for one in replies]


def test_changes_of_a_stream_are_one_commit_and_one_look_of_sparks() -> None:
    engine = FakeEngine({"q": Fake(info("q")), "p": Fake(info("p", state="paused"))})
    control = control_of(engine)
    replies = control.change(asked("add a", "drop q", "add b", "resume p"), halted=lambda: False)
    assert engine.done == ["begin s", "add a", "remove q", "add b", "resume p", "commit"]
    assert engine.tried == [["a", "b", "p"]]
    assert said(replies) == ["query a added", "query q dropped", "query b added", "query p resumed"]


def test_one_bad_query_is_refused_alone() -> None:
    engine = FakeEngine({}, refused={"c": EngineError("query c cannot be run: no")})
    requests = asked("add a", "add b SELECT prise", "add c", "drop x", "add d")
    replies = control_of(engine).change(requests, halted=lambda: False)
    assert said(replies) == [
        "query a added",
        'query b: unknown column "prise"\n  SELECT prise\n         ^^^^^',
        "query c cannot be run: no",
        'unknown query "x"',
        "query d added",
    ]
    assert list(engine.queries) == ["a", "d"]


def test_what_cannot_be_made_durable_is_told_of_each_that_changed() -> None:
    def full(changes: Changes) -> None:
        changes.refuse_all(lambda problem: EngineError(f"{problem}: full; nothing has changed"))
        raise EngineError("full")

    engine = FakeEngine({"q": Fake(info("q", text="SELECT q"))}, commit=full)
    replies = control_of(engine).change(asked("add a", "add q", "add b"), halted=lambda: False)
    assert said(replies) == [
        "query a cannot be added: full; nothing has changed",
        "query q is there already",
        "query b cannot be added: full; nothing has changed",
    ]
    assert list(engine.queries) == ["q"]


def test_each_stream_has_its_own_commit_and_starts_with_its_first_query() -> None:
    engine = FakeEngine({})
    requests = asked("add a", "add b SELECT other", "add c", "add d SELECT other")
    assert said(control_of(engine).change(requests, halted=lambda: False)) == [
        "query a added", "query b added", "query c added", "query d added",
    ]  # fmt: skip
    assert engine.done == [
        "begin s", "add a", "add c", "commit", "add b", "begin other", "add d", "commit",
    ]  # fmt: skip


def test_one_that_takes_the_place_of_another_is_carried_out_by_itself() -> None:
    engine = FakeEngine({"q": Fake(info("q", state="dropped"))})
    control_of(engine).change(asked("add a", "add q"), halted=lambda: False)
    assert engine.done == ["begin s", "add a", "commit", "add q"]


@pytest.mark.parametrize("steps", range(5))
def test_what_is_halted_leaves_no_trace(steps: int) -> None:
    left = iter([False] * steps)
    engine = FakeEngine({})
    replies = control_of(engine).change(asked("add a", "add b", "add c"), halted=lambda: next(left, True))
    done = steps > 3
    assert said(replies) == ([f"query {name} added" for name in "abc"] if done else [None] * 3)
    assert list(engine.queries) == (["a", "b", "c"] if done else [])
    assert ("commit" in engine.done) is done
