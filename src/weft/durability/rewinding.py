"""Rewind sinks to a checkpoint: results that it does not know are removed, if the user approves.

    the sink saw       A ── B ── C through 61
    the checkpoint     A ── B ─┬ D                 restored from a copy of commit 34, say
                               34: the last commit that both have. Results of later ones are removed.

Later commits answered windows that end after the watermark of the common commit, which therefore tells the
rows of a file or table apart. Results that the checkpoint has beyond the common commit are delivered again,
so they must be retained.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from weft.durability.checkpoint import Checkpoint
from weft.durability.past import Past
from weft.errors import DamagedFile, EngineError
from weft.sinks import Sink
from weft.sinks.fence import Fencing, Lineage, Surplus, Target, common_commit, is_ahead


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
    if past.checkpoint is None or past.lineage is None:
        return
    planned = list(_planned(sinks, past.checkpoint, past, past.lineage, origin))
    if not planned:
        return
    shown = [
        Rewind(stream=stream, sink=sink.name, commit=target.commit, surplus=tuple(fencing.surplus(target)))
        for sink, fencing, target in planned
    ]
    if not approve(shown):
        raise EngineError(f"stream {stream}: its sinks were not taken back, and nothing was changed")
    for sink, fencing, target in planned:
        # First: after a crash between the two, the sink still refuses, and is rewound next time.
        past.checkpoint.deliver_again(sink.name, after=target.commit)
        fencing.rewind(target)


def _planned(
    sinks: Sequence[Sink], checkpoint: Checkpoint, past: Past, lineage: Lineage, origin: str
) -> Iterator[tuple[Sink, Fencing, Target]]:
    """Yield the sinks to rewind, each with its target."""
    for sink in sinks:
        if not isinstance(sink, Fencing):
            continue
        common = _common(sink, sink, checkpoint, past, lineage, origin)
        commit = past.last if common is None else common
        watermark = past.watermark if commit == past.last else _watermark(checkpoint, commit)
        target = Target(origin=origin, lineage=lineage, commit=commit, watermark=watermark)
        if common is not None:
            checkpoint.check_outbox(sink.name, after=commit)
        if common is not None or sink.surplus(target):
            yield sink, sink, target


def _common(
    sink: Sink, fencing: Fencing, checkpoint: Checkpoint, past: Past, lineage: Lineage, origin: str
) -> int | None:
    """Return the last commit that sink and checkpoint have in common; None if the sink is not ahead."""
    try:
        claim = fencing.seen(origin)
    except DamagedFile:
        # Beyond what the checkpoint has delivered, the origin of the results is unknown.
        return min(checkpoint.delivered(sink.name), past.last)
    return common_commit(lineage, claim) if claim is not None and is_ahead(lineage, claim) else None


def _watermark(checkpoint: Checkpoint, commit: int) -> int | None:
    """Return the watermark of a commit that is not the last; None before the first."""
    if commit < 0:
        return None
    try:
        return checkpoint.clock_of(commit).watermark
    except FileNotFoundError:
        raise checkpoint.missing(commit, also=", and only it tells what sinks had then") from None
