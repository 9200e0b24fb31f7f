"""A live view of a running engine."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

from weft.engine import Engine
from weft.runtime.clock import RowCounts
from weft.runtime.pipeline import BatchReport

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LiveView:
    """Draw rows per second, watermark, windows and operations saved, anew after each batch."""

    def __init__(self, console: Console, engine: Engine) -> None:
        self._engine = engine
        self._counts = RowCounts()
        self._batches = self._windows = self._shared = self._unshared = 0
        self._seconds: dict[str, float] = {}
        self._began = monotonic()
        self._live = Live(self._table(""), console=console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Callable[[str, BatchReport], None]:
        self._live.start()
        return self._observe

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def _observe(self, stream: str, report: BatchReport) -> None:
        self._counts += report.counts
        self._batches += bool(report.counts.read)
        self._windows += report.windows
        self._shared += report.partial_ops + report.final_ops
        self._unshared += report.unshared_ops
        for phase, seconds in report.seconds.items():
            self._seconds[phase] = self._seconds.get(phase, 0.0) + seconds
        self._live.update(self._table(stream))

    def _table(self, stream: str) -> Table:
        elapsed = monotonic() - self._began
        table = Table(show_header=False, box=None, padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(justify="right")
        for label, value in self._lines(stream, elapsed):
            table.add_row(label, value)
        return table

    def _lines(self, stream: str, elapsed: float) -> list[tuple[str, str]]:
        counts = self._counts
        lines = [
            ("queries", f"{len(self._engine.queries):,}"),
            ("rows read", f"{counts.read:,}"),
            ("rows/s", f"{counts.read / elapsed:,.0f}" if elapsed > 0 else "–"),
            ("watermark", self._watermark(stream)),
            ("late rows", f"{counts.late:,}"),
            ("quarantined rows", f"{counts.quarantined:,}"),
            ("batches", f"{self._batches:,}"),
            ("windows emitted", f"{self._windows:,}"),
            ("operations", f"{self._shared:,}"),
            ("saved by sharing", self._saved()),
            ("time in", ", ".join(f"{phase} {spent:.1f} s" for phase, spent in self._seconds.items()) or "–"),
        ]
        failed = sum(self._engine.failures.values())
        return [*lines, ("failed expressions", f"{failed:,}")] if failed else lines

    def _watermark(self, stream: str) -> str:
        watermark = self._engine.clock(stream).watermark if stream else None
        if watermark is None:
            return "–"
        try:
            return (_EPOCH + timedelta(microseconds=watermark)).strftime("%Y-%m-%d %H:%M:%S")
        except OverflowError:
            return f"{watermark} µs"

    def _saved(self) -> str:
        saved = self._unshared - self._shared
        if self._unshared == 0 or saved <= 0:
            return "–"
        return f"{saved:,} of {self._unshared:,} ({saved / self._unshared:.1%})"
