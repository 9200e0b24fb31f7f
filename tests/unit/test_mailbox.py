"""Requests and answers as files, and who carries them out."""

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

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
    refused = Reply(ok=False, said="no b", error_kind="UnknownName")
    box.answer(other, refused)
    assert box.fetch(one, seconds=0) is None
    reply = box.fetch(other, seconds=0)
    assert reply is not None
    assert replace(reply, found={}) == refused
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


def test_requests_and_answers_are_plain_json(box: Mailbox, tmp_path: Path) -> None:
    asked = box.ask("drop", name="q")
    (name,) = files(tmp_path, "requests")
    root = LocalFolder(tmp_path / "checkpoint")
    assert json.loads(root.folder("requests").read(name)) == {"do": "drop", "given": {"name": "q"}}
    box.answer(asked, Reply(ok=True, said="query q dropped"))
    answer = json.loads(root.folder("answers").read(f"{asked.id}.json"))
    assert (answer["ok"], answer["said"]) == (True, "query q dropped")


# Many at once.


def test_all_that_a_command_asks_for_is_one_file_and_one_answer(box: Mailbox, tmp_path: Path) -> None:
    asked = box.ask_all("drop", [{"name": "a"}, {"name": "b"}])
    (name,) = files(tmp_path, "requests")
    root = LocalFolder(tmp_path / "checkpoint")
    assert json.loads(root.folder("requests").read(name)) == {
        "do": "drop", "items": [{"given": {"name": "a"}}, {"given": {"name": "b"}}],
    }  # fmt: skip
    assert box.waiting() == asked
    assert [one.item for one in asked] == [0, 1]
    noted = [replace(one, before=f"as {one.query} was") for one in asked]
    assert box.note(noted)
    assert box.waiting() == noted
    replies = [Reply(ok=True, said="query a dropped"), Reply(ok=False, said="unknown query b")]
    box.answer_all(noted, replies)
    assert (files(tmp_path, "requests"), len(files(tmp_path, "answers"))) == ([], 1)
    assert box.fetch_all(asked, seconds=0) == replies
    assert files(tmp_path, "answers") == []


def test_requests_of_older_versions_are_read(box: Mailbox, tmp_path: Path) -> None:
    requests = LocalFolder(tmp_path / "checkpoint" / "requests")
    requests.write("00001-abc.json", b'{"do": "add", "given": {"name": "q", "text": "SELECT"}, "before": ""}')
    requests.write("00002-def.json", b'{"do": "drop", "given": {"name": "q"}}')
    assert box.waiting() == [
        Request(id="abc", do="add", given={"name": "q", "text": "SELECT"}, before=""),
        Request(id="def", do="drop", given={"name": "q"}),
    ]


def test_what_cannot_be_read_is_answered_for_all_that_was_asked(box: Mailbox, tmp_path: Path) -> None:
    asked = box.ask_all("drop", [{"name": "a"}, {"name": "b"}])
    (name,) = files(tmp_path, "requests")
    LocalFolder(tmp_path / "checkpoint" / "requests").write(
        name, b'{"do": "drop", "items": []}', replace=True
    )
    assert box.waiting() == []
    replies = box.fetch_all(asked, seconds=0)
    assert replies is not None
    assert [one.said for one in replies] == ["the request cannot be read; ask again"] * 2


def test_what_was_taken_back_is_not_noted(box: Mailbox, tmp_path: Path) -> None:
    asked = box.ask_all("drop", [{"name": "a"}, {"name": "b"}])
    box.withdraw(asked[1])
    assert not box.note(asked)
    assert files(tmp_path, "requests") == []


def test_answers_to_many_are_forgotten_like_others(
    box: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.answer_all(box.ask_all("drop", [{"name": "a"}, {"name": "b"}]), [Reply(ok=True, said="")] * 2)
    box.forget_old()
    assert len(files(tmp_path, "answers")) == 1
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3_601)
    box.forget_old()
    assert files(tmp_path, "answers") == []


def test_requests_of_several_kinds_are_one_file(box: Mailbox, tmp_path: Path) -> None:
    asked = box.ask_each([("drop", {"name": "a"}), ("add", {"name": "b", "text": "SELECT 1"})])
    assert (box.waiting(), len(files(tmp_path, "requests"))) == (asked, 1)
    # A version that knows one kind a file refuses it as a whole.
    [name] = files(tmp_path, "requests")
    stored = json.loads(LocalFolder(tmp_path / "checkpoint" / "requests").read(name))
    assert stored["do"] == "apply"
    noted = [replace(asked[0], before="running"), replace(asked[1], before="")]
    assert box.note(noted)
    assert box.waiting() == noted
    box.answer_all(noted, [Reply(ok=True, said=f"{one.do} {one.query}") for one in noted])
    replies = box.fetch_all(asked, seconds=0)
    assert replies is not None
    assert [one.said for one in replies] == ["drop a", "add b"]
