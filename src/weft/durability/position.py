"""What Spark's batches consist of, by Spark's own notes.

Spark repeats a batch under the same number, and Weft does not aggregate it twice. But notes can be lost: in a
power failure, as Spark does not wait until they are on the disk, or in a copy without them. Spark then forms
another batch of that number, whose rows would never be aggregated. A commit therefore waits for the notes of
its batch, and stores what the batch consisted of.

    spark/
      metadata     an arbitrary name
      offsets/7    up to where batch 7 reads; written before Weft gets it
      sources/0/7  the files that it reads, each with its time; written before that
      commits/7    batch 7 is complete; written after Weft has committed it
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
"""Number of lines before the sources: the version, and the time and settings of planning."""
_VERSION = re.compile(rb"v\d+")
_NONE = b"-"
"""Stands for a source that has not been read."""
_log = logging.getLogger("weft.durability")


def mend(spark: Folder, committed: int) -> int:
    """Remove notes truncated by a crash, if Spark writes them again; return the last batch planned, or −1.

    Raise DamagedFile if notes of a committed batch cannot be read.
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
        # Spark would refuse the next note of that number by the checksum of a removed one.
        folder.delete(f".{_newest(folder) + 1}.crc")
    return planned


def _newest(folder: Folder) -> int:
    return max((int(name) for name in folder.names() if name.isdecimal()), default=-1)


def _mend_lists(spark: Folder, committed: int) -> bool:
    """Remove truncated lists of files that are not committed; return whether there were any."""
    done, cut_off = _sources(spark, committed), False
    for source in spark.folder("sources").names():
        listed = spark.folder("sources").folder(source)
        last = _log_offset(done[int(source)]) if source.isdecimal() and int(source) < len(done) else None
        for name in listed.names():
            number = name.partition(".")[0]
            new = number.isdecimal() and int(number) > (-1 if last is None else last)
            if new and not _is_whole(listed, name):
                _remove(listed, name)
                cut_off = True
    return cut_off


def _is_whole(folder: Folder, name: str) -> bool:
    """Return whether a note is a version and lines of JSON."""
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

    `settled` waits until the notes are on the disk, as far as the file system guarantees that.
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
                # Only in a list that has earlier files, too, does each entry's own number matter.
                if name == number or line.rstrip().endswith(mark):
                    entry = json.loads(line)
                    files[unquote(entry["path"])] = int(entry["timestamp"])
    return files


def _ends(spark: Folder, batch: int) -> list[tuple[bytes, bytes]]:
    """Return, for each source, the offsets at which a batch begins and ends."""
    before, after = _sources(spark, batch - 1), _sources(spark, batch)
    return [(before[source] if source < len(before) else b"", end) for source, end in enumerate(after)]


def _sources(spark: Folder, batch: int) -> list[bytes]:
    try:
        return spark.folder("offsets").read(str(batch)).splitlines()[_HEADER:]
    except FileNotFoundError:
        return []


def _lists(spark: Folder, source: int, begin: bytes, end: bytes) -> Iterator[tuple[Folder, str]]:
    """Yield the lists of files between two offsets of a source of files; other sources have none."""
    first, last = _log_offset(begin), _log_offset(end)
    listed = spark.folder("sources").folder(str(source))
    names = set() if last is None else set(listed.names())
    for number in range(0 if first is None else first + 1, 0 if last is None else last + 1):
        # Every tenth list has all earlier files, too, and says so in its name.
        yield from ((listed, name) for name in (str(number), f"{number}.compact") if name in names)


def _log_offset(end: bytes) -> int | None:
    """Return the last list that a source of files was read through; None for other sources."""
    try:
        offset = json.loads(end)
    except ValueError:
        return None
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    return number if isinstance(number, int) else None
