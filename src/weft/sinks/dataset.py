"""One query's Parquet files: each is named by the commits it holds, and no commit is in two of them.

A file holds all rows that the query gave in its commits, and appears whole. Many files become one like this:

    weft-0-4  weft-5-9            the files as they were
    weft-0-4  weft-5-9  _weft-0-9 the same rows once more, under a name that readers of datasets skip
    _weft-0-9                     the files are removed: for a moment rows are missing, but none comes twice
    weft-0-9                      the one file has a name that readers see, by a rename

A crash can come between any two lines. Whoever finds a hidden file knows that it is whole, and goes on below
the second line; what is done again changes nothing.

No reader that lists a folder can be given many files and then one at one blow. But whoever finds the same
names before and after reading, and no hidden one, has read all rows, and each once.
"""

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from weft.storage import Folder

_SEEN = re.compile(r"weft-(\d{9})-(\d{9})\.parquet")
_HIDDEN = re.compile(r"_weft-(\d{9})-(\d{9})\.merged")
_LARGE_BYTES = 32 << 20
"""Files of this size are not merged any more."""


class Dataset:
    """The files of one query."""

    def __init__(self, folder: Folder, *, after: int) -> None:
        """Mend what a crash left, and remove the files of commits after `after`: they are delivered again."""
        self._folder = folder
        self._large: set[str] = set()
        folder.tidy()
        self.finish_merges()
        self._files = dict(_ranges(folder.names(), _SEEN))
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
        name = f"weft-{first:09d}-{last:09d}.parquet"
        self._folder.write(name, _as_parquet(rows), replace=True)
        self._files[name] = (first, last)

    def merge(self) -> None:
        """Make few files of many."""
        for files in self._mergeable():
            merged = _as_parquet(pa.concat_tables([table for _, table in files]))
            first, last = self._files[files[0][0]][0], self._files[files[-1][0]][1]
            self._folder.write(f"_weft-{first:09d}-{last:09d}.merged", merged, replace=True)
            self.finish_merges()

    def finish_merges(self) -> None:
        """Bring merges that have begun to their end."""
        for hidden, (first, last) in _ranges(self._folder.names(), _HIDDEN):
            seen = f"weft-{first:09d}-{last:09d}.parquet"
            for name, (begin, end) in _ranges(self._folder.names(), _SEEN):
                if first <= begin and end <= last and name != seen:
                    self._folder.delete(name)
            self._folder.rename(hidden, seen)
            self._files = dict(_ranges(self._folder.names(), _SEEN))

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


def _ranges(names: Iterable[str], pattern: re.Pattern[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    for name in names:
        found = pattern.fullmatch(name)
        if found is not None:
            yield name, (int(found[1]), int(found[2]))


def _as_parquet(rows: pa.Table) -> bytes:
    written = pa.BufferOutputStream()
    pq.write_table(rows, written)
    return bytes(written.getvalue())
