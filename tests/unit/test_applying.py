"""`weft apply`: what would change is shown, and then asked for by one request."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.test_cli_control import BIG, SELECT, FakeEngine, answer, checkpoint, running, waiting, weft

from weft.cli import applying
from weft.storage.mailbox import Reply, Request

__all__ = ["checkpoint"]
STREAM = "CREATE STREAM trades USING parquet OPTIONS (path 'in/') EVENT TIME time;\n"


def reply(request: Request) -> Reply:
    """Answer as an engine that does all that is asked."""
    if request.do == "list":
        return answer(request)
    done = {"drop": "dropped", "add": "added"}[request.do]
    return Reply(ok=True, said=f"query {request.query} {done}", found={"name": request.query})


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Return a workload that keeps `big`, has none of `bad`, and brings `gone` back."""
    path = tmp_path / "workload.sql"
    spaced = BIG["text"].replace(" FROM", "\n  FROM")
    path.write_text(
        f"{STREAM}CREATE QUERY big AS {spaced}; -- as before\nCREATE QUERY gone AS {SELECT};"
        f"CREATE QUERY new AS {SELECT}; CREATE QUERY away AS {SELECT}; DROP QUERY away"
    )
    return path


def changes(engine: FakeEngine) -> list[tuple[str, dict[str, Any]]]:
    return [(one.do, dict(one.given)) for one in engine.asked if one.do != "list"]


def test_a_workload_is_applied_by_one_request(checkpoint: Path, workload: Path) -> None:
    with running(checkpoint, reply) as engine:
        done = weft("apply", checkpoint, workload, "--yes")
    assert (done.exit_code, done.stdout.splitlines()) == (0, [
        "- bad", "+ gone", "+ new", "1 dropped, 0 replaced, 2 added, 1 unchanged",
        "query bad dropped", "query gone added", "query new added",
    ])  # fmt: skip
    assert changes(engine) == [
        ("drop", {"name": "bad"}),
        ("add", {"name": "gone", "text": SELECT, "replace": True}),
        ("add", {"name": "new", "text": SELECT, "replace": True}),
    ]
    assert len({one.id for one in engine.asked if one.do != "list"}) == 1


def test_a_query_with_another_text_is_replaced(checkpoint: Path, workload: Path) -> None:
    workload.write_text(f"CREATE QUERY big AS {SELECT}; CREATE QUERY bad AS {BIG['text']}")
    with running(checkpoint, reply) as engine:
        done = weft("apply", checkpoint, workload, "--yes")
    assert done.stdout.splitlines()[:2] == ["~ big", "0 dropped, 1 replaced, 0 added, 1 unchanged"]
    assert changes(engine) == [("add", {"name": "big", "text": SELECT, "replace": True})]


def test_nothing_is_done_that_was_not_approved(checkpoint: Path, workload: Path) -> None:
    with running(checkpoint, reply) as engine:
        shown = weft("apply", checkpoint, workload, "--dry-run")
        assert (shown.exit_code, shown.stdout.splitlines()[0]) == (0, "- bad")
        found = weft("apply", checkpoint, workload, "--dry-run", "--json")
        assert json.loads(found.stdout) == {
            "dropped": ["bad"], "replaced": [], "added": ["gone", "new"], "unchanged": ["big"],
        }  # fmt: skip
        alone = weft("apply", checkpoint, workload)
        assert alone.exit_code == 1
        assert "nobody is there to approve it" in str(alone.exception) + alone.output
        assert changes(engine) == []


@pytest.mark.parametrize("approved", [False, True])
def test_a_person_is_asked(
    checkpoint: Path, workload: Path, monkeypatch: pytest.MonkeyPatch, approved: bool
) -> None:
    asked: list[str] = []

    def confirm(text: str, *, err: bool) -> bool:
        asked.append(text)
        return approved

    monkeypatch.setattr(applying.typer, "confirm", confirm)
    monkeypatch.setattr(applying, "_has_person", lambda: True)
    with running(checkpoint, reply) as engine:
        done = weft("apply", checkpoint, workload)
    assert asked == ["make these 3 changes?"]
    assert (done.exit_code, len(changes(engine))) == ((0, 3) if approved else (1, 0))


def test_what_is_so_already_is_not_asked_for(checkpoint: Path, workload: Path) -> None:
    workload.write_text(f"CREATE QUERY big AS {BIG['text']}; CREATE QUERY bad AS {BIG['text']}")
    with running(checkpoint, reply) as engine:
        done = weft("apply", checkpoint, workload)
    assert (done.exit_code, done.stdout) == (0, "0 dropped, 0 replaced, 0 added, 2 unchanged\n")
    assert changes(engine) == []


def test_without_an_engine_the_next_one_does_it(checkpoint: Path, workload: Path) -> None:
    done = weft("apply", checkpoint, workload, "--yes")
    assert done.exit_code == 0
    assert f"no engine runs on {checkpoint}" in done.stdout.replace("file://", "")
    assert "3 queries will be added when one starts" in done.stdout
    assert [do for do, _ in waiting(checkpoint)] == ["add", "add", "add"]


def test_a_mistake_in_a_workload_is_found_before_anything_is_asked(checkpoint: Path, workload: Path) -> None:
    workload.write_text("CREATE QUERY big AS SELECT count(* FROM trades")
    done = weft("apply", checkpoint, workload, "--yes")
    assert done.exit_code != 0
    assert waiting(checkpoint) == []
