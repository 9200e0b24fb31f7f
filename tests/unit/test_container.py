"""Several sections in one file: all come back, or the file is said to be damaged."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.errors import DamagedFile
from weft.storage.container import pack, unpack

several = st.dictionaries(st.text(max_size=8), st.binary(max_size=40), max_size=4)
SAMPLE = {"commit": b'{"number": 12}', "block/1/0": b"\x00" * 30, "": b"", "results/ü": b"[[["}


def read(data: bytes) -> dict[str, bytes]:
    """Return a file's sections as bytes."""
    return {name: bytes(section) for name, section in unpack(data, name="commits/000000012").items()}


@given(several)
def test_sections_come_back_in_order(sections: dict[str, bytes]) -> None:
    found = read(pack(sections))
    assert found == sections
    assert list(found) == list(sections)


def test_sections_are_not_copied() -> None:
    data = pack(SAMPLE)
    assert all(section.obj is data for section in unpack(data, name="commit").values())


def test_every_flipped_bit_is_told() -> None:
    data = pack(SAMPLE)
    for place in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[place] ^= 1 << bit
            with pytest.raises(DamagedFile, match="commits/000000012 is "):
                read(bytes(damaged))


@given(several, st.data())
def test_other_bytes_are_told(sections: dict[str, bytes], data: st.DataObject) -> None:
    packed = pack(sections)
    begin = data.draw(st.integers(0, len(packed) - 1))
    other = data.draw(st.binary(min_size=1, max_size=12))
    changed = packed[:begin] + other + packed[begin + len(other) :]
    if changed != packed:
        with pytest.raises(DamagedFile):
            read(changed)


@given(several, st.data())
@example(SAMPLE, None)
# What follows the section that lost a byte begins as the section ends.
@example({"a": b"[[["}, None)
def test_every_missing_or_added_byte_is_told(sections: dict[str, bytes], data: st.DataObject | None) -> None:
    packed = pack(sections)
    places = range(len(packed)) if data is None else [data.draw(st.integers(0, len(packed) - 1))]
    for place in places:
        with pytest.raises(DamagedFile):
            read(packed[:place] + packed[place + 1 :])
        with pytest.raises(DamagedFile):
            read(packed[:place] + packed[place : place + 1] + packed[place:])


@given(several, st.data())
def test_a_file_that_is_cut_off_is_told(sections: dict[str, bytes], data: st.DataObject) -> None:
    packed = pack(sections)
    for length in {0, 1, 8, data.draw(st.integers(0, len(packed) - 1))}:
        with pytest.raises(DamagedFile, match=f"is cut off or not a file of Weft's: {length} bytes"):
            read(packed[:length])


def test_the_section_that_is_damaged_is_named() -> None:
    data = pack(SAMPLE)
    with pytest.raises(DamagedFile, match='section "block/1/0" is not as it was written'):
        read(data.replace(b"\x00" * 30, b"\x00" * 29 + b"x"))


def test_a_file_of_another_kind_is_told() -> None:
    for other in (b"", b"{}", b"PAR1" * 100, bytes(1000)):
        with pytest.raises(DamagedFile, match="not a file of Weft's"):
            read(other)
