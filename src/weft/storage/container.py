"""Several sections in one file, each with its checksum, so that all of them appear by one rename.

magic | section … section | contents (JSON) | length and checksum of the contents | magic
"""

import json
import struct
from collections.abc import Mapping
from zlib import crc32

from weft.errors import DamagedFile

_MAGIC = b"WEFT\x00\x03\r\n"
_FOOTER = struct.Struct(">QI")


def pack(sections: Mapping[str, bytes]) -> bytes:
    """Return sections as one file."""
    contents, parts, offset = [], [_MAGIC], len(_MAGIC)
    for name, data in sections.items():
        contents.append({"name": name, "offset": offset, "length": len(data), "crc32": crc32(data)})
        parts.append(data)
        offset += len(data)
    written = json.dumps(contents).encode()
    return b"".join((*parts, written, _FOOTER.pack(len(written), crc32(written)), _MAGIC))


def unpack(data: bytes, *, name: str) -> dict[str, memoryview]:
    """Return a file's sections; raise DamagedFile, with the file's name, if a byte is not as it was."""
    whole, tail = memoryview(data), len(_MAGIC) + _FOOTER.size
    if len(data) < len(_MAGIC) + tail or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        raise DamagedFile(f"{name} is cut off or not a file of Weft's: {len(data):,} bytes")
    length, checksum = _FOOTER.unpack_from(data, len(data) - tail)
    begin = len(data) - tail - length
    if begin < len(_MAGIC) or crc32(whole[begin : begin + length]) != checksum:
        raise DamagedFile(f"{name} is damaged: its list of contents is not as it was written")
    sections, end = {}, len(_MAGIC)
    for one in json.loads(bytes(whole[begin : begin + length])):
        section = whole[one["offset"] : one["offset"] + one["length"]]
        if len(section) != one["length"] or crc32(section) != one["crc32"]:
            raise DamagedFile(f'{name} is damaged: section "{one["name"]}" is not as it was written')
        sections[one["name"]], end = section, one["offset"] + one["length"]
    if end != begin:
        raise DamagedFile(
            f"{name} is damaged: it is {abs(begin - end):,} bytes longer or shorter than it was"
        )
    return sections
