"""What a stream's checkpoint holds when an engine starts on it, and the record of these starts."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.durability.checkpoint import Checkpoint, Recovered
from weft.durability.places import claim_folder, find_folder
from weft.errors import DamagedFile
from weft.sinks.fence import Lineage, lineage_from, records_of
from weft.state.clock import ALWAYS
from weft.storage import Folder
from weft.storage.container import pack, unpack

_INCARNATIONS = "incarnations"
"""The file beside a stream's commits that holds the starts of engines on the checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A stream's checkpoint and what was committed to it; all None without a checkpoint."""

    checkpoint: Checkpoint | None = None
    recovered: Recovered | None = None
    """None if nothing was committed yet."""
    lineage: Lineage | None = None
    """Ends with the current incarnation, once that is recorded."""

    @property
    def last(self) -> int:
        """The last commit, or −1."""
        return -1 if self.recovered is None else self.recovered.last.number

    @property
    def watermark(self) -> int:
        """The watermark of the last commit, or a moment before all event times."""
        return ALWAYS if self.recovered is None else self.recovered.last.clock.reached

    def begun(self, stream: str, origin: str) -> "Past":
        """Record in the checkpoint, whose name is the origin, that an engine starts now.

        It is on the disk when this returns: no sink sees an incarnation that the checkpoint does not know.
        """
        if self.checkpoint is None:
            return self
        folder, name = self.checkpoint.folder, _INCARNATIONS
        claim_folder(folder, stream, checkpoint=origin)
        path = f"{folder.uri}/{name}"
        try:
            stored = unpack(folder.read(name), name=path)
            known = lineage_from(json.loads(bytes(stored[name])), path=path)
        except FileNotFoundError:
            known = None
        except DamagedFile as error:
            raise DamagedFile(
                f"{error}: sinks know by it whose results they have; restore it from a copy, or begin with a "
                "new checkpoint"
            ) from None
        by = f"process {os.getpid()} on {socket.gethostname()}"
        lineage = (known or Lineage(incarnations=(), path=path)).followed(after=self.last, by=by)
        folder.write(name, pack({name: json.dumps(records_of(lineage)).encode()}), replace=True)
        return replace(self, lineage=lineage)


def read_past(root: Folder | None, stream: str, held: Callable[[], None] | None) -> Past:
    """Read what is stored of a stream, and repair what a crash left; call it with the checkpoint's lock."""
    if root is None:
        return Past()
    checkpoint = Checkpoint(find_folder(root, stream), held=held)
    checkpoint.tidy()
    recovered = checkpoint.recover()
    checkpoint.mend_notes(-1 if recovered is None else recovered.last.batch)
    return Past(checkpoint=checkpoint, recovered=recovered)
