"""Words from another terminal: what is asked, what is said, and what happens when nobody answers."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from weft.cli import control
from weft.cli.app import app
from weft.cli.control import Caller
from weft.cli.listing import print_list, print_query, read_listed
from weft.errors import EngineError, TooLarge, UserError
from weft.limits import Limits
from weft.query import parse_select
from weft.storage import LocalFolder
from weft.storage.lock import Lock
from weft.storage.mailbox import Mailbox, Reply, Request

BIG: dict[str, Any] = {
    "name": "big",
    "text": "SELECT max(vol) AS v FROM trades [RANGE '5 min']",
    "stream": "trades",
    "state": "running",
    "first_window": [1_767_225_900_000_000, 1_767_226_200_000_000],
    "error": None,
    "failures": 0,
    "added_commit": 12,
    "expires": None,
}
BAD = {**BIG, "name": "bad", "state": "failed", "error": "query bad: overflow\n  SELECT …", "failures": 3}
GONE = {**BIG, "name": "gone", "state": "dropped", "first_window": None}
SELECT = "SELECT count(*) AS n FROM trades [RANGE '1 min']"


def answer(request: Request) -> Reply:
    """Answer as an engine does that has the queries above."""
    known = {one["name"]: one for one in (BIG, BAD, GONE)}
    name = request.given.get("name", "")
    if request.do == "list":
        return Reply(ok=True, said="3 queries", found={"queries": list(known.values())})
    if request.do == "add":
        return Reply(ok=True, said=f'added "{name}"', found={"query": {**BIG, **request.given}})
    if name not in known:
        return Reply(ok=False, said=f'unknown query "{name}"')
    return Reply(ok=True, said=f'{request.do}: "{name}"', found={"query": known[name]})


class FakeEngine:
    """Something that holds a checkpoint and answers."""

    def __init__(self, folder: LocalFolder, reply: Callable[[Request], Reply] | None) -> None:
        self.asked: list[Request] = []
        self.lock = Lock(folder)
        self._mailbox, self._reply = Mailbox(folder), reply
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.wait(0.01):
            for _, several in groupby(self._mailbox.waiting(), key=lambda request: request.id):
                if self._reply is None:
                    continue
                requests = list(several)
                self.asked += requests
                if requests[0].do == "stop":
                    self._mailbox.answer(requests[0], Reply(ok=True, said="stopping"))
                    self.lock.release()
                    return
                self._mailbox.answer_all(requests, [self._reply(request) for request in requests])

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.lock.release()


@contextmanager
def running(place: Path, reply: Callable[[Request], Reply] | None = answer) -> Iterator[FakeEngine]:
    engine = FakeEngine(LocalFolder(place), reply)
    try:
        yield engine
    finally:
        engine.end()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return a checkpoint on which an engine ran once."""
    place = tmp_path / "state"
    Lock(LocalFolder(place)).release()
    return place


def weft(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def waiting(place: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(one.do, dict(one.given)) for one in Mailbox(LocalFolder(place)).waiting()]


# With an engine


def test_a_query_is_added_and_the_engine_says_so(checkpoint: Path) -> None:
    with running(checkpoint) as engine:
        done = weft("add", checkpoint, SELECT, "--name", "n")
    assert (done.exit_code, done.stdout) == (0, 'added "n"\n')
    assert [(one.do, dict(one.given)) for one in engine.asked] == [("add", {"name": "n", "text": SELECT})]
    assert waiting(checkpoint) == []
    assert LocalFolder(checkpoint).folder("answers").names() == []


def test_queries_of_a_file_are_added_in_order(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "more.sql"
    file.write_text(f"CREATE QUERY a AS {SELECT};\nCREATE QUERY b AS {SELECT};")
    with running(checkpoint) as engine:
        done = weft("add", checkpoint, "--file", file)
    assert done.stdout == 'added "a"\nadded "b"\n'
    assert [one.given["name"] for one in engine.asked] == ["a", "b"]


def test_queries_are_read_from_standard_input(checkpoint: Path) -> None:
    with running(checkpoint) as engine:
        arguments = ["add", str(checkpoint), "--file", "-"]
        done = CliRunner().invoke(app, arguments, input=f"CREATE QUERY a AS {SELECT}")
    assert done.exit_code == 0, done.output
    assert [one.given["name"] for one in engine.asked] == ["a"]


def test_how_large_a_query_may_be_is_for_the_engine_to_say(checkpoint: Path, tmp_path: Path) -> None:
    """The engine's limits may be others than usual, and only it knows them."""
    limits = Limits()
    large = f"{SELECT} WHERE vol IN ({', '.join(map(str, range(11_000)))})"
    long = f"{SELECT} WHERE symbol = '{'a' * limits.query_text}'"
    for text in (large, long):
        with pytest.raises(TooLarge):
            parse_select(text, name="n")
    file = tmp_path / "more.sql"
    file.write_text(f"CREATE QUERY a AS {large}; CREATE QUERY b AS {long};")
    with running(checkpoint) as engine:
        assert weft("add", checkpoint, large, "--name", "n").stdout == 'added "n"\n'
        assert weft("add", checkpoint, "--file", file).stdout == 'added "a"\nadded "b"\n'
    assert [one.given["text"] for one in engine.asked] == [large, large, long]


def test_a_query_that_stands_for_endless_nodes_is_refused_soon(checkpoint: Path) -> None:
    nested = "n"
    for _ in range(40):
        nested = f"({nested}) BETWEEN 1 AND 2"
    failed = weft("add", checkpoint, f"{SELECT} HAVING {nested}", "--name", "n")
    assert isinstance(failed.exception, TooLarge)


@pytest.mark.parametrize("do", ["drop", "pause", "resume"])
def test_one_unknown_name_does_not_keep_the_others_back(checkpoint: Path, do: str) -> None:
    with running(checkpoint) as engine:
        done = weft(do, checkpoint, "big", "bug", "bad", "big")
    assert done.exit_code == 1
    assert done.stdout == f'{do}: "big"\n{do}: "bad"\n'
    assert done.stderr == 'error: unknown query "bug"\n'
    assert [one.given for one in engine.asked] == [{"name": "big"}, {"name": "bug"}, {"name": "bad"}]


def test_answers_for_programs_are_a_line_each(checkpoint: Path) -> None:
    with running(checkpoint):
        done = weft("resume", checkpoint, "big", "bug", "--json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"query": BIG},
        {"error": 'unknown query "bug"'},
    ]
    assert done.exit_code == 1


def test_a_list_has_a_line_a_query_with_tabs_between(checkpoint: Path) -> None:
    with running(checkpoint):
        done = weft("list", checkpoint)
        whole = weft("list", checkpoint, "--all")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert lines == [
        ["big", "running", "trades", "2026-01-01 00:05:00 – 00:10:00"],
        [
            "bad", "failed", "trades", "2026-01-01 00:05:00 – 00:10:00",
            "query bad: overflow; 3 failed expressions",
        ],
    ]  # fmt: skip
    # Where the first window is not known, nothing is said of it.
    assert whole.stdout.splitlines()[2] == "gone\tdropped\ttrades\t–"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_stream_may_be_called_anything_and_is_listed_on_one_line(terminal: bool) -> None:
    console = Console(file=StringIO(), force_terminal=terminal, color_system=None, width=100)
    odd = {**BIG, "stream": "a\nb\tc\x1b[2J"}
    print_list(console, [read_listed(odd)], everything=False)
    print_query(console, read_listed(odd))
    assert isinstance(console.file, StringIO)
    told = console.file.getvalue()
    assert told.count("a b c [2J") == 2
    assert "\x1b[2J" not in told
    assert [line for line in told.splitlines() if line.startswith("b")] == [told.splitlines()[terminal]]


@pytest.mark.parametrize("sent", [BIG, BAD, GONE])
def test_a_query_is_told_in_the_same_words_in_all_versions(sent: dict[str, Any]) -> None:
    listed = read_listed(sent)
    assert json.loads(json.dumps(listed.as_record())) == sent
    assert read_listed(listed.as_record()) == listed
    # As engines told that knew less of it.
    former = read_listed({name: sent[name] for name in ("name", "text", "stream", "state")})
    assert (former.name, former.first_window, former.error, former.failures) == (sent["name"], None, None, 0)


def test_a_list_is_a_table_on_a_terminal() -> None:
    console = Console(file=StringIO(), force_terminal=True, color_system=None, width=100)
    print_list(console, [read_listed(one) for one in (BIG, BAD, GONE)], everything=False)
    assert isinstance(console.file, StringIO)
    head, big, bad, *_, hidden = (line.rstrip() for line in console.file.getvalue().splitlines())
    assert head.split() == ["query", "state", "stream", "first", "window"]
    assert big == "big    running  trades  2026-01-01 00:05:00 – 00:10:00"
    assert "query bad: overflow" in bad
    assert hidden == "1 dropped or ended; --all shows them"


def test_a_query_is_shown_with_its_text_and_error(checkpoint: Path) -> None:
    with running(checkpoint):
        done = weft("show", checkpoint, "bad")
    assert "first window        2026-01-01 00:05:00 – 00:10:00" in done.stdout
    assert "query bad: overflow\n  SELECT …" in done.stdout
    assert BAD["text"] in done.stdout


def test_stopping_waits_until_the_engine_is_gone(checkpoint: Path) -> None:
    with running(checkpoint) as engine:
        done = weft("stop", checkpoint)
        assert (done.exit_code, [one.do for one in engine.asked]) == (0, ["stop"])
        assert "has stopped" in done.stdout
        # The checkpoint is free at once.
        Lock(LocalFolder(checkpoint)).release()


# With an engine that does not answer


def test_a_change_that_is_not_answered_stands(checkpoint: Path) -> None:
    with running(checkpoint, None):
        done = weft("drop", checkpoint, "big", "--wait", "0.05")
    assert done.exit_code == 1
    assert "did not answer within 0.05 s; the request stands" in done.stderr
    assert waiting(checkpoint) == [("drop", {"name": "big"})]


def test_who_does_not_wait_is_told_what_will_be(checkpoint: Path) -> None:
    with running(checkpoint, None):
        done = weft("pause", checkpoint, "big", "--wait", "0")
    assert done.exit_code == 0, done.output
    assert 'query "big" will be paused at the next batch' in done.stdout


def test_a_question_that_is_not_answered_is_taken_back(checkpoint: Path) -> None:
    with running(checkpoint, None):
        done = weft("list", checkpoint, "--wait", "0.05")
    assert isinstance(done.exception, EngineError)
    assert "did not answer within 0.05 s; --wait allows it more" in str(done.exception)
    assert waiting(checkpoint) == []


def test_a_stop_in_a_long_batch_says_so(checkpoint: Path) -> None:
    with running(checkpoint, None):
        done = weft("stop", checkpoint, "--wait", "0.05")
    assert done.exit_code == 1
    assert "has not yet, after 0.05 s; it finishes its batch first" in done.stderr


def test_an_engine_that_leaves_meanwhile_leaves_changes_to_the_next(checkpoint: Path) -> None:
    folder = LocalFolder(checkpoint)
    lock = Lock(folder)
    asking = Caller(folder, seconds=30)
    lock.release()
    [reply] = asking.ask_each([("drop", {"name": "big"})])
    assert reply.ok
    assert 'query "big" will be dropped when one starts' in reply.said
    assert waiting(checkpoint) == [("drop", {"name": "big"})]


def test_an_engine_that_leaves_meanwhile_is_not_asked_to_stop_again(checkpoint: Path) -> None:
    folder = LocalFolder(checkpoint)
    lock = Lock(folder)
    asking = Caller(folder, seconds=30)
    lock.release()
    assert asking.stop().ok
    assert waiting(checkpoint) == []


def test_who_stops_waiting_takes_all_back(checkpoint: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with running(checkpoint, None):
        asking = Caller(LocalFolder(checkpoint), seconds=30)
        with pytest.raises(KeyboardInterrupt):
            asking.ask_each([("drop", {"name": name}) for name in "ab"], on_wait=interrupt)
    assert waiting(checkpoint) == []


MANY = tuple(f"q{number}" for number in range(300))


def test_many_that_are_not_answered_are_told_of_in_a_line(checkpoint: Path) -> None:
    with running(checkpoint, None):
        late = weft("drop", checkpoint, *MANY, "--wait", "0.05")
        unwaited = weft("pause", checkpoint, *MANY, "--wait", "0")
        for_programs = weft("resume", checkpoint, *MANY, "--wait", "0.05", "--json")
    assert (late.exit_code, late.stdout) == (1, "")
    [line] = late.stderr.splitlines()
    assert "did not answer within 0.05 s; the request stands: 300 queries will be dropped after" in line
    assert unwaited.exit_code == 0
    [line] = unwaited.stdout.splitlines()
    assert line.endswith("was asked; 300 queries will be paused at the next batch")
    lines = [json.loads(line) for line in for_programs.stdout.splitlines()]
    assert [line["name"] for line in lines] == list(MANY)
    assert all(line["waits"] and "did not answer" in line["error"] for line in lines)
    assert len(LocalFolder(checkpoint).folder("requests").names()) == 3


def test_many_are_told_that_they_wait_for_the_next_engine(checkpoint: Path) -> None:
    folder = LocalFolder(checkpoint)
    lock = Lock(folder)
    asking = Caller(folder, seconds=30)
    replies = asking.ask_each([("drop", {"name": name}) for name in MANY], on_wait=lock.release)
    assert {reply.said for reply in replies} == {
        f"no engine runs on {checkpoint}: 300 queries will be dropped when one starts"
    }
    assert [reply.found["name"] for reply in replies] == list(MANY)


# Without an engine


def test_changes_wait_for_the_next_start(checkpoint: Path) -> None:
    added = weft("add", checkpoint, f"CREATE QUERY n AS {SELECT}")
    dropped = weft("drop", checkpoint, "big", "--json")
    assert added.stdout == f'no engine runs on {checkpoint}: query "n" will be added when one starts\n'
    assert (added.exit_code, dropped.exit_code) == (0, 0)
    assert json.loads(dropped.stdout) == {"name": "big", "waits": True}
    assert waiting(checkpoint) == [("add", {"name": "n", "text": SELECT}), ("drop", {"name": "big"})]


def test_there_may_be_nothing_to_stop(checkpoint: Path) -> None:
    done = weft("stop", checkpoint)
    assert (done.exit_code, done.stdout) == (0, f"no engine runs on {checkpoint}: there is nothing to stop\n")
    assert waiting(checkpoint) == []


def test_the_checkpoint_itself_tells_its_queries(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "read_registry", lambda place: [read_listed(BIG), read_listed(BAD)])
    assert weft("list", checkpoint).stdout.startswith("big\trunning\ttrades")
    assert json.loads(weft("list", checkpoint, "--json").stdout) == {"queries": [BIG, BAD]}
    assert json.loads(weft("show", checkpoint, "bad", "--json").stdout) == {"query": BAD}
    unknown = weft("show", checkpoint, "badd")
    assert str(unknown.exception) == 'unknown query "badd"; did you mean "bad"?'


# Mistakes


@pytest.mark.parametrize("command", [("list",), ("stop",), ("drop", "big"), ("add", SELECT, "--name", "n")])
def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    do, *rest = command
    missing = weft(do, tmp_path / "no", *rest)
    assert f"{tmp_path / 'no'} is not there, or empty; name the folder" in str(missing.exception)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "big").mkdir()
    other = weft(do, tmp_path / "results", *rest)
    assert "results has no checkpoint in it" in str(other.exception)
    assert not (tmp_path / "results" / "requests").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((SELECT,), "the query has no name; give one with --name"),
        (("SELECT count(* FROM trades", "--name", "n"), "query n: "),
        (("--file", "no.sql"), "no workload file no.sql"),
    ],
)
def test_a_mistake_is_told_before_anything_is_asked(
    checkpoint: Path, arguments: tuple[str, ...], said: str
) -> None:
    failed = weft("add", checkpoint, *arguments)
    assert isinstance(failed.exception, UserError)
    assert said in str(failed.exception)
    assert waiting(checkpoint) == []


def test_a_file_may_only_create_queries(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "more.sql"
    file.write_text(f"CREATE QUERY a AS {SELECT}; DROP QUERY b")
    failed = weft("add", checkpoint, "--file", file)
    assert "more.sql has other statements than CREATE QUERY" in str(failed.exception)
    file.write_text("-- nothing yet")
    assert "more.sql has no queries" in str(weft("add", checkpoint, "--file", file).exception)


@pytest.mark.parametrize("arguments", [(), (SELECT, "--file", "x.sql"), ("--file", "x.sql", "--name", "n")])
def test_either_a_query_or_a_file_is_given(checkpoint: Path, arguments: tuple[str, ...]) -> None:
    assert weft("add", checkpoint, *arguments).exit_code == 2


@pytest.mark.parametrize("command", ["add", "drop", "pause", "resume", "list", "show", "stop"])
def test_every_command_has_an_example(command: str) -> None:
    assert f"Example: weft {command} state/" in " ".join(weft(command, "--help").output.split())
