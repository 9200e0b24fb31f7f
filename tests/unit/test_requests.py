"""What other terminals ask for is carried out together, and a stop before all else."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from weft.errors import EngineError
from weft.service.requests import Requests, reply_of
from weft.storage import LocalFolder
from weft.storage.mailbox import Mailbox, Reply, Request


@pytest.fixture
def box(tmp_path: Path) -> Mailbox:
    """Return the mailbox of a checkpoint that is not there yet."""
    return Mailbox(LocalFolder(tmp_path / "checkpoint"))


@pytest.fixture
def carried_out(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> "CarriedOut":
    """Return an engine's side of the mailbox, with little patience."""
    monkeypatch.setattr("weft.service.requests._POLL_SECONDS", 0.01)
    return CarriedOut(box)


class CarriedOut:
    """Requests that were carried out, and how."""

    def __init__(self, box: Mailbox) -> None:
        self.seen: list[str] = []
        self.groups: list[list[str]] = []
        self.act: Callable[[Request], Reply] = lambda request: Reply(ok=True, said=request.do)
        self.requests = Requests(box, self)

    def before(self, request: Request) -> str | None:
        return f"as before {request.do}" if request.do == "drop" else None

    def carry_out(self, request: Request) -> Reply:
        self.seen.append(request.do)
        return self.act(request)

    def change(self, requests: Sequence[Request], *, halted: Callable[[], bool]) -> list[Reply | None]:
        self.groups.append([f"{one.do} {one.query}" for one in requests])
        return [None if halted() else reply_of(one, self.carry_out) for one in requests]


def said(box: Mailbox, do: str) -> Reply:
    """Ask, and return what an engine says."""
    reply = box.fetch(box.ask(do), seconds=20)
    assert reply is not None
    return reply


def test_what_an_engine_at_its_end_cannot_do_waits_for_the_next(
    box: Mailbox, carried_out: CarriedOut
) -> None:
    able = [False]
    requests = Requests(box, carried_out, able=lambda: able[0])
    carried_out.act = lambda request: Reply(ok=request.do == "drop", said="")
    asked = [box.ask("add", name="q"), box.ask("pause", name="q"), box.ask("drop", name="r")]
    # What can be done is answered as ever.
    assert [request.id for request in requests.look()] == [asked[2].id]
    able[0] = True
    assert [request.id for request in requests.look()] == [asked[0].id, asked[1].id]


def test_requests_wait_for_an_unanswered_one_of_the_same_query(
    box: Mailbox, carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [box.ask("drop", name="q"), box.ask("add", name="q"), box.ask("add", name="r"), box.ask("list")]
    answer, failing = box.answer_all, ["drop"]

    def fail_once(requests: Sequence[Request], replies: Sequence[Reply]) -> None:
        if requests[0].do in failing:
            failing.clear()
            raise OSError("no room")
        answer(requests, replies)

    monkeypatch.setattr(box, "answer_all", fail_once)
    assert [request.id for request in carried_out.requests.look()] == [asked[2].id, asked[3].id]
    # The add of q is the next group's, and waits; r joins with what comes after it.
    assert carried_out.groups == [["drop q"], ["add r"]]
    assert [request.id for request in carried_out.requests.look()] == [asked[0].id, asked[1].id]
    assert carried_out.groups == [["drop q"], ["add r"], ["drop q"], ["add q"]]


def test_requests_are_carried_out_one_after_the_other(box: Mailbox, carried_out: CarriedOut) -> None:
    before = [box.ask(do) for do in ("add", "pause", "drop")]
    carried_out.requests.start()
    assert said(box, "list").said == "list"
    carried_out.requests.close()
    assert carried_out.seen == ["add", "pause", "drop", "list"]
    assert [reply.said for one in before if (reply := box.fetch(one, seconds=0))] == ["add", "pause", "drop"]
    # What is asked later waits for the next run.
    later = box.ask("add")
    assert box.fetch(later, seconds=0.1) is None
    assert box.waiting() == [later]


def test_who_asks_is_told_why_not_and_the_engine_goes_on(box: Mailbox, carried_out: CarriedOut) -> None:
    def refuse(request: Request) -> Reply:
        raise EngineError('unknown query "p"') if request.do == "show" else ZeroDivisionError("by zero")

    carried_out.requests.start()
    carried_out.act = refuse
    for do, why in (("show", 'unknown query "p"'), ("list", "list failed: ZeroDivisionError: by zero")):
        reply = said(box, do)
        assert (reply.ok, reply.said) == (False, why)
    carried_out.act = lambda request: Reply(ok=True, said="well")
    assert said(box, "list").ok
    carried_out.requests.close()


def test_a_place_that_cannot_be_reached_is_tried_again(
    box: Mailbox, carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[Request]:
        raise OSError("the network is down")

    carried_out.requests.start()
    with monkeypatch.context() as patch:
        patch.setattr(box, "waiting", broken)
        while "requests cannot be read" not in caplog.text:
            time.sleep(0.01)
    assert said(box, "list").ok
    carried_out.requests.close()


def test_how_things_were_is_noted_before_a_change_and_outlives_a_crash(
    box: Mailbox, carried_out: CarriedOut, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    def die(request: Request) -> Reply:
        seen.append(request.before)
        raise SystemExit

    carried_out.act = die
    asked = box.ask("drop", name="q")
    for _ in range(2):
        with pytest.raises(SystemExit):
            carried_out.requests.look()
        # The next engine is told how it was then, whatever it finds itself.
        (found,) = Mailbox(LocalFolder(tmp_path / "checkpoint")).waiting()
        assert found == Request(id=asked.id, do="drop", given={"name": "q"}, before="as before drop")
    assert seen == ["as before drop", "as before drop"]


def test_a_request_that_cannot_be_answered_holds_up_no_other(
    box: Mailbox, carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(requests: Sequence[Request]) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(box, "note", full)
    asked = box.ask("drop", name="q")
    carried_out.requests.start()
    assert said(box, "list").ok
    monkeypatch.undo()
    reply = box.fetch(asked, seconds=20)
    carried_out.requests.close()
    assert reply is not None
    assert reply.ok
    assert carried_out.seen.count("drop") == 1
    assert "a request cannot be answered" in caplog.text


def test_values_of_rows_are_not_logged(
    box: Mailbox, carried_out: CarriedOut, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: Request) -> Reply:
        raise ZeroDivisionError("sesame by zero")

    carried_out.act = fail
    with caplog.at_level(logging.DEBUG):
        carried_out.requests.start()
        assert said(box, "list").said == "list failed: ZeroDivisionError: sesame by zero"
        carried_out.requests.close()
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    fields = vars(record)
    assert (record.getMessage(), fields["do"], fields["kind"]) == (
        "a request failed", "list", "ZeroDivisionError",
    )  # fmt: skip
    assert fields["at"].startswith("test_requests.py:")
    assert not [one for one in caplog.records if "sesame" in str(vars(one))]


def test_a_refusal_is_told_though_nobody_waits(
    box: Mailbox, carried_out: CarriedOut, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(request: Request) -> Reply:
        if request.do == "list":
            return Reply(ok=True, said="1 query")
        raise EngineError("query q cannot be added: 4711 is no number")

    told: list[tuple[Request, Reply]] = []
    carried_out.act = refuse
    requests = Requests(box, carried_out, on_refusal=lambda request, reply: told.append((request, reply)))
    asked = box.ask("add", name="q", text="SELECT 4711")
    with caplog.at_level(logging.WARNING):
        requests.start()
        assert said(box, "list").ok
        requests.close()
    (record,) = caplog.records
    fields = vars(record)
    assert (record.levelname, record.getMessage()) == ("WARNING", "a request was refused")
    assert (fields["do"], fields["query"]) == ("add", "q")
    assert "4711" not in str(fields)
    said_no = "query q cannot be added: 4711 is no number"
    assert told == [(asked, Reply(ok=False, said=said_no, error_kind="EngineError"))]


def test_an_engine_may_stop_from_within_a_request(box: Mailbox, carried_out: CarriedOut) -> None:
    def stop(request: Request) -> Reply:
        carried_out.requests.close()
        return Reply(ok=True, said="stopping")

    carried_out.act = stop
    carried_out.requests.start()
    asked = [box.ask("stop"), box.ask("list")]
    reply = box.fetch(asked[0], seconds=20)
    assert reply is not None
    assert reply.said == "stopping"
    # A request is answered first, and then removed.
    for thread in carried_out.requests._threads:
        thread.join(20)
    assert carried_out.seen == ["stop"]
    assert box.waiting() == asked[1:]


# Many at once.


def test_requests_of_several_terminals_are_one_group(box: Mailbox, carried_out: CarriedOut) -> None:
    box.ask_all("add", [{"name": "a"}, {"name": "b"}])
    box.ask("drop", name="c")
    box.ask("list")
    box.ask("pause", name="d")
    assert len(carried_out.requests.look()) == 5
    assert carried_out.groups == [["add a", "add b", "drop c", "pause d"]]
    # What changes nothing is told how things are after all changes.
    assert carried_out.seen[-1] == "list"


def test_changes_of_one_query_keep_their_order(box: Mailbox, carried_out: CarriedOut) -> None:
    box.ask("add", name="x")
    box.ask_all("drop", [{"name": "y"}, {"name": "x"}])
    box.ask("add", name="x")
    assert [one.query for one in carried_out.requests.look()] == ["x", "y", "x", "x"]
    assert carried_out.groups == [["add x", "drop y"], ["drop x"], ["add x"]]
    assert box.waiting() == []


def test_a_file_that_waits_for_another_is_not_begun(
    box: Mailbox, carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What of it would be carried out now would be carried out again after the next drop of r."""
    box.ask("drop", name="q")
    box.ask_all("add", [{"name": "q"}, {"name": "r"}])
    box.ask("drop", name="r")
    note, failing = box.note, [True]

    def fail_once(requests: Sequence[Request]) -> bool:
        if failing:
            failing.clear()
            raise OSError("no space left")
        return note(requests)

    monkeypatch.setattr(box, "note", fail_once)
    assert carried_out.requests.look() == []
    assert carried_out.groups == []
    assert len(carried_out.requests.look()) == 4
    assert carried_out.groups == [["drop q"], ["add q", "add r"], ["drop r"]]


def test_who_stops_waiting_is_not_served(
    box: Mailbox, carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [box.ask("drop", name="q"), box.ask("drop", name="r")]
    note = box.note

    def withdrawn(requests: Sequence[Request]) -> bool:
        box.withdraw(asked[0])
        return note(requests)

    monkeypatch.setattr(box, "note", withdrawn)
    assert [one.id for one in carried_out.requests.look()] == [asked[1].id]
    assert carried_out.groups == [["drop r"]]


def test_a_stop_comes_first_and_what_is_under_way_is_left_off(box: Mailbox, carried_out: CarriedOut) -> None:
    begun, left = threading.Event(), []

    def change(requests: Sequence[Request], *, halted: Callable[[], bool]) -> list[Reply | None]:
        begun.set()
        while not halted():
            time.sleep(0.01)
        left.extend(requests)
        return [None] * len(requests)

    carried_out.change = change  # type: ignore[method-assign]
    asked = box.ask_all("add", [{"name": "a"}, {"name": "b"}])
    carried_out.requests.start()
    assert begun.wait(20)
    assert said(box, "stop").said == "stop"
    carried_out.requests.close()
    assert [one.query for one in left] == ["a", "b"]
    # They wait for the next run.
    assert [one.id for one in box.waiting()] == [one.id for one in asked]
    assert carried_out.seen == ["stop"]


def test_nothing_is_begun_after_a_stop(box: Mailbox, carried_out: CarriedOut) -> None:
    asked = [box.ask("add", name="a"), box.ask("list"), box.ask("stop"), box.ask("stop")]
    assert carried_out.requests.look() == []
    assert carried_out.seen == ["stop"]
    assert box.waiting() == [asked[0], asked[1], asked[3]]
