"""Points of the protocol at which tests have the engine die."""

import errno
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft import faultpoints
from weft.errors import EngineError

SOURCES = Path(weft.__file__).parent


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    faultpoints.arm(None)


def test_nothing_happens_unless_asked_for() -> None:
    for point in faultpoints.POINTS:
        faultpoints.reach(point)


def test_an_error_comes_the_nth_time_and_only_then() -> None:
    faultpoints.arm("commit.before:2:error")
    faultpoints.reach("commit.before")
    faultpoints.reach("commit.visible")
    with pytest.raises(OSError, match="No space left on device") as caught:
        faultpoints.reach("commit.before")
    assert caught.value.errno == errno.ENOSPC
    faultpoints.reach("commit.before")


def test_a_process_dies_at_the_point() -> None:
    script = "from weft.faultpoints import reach; reach('batch.begin'); reach('batch.begin'); print('alive')"
    died = subprocess.run(
        [sys.executable, "-c", script],
        env={"WEFT_FAULT": "batch.begin:2:kill"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert died.returncode == -signal.SIGKILL
    assert died.stderr == "fault batch.begin:2:kill\n"
    assert died.stdout == ""


def test_java_below_a_process_is_found() -> None:
    assert faultpoints.java_below(1 << 30) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("commit.befor:1:kill", 'unknown point "commit.befor"; did you mean "commit.before"'),
        ("commit.before:0:kill", "is not point:nth:what, such as commit.before:1:kill"),
        ("commit.before:1:maim", "is not point:nth:what"),
        ("commit.before", "is not point:nth:what"),
    ],
)
def test_a_mistyped_fault_is_told(text: str, problem: str) -> None:
    with pytest.raises(EngineError, match=re.escape(problem)):
        faultpoints.arm(text)


def test_every_point_lies_on_a_path_and_every_path_names_a_known_point() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if path.name != "faultpoints.py")
    assert set(re.findall(r'reach\("([^"]+)"\)', text)) == set(faultpoints.POINTS)
