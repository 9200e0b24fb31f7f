"""What is asked of a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.runtime.loop import Trigger
from weft.runtime.rewinding import Approve
from weft.sinks import Sink

MakeSink = Callable[[], Sink]
"""Makes a sink; each stream has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How streams are answered, and where results go."""

    slicing: Slicing
    sharing: Sharing
    limits: Limits
    out: str | Path | None
    checkpoint: str | Path | None
    sinks: tuple[Sink | MakeSink, ...]
    keep: bool
    """Whether all results are held in memory."""
    quarantine: str | Path | None = None
    late: str | Path | None = None
    """Where rows go that cannot be used, and late ones; quarantined rows go into a checkpoint by default."""
    trigger: Trigger
    idle_seconds: float | None
    rewind: Approve | None = None
    """Asked whether sinks may lose what the checkpoint does not know of; None: they are not taken back."""
