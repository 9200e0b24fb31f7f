"""The live view of a running engine: a screen on a terminal, lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic, time
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live

from weft.cli.figures import Figures
from weft.cli.screen import draw, states
from weft.cli.wording import NONE, moment, one_line, printable, span
from weft.service.status import EngineStatus
from weft.state.report import BatchReport

_LINE_SECONDS = 10.0
"""Interval of the lines that are printed without a terminal."""
_STATUS_SECONDS = 0.5
"""Minimum interval between calls of the engine's status."""
_TICK_SECONDS = 1.0
"""Poll interval for news while no batch comes."""

Observe = Callable[[str, BatchReport], None]
"""Gets a stream's name and the report of a batch."""
Watch = Callable[[], EngineStatus]
"""Returns the engine's status, without waiting for a batch."""


class LiveView:
    """Show a run while the context is entered; entering it returns what observes batches.

    On a terminal a screen is drawn. Elsewhere lines are printed for a log: one per stream every few seconds,
    and every notice and error once.
    """

    def __init__(self, console: Console, watch: Watch) -> None:
        self._console, self._watch = console, watch
        self._figures = Figures()
        self._began = monotonic()
        self._status = watch()
        self._status_at = self._lines_at = -_LINE_SECONDS
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(get_renderable=self._draw, console=console, refresh_per_second=4)
        self._lock = Lock()
        self._messages: list[str] = []
        self._ending = Event()
        self._ticker = Thread(target=self._tick, name="weft-lines", daemon=True)

    def __enter__(self) -> Observe:
        self._began = monotonic()
        if self._live is not None:
            self._live.start()
        else:
            self._ticker.start()
        return self._observe

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._status_at = -_LINE_SECONDS
            self._live.stop()
            return
        self._ending.set()
        self._ticker.join()
        if kind is None or self._figures.batches:
            self._print_lines(last=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Leave the terminal to other output for the duration of the block."""
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()

    def _tick(self) -> None:
        while not self._ending.wait(_TICK_SECONDS):
            self._print_lines()

    def _observe(self, stream: str, report: BatchReport) -> None:
        self._figures.add(stream, report, monotonic())
        if self._live is None:
            self._print_lines()

    def _draw(self) -> RenderableType:
        now = monotonic()
        if now - self._status_at >= _STATUS_SECONDS:
            self._status, self._status_at = self._watch(), now
        height = self._console.size.height
        return draw(self._figures, self._status, now=now, began=self._began, wall=time(), lines=height)

    def _print_lines(self, *, last: bool = False) -> None:
        """Print the lines that are due; the last time, all."""
        now = monotonic()
        with self._lock:
            if not last and now - self._status_at < _STATUS_SECONDS:
                return
            self._status_at, status = now, self._watch()
            if last or now - self._lines_at >= _LINE_SECONDS:
                self._lines_at = now
                for line in _stream_lines(self._figures, status, now=now, began=self._began):
                    self._console.out(line, highlight=False)
            messages = list(dict.fromkeys(_messages(status)))
            for message in messages:
                if message not in self._messages:
                    self._console.out(message, highlight=False)
            self._messages = messages


def _stream_lines(figures: Figures, status: EngineStatus, *, now: float, began: float) -> Iterator[str]:
    for name, stream in status.streams.items():
        clock, counts = stream.clock, stream.clock.counts
        lag = NONE if clock.newest is None else span(time() - clock.newest / 1e6)
        yield (
            f"{printable(name)}: {figures.rate(name, now, began):,.0f} rows/s, {counts.read:,} rows, "
            f"lag {lag}, watermark {moment(clock.watermark)}, {counts.late:,} late, "
            f"{counts.quarantined:,} quarantined, {counts.missing:,} files missing, "
            f"queries: {states(stream.queries).plain}"
        )
    if figures.last is not None:
        phases = ", ".join(f"{phase} {span(spent)}" for phase, spent in figures.last.seconds.items())
        sharing = NONE if figures.sharing is None else f"{figures.sharing:,.1f} ×"
        yield (
            f"{figures.batches:,} batches, {figures.windows:,} results, sharing {sharing}, "
            f"last batch {span(figures.last.total)} ({phases})"
        )


def _messages(status: EngineStatus) -> Iterator[str]:
    """Yield notices and errors for lines, which a service's log retains: without values of rows."""
    for name, stream in status.streams.items():
        for notice in stream.notices:
            yield f"{printable(name)}: {one_line(notice.words_without_detail)}"
    for sink in status.sinks:
        if sink.notice is not None:
            yield one_line(sink.notice.words_without_detail)
