"""Figures of a run, gathered batch by batch."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

import pyarrow as pa

from weft.cli.wording import NONE
from weft.sinks.immediate import brief
from weft.state.report import BatchReport

_RATE_SECONDS = 10.0
"""The rate is that of so many last seconds."""
_KEPT_RESULTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest result of a query."""

    query: str
    window: str
    values: str
    more: int
    """Number of other rows that came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last batch that had rows."""

    stream: str
    rows: int
    windows: int
    seconds: Mapping[str, float]
    """Its duration by phase."""

    @property
    def total(self) -> float:
        """Its duration in seconds."""
        return sum(self.seconds.values())


@dataclass(slots=True)
class Figures:
    """Totals over all batches; updated by the threads of streams, read by that of the view."""

    batches: int = 0
    windows: int = 0
    aggregated: int = 0
    unshared: int = 0
    failures: int = 0
    last: LastBatch | None = None
    _lock: Lock = field(default_factory=Lock)
    _rates: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    _newest: dict[str, Newest] = field(default_factory=dict)

    def add(self, stream: str, report: BatchReport, now: float) -> None:
        """Add a batch that ended now."""
        with self._lock:
            self.windows += report.windows
            self.failures += sum(report.failures.values())
            # Of a thousand queries only those that can be shown are formatted.
            shown = [(query, rows) for query, rows in report.results.items() if rows.num_rows]
            for query, rows in shown[-_KEPT_RESULTS:]:
                self._newest.pop(query, None)
                self._newest[query] = _newest(query, rows)
            for query in list(self._newest)[:-_KEPT_RESULTS]:
                del self._newest[query]
            if not report.counts.read:
                return
            self.batches += 1
            self.aggregated += report.partial_ops
            self.unshared += report.unshared_ops
            self.last = LastBatch(
                stream=stream, rows=report.counts.read, windows=report.windows, seconds=dict(report.seconds)
            )
            self._rates.setdefault(stream, deque()).append((now, report.counts.read))

    def rate(self, stream: str, now: float, began: float) -> float:
        """Return a stream's current rows per second."""
        with self._lock:
            batches = self._rates.get(stream, deque())
            while batches and batches[0][0] < now - _RATE_SECONDS:
                batches.popleft()
            return sum(rows for _, rows in batches) / max(min(_RATE_SECONDS, now - began), 0.001)

    @property
    def sharing(self) -> float | None:
        """Ratio of aggregate operations without sharing to those with it."""
        return self.unshared / self.aggregated if self.aggregated and self.unshared else None

    def newest(self) -> list[Newest]:
        """Return the newest results, one per query, newest first."""
        with self._lock:
            return list(reversed(self._newest.values()))


def _newest(query: str, rows: pa.Table) -> Newest:
    [row] = rows.slice(rows.num_rows - 1, 1).to_pylist()
    start, end = row.pop("window_start", None), row.pop("window_end", None)
    return Newest(
        query=query,
        window=f"{_time(start)} – {_time(end)}",
        values="  ".join(f"{column} {brief(value, _value)}" for column, value in row.items()),
        more=rows.num_rows - 1,
    )


def _time(value: Any) -> str:
    if not isinstance(value, datetime):
        return NONE
    return value.strftime("%H:%M:%S") + (f".{value.microsecond // 1000:03d}" if value.microsecond else "")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
