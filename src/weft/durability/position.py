"""What Spark's batches are made of, by Spark's own notes.

Spark gives a batch that it does again the number that it had, and Weft does not aggregate it twice. Yet notes
can be lost: with the machine's power, for Spark does not wait until they are on the disk, or with a copy that
left them out. Then Spark makes up another batch of that number, whose rows would never be aggregated. So a
commit waits for the notes of its batch, and remembers what the batch was made of.

    spark/
      metadata     a name, which nothing depends on
      offsets/7    how far batch 7 reads: before it is given to Weft
      sources/0/7  the files that it reads, each with its time: before that
      commits/7    that Spark is done with it: after Weft has committed it
"""

import json
import logging
import re
from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import unquote
from uuid import uuid4

from weft.errors import DamagedFile
from weft.storage import Folder

_HEADER = 2
"""The first lines of a note: its version, and when and with which settings the batch was planned."""
_VERSION = re.compile(rb"v\d+")
_NONE = b"-"
"""What stands for a source that has not been read."""
_log = logging.getLogger("weft.durability")


def mend(spark: Folder, committed: int) -> int:
    """Remove notes that a crash has cut off, where Spark makes them anew; return the last batch planned.

    That is −1 if there is none. Raise DamagedFile if notes of a batch that is committed cannot be read.
    """
    offsets, commits = spark.folder("offsets"), spark.folder("commits")
    planned, done = _newest(offsets), _newest(commits)
    lacks_files = _mend_lists(spark, committed)
    if planned > committed and (lacks_files or not _is_whole(offsets, str(planned))):
        _remove(offsets, str(planned))
        planned = _newest(offsets)
    if planned >= 0 and not _is_whole(offsets, str(planned)):
        raise DamagedFile(
            f"{offsets.uri}/{planned} is damaged: it is not as Spark writes it; restore {spark.uri} as it "
            "was, or start a new checkpoint"
        )
    if done >= 0 and not _is_whole(commits, str(done)):
        _remove(commits, str(done))
    if planned >= 0 and not _has_name(spark):
        spark.write("metadata", json.dumps({"id": str(uuid4())}).encode(), replace=True)
        spark.delete(".metadata.crc")
        _log.warning("Spark's note metadata was damaged, and is written anew", extra={"folder": spark.uri})
    for folder in (offsets, commits):
        # The checksum of a note that is gone would have the next of its number be refused.
        folder.delete(f".{_newest(folder) + 1}.crc")
    return planned


def _newest(folder: Folder) -> int:
    return max((int(name) for name in folder.names() if name.isdecimal()), default=-1)


def _mend_lists(spark: Folder, committed: int) -> bool:
    """Remove lists of files that a crash has cut off, but for those that are committed; say if any were."""
    done, cut_off = _sources(spark, committed), False
    for source in spark.folder("sources").names():
        listed = spark.folder("sources").folder(source)
        last = _place(done[int(source)]) if source.isdecimal() and int(source) < len(done) else None
        for name in listed.names():
            number = name.partition(".")[0]
            new = number.isdecimal() and int(number) > (-1 if last is None else last)
            if new and not _is_whole(listed, name):
                _remove(listed, name)
                cut_off = True
    return cut_off


def _is_whole(folder: Folder, name: str) -> bool:
    """Say whether a note is a version and lines of JSON."""
    try:
        version, *lines = folder.read(name).splitlines()
        for line in lines:
            if line != _NONE:
                json.loads(line)
    except (ValueError, DamagedFile):
        return False
    return bool(lines) and _VERSION.fullmatch(version) is not None


def _remove(folder: Folder, name: str) -> None:
    folder.delete(name)
    folder.delete(f".{name}.crc")
    fields = {"folder": folder.uri, "note": name}
    _log.warning("one of Spark's notes was cut off, and is removed for Spark to write it again", extra=fields)


def _has_name(spark: Folder) -> bool:
    try:
        return "id" in json.loads(spark.read("metadata"))
    except (FileNotFoundError, ValueError, TypeError, DamagedFile):
        return False


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


def listed_files(spark: Folder, batch: int) -> dict[str, int]:
    """Return the files that Spark listed for a batch, each with its modification time in milliseconds.

    Sources that are not files have none.
    """
    files: dict[str, int] = {}
    for source, (begin, end) in enumerate(_ends(spark, batch)):
        for folder, name in _lists(spark, source, begin, end):
            number = name.partition(".")[0]
            mark = f'"batchId":{number}}}'.encode()
            for line in folder.read(name).splitlines()[1:]:
                # Only a list that has earlier files, too, needs a look at each entry's own number.
                if name == number or line.rstrip().endswith(mark):
                    entry = json.loads(line)
                    files[unquote(entry["path"])] = int(entry["timestamp"])
    return files


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
