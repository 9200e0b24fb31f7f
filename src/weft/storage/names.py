"""File names for the names that people give: a name is never a path.

Streams, queries and sinks may be called anything, and each has files of its own. Whatever the name, its file
is one component of a path, inside the folder that it is looked for in, and no other name has the same.

    trades      trades              letters, digits, "_", "-" and "." stay as they are
    a/b é       a%2Fb%20%C3%A9      other bytes of UTF-8 are written as two hexadecimal digits
    ..          %2E.                so is a first byte that would hide the file, or be an option of a command
    xxx…        xxx…%-3fa9…         a long name is cut, and ends in a digest of the whole
                %-                  the empty name

Encoding never writes "%-", and never a letter or digit as "%XX", so no two of these rules meet. A file system
must tell upper case from lower.
"""

from collections.abc import Container
from hashlib import blake2b

LONGEST_FILE_NAME = 160
"""In bytes: file systems allow 255, and names of unfinished files have more around it."""
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_NOT_FIRST = frozenset(b"_.-")
_CUT = "%-"
"""Stands before the digest of a name that was cut; encoding cannot give it."""
_DIGEST_BYTES = 16


def file_name(name: str, *, reserved: Container[str] = ()) -> str:
    """Return the file name of any name: of different names, different ones, in every version the same.

    A name whose file name would be a reserved one has its first byte written as digits.

    >>> file_name("trades"), file_name("a/b"), file_name(".."), file_name("id", reserved={"id"})
    ('trades', 'a%2Fb', '%2E.', '%69d')
    """
    # A lone half of a surrogate pair has no UTF-8, yet it has bytes of its own.
    data = name.encode(errors="surrogatepass")
    pieces = [chr(byte) if byte in _PLAIN else _escaped(byte) for byte in data]
    if data and (data[0] in _NOT_FIRST or "".join(pieces) in reserved):
        pieces[0] = _escaped(data[0])
    encoded = "".join(pieces)
    if len(encoded) > LONGEST_FILE_NAME:
        return _cut(pieces, blake2b(data, digest_size=_DIGEST_BYTES).hexdigest())
    return encoded or _CUT


def _escaped(byte: int) -> str:
    return f"%{byte:02X}"


def _cut(pieces: list[str], digest: str) -> str:
    """Return as many whole pieces as there is room for, and the digest."""
    room = LONGEST_FILE_NAME - len(_CUT) - len(digest)
    kept = ""
    for piece in pieces:
        if len(kept) + len(piece) > room:
            break
        kept += piece
    return f"{kept}{_CUT}{digest}"
