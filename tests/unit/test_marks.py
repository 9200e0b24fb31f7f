"""A checkpoint removes the folders that it made, and no others; no name leads out of a folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.errors import EngineError, InternalError
from weft.storage import LocalFolder
from weft.storage.folder import MARK, Mark, mark_of, put_mark

MINE = Mark(checkpoint="mine", stream="a/b\ud800")


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """Return a folder with one in it that nobody has marked."""
    found = LocalFolder(tmp_path / "deep" / "folder")
    found.folder("inner").folder("most").write("x", b"1")
    return found


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/b", "../inner", "inner/", "/etc", "a\0b", "\0"])
def test_a_name_leads_to_no_other_folder(folder: LocalFolder, name: str) -> None:
    calls: list[Callable[[str], object]] = [
        folder.folder, folder.has, folder.read, folder.delete, folder.sync,
        lambda name: folder.write(name, b"2"), lambda name: folder.write(name, b"2", replace=True),
        lambda name: folder.rename(name, "y"), lambda name: folder.rename("inner", name),
        lambda name: folder.delete_tree(name, made_by="mine"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(InternalError, match="is no name of a file in a folder"):
            call(name)
    assert (folder.names(), folder.folder("inner").folder("most").read("x")) == (["inner"], b"1")


def test_a_folder_is_no_file(folder: LocalFolder) -> None:
    with pytest.raises(OSError, match="inner"):
        folder.delete("inner")
    assert folder.folder("inner").folder("most").read("x") == b"1"


def test_a_mark_is_put_once(folder: LocalFolder) -> None:
    inner = folder.folder("inner")
    assert mark_of(inner) is None
    put_mark(inner, MINE)
    assert mark_of(inner) == MINE
    put_mark(inner, Mark(checkpoint="yours", stream="c"))
    assert mark_of(inner) == MINE
    put_mark(folder.folder("new"), MINE)
    assert (folder.names(), mark_of(folder.folder("new"))) == (["inner", "new"], MINE)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"", lambda data: data[:20], lambda data: data.replace(b"mine", b"nine"),
        lambda data: b"[]", lambda data: b"{}", lambda data: b"\xff" + data,
    ],
)  # fmt: skip
def test_a_damaged_mark_is_none_and_is_put_anew(
    folder: LocalFolder, damage: Callable[[bytes], bytes]
) -> None:
    inner = folder.folder("inner")
    put_mark(inner, MINE)
    inner.write(MARK, damage(inner.read(MARK)), replace=True)
    assert mark_of(inner) is None
    with pytest.raises(EngineError, match="inner is not removed"):
        folder.delete_tree("inner", made_by="mine")
    put_mark(inner, MINE)
    assert mark_of(inner) == MINE


def test_a_folder_without_a_mark_is_not_removed(folder: LocalFolder) -> None:
    with pytest.raises(EngineError) as caught:
        folder.delete_tree("inner", made_by="mine")
    assert str(caught.value) == (
        f"{folder.uri}/inner is not removed: checkpoint mine did not make it, for it has no mark _made.json; "
        "remove it yourself if nobody needs it"
    )
    assert folder.folder("inner").folder("most").names() == ["x"]


def test_a_folder_of_another_checkpoint_is_not_removed(folder: LocalFolder) -> None:
    put_mark(folder.folder("inner"), Mark(checkpoint="yours", stream="s"))
    with pytest.raises(
        EngineError, match=r"mine did not make it, for it was made by checkpoint yours; remove"
    ):
        folder.delete_tree("inner", made_by="mine")
    assert folder.folder("inner").folder("most").names() == ["x"]


@pytest.mark.parametrize("at", ["itself", "above"])
def test_a_folder_with_the_mark_is_removed(folder: LocalFolder, at: str) -> None:
    put_mark(folder.folder("inner") if at == "itself" else folder, MINE)
    folder.delete_tree("inner", made_by="mine")
    folder.delete_tree("inner", made_by="mine")
    assert "inner" not in folder.names()


def test_no_link_is_followed(folder: LocalFolder, tmp_path: Path) -> None:
    other = LocalFolder(tmp_path / "other")
    for one in (other, folder.folder("inner")):
        put_mark(one, MINE)
    (folder.path / "link").symlink_to(other.path)
    (folder.path / "inner" / "link").symlink_to(other.path)
    with pytest.raises(EngineError, match="link is not removed: it is a link"):
        folder.delete_tree("link", made_by="mine")
    folder.delete_tree("inner", made_by="mine")
    assert (folder.names(), other.names()) == (["link"], [MARK])
