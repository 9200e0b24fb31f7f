"""What the live view asks of an engine."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from weft.state.clock import Clock


class SinkStatus(Protocol):
    """How far a sink has come."""

    @property
    def sink(self) -> str:
        """The sink's name."""

    @property
    def done(self) -> int:
        """The last commit whose results are visible, or −1."""

    @property
    def behind(self) -> int:
        """How many commits wait."""

    @property
    def waiting_bytes(self) -> int:
        """How much of them is in memory."""

    @property
    def attempts(self) -> int:
        """How often in a row it failed."""

    @property
    def error(self) -> str | None:
        """Why it failed last, if it has not recovered."""

    @property
    def retry_in_s(self) -> float | None:
        """When it is tried again."""


class StreamStatus(Protocol):
    """How a stream fares."""

    @property
    def clock(self) -> Clock:
        """Watermark and row counts."""

    @property
    def batches(self) -> int:
        """How many batches there were."""

    @property
    def queries(self) -> Mapping[Any, int]:
        """How many queries are in each state."""

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know, oldest first."""


class EngineStatus(Protocol):
    """How an engine fares."""

    @property
    def streams(self) -> Mapping[str, StreamStatus]:
        """Its streams by name."""

    @property
    def sinks(self) -> Sequence[SinkStatus]:
        """Where results go."""
