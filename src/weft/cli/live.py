"""A live view of a running engine: a screen on a terminal, lines elsewhere."""

import builtins
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic, time
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live

from weft.cli.figures import Figures
from weft.cli.screen import draw, states
from weft.cli.status import EngineStatus
from weft.cli.wording import NONE, moment, one_line, printable, span
from weft.durability.ledger import kind_of
from weft.state.report import BatchReport

_LINE_SECONDS = 10.0
"""How often a line is printed where there is no terminal."""
_STATUS_SECONDS = 0.5
"""How often the engine is asked at most."""
_TICK_SECONDS = 1.0
"""How often it is looked whether there is something to tell, while no batch comes."""
_WITH_ERROR = re.compile(
    r"(?P<what>(?P<query>query .+? failed)|(?P<table>table .+? keeps its old contents)|.+? was refused)"
    r": (?:table .+? cannot be read(?: as \w+)?: )?(?P<error>.*)",
    re.DOTALL,
)
"""A notice with the text of an error, which may hold values of rows."""
_FOREIGN = re.compile(r"([A-Z]\w*): ")
"""What the error of a sink begins with, if it is none of Weft's own: its class."""

Observe = Callable[[str, BatchReport], None]
"""Told a stream's name and what a batch did."""
Watch = Callable[[], EngineStatus]
"""Tells how an engine fares; it never waits for a batch."""


class LiveView:
    """Show a run from the moment it is entered; what it gives is told of every batch."""

    def __init__(self, console: Console, watch: Watch) -> None:
        self._console, self._watch = console, watch
        self._figures = Figures()
        self._began = monotonic()
        self._status, self._status_at = watch(), monotonic()
        self._lines = _Lines(console)
        self._ending = Event()
        self._ticker = Thread(target=self._tick, name="weft-lines", daemon=True)
        self._live = (
            Live(get_renderable=self._draw, console=console, refresh_per_second=4)
            if console.is_terminal
            else None
        )

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
        self._status_at = 0.0
        if self._live is not None:
            self._live.stop()
            return
        self._ending.set()
        self._ticker.join()
        if kind is None or self._figures.batches:
            self._lines.tell(self._figures, self._watch, began=self._began, last=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Draw nothing for as long as the block runs: the terminal is used for something else."""
        if self._live is not None:
            self._live.stop()
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()

    def _tick(self) -> None:
        """Tell what there is to tell while no batch comes."""
        while not self._ending.wait(_TICK_SECONDS):
            self._lines.tell(self._figures, self._watch, began=self._began)

    def _observe(self, stream: str, report: BatchReport) -> None:
        self._figures.add(stream, report, monotonic())
        if self._live is None:
            self._lines.tell(self._figures, self._watch, began=self._began)

    def _draw(self) -> RenderableType:
        now = monotonic()
        if now - self._status_at >= _STATUS_SECONDS:
            self._status, self._status_at = self._watch(), now
        return draw(
            self._figures,
            self._status,
            now=now,
            began=self._began,
            wall=time(),
            lines=self._console.size.height,
        )


class _Lines:
    """Lines for a log: one a stream every few seconds, and every notice and error once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = Lock()
        self._looked_at = self._told_at = -_LINE_SECONDS
        self._told: list[str] = []

    def tell(self, figures: Figures, watch: Watch, *, began: float, last: bool = False) -> None:
        """Print what it is time for; the last time, all."""
        now = monotonic()
        with self._lock:
            if not last and now - self._looked_at < _STATUS_SECONDS:
                return
            self._looked_at, status = now, watch()
            if last or now - self._told_at >= _LINE_SECONDS:
                self._told_at = now
                for line in _stream_lines(figures, status, now=now, began=began):
                    self._console.out(line, highlight=False)
            said = list(dict.fromkeys(_said(status)))
            for one in said:
                if one not in self._told:
                    self._console.out(one, highlight=False)
            self._told = said


def _stream_lines(figures: Figures, status: EngineStatus, *, now: float, began: float) -> Iterator[str]:
    for name, one in status.streams.items():
        counts, newest = one.clock.counts, one.clock.newest
        lag = NONE if newest is None else span(time() - newest / 1e6)
        yield (
            f"{printable(name)}: {figures.rate(name, now, began):,.0f} rows/s, {counts.read:,} rows, "
            f"lag {lag}, watermark {moment(one.clock.watermark)}, {counts.late:,} late, "
            f"{counts.quarantined:,} quarantined, {counts.missing:,} files missing, "
            f"queries: {states(one.queries).plain}"
        )
    if figures.last is not None:
        phases = ", ".join(f"{phase} {span(spent)}" for phase, spent in figures.last.seconds.items())
        sharing = NONE if figures.sharing is None else f"{figures.sharing:,.1f} ×"
        yield (
            f"{figures.batches:,} batches, {figures.windows:,} results, sharing {sharing}, "
            f"last batch {span(figures.last.total)} ({phases})"
        )


def _said(status: EngineStatus) -> Iterator[str]:
    for name, one in status.streams.items():
        yield from (f"{printable(name)}: {one_line(_without_values(notice))}" for notice in one.notices)
    for sink in status.sinks:
        if sink.error is not None:
            yield f"sink {sink.sink} fails: {_trouble(one_line(sink.error))}"


def _without_values(notice: str) -> str:
    """Return a notice as lines tell it, which a service's log keeps: of an error only the kind.

    >>> _without_values("query big failed: ValueError: 13")
    'query big failed (ValueError); weft show tells why, and so does the screen of a terminal'
    >>> _without_values("table close keeps its old contents: table close cannot be read: [BAD_CSV] a,13")
    'table close keeps its old contents (BAD_CSV); the screen of a terminal tells why'
    """
    found = _WITH_ERROR.fullmatch(notice)
    if found is None:
        return notice
    if found["query"]:
        why = "weft show tells why, and so does the screen of a terminal"
    else:
        why = "the screen of a terminal tells why" + ("" if found["table"] else ", and whoever asks again")
    return f"{found['what']} ({kind_of(found['error'])}); {why}"


def _trouble(error: str) -> str:
    """Return why a sink fails as lines tell it: foreign errors by their class, unless they are about places.

    >>> _trouble("ConnectionResetError: by peer"), _trouble("OperationalError: no route to db")
    ('ConnectionResetError: by peer', 'OperationalError: no route to db')
    >>> _trouble("DataError: 4711 is too much")
    'DataError; the screen of a terminal tells why'
    """
    found = _FOREIGN.match(error)
    known = None if found is None else getattr(builtins, found[1], None)
    about_places = isinstance(known, type) and issubclass(known, OSError)
    if found is None or about_places or found[1] == "OperationalError":
        return error
    return f"{found[1]}; the screen of a terminal tells why"
