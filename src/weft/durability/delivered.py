"""The progress of each sink: one note a sink, with a checksum, beside the commits that it gets."""

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from zlib import crc32

from weft.errors import DamagedFile
from weft.storage import Folder
from weft.storage.names import file_name

_NOTES = "delivered"
"""The folder of the notes."""
_log = logging.getLogger("weft.checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The progress of a sink."""

    commit: int
    """The last commit whose results it has made visible."""
    away: bool = False
    """Whether engines have run without it since then: commits that it lacks may have been removed."""


class Notes:
    """The notes of one stream's sinks."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def tidy(self) -> None:
        """Remove what a crash left unfinished."""
        self._folder.tidy()

    def read(self, sink: str) -> Note | None:
        """Return a sink's note; None if there is none, or if it is damaged."""
        return self._read(file_name(sink), sink)

    def write(self, sink: str, note: Note) -> None:
        """Replace a sink's note, unless it says the same already."""
        self._write(file_name(sink), note)

    def set_away(self, *, but: Collection[str]) -> None:
        """Note that all sinks but the given ones are not delivered to."""
        # The sink's name does not always follow from the file's.
        for file in set(self._folder.names()).difference(map(file_name, but)):
            note = self._read(file, file)
            if note is not None and not note.away:
                self._write(file, Note(commit=note.commit, away=True))

    def _read(self, file: str, sink: str) -> Note | None:
        try:
            written = json.loads(self._folder.read(file))
            note = Note(commit=int(written["commit"]), away=bool(written["away"]))
            if written["crc32"] == _checksum(note):
                return note
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, DamagedFile):
            pass
        _log.warning(
            "the note of the progress of sink %s is damaged: all results that are retained go to it again",
            sink,
            extra={"sink": sink, "file": f"{self._folder.uri}/{file}"},
        )
        return None

    def _write(self, file: str, note: Note) -> None:
        written = json.dumps({**_record(note), "crc32": _checksum(note)}).encode()
        try:
            if self._folder.read(file) == written:
                return
        except (FileNotFoundError, DamagedFile):
            pass
        self._folder.write(file, written, replace=True)


def was_delivered_to(streams: Iterable[Folder], sink: str) -> bool:
    """Say whether an engine has delivered, or was ready to, to a sink from any of a checkpoint's streams."""
    return any(stream.folder(_NOTES).has(file_name(sink)) for stream in streams)


def notes_of(stream: Folder) -> Notes:
    """Return the notes beside a stream's commits."""
    return Notes(stream.folder(_NOTES))


def _record(note: Note) -> dict[str, object]:
    return {"commit": note.commit, "away": note.away}


def _checksum(note: Note) -> int:
    return crc32(json.dumps(_record(note)).encode())
