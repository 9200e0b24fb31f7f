"""Commits that wait for a sink, delivered in a thread of its own, in pieces, repeatedly until it succeeds."""

import logging
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from weft.errors import DamagedFile, EngineError, Fenced, WeftError
from weft.faultpoints import reach
from weft.notices import Notice, NoticeKind
from weft.sinks.sink import Patient, Refusing, Results, Sink

_log = logging.getLogger("weft.sinks")
_POLL_SECONDS = 0.1
"""Poll interval for a stop while waiting for room."""
Outbox = Callable[[int], Results]
"""Reads the results of a commit from the checkpoint."""


class Backlog:
    """The commits that a sink has not finished, in order; the caller holds a lock."""

    def __init__(self, *, outbox: Outbox | None, commits: int, memory_bytes: int) -> None:
        self.outbox = outbox
        self._commits, self._memory_bytes = commits, memory_bytes
        self.waiting: dict[int, Results | None] = {}
        """Results in memory by commit; None if they are only in the outbox."""
        self._sizes: dict[int, int] = {}
        """Bytes of those in memory."""
        self.size = 0
        """Bytes of results in memory."""

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def is_full(self) -> bool:
        """Whether another commit must wait."""
        too_large = self.outbox is None and self.size >= self._memory_bytes
        return too_large or len(self.waiting) >= self._commits

    def add(self, commit: int, results: Results | None) -> None:
        """Append a commit; its results stay in memory if they fit, or if there is no outbox."""
        # Counted once: a commit may have thousands of tables.
        size = size_of(results)
        if self.outbox is not None and self.size + size > self._memory_bytes:
            results, size = None, 0
        self.waiting[commit], self._sizes[commit] = results, size
        self.size += size

    def after(self, commit: int) -> list[int]:
        """Return the waiting commits that follow a commit."""
        return [waiting for waiting in self.waiting if waiting > commit]

    def release(self, commit: int) -> None:
        """Free the memory of a commit's results, if the outbox has them."""
        if self.outbox is not None and commit in self.waiting:
            self.size -= self._sizes[commit]
            self.waiting[commit], self._sizes[commit] = None, 0

    def forget(self, through: int) -> None:
        """Drop the commits that the sink has finished."""
        for commit in [waiting for waiting in self.waiting if waiting <= through]:
            del self.waiting[commit]
            self.size -= self._sizes.pop(commit)


def size_of(results: Results | None) -> int:
    """Return the bytes of memory that results take."""
    return sum(table.nbytes for table in (results or {}).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may wait for a sink, and the pauses after errors."""

    commits: int = 1_000
    memory_bytes: int = 64 << 20
    """Beyond it results are read from the outbox; without one, the backlog is full."""
    piece_bytes: int = 64 << 20
    """How much is delivered before a flush, unless the sink has its own rule."""
    first_retry_s: float = 0.1
    longest_retry_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """The status of a sink."""

    sink: str
    done: int
    """The last commit whose results are visible, or −1."""
    offered: int
    """The last commit offered, or −1."""
    behind: int
    """Number of waiting commits."""
    waiting_bytes: int
    attempts: int
    """Number of failures since delivery last succeeded."""
    error: str | None
    """The last failure, if delivery has not succeeded since."""
    retry_in_s: float | None
    refused: int = 0
    """Number of rows that the sink cannot take and has set aside."""
    notice: Notice | None = None
    """The error as a notice."""


class Delivery:
    """Deliver commits to one sink, independently of other sinks.

    `after` is the last commit known to be delivered, `last` the last commit of the checkpoint when this
    engine started, and `origin` the history that commits are counted in, as in `Sink.resume`. `outbox` reads
    results from the checkpoint. `on_done` is called in the delivery's thread with the sink's name and its
    last finished commit; it must not wait for the thread that offers commits. `on_fenced` is called if the
    sink has seen another incarnation, or cannot tell which: delivery ends then. `held` raises an error if
    another engine may deliver by now. Setting `stop` ends waits for room. `gets` says whether the results
    of a query are for this sink.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        after: int = -1,
        last: int | None = None,
        origin: str = "",
        outbox: Outbox | None = None,
        on_done: Callable[[str, int], None] | None = None,
        on_fenced: Callable[[Fenced], None] | None = None,
        held: Callable[[], None] | None = None,
        stop: threading.Event | None = None,
        limits: Limits | None = None,
        gets: Callable[[str], bool] = lambda query: True,
    ) -> None:
        self.sink = sink
        """The sink that is delivered to."""
        self._origin, self._on_done = origin, on_done
        self._on_fenced = on_fenced or (lambda error: None)
        self._held = held or (lambda: None)
        self._gets = gets
        self._stop = stop or threading.Event()
        self._limits = limits or Limits()
        self._backlog = Backlog(
            outbox=outbox, commits=self._limits.commits, memory_bytes=self._limits.memory_bytes
        )
        # All below is guarded by the condition; only the thread uses the sink itself.
        self._changed = threading.Condition()
        self._offered = self._done = self._delivered = self._flushed = after
        self._last = last
        self._fenced: Fenced | None = None
        self._begun = self._resumed = self._draining = self._closing = self._abandoned = False
        self._blocked = self._attempts = 0
        # Number of commits flushed together: fewer after each error, so that a flaky sink makes progress.
        self._piece = self._limits.commits
        self._error: str | None = None
        self._notice: Notice | None = None
        self._retry_at: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"weft-sink-{sink.name}", daemon=True)
        self._thread.start()

    @property
    def status(self) -> DeliveryStatus:
        """The status of the sink."""
        with self._changed:
            retry_in = None if self._retry_at is None else max(self._retry_at - monotonic(), 0.0)
            return DeliveryStatus(
                sink=self.sink.name, done=self._done, offered=self._offered, behind=len(self._backlog),
                waiting_bytes=self._backlog.size, attempts=self._attempts, error=self._error,
                retry_in_s=retry_in, refused=self.sink.refused if isinstance(self.sink, Refusing) else 0,
                notice=self._notice,
            )  # fmt: skip

    def await_begun(self, seconds: float) -> None:
        """Wait for the first attempt to resume the sink; raise Fenced if it refuses this engine."""
        with self._changed:
            self._changed.wait_for(lambda: self._begun or self._attempts or self._fenced, seconds)
            if self._fenced is not None:
                raise self._fenced

    def await_room(self) -> None:
        """Wait while the backlog is full, until the sink has caught up, or a stop.

        Raise Fenced if the sink refuses this engine: there will be no room.
        """
        with self._changed:
            self._blocked += 1
            try:
                while self._backlog.is_full and not (self._stop.is_set() or self._closing or self._fenced):
                    self._changed.notify_all()
                    self._changed.wait(_POLL_SECONDS)
            finally:
                self._blocked -= 1
            if self._fenced is not None:
                raise self._fenced

    def offer(self, commit: int, results: Results | None) -> None:
        """Queue a durable commit for delivery; None for results that are only in the outbox."""
        with self._changed:
            if commit <= self._offered:
                return
            self._offered = commit
            if commit > self._done:
                self._backlog.add(commit, None if results is None else self._own(results))
            self._changed.notify_all()

    def begin_drain(self) -> bool:
        """Have the whole backlog delivered and flushed from now on; False if another engine may deliver."""
        try:
            self._held()
        except EngineError:
            return False
        with self._changed:
            self._draining = True
            if self._retry_at is not None:
                self._retry_at = monotonic()
            self._changed.notify_all()
        return True

    def drain(self, seconds: float) -> bool:
        """Deliver and flush the whole backlog; return whether that succeeded in time.

        Return at once if another engine may deliver by now.
        """
        if not self.begin_drain():
            return False
        with self._changed:
            self._changed.wait_for(lambda: not self._draining or self._fenced, seconds)
            return not self._draining

    def close(self, seconds: float = 5.0) -> None:
        """End the thread and close the sink; undelivered results stay in the outbox."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        if self._thread.is_alive():
            # Another run may continue from here: this one notes no progress any more.
            self._abandoned = True
            _log.warning("sink %s does not end", self.sink.name, extra={"sink": self.sink.name})

    def _run(self) -> None:
        while self._await_work():
            # SystemExit too: a callback that raises it would end the thread, and with it all delivery.
            try:
                self._work()
            except Fenced as error:
                self._give_up(error)
            except (Exception, SystemExit) as error:
                self._failed(error)
            else:
                self._succeeded()
        try:
            self.sink.close()
        except Exception as error:
            fields = {"sink": self.sink.name, "error": type(error).__name__}
            _log.warning("sink %s could not be closed", self.sink.name, extra=fields)

    def _await_work(self) -> bool:
        """Wait until there is something to do; return False at the end."""
        with self._changed:
            while not self._closing:
                seconds = 0.0
                if self._fenced is not None:
                    seconds = math.inf
                elif self._retry_at is not None:
                    seconds = self._retry_at - monotonic()
                elif self._resumed and not self._backlog.after(self._delivered):
                    seconds = self._flush_due_in()
                if seconds <= 0:
                    return True
                self._changed.wait(None if math.isinf(seconds) else seconds)
            return False

    def _flush_due_in(self) -> float:
        """Return the seconds until a flush: 0 if a caller waits for results that the sink keeps back."""
        unflushed = self._flushed < self._delivered
        if self._draining or (self._blocked and unflushed):
            return 0.0
        if not unflushed:
            return math.inf
        return self.sink.flush_due_in() if isinstance(self.sink, Patient) else 0.0

    def _work(self) -> None:
        self._held()
        if not self._resumed:
            self._resume()
        self._note_done()
        self._deliver_waiting()
        with self._changed:
            recovering = self._piece < self._limits.commits and self._flushed < self._delivered
            flush = recovering or self._flush_due_in() <= 0
        if flush:
            self._flush()

    def _resume(self) -> None:
        # What the sink had finished before it was given to this delivery was counted in another history.
        done = max(self._done, self.sink.done) if self._begun else self._done
        try:
            self.sink.resume(done, origin=self._origin)
        except DamagedFile as error:
            # It is unknown who may deliver, and no retry changes that.
            raise Fenced(f"sink {self.sink.name} takes nothing: {error}") from error
        if self._last is not None and not self._begun and self.sink.done > self._last:
            # This engine has delivered nothing yet: the sink would take new commits for delivered ones.
            raise Fenced(
                f"sink {self.sink.name} has results through commit {self.sink.done}, and the checkpoint "
                f"ended with {self._last}: it is an older copy. Go on with the newer one, or begin with a "
                "new checkpoint"
            )
        with self._changed:
            self._delivered = self._flushed = self.sink.done
            self._begun = self._resumed = True
            self._changed.notify_all()

    def _deliver_waiting(self) -> None:
        with self._changed:
            commits = self._backlog.after(self._delivered)[: self._piece]
        size = 0
        for commit in commits:
            if self._closing:
                return
            with self._changed:
                results, outbox = self._backlog.waiting[commit], self._backlog.outbox
            if results is None:
                results = {} if outbox is None else self._own(outbox(commit))
            self.sink.deliver(commit, results)
            with self._changed:
                self._delivered = commit
                self._backlog.release(commit)
            self._note_done()
            if isinstance(self.sink, Patient):
                continue
            size += size_of(results)
            if size >= self._limits.piece_bytes:
                self._flush()
                size = 0

    def _own(self, results: Results) -> Results:
        """Return those of the results that the sink gets."""
        return {query: rows for query, rows in results.items() if self._gets(query)}

    def _flush(self) -> None:
        delivered = self._delivered
        self._held()
        reach("deliver.before")
        self.sink.flush()
        reach("deliver.after")
        self._note_done()
        with self._changed:
            self._flushed = delivered
            if not self._backlog.after(delivered):
                self._draining = False
            self._changed.notify_all()

    def _note_done(self) -> None:
        """Report the sink's progress, and then drop finished commits."""
        done = self.sink.done
        if done <= self._done or self._abandoned:
            return
        if self._on_done is not None:
            self._on_done(self.sink.name, done)
        with self._changed:
            self._done = done
            self._backlog.forget(done)
            self._changed.notify_all()

    def _give_up(self, error: Fenced) -> None:
        """End delivery: what the sink has seen does not change by itself."""
        with self._changed:
            self._fenced, self._retry_at = error, None
            self._error, self._notice = _shown(error), _noticed(self.sink.name, error)
            self._changed.notify_all()
        fields = {"sink": self.sink.name, "error": _shown(error)}
        _log.error("sink %s refuses this engine for good", self.sink.name, extra=fields)
        self._on_fenced(error)

    def _failed(self, error: BaseException) -> None:
        limits = self._limits
        with self._changed:
            self._attempts += 1
            waiting = len(self._backlog.after(self._flushed))
            self._piece = max(min(self._piece, waiting) // 2, 1)
            longest = min(limits.longest_retry_s, limits.first_retry_s * 2.0 ** min(self._attempts - 1, 60))
            # Jitter: sinks that failed together do not come back together.
            delay = longest * random.uniform(0.5, 1.0)
            self._retry_at = monotonic() + delay
            self._error, self._notice = _shown(error), _noticed(self.sink.name, error)
            self._resumed = False
            self._changed.notify_all()
            fields = {
                "sink": self.sink.name, "done": self._done, "behind": len(self._backlog),
                "attempts": self._attempts, "retry_in_s": round(delay, 3),
                "error": _shown(error, for_log=True),
            }  # fmt: skip
        message = "sink %s failed, and is tried again: %s"
        _log.warning(message, self.sink.name, fields["error"], extra=fields)

    def _succeeded(self) -> None:
        with self._changed:
            attempts, self._attempts = self._attempts, 0
            self._piece = min(self._piece * 2, self._limits.commits)
            self._error = self._notice = self._retry_at = None
        if attempts:
            fields = {"sink": self.sink.name, "done": self._done, "attempts": attempts}
            _log.info("sink %s works again", self.sink.name, extra=fields)


def _shown(error: BaseException, *, for_log: bool = False) -> str:
    """Return an error in one line, for the status or for the log.

    The log has the texts of Weft's and the operating system's errors only: others may repeat rows or secrets.
    """
    message = str(error).strip().partition("\n")[0]
    if isinstance(error, WeftError):
        return message
    if for_log:
        message = str(error.strerror) if isinstance(error, OSError) and error.errno is not None else ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _noticed(sink: str, error: BaseException) -> Notice:
    """Return a sink's error as a notice: of others than Weft's, only those about connections are public."""
    text, error_kind = _shown(error), type(error).__name__
    # A database driver's OperationalError is about the server: it cannot be reached, or has no room.
    if isinstance(error, WeftError | OSError) or error_kind == "OperationalError":
        return Notice(kind=NoticeKind.SINK_FAILS, subject=sink, error_kind=error_kind, about=text)
    return Notice(kind=NoticeKind.SINK_RAISES, subject=sink, error_kind=error_kind, detail=text)
