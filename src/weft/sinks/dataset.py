"""One query's Parquet files: each is named by the history and the commits it holds; no commit is in two.

A file holds all rows that the query gave in its commits, and appears whole. Many files become one like this:

    weft-0-4  weft-5-9            the files as they were
    weft-0-4  weft-5-9  _weft-0-9 the same rows once more, under a name that readers of datasets skip
    _weft-0-9                     the files are removed: for a moment rows are missing, but none comes twice
    weft-0-9                      the one file has a name that readers see, by a rename

A crash can come between any two lines. Whoever finds a hidden file knows that it is whole, and goes on below
the second line; what is done again changes nothing.

No reader that lists a folder can be given many files and then one at one blow. But whoever finds the same
names before and after reading, and no hidden one, has read all rows, and each once.

A history is a stream of a checkpoint, or else of a run, and names have it in front of the commits; those of
runs begin with an r. What a run left that no checkpoint counts is removed by the next that has the name. What
another checkpoint has written is nobody else's to remove, and what another stream of the same gave, when one
of its queries had the name, stays.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.errors import Fenced
from weft.storage import Folder

_FILE = re.compile(r"_?weft-(?:(r?[0-9a-f]{8})-([0-9a-f]{4})-)?\d{9}-\d{9}\.(?:parquet|merged)")
_CLAIM = re.compile(r"_weft-[0-9a-f]{8}-[0-9a-f]{16}-claim\.json")
_LARGE_BYTES = 32 << 20
"""Files of this size are not merged any more."""


@dataclass(frozen=True, slots=True)
class History:
    """What commits are counted in, as the names of files tell it."""

    owner: str
    """The checkpoint, or the run."""
    stream: str
    claim: str = ""
    """What the file is called that tells who delivered last; readers of datasets skip it."""

    @classmethod
    def of(cls, origin: str, *, run: bool = False) -> "History":
        """Return the history that an origin, as `Sink.resume` has it, stands for; `run` if none outlives it.

        >>> History.of("0123456789abcdef trades")
        History(owner='f3299829', stream='eccb', claim='_weft-f3299829-487d196b9d968d94-claim.json')
        """
        owner, _, stream = origin.partition(" ")
        by = f"{'r' if run else ''}{_digest(owner, 4)}"
        return cls(by, _digest(stream, 2), f"_weft-{by}-{_digest(stream, 8)}-claim.json")

    def seen(self, first: int, last: int) -> str:
        """Return what a file with these commits is called."""
        return f"{self._before}{first:09d}-{last:09d}.parquet"

    def hidden(self, first: int, last: int) -> str:
        """Return what it is called while it takes the place of others."""
        return f"_{self._before}{first:09d}-{last:09d}.merged"

    def other_claims(self, names: Iterable[str]) -> frozenset[str]:
        """Return the claims among names that other histories have made."""
        return frozenset(name for name in names if _CLAIM.fullmatch(name) and name != self.claim)

    def ranges(self, names: Iterable[str], *, hidden: bool = False) -> dict[str, tuple[int, int]]:
        """Return those files among names that are this history's, with their first and last commits."""
        before, after = (f"_{self._before}", "merged") if hidden else (self._before, "parquet")
        pattern = re.compile(rf"{before}(\d{{9}})-(\d{{9}})\.{after}")
        found = [(name, pattern.fullmatch(name)) for name in names]
        return {name: (int(match[1]), int(match[2])) for name, match in found if match is not None}

    def left_over(self, names: Iterable[str]) -> list[str]:
        """Return the files among names that another run wrote which no checkpoint counts."""
        return [name for name, owner in self._of_others(names) if owner.startswith("r")]

    def foreign(self, names: Iterable[str]) -> list[str]:
        """Return the files among names that are another checkpoint's."""
        return [name for name, owner in self._of_others(names) if not owner.startswith("r")]

    def _of_others(self, names: Iterable[str]) -> list[tuple[str, str]]:
        found = [(name, _FILE.fullmatch(name)) for name in names]
        return [(name, match[1] or "") for name, match in found if match and match[1] != self.owner]

    @property
    def _before(self) -> str:
        return f"weft-{self.owner}-{self.stream}-"


class Dataset:
    """The files of one query."""

    def __init__(self, folder: Folder, *, after: int, history: History) -> None:
        """Mend what a crash left, and remove the files of commits after `after`: they are delivered again."""
        self._folder, self._history = folder, history
        self._large: set[str] = set()
        refuse_foreign(folder, history)
        folder.tidy()
        for name in history.left_over(folder.names()):
            folder.delete(name)
        finish_merges(folder, history)
        self._files = history.ranges(folder.names())
        for name, (first, _) in list(self._files.items()):
            if first > after:
                folder.delete(name)
                del self._files[name]
        self.through = max((last for _, last in self._files.values()), default=-1)
        """The last commit that was found; it lies beyond `after` if files of both sides of it were merged."""

    @property
    def small_files(self) -> int:
        """How many files there are that could be merged."""
        return len(self._files) - len(self._large)

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return not self._files

    def write(self, first: int, last: int, rows: pa.Table) -> None:
        """Add the rows of commits."""
        name = self._history.seen(first, last)
        self._folder.write(name, _as_parquet(rows), replace=True)
        self._files[name] = (first, last)

    def merge(self) -> None:
        """Make few files of many."""
        for files in self._mergeable():
            merged = _as_parquet(pa.concat_tables([table for _, table in files]))
            first, last = self._files[files[0][0]][0], self._files[files[-1][0]][1]
            self._folder.write(self._history.hidden(first, last), merged, replace=True)
            finish_merges(self._folder, self._history)
            self._files = self._history.ranges(self._folder.names())

    def _mergeable(self) -> Iterator[list[tuple[str, pa.Table]]]:
        """Yield small files that follow each other and have the same columns, two or more at a time."""
        files: list[tuple[str, pa.Table]] = []
        size = 0
        for name in sorted(self._files):
            data = b"" if name in self._large else self._folder.read(name)
            if not data or len(data) >= _LARGE_BYTES:
                self._large.add(name)
                if len(files) > 1:
                    yield files
                files, size = [], 0
                continue
            table = pq.read_table(pa.BufferReader(data))
            if files and (size >= _LARGE_BYTES or not table.schema.equals(files[0][1].schema)):
                if len(files) > 1:
                    yield files
                files, size = [], 0
            files.append((name, table))
            size += len(data)
        if len(files) > 1:
            yield files


def refuse_foreign(folder: Folder, history: History) -> None:
    """Raise Fenced if a folder holds results of another checkpoint."""
    foreign = history.foreign(folder.names())
    if foreign:
        raise Fenced(
            f"{folder.uri} holds results of another checkpoint (such as {foreign[0]}), which are not this "
            "run's to remove; name another folder with --out, or give the query another name. If that "
            "checkpoint is not needed any more, weft run --checkpoint … --rewind takes the folder over, and "
            "shows first what would go"
        )


def cut_after(folder: Folder, history: History, commit: int, watermark: int | None) -> None:
    """Remove the results of commits after one; `watermark` tells them apart in a file that holds both."""
    finish_merges(folder, history)
    for name, (first, last) in history.ranges(folder.names()).items():
        if first <= commit < last:
            kept = until(pq.read_table(pa.BufferReader(folder.read(name))), watermark)
            folder.write(history.hidden(first, commit), _as_parquet(kept), replace=True)
            folder.delete(name)
            folder.rename(history.hidden(first, commit), history.seen(first, commit))
        elif last > commit:
            folder.delete(name)


def rows_after(folder: Folder, history: History, commit: int, watermark: int | None) -> int:
    """Return how many rows `cut_after` would remove."""
    count = 0
    for name, (first, last) in history.ranges(folder.names()).items():
        if last > commit:
            rows = pq.read_table(pa.BufferReader(folder.read(name)))
            count += rows.num_rows - (until(rows, watermark).num_rows if first <= commit else 0)
    return count


def rows_in(folder: Folder, names: Iterable[str]) -> int:
    """Return how many rows some files have."""
    return sum(pq.read_metadata(pa.BufferReader(folder.read(name))).num_rows for name in names)


def until(rows: pa.Table, watermark: int | None) -> pa.Table:
    """Return the results of windows that had ended when the watermark was at a time, in microseconds."""
    if watermark is None:
        return rows.slice(0, 0)
    return rows.filter(pc.less_equal(rows["window_end"].cast(pa.int64()), watermark))


def finish_merges(folder: Folder, history: History) -> None:
    """Bring merges that have begun to their end."""
    for hidden, (first, last) in history.ranges(folder.names(), hidden=True).items():
        seen = history.seen(first, last)
        for name, (begin, end) in history.ranges(folder.names()).items():
            if first <= begin and end <= last and name != seen:
                folder.delete(name)
        folder.rename(hidden, seen)


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=size).hexdigest()


def _as_parquet(rows: pa.Table) -> bytes:
    written = pa.BufferOutputStream()
    pq.write_table(rows, written)
    return bytes(written.getvalue())
