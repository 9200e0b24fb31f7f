"""What Spark's batches are made of, by Spark's own notes.

Spark gives a batch that it does again the number that it had, and Weft does not aggregate it twice. Yet notes
can be lost: with the machine's power, for Spark does not wait until they are on the disk, or with a copy that
left them out. Then Spark makes up another batch of that number, whose rows would never be aggregated. So a
commit waits for the notes of its batch, and remembers what the batch was made of.
"""

import json
from collections.abc import Iterator
from hashlib import sha256

from weft.storage import Folder

_HEADER = 2
"""The first lines of a note: its version, and when and with which settings the batch was planned."""


def position(spark: Folder, batch: int, *, settled: bool = False) -> str:
    """Return a digest of what a batch reads; empty if Spark has no notes of it.

    `settled` waits until those are on the disk; on a URI, they are as safe as that makes them.
    """
    ends = _ends(spark, batch)
    notes = [(spark.folder("offsets"), str(batch))] if ends else []
    digest = sha256()
    for number, (begin, end) in enumerate(ends):
        digest.update(begin + b"\n" + end + b"\n")
        for listed, name in _lists(spark, number, begin, end):
            digest.update(listed.read(name))
            notes.append((listed, name))
    if settled:
        for folder, name in notes:
            folder.sync(name)
    return digest.hexdigest()[:32] if ends else ""


def _ends(spark: Folder, batch: int) -> list[tuple[bytes, bytes]]:
    """Return how far each source was read when a batch began, and when it ended."""
    before, after = _sources(spark, batch - 1), _sources(spark, batch)
    return [(before[place] if place < len(before) else b"", end) for place, end in enumerate(after)]


def _sources(spark: Folder, batch: int) -> list[bytes]:
    try:
        return spark.folder("offsets").read(str(batch)).splitlines()[_HEADER:]
    except FileNotFoundError:
        return []


def _lists(spark: Folder, source: int, begin: bytes, end: bytes) -> Iterator[tuple[Folder, str]]:
    """Yield the lists of files that a source of files was read from; other sources have none."""
    first, last = _place(begin), _place(end)
    listed = spark.folder("sources").folder(str(source))
    there = set() if last is None else set(listed.names())
    for place in range(0 if first is None else first + 1, 0 if last is None else last + 1):
        # Every tenth list has all files before it, too, and says so in its name.
        yield from ((listed, name) for name in (str(place), f"{place}.compact") if name in there)


def _place(end: bytes) -> int | None:
    """Return how far a source of files was read, in lists."""
    try:
        found = json.loads(end)
    except ValueError:
        return None
    place = found.get("logOffset") if isinstance(found, dict) else None
    return place if isinstance(place, int) else None
