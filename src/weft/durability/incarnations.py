"""Starts of engines on a checkpoint, kept beside a stream's commits: the lineage that sinks know it by."""

import json
import os
import socket

from weft.errors import DamagedFile
from weft.sinks.fence import Lineage, lineage_from, records_of
from weft.storage import Folder
from weft.storage.container import pack, unpack

_NAME = "incarnations"


def begin(stream: Folder, *, after: int) -> Lineage:
    """Note that an engine starts on a stream after a commit, and return the lineage with this incarnation.

    It is on the disk when this returns: no sink sees an incarnation that the checkpoint does not know.
    """
    place = f"{stream.uri}/{_NAME}"
    by = f"process {os.getpid()} on {socket.gethostname()}"
    lineage = _read(stream, place).followed(after=after, by=by)
    written = json.dumps(records_of(lineage)).encode()
    stream.write(_NAME, pack({_NAME: written}), replace=True)
    return lineage


def _read(stream: Folder, place: str) -> Lineage:
    """Return the lineage so far; one without incarnations if nothing is noted yet."""
    try:
        stored = unpack(stream.read(_NAME), name=place)
        lineage = lineage_from(json.loads(bytes(stored[_NAME])), path=place)
    except FileNotFoundError:
        lineage = None
    except DamagedFile as error:
        raise DamagedFile(
            f"{error}: sinks know by it whose results they have; restore it from a copy, or begin with a new "
            "checkpoint"
        ) from None
    return lineage or Lineage(incarnations=(), path=place)
