"""File names for the names that people give: a name is never a path.

Streams, queries and sinks may have any name, and each has files of its own. The file name is always one
component of a path, and no two names have the same one.

    trades      trades              letters, digits, "_", "-" and "." stay as they are
    a/b é       a%2Fb%20%C3%A9      other bytes of UTF-8 are written as two hexadecimal digits
    ..          %2E.                so is a first byte that would hide the file, or be an option of a command
    xxx…        xxx…%-3fa9…         a long name is cut, and ends in a digest of the whole
                %-                  the empty name

Encoding never writes "%-", and never a letter or digit as "%XX", so no two of these rules collide. The file
system must be case-sensitive.
"""

from bisect import bisect_right
from collections.abc import Container
from hashlib import blake2b
from itertools import accumulate

LONGEST_FILE_NAME = 160
"""In bytes: file systems allow 255, and names of unfinished files have a prefix and a suffix."""
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_NOT_FIRST = frozenset(b"_.-")
_CUT = "%-"
"""Precedes the digest of a name that was cut; encoding cannot produce it."""
_DIGEST_BYTES = 16


def file_name(name: str, *, reserved: Container[str] = ()) -> str:
    """Return the file name of any name: distinct names have distinct ones, in every version the same.

    A name whose file name would be a reserved one has its first byte written as digits.

    >>> file_name("trades"), file_name("a/b"), file_name(".."), file_name("id", reserved={"id"})
    ('trades', 'a%2Fb', '%2E.', '%69d')
    """
    # An unpaired surrogate has no UTF-8, but this encodes it to bytes of its own.
    data = name.encode(errors="surrogatepass")
    pieces = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data]
    if data and (data[0] in _NOT_FIRST or "".join(pieces) in reserved):
        pieces[0] = f"%{data[0]:02X}"
    encoded = "".join(pieces)
    if len(encoded) <= LONGEST_FILE_NAME:
        return encoded or _CUT
    digest = blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
    # Whole pieces: no escape is cut in two.
    room = LONGEST_FILE_NAME - len(_CUT) - len(digest)
    kept = bisect_right(list(accumulate(map(len, pieces))), room)
    return "".join(pieces[:kept]) + _CUT + digest
