"""File names of names: no two alike, none special, of any name there is, and the same for ever."""

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.odd_names import NASTY, odd_names

from weft.sinks.postgres_tables import identifier
from weft.storage.names import LONGEST_FILE_NAME, file_name

RESERVED = frozenset({"id", "lock.json", "requests"})
NAMES = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=300),
    st.text("./%-_~aA2EF\0 ", max_size=12),
    st.sampled_from(NASTY),
)
"""Also halves of surrogate pairs."""
GOLDEN = {
    "": "%-",
    "trades": "trades",
    "By-symbol_2.x": "By-symbol_2.x",
    "0": "0",
    "a.": "a.",
    "a..b": "a..b",
    ".": "%2E",
    "..": "%2E.",
    ".hidden": "%2Ehidden",
    "_x": "%5Fx",
    "-rf": "%2Drf",
    "a/b": "a%2Fb",
    "../..": "%2E.%2F..",
    "by symbol": "by%20symbol",
    "~": "%7E",
    "50%": "50%25",
    "%2E.": "%252E.",
    "a\0b\n": "a%00b%0A",
    "é": "%C3%A9",
    "e\u0301": "e%CC%81",
    "日本": "%E6%97%A5%E6%9C%AC",
    "💧": "%F0%9F%92%A7",
    "\ud83d\udca7": "%ED%A0%BD%ED%B2%A7",
    "\ud800": "%ED%A0%80",
    "x" * 160: "x" * 160,
    "x" * 161: "x" * 126 + "%-9248d4045b25894727af7255a63652f6",
    "é" * 100: "%C3%A9" * 21 + "%-5b20a70bb2d835155e3e5e0006ffc1bd",
}
"""Files of these names are in checkpoints and among results: they must never change."""


def test_a_name_has_the_same_file_in_every_version() -> None:
    assert {name: file_name(name) for name in GOLDEN} == GOLDEN


def test_reserved_names_are_told_apart() -> None:
    names = ("id", "ID", "id ", "id%20", "%69d", "lock.json", "requests", "%72equests")
    found = {name: file_name(name, reserved=RESERVED) for name in names}
    assert found == {
        "id": "%69d", "ID": "ID", "id ": "id%20", "id%20": "id%2520", "%69d": "%2569d",
        "lock.json": "%6Cock.json", "requests": "%72equests", "%72equests": "%2572equests",
    }  # fmt: skip


def check(name: str, file: str) -> None:
    """See that a file name is nothing special."""
    assert re.fullmatch(r"[A-Za-z0-9%][A-Za-z0-9%_.-]*", file), name
    assert len(file) <= LONGEST_FILE_NAME
    assert file not in RESERVED


@given(NAMES)
def test_a_file_name_is_nothing_special(name: str) -> None:
    check(name, file_name(name, reserved=RESERVED))


@given(st.sets(NAMES, min_size=2))
def test_different_names_have_different_files(names: set[str]) -> None:
    assert len({file_name(name, reserved=RESERVED) for name in names}) == len(names)


@given(NAMES)
def test_a_file_name_is_a_name_like_any_other(name: str) -> None:
    """What is written with it is not taken for the name's own."""
    file = file_name(name)
    if file != name:
        assert file_name(file) != file


@given(st.lists(NAMES, max_size=20, unique=True))
def test_file_names_survive_a_file_system(names: list[str]) -> None:
    with TemporaryDirectory() as folder:
        for name in names:
            # An unfinished file has more around its name.
            Path(folder, f"stream={file_name(name)}").mkdir()
            Path(folder, f"stream={file_name(name)}", f".{file_name(name)}.{'0' * 40}.tmp").write_text("x")
        assert sorted(os.listdir(folder)) == sorted(f"stream={file_name(name)}" for name in names)


def test_ten_thousand_names_have_as_many_files() -> None:
    names = odd_names(10_000)
    files = [file_name(name, reserved=RESERVED) for name in names]
    assert len(set(files)) == len(names)
    for name, file in zip(names, files, strict=True):
        check(name, file)


def test_a_table_of_a_short_name_is_not_that_of_a_long_one() -> None:
    for letter in ("x", "é", "日", "💧"):
        long = letter * 100
        assert len({identifier(long), identifier(identifier(long)), identifier(long + letter)}) == 3
        assert len(identifier(identifier(long)).encode()) <= 63
    assert identifier("x" * 63) == "x" * 63
    assert identifier("a_0123456789") == "a_0123456789"
