"""Rewind sinks to a checkpoint: results that it does not know are removed, if the user approves.

    the sink saw       A ── B ── C through 61
    the checkpoint     A ── B ─┬ D                 restored from a copy of commit 34, say
                               34: the last commit that both have. Results of later ones are removed.

Later commits answered windows that end after the watermark of the common commit, which therefore tells the
rows of a file or table apart. Results that the checkpoint has beyond the common commit are delivered again,
so they must be retained.
"""

from collections.abc import Callable, Sequence
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
