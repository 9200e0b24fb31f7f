"""A checkpoint has one name for ever, by which sinks know its results, and each stream its own folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.checkpoint_samples import commit

from weft.durability.checkpoint import Checkpoint
from weft.durability.places import claim_folder, find_folder, folder_of, has_folder, identity, stream_of
from weft.durability.registry import Registry
from weft.errors import DamagedFile
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


# Folders of streams.


@pytest.mark.parametrize(
    ("stream", "older"),
    [
        ("requests", "requests%20"), ("id", "id%20"), ("lock.json", "lock.json%20"), ("_x", "_x"),
        ("a~b", "a~b"), (".x", ".x"), ("-", "-"), ("é" * 30, "%C3%A9" * 30),
    ],
)  # fmt: skip
def test_a_folder_that_an_older_version_named_is_found(root: LocalFolder, stream: str, older: str) -> None:
    wrote = Checkpoint(root.folder(older))
    wrote.write(commit(0), (), {}, {})
    assert stream_of(wrote.folder, older) == stream
    assert has_folder(root, stream)
    folder = find_folder(root, stream)
    assert (folder.path.name, not root.has(older)) == (folder_of(stream), True)
    assert Checkpoint(folder).recover() is not None
    claim_folder(folder, stream, checkpoint=NAME)
    assert stream_of(folder, folder.path.name) == stream
    assert find_folder(root, stream).path == folder.path


def test_a_folder_of_another_stream_is_left_alone(root: LocalFolder) -> None:
    # What is the older name of one is today's of another.
    other = find_folder(root, "requests ")
    claim_folder(other, "requests ", checkpoint=NAME)
    Checkpoint(other).write(commit(0), (), {}, {})
    assert not has_folder(root, "requests")
    assert stream_of(other, other.path.name) == "requests "
    assert find_folder(root, "requests").path != other.path


def test_what_is_no_history_gets_no_other_name(root: LocalFolder) -> None:
    root.folder("_x").write("notes.txt", b"1")
    assert not has_folder(root, "_x")
    assert root.names() == ["_x"]


@pytest.mark.parametrize("stream", ["", ".", ".."])
def test_a_stream_is_in_the_checkpoint(root: LocalFolder, stream: str) -> None:
    for above in (root, LocalFolder(root.path.parent)):
        above.folder("commits").write("000000000", b"another's")
    assert not has_folder(root, stream)
    assert find_folder(root, stream).path.parent == root.path
    assert find_folder(root, stream).path.name == folder_of(stream)
