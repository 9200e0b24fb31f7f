"""Several sections in one file, each with its checksum, so that all of them appear by one rename.

magic | section … section | directory (JSON) | length and checksum of the directory | magic
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
    entries, offset = [], len(_MAGIC)
    for name, data in sections.items():
        entries.append({"name": name, "offset": offset, "length": len(data), "crc32": crc32(data)})
        offset += len(data)
    directory = json.dumps(entries).encode()
    footer = _FOOTER.pack(len(directory), crc32(directory))
    return b"".join((_MAGIC, *sections.values(), directory, footer, _MAGIC))


def unpack(data: bytes, *, name: str) -> dict[str, memoryview]:
    """Return a file's sections; raise DamagedFile, with the file's name, if any byte has changed."""
    whole, tail = memoryview(data), len(_MAGIC) + _FOOTER.size
    if len(data) < len(_MAGIC) + tail or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        raise DamagedFile(f"{name} is cut off or not a file of Weft's: {len(data):,} bytes")
    length, checksum = _FOOTER.unpack_from(data, len(data) - tail)
    begin = len(data) - tail - length
    if begin < len(_MAGIC) or crc32(whole[begin : begin + length]) != checksum:
        raise DamagedFile(f"{name} is damaged: its list of contents is not as it was written")
    sections, end = {}, len(_MAGIC)
    for entry in json.loads(bytes(whole[begin : begin + length])):
        section = whole[entry["offset"] : entry["offset"] + entry["length"]]
        if len(section) != entry["length"] or crc32(section) != entry["crc32"]:
            raise DamagedFile(f'{name} is damaged: section "{entry["name"]}" is not as it was written')
        sections[entry["name"]], end = section, entry["offset"] + entry["length"]
    if end != begin:
        raise DamagedFile(
            f"{name} is damaged: it is {abs(begin - end):,} bytes longer or shorter than it was"
        )
    return sections
