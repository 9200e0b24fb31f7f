"""A checkpoint has one name for ever: sinks know by it which results are its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.checkpoint_samples import commit

from weft.errors import DamagedFile
from weft.runtime.checkpoint import Checkpoint
from weft.runtime.places import folder_of, identity
from weft.runtime.registry import Registry
from weft.storage import LocalFolder

NAME = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def root(tmp_path: Path) -> LocalFolder:
    """Return where a checkpoint is to be."""
    return LocalFolder(tmp_path / "state")


def flipped(at: int) -> Callable[[bytes], bytes]:
    """Return a damage: one bit of one byte."""
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_name_is_given_once(root: LocalFolder) -> None:
    name = identity(root)
    assert len(name) == 32
    assert identity(root) == name == identity(LocalFolder(root.path))
    assert identity(root.folder("another")) != name


def test_a_name_without_a_checksum_is_one(root: LocalFolder) -> None:
    root.write("id", NAME.encode())
    assert identity(root) == NAME
    # So may be what was written by hand, from a copy.
    root.write("id", f"{NAME}\n".encode(), replace=True)
    assert identity(root) == NAME


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        flipped(0), flipped(31), flipped(32), flipped(33), flipped(40), lambda data: data[:31],
        lambda data: data[:36], lambda data: data[:21], lambda data: b"", lambda data: b"\xff" + data[1:],
        lambda data: data + b"x", lambda data: data.upper(), lambda data: bytes(len(data)),
    ],
)  # fmt: skip
def test_a_damaged_name_is_refused(root: LocalFolder, damage: Callable[[bytes], bytes], begun: bool) -> None:
    identity(root)
    if begun:
        Checkpoint(root.folder("trades")).write(commit(0), (), {}, {})
    damaged = damage(root.read("id"))
    root.write("id", damaged, replace=True)
    with pytest.raises(DamagedFile) as caught:
        identity(root)
    assert str(caught.value).startswith(f"{root.uri}/id is damaged")
    assert "restore it from a copy" in str(caught.value)
    assert root.read("id") == damaged


def test_a_name_that_the_place_knows_to_be_damaged_is_refused(
    root: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity(root)

    def damaged(name: str) -> bytes:
        raise DamagedFile(f"{name} is not as it was written")

    monkeypatch.setattr(root, "read", damaged)
    with pytest.raises(DamagedFile, match="restore it from a copy"):
        identity(root)


@pytest.mark.parametrize("kind", ["commits", "snapshots"])
@pytest.mark.parametrize("stream", ["trades", "tr/ades", "requests", "id"])
def test_a_name_that_is_gone_is_not_made_up_for_a_history(root: LocalFolder, kind: str, stream: str) -> None:
    name = identity(root)
    checkpoint = Checkpoint(root.folder(folder_of(stream)))
    if kind == "commits":
        checkpoint.write(commit(0), (), {}, {})
    else:
        checkpoint.snapshot(commit(7), Registry(), {})
    root.delete("id")
    with pytest.raises(DamagedFile) as caught:
        identity(root)
    assert str(caught.value).startswith(f"{root.uri}/id is missing")
    assert "restore it from a copy" in str(caught.value)
    assert "id" not in root.names()
    root.write("id", name.encode())
    assert identity(root) == name


def test_a_name_is_made_where_nothing_was_committed(root: LocalFolder) -> None:
    # A start that was cut off before it had one, or before its first commit.
    root.write("lock.json", b"{}")
    root.folder("requests").folder("commits").write("x", b"another's")
    root.folder("trades").folder("commits").make()
    root.folder("trades").folder("spark").write("metadata", b"{}")
    assert len(identity(root)) == 32
