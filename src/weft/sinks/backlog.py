"""Commits that wait for a sink."""

from collections.abc import Callable

from weft.sinks.sink import Results

Outbox = Callable[[int], Results]
"""Reads the results of a commit from the checkpoint."""


class Backlog:
    """The commits that a sink has not finished, in order; the caller holds a lock."""

    def __init__(self, *, outbox: Outbox | None, commits: int, memory_bytes: int) -> None:
        self.outbox = outbox
        self._commits, self._memory_bytes = commits, memory_bytes
        self._waiting: dict[int, Results | None] = {}
        """Results in memory by commit; None if they are only in the outbox."""
        self.size = 0
        """Bytes of results in memory."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether another commit must wait."""
        too_large = self.outbox is None and self.size >= self._memory_bytes
        return too_large or len(self._waiting) >= self._commits

    def add(self, commit: int, results: Results | None) -> None:
        """Append a commit; its results stay in memory if they fit, or if there is no outbox."""
        if self.outbox is not None and self.size + size_of(results) > self._memory_bytes:
            results = None
        self._waiting[commit] = results
        self.size += size_of(results)

    def after(self, commit: int) -> list[int]:
        """Return the waiting commits that follow a commit."""
        return [waiting for waiting in self._waiting if waiting > commit]

    def in_memory(self, commit: int) -> Results | None:
        """Return a commit's results if they are in memory."""
        return self._waiting[commit]

    def release(self, commit: int) -> None:
        """Free the memory of a commit's results, if the outbox has them."""
        if self.outbox is not None and commit in self._waiting:
            self.size -= size_of(self._waiting[commit])
            self._waiting[commit] = None

    def forget(self, through: int) -> None:
        """Drop the commits that the sink has finished."""
        for commit in [waiting for waiting in self._waiting if waiting <= through]:
            self.size -= size_of(self._waiting.pop(commit))


def size_of(results: Results | None) -> int:
    """Return the bytes of memory that results take."""
    return sum(table.nbytes for table in (results or {}).values())
