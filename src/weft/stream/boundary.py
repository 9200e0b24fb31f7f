"""Changes of queries from any thread: all that wait between two batches become one commit."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from weft.stream.membership import Changes

Halted = Callable[[], bool]
"""Says whether to abandon what is under way: a stop was requested."""


class Halt(Exception):
    """The outcome of a change that was abandoned, without a trace."""


class Change:
    """A change of one query, to be carried out between two batches of its stream, and its outcome."""

    def __init__(
        self,
        query: str,
        carry_out: Callable[[], object],
        *,
        stream: str | None,
        halted: Halted = lambda: False,
    ) -> None:
        """`stream` is None for a query that is not known: then the change waits for no batch."""
        self.query, self.stream = query, stream
        self._carry_out, self.halted = carry_out, halted
        self.done = False
        """Whether it has been carried out, or refused."""
        self.result: object = None
        """What carrying it out gave."""
        self.error: Exception | None = None
        """Why it was refused."""

    def attempt(self, within: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """Carry it out; an error is its outcome. `within` undoes what was done before the error."""
        try:
            if self.halted():
                raise Halt
            with within():
                self.result = self._carry_out()
        except Exception as error:
            self.error = error

    def finish(self, refusal: Exception | None = None) -> None:
        """Settle the outcome."""
        self.error, self.done = refusal or self.error, True

    def outcome(self) -> object:
        """Return what carrying it out gave, or raise why it was refused."""
        if self.error is not None:
            raise self.error
        return self.result


class Boundary:
    """The changes of a stream's queries that wait for the boundary between two batches.

    Whoever waits for it gets there at some time, and then carries out everything that waits, whoever asked
    for it, by one commit:

        thread 1   change a ────────────waits──────────┐ a, b and c: one commit ── done
        thread 2          change b ──────waits─────────│──────────────────────── done
        thread 3                change c ───waits──────│──────────────────────── done
        batches    |──────────────────────────────────||                         |─────────

    Two changes of the same query are two commits: the second depends on what becomes of the first.
    """

    def __init__(
        self,
        *,
        lock: AbstractContextManager[object],
        visible: AbstractContextManager[object],
        together: Callable[[], AbstractContextManager[Changes]],
    ) -> None:
        """Carry out changes while `lock` is held, as batches are; `visible` keeps others from looking."""
        self._lock, self._visible, self._together = lock, visible, together
        self._mutex = threading.Lock()
        self._waiting: list[Change] = []

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Carry out changes, with all others that wait; each has its outcome when this returns."""
        with self._mutex:
            self._waiting.extend(changes)
        try:
            with self._lock:
                while not all(change.done for change in changes):
                    with self._visible:
                        self._commit(self._next())
        finally:
            # After an interrupt nobody waits for them.
            with self._mutex:
                self._waiting = [change for change in self._waiting if change not in changes]

    def _next(self) -> list[Change]:
        """Take the first change of each query that has any."""
        with self._mutex:
            first: dict[str, Change] = {}
            for change in self._waiting:
                first.setdefault(change.query, change)
            group = list(first.values())
            self._waiting = [change for change in self._waiting if first[change.query] is not change]
        return group

    def _commit(self, group: Sequence[Change]) -> None:
        """Carry out changes of different queries by one commit; one that fails is refused alone."""
        made, failure = Changes(), None
        try:
            with self._together() as made:
                for change in group:
                    change.attempt(made.attempt)
                for change in group:
                    if change.error is None and change.halted():
                        made.refuse(change.query, Halt())
        except Exception as error:
            # None of them is durable; those that changed something may have an error of their own.
            failure = None if made.refused else error
        except BaseException:
            for change in group:
                change.finish(Halt())
            raise
        for change in group:
            change.finish(change.error or made.refused.get(change.query, failure))
