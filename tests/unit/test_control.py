"""What other terminals may ask for, what comes of it, and what they are told."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from weft.errors import EngineError, UnknownName, WeftError
from weft.query.logical import LogicalQuery
from weft.service.control import Control
from weft.service.status import QueryInfo
from weft.storage.mailbox import CHANGES, Reply, Request
from weft.stream.boundary import Change


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
    undone: dict[str, WeftError] = field(default_factory=dict)
    """What could not be made durable."""
    made_way: list[str] = field(default_factory=list)
    groups: list[list[str | None]] = field(default_factory=list)
    """The streams of changes that were handed over at once."""

    def bind(self, name: str, text: str) -> LogicalQuery:
        if "prise" in text:
            raise UnknownName('unknown column "prise"', text=text, span=(7, 12), query=name)
        bound: Any = SimpleNamespace(name=name, text=text, stream="other" if "other" in text else "s")
        return bound  # type: ignore[no-any-return]

    def make_way(self, query: LogicalQuery) -> None:
        self.made_way.append(query.name)

    def try_out(self, queries: Iterable[LogicalQuery], *, halted: Callable[[], bool]) -> dict[str, WeftError]:
        self.tried.append([one.name for one in queries])
        return self.refused

    def carry_out(self, changes: Sequence[Change]) -> None:
        self.groups.append([change.stream for change in changes])
        for change in changes:
            change.attempt()
            change.finish(self.undone.get(change.query))

    def is_running_as(self, query: LogicalQuery) -> bool:
        known = self.queries.get(query.name)
        if known is None or known.info.state != "running":
            return False
        return "".join(known.info.text.split()) == "".join(query.text.split())

    def join(self, logical: LogicalQuery, *, replace: bool) -> Fake:
        name = logical.name
        self.done.append(f"{'replace' if replace else 'add'} {name}")
        self.queries[name] = Fake(info(name, text=logical.text))
        return self.queries[name]

    def part(self, name: str, *, stream: str | None) -> None:
        self.done.append(f"remove {name}")
        if name not in self.queries and self.unbound.pop(name, None) is None:
            raise EngineError(f'unknown query "{name}"')

    def rest(self, name: str, *, stream: str | None) -> None:
        self.done.append(f"pause {name}")

    def wake(self, name: str, *, stream: str | None) -> Fake:
        self.done.append(f"resume {name}")
        return self.queries[name]

    def stop(self) -> None:
        self.done.append("stop")


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
    assert (engine.done, reply.ok, reply.said) == ([done], True, said)


def test_queries_are_listed_and_shown() -> None:
    engine = FakeEngine()
    listed = carry_out(engine, "list")
    assert (listed.said, [one["name"] for one in listed.found["queries"]]) == ("1 queries", ["q"])
    shown = carry_out(engine, "show", name="q")
    assert (shown.found["query"]["state"], shown.found["query"]["first_window"]) == (
        "running", [0, 10_000_000],
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
    assert control_of(engine).before(drop) == "failed"
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


def test_a_query_is_replaced_by_another_text_only() -> None:
    engine = FakeEngine()
    texts = {"SELECT 2": "replaced", "SELECT 2 ": "is there already", "SELECT  2": "is there already"}
    for text, outcome in texts.items():
        [request] = asked(f"add q {text}")
        request = replace(request, given={"name": "q", "text": text, "replace": True})
        request = replace(request, before=control_of(engine).before(request))
        for _ in range(2):
            # The second time after a crash: the reply is the same.
            [reply] = control_of(engine).change([request], halted=lambda: False)
            assert reply is not None
            assert (reply.said, text) == (f"query q {outcome}", text)
    assert engine.done == ["replace q"]
    new = replace(request, given={"name": "new", "text": "SELECT 3", "replace": True}, before="")
    assert said(control_of(engine).change([new], halted=lambda: False)) == ["query new added"]
    paused = replace(request, given={"name": "p", "text": "SELECT 4", "replace": True})
    engine.queries["p"] = Fake(info("p", state="paused", text="SELECT 4"))
    paused = replace(paused, before=control_of(engine).before(paused))
    assert paused.before == "paused as asked"
    assert said(control_of(engine).change([paused], halted=lambda: False)) == ["query p replaced"]


def test_a_pause_that_comes_again_is_no_error() -> None:
    engine = FakeEngine({"q": Fake(info("q", state="paused"))})
    assert carry_out(engine, "pause", name="q").said == "query q paused"
    assert engine.done == []


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


def test_changes_are_handed_over_at_once_and_are_one_look_of_sparks() -> None:
    engine = FakeEngine({"q": Fake(info("q")), "p": Fake(info("p", state="paused"))})
    control = control_of(engine)
    requests = asked("add a", "drop q", "add b SELECT other", "resume p", "drop x")
    replies = control.change(requests, halted=lambda: False)
    assert engine.groups == [["s", "s", "other", "s", None]]
    assert engine.tried == [["a", "b", "p"]]
    assert said(replies) == [
        "query a added", "query q dropped", "query b added", "query p resumed", 'unknown query "x"',
    ]  # fmt: skip
    # They have the names of queries that are over, perhaps.
    assert engine.made_way == ["a", "b"]


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
    full = {"a": EngineError("query a cannot be added: full; nothing has changed")}
    engine = FakeEngine({"q": Fake(info("q", text="SELECT q"))}, undone=dict(full))
    replies = control_of(engine).change(asked("add a", "add q"), halted=lambda: False)
    assert said(replies) == [str(full["a"]), "query q is there already"]


@pytest.mark.parametrize("steps", range(4))
def test_what_is_halted_is_not_answered(steps: int) -> None:
    left = iter([False] * steps)
    engine = FakeEngine({})
    replies = control_of(engine).change(asked("add a", "add b", "add c"), halted=lambda: next(left, True))
    assert said(replies) == [f"query {name} added" for name in "abc"[:steps]] + [None] * (3 - steps)
    assert list(engine.queries) == list("abc"[:steps])
