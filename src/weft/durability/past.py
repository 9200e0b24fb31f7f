"""What a stream's checkpoint holds at a start, the record of starts, and sinks that are rewound to it.

    the sink saw       A ── B ── C through 61
    the checkpoint     A ── B ─┬ D                 restored from a copy of commit 34, say
                               34: the last commit that both have. Results of later ones are removed.

Results that a checkpoint does not know are removed if the user approves. Later commits answered windows that
end after the watermark of the common commit, which therefore tells the rows of a file or table apart. Results
that the checkpoint has beyond the common commit are delivered again, so they must be retained.
"""

import json
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.durability.checkpoint import Checkpoint, Recovered
from weft.durability.places import claim_folder, find_folder
from weft.errors import DamagedFile, EngineError
from weft.sinks import Sink
from weft.sinks.fence import (
    Fencing,
    Lineage,
    Surplus,
    Target,
    common_commit,
    is_ahead,
    lineage_from,
    records_of,
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """What rewinding a sink means."""

    stream: str
    sink: str
    commit: int
    """The last commit that both the checkpoint and the sink have, or −1."""
    surplus: tuple[Surplus, ...]
    """What the sink would lose."""


Approve = Callable[[Sequence[Rewind]], bool]
"""Is shown what would be removed, and returns whether to do so."""


def rewind(sinks: Sequence[Sink], stream: str, past: Past, *, origin: str, approve: Approve) -> None:
    """Rewind the sinks that have results unknown to the checkpoint; raise EngineError if not approved."""
    checkpoint, lineage = past.checkpoint, past.lineage
    if checkpoint is None or lineage is None:
        return
    planned = [
        (sink, target)
        for sink in sinks
        if isinstance(sink, Fencing)
        and (target := _target(sink, checkpoint, past, lineage, origin)) is not None
    ]
    shown = [
        Rewind(stream=stream, sink=sink.name, commit=target.commit, surplus=tuple(sink.surplus(target)))
        for sink, target in planned
    ]
    if shown and not approve(shown):
        raise EngineError(f"stream {stream}: its sinks were not taken back, and nothing was changed")
    for sink, target in planned:
        # First: after a crash between the two, the sink still refuses, and is rewound next time.
        checkpoint.deliver_again(sink.name, after=target.commit)
        sink.rewind(target)


def _target(
    sink: Fencing, checkpoint: Checkpoint, past: Past, lineage: Lineage, origin: str
) -> Target | None:
    """Return the state to which a sink is taken back; None if the checkpoint knows all that it has."""
    commit, ahead = past.last, True
    watermark: int | None = past.watermark
    try:
        claim = sink.seen(origin)
        ahead = claim is not None and is_ahead(lineage, claim)
        if claim is not None and ahead:
            commit = common_commit(lineage, claim)
    except DamagedFile:
        # Beyond what the checkpoint has delivered, the origin of the results is unknown.
        commit = min(checkpoint.delivered(sink.name), past.last)
    if commit != past.last:
        try:
            watermark = None if commit < 0 else checkpoint.clock_of(commit).watermark
        except FileNotFoundError:
            raise checkpoint.missing(commit, also=", and only it tells what sinks had then") from None
    target = Target(origin=origin, lineage=lineage, commit=commit, watermark=watermark)
    if ahead:
        checkpoint.check_outbox(sink.name, after=commit)
    return target if ahead or sink.surplus(target) else None
