"""Figures of a run, gathered batch by batch."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

import pyarrow as pa

from weft.cli.wording import NONE
from weft.state.report import BatchReport

_RATE_SECONDS = 10.0
"""The rate is that of the last so many seconds."""
_KEPT_RESULTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest result of a query."""

    query: str
    window: str
    values: str
    more: int
    """How many rows came with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last batch that had rows."""

    stream: str
    rows: int
    windows: int
    seconds: Mapping[str, float]
    """Where its time went."""

    @property
    def total(self) -> float:
        """How long it took."""
        return sum(self.seconds.values())


@dataclass(slots=True)
class Figures:
    """What batches so far amount to; told by the threads of streams, read by that of the view."""

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
        """Take account of a batch that ended now."""
        with self._lock:
            self.windows += report.windows
            self.failures += sum(report.failures.values())
            self._keep_newest(report.results)
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
        """Return a stream's rows per second of late."""
        with self._lock:
            batches = self._rates.get(stream, deque())
            while batches and batches[0][0] < now - _RATE_SECONDS:
                batches.popleft()
            return sum(rows for _, rows in batches) / max(min(_RATE_SECONDS, now - began), 0.001)

    @property
    def sharing(self) -> float | None:
        """How many times the rows would be aggregated without sharing, for once with it."""
        return self.unshared / self.aggregated if self.aggregated and self.unshared else None

    def newest(self) -> list[Newest]:
        """Return the newest result of the queries that last had one, newest first."""
        with self._lock:
            return list(reversed(self._newest.values()))

    def _keep_newest(self, results: Mapping[str, pa.Table]) -> None:
        # Of a thousand queries only those that can be shown are looked at.
        shown = [(name, rows) for name, rows in results.items() if rows.num_rows][-_KEPT_RESULTS:]
        for name, rows in shown:
            self._newest.pop(name, None)
            self._newest[name] = _newest(name, rows)
        for name in list(self._newest)[:-_KEPT_RESULTS]:
            del self._newest[name]


def _newest(name: str, rows: pa.Table) -> Newest:
    [row] = rows.slice(rows.num_rows - 1, 1).to_pylist()
    start, end = row.pop("window_start", None), row.pop("window_end", None)
    return Newest(
        query=name,
        window=f"{_time(start)} – {_time(end)}",
        values="  ".join(f"{key} {_value(value)}" for key, value in row.items()),
        more=rows.num_rows - 1,
    )


def _time(value: Any) -> str:
    if not isinstance(value, datetime):
        return NONE
    return value.strftime("%H:%M:%S") + (f".{value.microsecond // 1000:03d}" if value.microsecond else "")


def _value(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
