"""How an engine fares, for whoever looks on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.sinks import DeliveryStatus
from weft.state.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """How a stream fares."""

    clock: Clock
    """Watermark and row counts."""
    batches: int
    """How many batches this run has processed."""
    queries: Mapping[str, int]
    """How many queries are in each state."""
    notices: tuple[str, ...] = ()
    """What the user should know, oldest first."""
    failed: tuple[str, ...] = ()
    """Queries that failed in this run, or could not be bound at its start, and are still there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """How an engine fares."""

    streams: Mapping[str, StreamStatus] = field(default_factory=dict)
    sinks: tuple[DeliveryStatus, ...] = ()
