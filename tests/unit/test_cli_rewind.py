"""`weft run --rewind`: what would go is shown, and nothing goes unless someone agrees."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from weft.cli.app import app
from weft.cli.rewinding import asking
from weft.durability.past import Rewind
from weft.errors import EngineError
from weft.sinks.fence import Surplus

REWINDS = [
    Rewind(
        stream="trades",
        sink="parquet",
        commit=34,
        surplus=(Surplus(query="by_symbol", rows=1_200, why="after commit 34"),),
    ),
    Rewind(stream="trades", sink="postgres", commit=-1, surplus=()),
]


@contextmanager
def hidden() -> Iterator[None]:
    yield


def shown(*, yes: bool) -> tuple[bool, str]:
    """Return whether sinks may be taken back, and what was shown."""
    said = StringIO()
    return asking(Console(file=said, width=120), yes=yes, hidden=hidden)(REWINDS), said.getvalue()


def test_what_would_go_is_shown_also_where_nobody_is_asked() -> None:
    agreed, said = shown(yes=True)
    assert agreed
    assert "stream trades: sink parquet goes back to commit 34 and loses 1,200 rows" in said
    assert "by_symbol" in said
    assert "sink postgres goes back to its beginning and loses 0 rows" in said


def test_without_a_terminal_nothing_goes_unless_it_was_agreed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO())
    with pytest.raises(EngineError, match="nothing was changed, for nobody is there to approve it"):
        shown(yes=False)


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_is_asked(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda text, err: answer)
    assert shown(yes=False)[0] is answer


def test_a_rewind_needs_a_checkpoint(tmp_path: Path) -> None:
    workload = tmp_path / "workload.sql"
    workload.write_text("")
    result = CliRunner().invoke(app, ["run", str(workload), "--rewind"])
    assert result.exit_code == 2
    assert "sinks are taken back to a checkpoint" in " ".join(result.output.split())
