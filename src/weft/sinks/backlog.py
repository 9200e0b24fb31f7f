"""Commits that wait for a sink."""

from collections.abc import Callable
from dataclasses import dataclass

from weft.sinks.sink import Results

Outbox = Callable[[int], Results]
"""Reads the results of a commit back from where they are durable."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    results: Results | None
    """None if they are to be read from the outbox."""
    size: int
    """How many bytes of memory they take."""


class Backlog:
    """The commits that a sink is not done with, in order; whoever uses it holds a lock."""

    def __init__(self, *, outbox: Outbox | None, commits: int, memory_bytes: int) -> None:
        self.outbox = outbox
        self._commits, self._memory_bytes = commits, memory_bytes
        self._waiting: dict[int, _Waiting] = {}
        self.size = 0
        """How many bytes wait in memory."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another commit."""
        too_large = self.outbox is None and self.size >= self._memory_bytes
        return too_large or len(self._waiting) >= self._commits

    def add(self, commit: int, results: Results | None) -> None:
        """Let a commit wait; its results stay in memory while there is room, or if nothing else has them."""
        size = _size(results)
        if self.outbox is not None and self.size + size > self._memory_bytes:
            results, size = None, 0
        self._waiting[commit] = _Waiting(results, size)
        self.size += size

    def after(self, commit: int) -> list[int]:
        """Return the commits that wait after one."""
        return [waiting for waiting in self._waiting if waiting > commit]

    def in_memory(self, commit: int) -> Results | None:
        """Return results if they are in memory."""
        return self._waiting[commit].results

    def release(self, commit: int) -> None:
        """Give the memory of a commit free, if its results can be read again."""
        if self.outbox is not None and commit in self._waiting:
            self.size -= self._waiting[commit].size
            self._waiting[commit] = _Waiting(None, 0)

    def forget(self, through: int) -> None:
        """Drop commits that the sink is done with."""
        for commit in [waiting for waiting in self._waiting if waiting <= through]:
            self.size -= self._waiting.pop(commit).size


def _size(results: Results | None) -> int:
    return sum(table.nbytes for table in (results or {}).values())
