"""Requests and answers as files, and who carries them out."""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import EngineError
from weft.runtime.requests import Requests
from weft.storage import LocalFolder
from weft.storage.mailbox import Mailbox, Reply, Request


@pytest.fixture
def box(tmp_path: Path) -> Mailbox:
    """Return the mailbox of a checkpoint that is not there yet."""
    return Mailbox(LocalFolder(tmp_path / "checkpoint"))


def files(tmp_path: Path, kind: str) -> list[str]:
    """Return the names of requests or answers."""
    return LocalFolder(tmp_path / "checkpoint" / kind).names()


def test_a_request_is_asked_answered_and_fetched(box: Mailbox, tmp_path: Path) -> None:
    assert box.waiting() == []
    asked = box.ask("add", name="ü", text="SELECT '…'")
    (found,) = Mailbox(LocalFolder(tmp_path / "checkpoint")).waiting()
    assert found == asked == Request(id=asked.id, do="add", given={"name": "ü", "text": "SELECT '…'"})
    assert box.fetch(asked, seconds=0) is None
    box.answer(found, Reply(ok=True, said="added", found={"first": [1, 2]}))
    assert files(tmp_path, "requests") == []
    reply = box.fetch(asked, seconds=0)
    assert reply is not None
    assert (reply.ok, reply.said, reply.found["first"]) == (True, "added", [1, 2])
    assert files(tmp_path, "answers") == []
    assert box.fetch(asked, seconds=0) is None


def test_requests_wait_oldest_first(box: Mailbox) -> None:
    asked = [box.ask("pause", name=str(number)) for number in range(20)]
    assert box.waiting() == asked


def test_answers_go_to_who_asked(box: Mailbox) -> None:
    one, other = box.ask("show", name="a"), box.ask("show", name="b")
    box.answer(other, Reply(ok=False, said="no b"))
    assert box.fetch(one, seconds=0) is None
    reply = box.fetch(other, seconds=0)
    assert reply is not None
    assert reply.said == "no b"
    assert box.waiting() == [one]


def test_an_answer_is_waited_for(box: Mailbox) -> None:
    asked = box.ask("list")
    thread = threading.Timer(0.1, lambda: box.answer(asked, Reply(ok=True, said="1 query")))
    thread.start()
    reply = box.fetch(asked, seconds=20)
    thread.join()
    assert reply is not None
    assert reply.said == "1 query"


def test_a_request_can_be_withdrawn(box: Mailbox) -> None:
    kept, withdrawn = box.ask("list"), box.ask("list")
    box.withdraw(withdrawn)
    box.withdraw(withdrawn)
    assert box.waiting() == [kept]


def test_requests_for_an_engine_that_is_gone_are_discarded(box: Mailbox) -> None:
    kinds = ("stop", "add", "list", "drop", "stop")
    asked = [box.ask(do) for do in kinds]
    box.discard("stop", "list", "show")
    assert box.waiting() == [asked[1], asked[3]]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"do": "add"}', '{"given": {}}', '{"do": "add", "given": 7}', "\udcff"]
)
def test_what_is_no_request_is_answered_and_removed(box: Mailbox, tmp_path: Path, text: str) -> None:
    good = box.ask("list")
    requests = LocalFolder(tmp_path / "checkpoint" / "requests")
    requests.write("0-abc.json", text.encode(errors="surrogateescape"))
    assert box.waiting() == [good]
    reply = box.fetch(Request(id="abc", do="add"), seconds=0)
    assert reply is not None
    assert (reply.ok, reply.said) == (False, "the request cannot be read; ask again")
    assert len(requests.names()) == 1


def test_answers_that_nobody_fetches_are_forgotten(
    box: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [box.ask("list"), box.ask("list")]
    box.answer(asked[0], Reply(ok=True, said="old"))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3_000)
    box.answer(asked[1], Reply(ok=True, said="new"))
    box.forget_old()
    assert len(files(tmp_path, "answers")) == 2
    monkeypatch.setattr(time, "time", lambda: now + 3_601)
    box.forget_old()
    assert files(tmp_path, "answers") == [f"{asked[1].id}.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"found": null}', '{"found": {"answered_at": "x"}}'])
def test_an_answer_that_cannot_be_read_is_forgotten(box: Mailbox, tmp_path: Path, text: str) -> None:
    LocalFolder(tmp_path / "checkpoint" / "answers").write("x.json", text.encode())
    box.forget_old()
    assert files(tmp_path, "answers") == []


# The thread that carries requests out.


@pytest.fixture
def carried_out(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> "CarriedOut":
    """Return an engine's side of the mailbox, with little patience."""
    monkeypatch.setattr("weft.runtime.requests._LOOK_SECONDS", 0.01)
    return CarriedOut(box)


class CarriedOut:
    """Requests that were carried out, and how."""

    def __init__(self, box: Mailbox) -> None:
        self.seen: list[str] = []
        self.act: Callable[[Request], Reply] = lambda request: Reply(ok=True, said=request.do)
        self.requests = Requests(box, self)

    def before(self, request: Request) -> str | None:
        return f"as before {request.do}" if request.do == "drop" else None

    def carry_out(self, request: Request) -> Reply:
        self.seen.append(request.do)
        return self.act(request)


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
    answer, failing = box.answer, ["drop"]

    def fail_once(request: Request, reply: Reply) -> None:
        if request.do in failing:
            failing.clear()
            raise OSError("no room")
        answer(request, reply)

    monkeypatch.setattr(box, "answer", fail_once)
    assert [request.id for request in carried_out.requests.look()] == [asked[2].id, asked[3].id]
    assert carried_out.seen == ["drop", "add", "list"]
    assert [request.id for request in carried_out.requests.look()] == [asked[0].id, asked[1].id]
    assert carried_out.seen == ["drop", "add", "list", "drop", "add"]


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
    with pytest.raises(SystemExit):
        carried_out.requests._reply(carried_out.requests._noted(asked))
    # The next engine is told how it was then, whatever it finds itself.
    (found,) = Mailbox(LocalFolder(tmp_path / "checkpoint")).waiting()
    assert found == Request(id=asked.id, do="drop", given={"name": "q"}, before="as before drop")
    with pytest.raises(SystemExit):
        carried_out.requests._reply(carried_out.requests._noted(replace(found, before="earlier")))
    assert seen == ["as before drop", "earlier"]
    listing = box.ask("list")
    assert carried_out.requests._noted(listing) == listing


def test_a_request_that_cannot_be_answered_holds_up_no_other(
    box: Mailbox, carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(request: Request) -> None:
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
        raise ZeroDivisionError("4711 by zero")

    carried_out.act = fail
    with caplog.at_level(logging.DEBUG):
        carried_out.requests.start()
        assert said(box, "list").said == "list failed: ZeroDivisionError: 4711 by zero"
        carried_out.requests.close()
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    fields = vars(record)
    assert (record.getMessage(), fields["do"], fields["kind"]) == (
        "a request failed", "list", "ZeroDivisionError",
    )  # fmt: skip
    assert fields["at"].startswith("test_mailbox.py:")
    assert not [one for one in caplog.records if "4711" in str(vars(one))]


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
    assert told == [(asked, Reply(ok=False, said="query q cannot be added: 4711 is no number"))]


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
    carried_out.requests._thread.join(20)
    assert carried_out.seen == ["stop"]
    assert box.waiting() == asked[1:]


def test_requests_and_answers_are_plain_json(box: Mailbox, tmp_path: Path) -> None:
    asked = box.ask("drop", name="q")
    (name,) = files(tmp_path, "requests")
    root = LocalFolder(tmp_path / "checkpoint")
    assert json.loads(root.folder("requests").read(name)) == {"do": "drop", "given": {"name": "q"}}
    box.answer(asked, Reply(ok=True, said="query q dropped"))
    answer = json.loads(root.folder("answers").read(f"{asked.id}.json"))
    assert (answer["ok"], answer["said"]) == (True, "query q dropped")
