"""What a run of the reference gives."""

from dataclasses import dataclass, field

from tests.oracle.types import Row


@dataclass(frozen=True, slots=True)
class Counters:
    """What became of the rows that were read."""

    read: int = 0
    late: int = 0
    no_time: int = 0
    future: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(
            self.read + other.read,
            self.late + other.late,
            self.no_time + other.no_time,
            self.future + other.future,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One result row, with what a comparison may forgive."""

    values: Row
    scales: dict[str, float] = field(default_factory=dict)
    """Per double column, the magnitude that 1e-9 is relative to."""
    order_sensitive: frozenset[str] = frozenset()
    """Columns whose running total may overflow although the total fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """What one batch, or the flush after the last, gave."""

    results: dict[str, list[Expected]]
    """Per query, its rows; every query has an entry."""
    watermark_us: int | None
    """The watermark after it; None before any good row."""
    counters: Counters = Counters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A whole run."""

    batches: list[Emission]
    flushed: Emission | None
    """What the end of input closed; None when windows stay open."""
    accepted: list[Row]
    """The good rows, in order."""

    @property
    def counters(self) -> Counters:
        return sum((batch.counters for batch in self.batches), Counters())

    def results(self, query: str) -> list[Expected]:
        """Return all rows of a query, in the order they came."""
        emissions = [*self.batches, *([self.flushed] if self.flushed else [])]
        return [row for emission in emissions for row in emission.results[query]]
