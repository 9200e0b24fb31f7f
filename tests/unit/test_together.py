"""Changes of queries that are made at once are one commit, and all of them or none become durable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.loop_samples import ALL, LONG, SHORT, Runs
from tests.unit.pipeline_samples import asked

from weft import faultpoints
from weft.durability.registry import QueryState
from weft.errors import EngineError
from weft.limits import Limits
from weft.state.report import BatchReport
from weft.storage import LocalFolder
from weft.stream.membership import Changes

MANY = [asked(f"many{number}", ALL, (10 + 5 * (number % 8), 5)) for number in range(300)]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Return a checkpoint to run on."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    yield Runs(monkeypatch, LocalFolder(tmp_path / "checkpoint"))
    faultpoints.arm(None)


def states(runs: Runs) -> dict[str, str]:
    return {one.name: str(one.state) for one in runs.ledger.registry}


def test_many_that_join_at_once_are_one_commit(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    before = runs.folder.folder("commits").names()
    with runs.loop.membership.together():
        for one in MANY:
            runs.loop.membership.add(one.logical())
        assert runs.folder.folder("commits").names() == before
    assert len(runs.folder.folder("commits").names()) == len(before) + 1
    # What partials at hand answer is answered, and all goes on after a restart.
    assert runs.given("many0") == runs.given("many8") == [5, 10]
    runs.start(LONG, live=MANY)
    runs.offer(23)
    assert len(runs.pipeline.queries) == 301
    assert runs.given("many0") == [5, 10, 15, 20]


def test_many_that_leave_at_once_are_one_commit(runs: Runs) -> None:
    runs.start(LONG, *MANY)
    runs.offer(1, 12)
    before = len(runs.folder.folder("commits").names())
    with runs.loop.membership.together():
        for one in MANY:
            runs.loop.membership.leave(one.name, QueryState.PAUSED)
    assert list(runs.pipeline.queries) == ["long"]
    with runs.loop.membership.together():
        for one in MANY:
            runs.loop.membership.add(one.logical())
    with runs.loop.membership.together():
        for one in MANY:
            runs.loop.membership.leave(one.name, None)
    assert len(runs.folder.folder("commits").names()) == before + 3
    assert states(runs) == {"long": "running"}


@pytest.mark.parametrize("point", ["registry.before", "commit.before", "commit.written"])
def test_where_the_commit_fails_nothing_has_changed(runs: Runs, point: str) -> None:
    runs.start(LONG, SHORT)
    runs.offer(1, 12)
    followed: list[str] = []
    faultpoints.arm(f"{point}:1:error")
    groups: list[Changes] = []

    def change() -> None:
        with runs.loop.membership.together() as changes:
            groups.append(changes)
            for one in MANY[:3]:
                runs.loop.membership.add(one.logical())
            runs.loop.membership.leave("short", None)
            changes.note("short", after=lambda: followed.append("gone"), undo=lambda: followed.append("back"))

    with pytest.raises(EngineError, match="nothing has changed"):
        change()
    [changes] = groups
    assert {name: str(error).partition(":")[0] for name, error in changes.refused.items()} == {
        "many0": "query many0 cannot be added",
        "many1": "query many1 cannot be added",
        "many2": "query many2 cannot be added",
        "short": "query short cannot leave",
    }
    assert states(runs) == {"long": "running", "short": "running"}
    assert (list(runs.pipeline.queries), followed) == (["long", "short"], ["back"])
    assert runs.given("many0") == []
    runs.offer(23)
    assert runs.given("short") == [5, 10, 15, 20]
    runs.start(LONG, SHORT)
    assert states(runs) == {"long": "running", "short": "running"}


def _interrupted(runs: Runs, *, join: Any, leave: str | None = None) -> None:
    """Change queries, and fail before the end."""
    with runs.loop.membership.together():
        runs.loop.membership.add(join.logical())
        if leave is not None:
            runs.loop.membership.leave(leave, None)
        raise ZeroDivisionError


def test_an_error_inside_undoes_what_it_stands_in(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    with runs.loop.membership.together():
        runs.loop.membership.add(SHORT.logical())
        with pytest.raises(EngineError, match="query short is running already"):
            runs.loop.membership.add(SHORT.logical())
        with pytest.raises(ZeroDivisionError):
            _interrupted(runs, join=MANY[0])
        assert states(runs) == {"long": "running", "short": "running"}
    assert runs.given("short") == [5, 10]
    before = runs.folder.folder("commits").names()
    with pytest.raises(ZeroDivisionError):
        _interrupted(runs, join=MANY[0], leave="short")
    assert states(runs) == {"long": "running", "short": "running"}
    # What changes nothing is no commit.
    with runs.loop.membership.together():
        pass
    assert runs.folder.folder("commits").names() == before


def test_one_that_fails_as_it_answers_its_past_is_refused_alone(runs: Runs) -> None:
    told: list[BatchReport] = []
    runs.start(LONG, limits=Limits(result_rows=1))
    runs.loop._on_batch = told.append
    for time in (1, 7, 12):
        runs.offer(time)
    wide = asked("wide", ALL, (10, 10))
    with runs.loop.membership.together() as changes:
        runs.loop.membership.add(SHORT.logical())
        runs.loop.membership.add(wide.logical())
    assert list(changes.refused) == ["short"]
    assert "query short cannot be added: 2 result rows" in str(changes.refused["short"])
    assert states(runs) == {"long": "running", "wide": "running"}
    assert (runs.given("short"), runs.given("wide")) == ([], [10])
    told.clear()
    runs.offer(16)
    assert [sorted(report.results) for report in told] == [["wide"], ["long"]]


def test_a_query_that_comes_again_keeps_its_order(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    for leaves in (False, True, False):
        with runs.loop.membership.together():
            if leaves:
                runs.loop.membership.leave("short", None)
            else:
                runs.loop.membership.add(SHORT.logical())
    assert list(runs.pipeline.queries) == ["long", "short"]
    runs.offer(23)
    # No window comes twice.
    assert runs.given("short") == [5, 10, 15, 20]


def test_what_follows_is_done_once_the_commit_is_there(runs: Runs) -> None:
    runs.start(LONG)
    runs.offer(1, 12)
    commits: list[int] = []
    with runs.loop.membership.together() as changes:
        runs.loop.membership.add(SHORT.logical())
        changes.note("short", after=lambda: commits.append(runs.ledger.number))
        assert commits == []
    assert commits == [1]
