"""One query's Parquet files: each is named by the history and the commits it holds; no commit is in two.

A file holds all rows that the query gave in its commits, and appears whole. Many files become one like this:

    weft-0-4  weft-5-9            the files as they were
    weft-0-4  weft-5-9  _weft-0-9 the same rows once more, under a name that readers of datasets skip
    _weft-0-9                     the files are removed: for a moment rows are missing, but none comes twice
    weft-0-9                      the merged file gets a name that readers see, by a rename

A crash can come between any two lines. A hidden file that is found later is therefore complete, and the merge
continues after the second line; repeating a step changes nothing.

No reader that lists a folder can be switched from many files to one in a single step. But a reader that
finds the same names before and after reading, and no hidden one, has read each row once.

A history is a stream of a checkpoint, or else of a run, and file names begin with it; those of runs begin
with an r. Files that a run left are removed by the next run or checkpoint that has the name. Files of
another checkpoint are never removed, and files of another stream of the same one, in which a query had the
name, stay.
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
    """What commits are counted in, as file names show it."""

    owner: str
    """The checkpoint, or the run."""
    stream: str
    claim: str = ""
    """The name of the file that stores who delivered last; readers of datasets skip it."""

    @classmethod
    def of(cls, origin: str, *, run: bool = False) -> "History":
        """Return the history of an origin, as in `Sink.resume`; `run` if it is not of a checkpoint.

        >>> History.of("0123456789abcdef trades")
        History(owner='f3299829', stream='eccb', claim='_weft-f3299829-487d196b9d968d94-claim.json')
        """
        checkpoint, _, stream = origin.partition(" ")
        owner = f"{'r' if run else ''}{_digest(checkpoint, 4)}"
        return cls(owner, _digest(stream, 2), f"_weft-{owner}-{_digest(stream, 8)}-claim.json")

    def seen(self, first: int, last: int) -> str:
        """Return the name of a file with these commits."""
        return f"weft-{self.owner}-{self.stream}-{first:09d}-{last:09d}.parquet"

    def hidden(self, first: int, last: int) -> str:
        """Return its name until it has replaced other files."""
        return f"_weft-{self.owner}-{self.stream}-{first:09d}-{last:09d}.merged"

    def other_claims(self, names: Iterable[str]) -> frozenset[str]:
        """Return the claims of other histories among names."""
        return frozenset(name for name in names if _CLAIM.fullmatch(name) and name != self.claim)

    def ranges(self, names: Iterable[str], *, hidden: bool = False) -> dict[str, tuple[int, int]]:
        """Return this history's files among names, with their first and last commits."""
        prefix, suffix = ("_", "merged") if hidden else ("", "parquet")
        pattern = re.compile(rf"{prefix}weft-{self.owner}-{self.stream}-(\d{{9}})-(\d{{9}})\.{suffix}")
        matches = filter(None, map(pattern.fullmatch, names))
        return {match[0]: (int(match[1]), int(match[2])) for match in matches}

    def of_others(self, names: Iterable[str], *, runs: bool) -> list[str]:
        """Return the files among names that another run left, or those of another checkpoint."""
        matches = filter(None, map(_FILE.fullmatch, names))
        owners = ((match[0], match[1] or "") for match in matches if match[1] != self.owner)
        return [name for name, owner in owners if owner.startswith("r") is runs]


class Dataset:
    """The files of one query."""

    def __init__(self, folder: Folder, *, after: int, history: History) -> None:
        """Repair what a crash left, and remove the files of commits after `after`: they come again."""
        self._folder, self._history = folder, history
        self._large: set[str] = set()
        refuse_foreign(folder, history)
        folder.tidy()
        for name in history.of_others(folder.names(), runs=True):
            folder.delete(name)
        finish_merges(folder, history)
        self.files = history.ranges(folder.names())
        """The files, with their first and last commits."""
        for name, (first, _) in list(self.files.items()):
            if first > after:
                folder.delete(name)
                del self.files[name]
        self.through = max((last for _, last in self.files.values()), default=-1)
        """The last commit found; beyond `after` if files on both sides of it had been merged."""

    @property
    def small_files(self) -> int:
        """Number of files that could be merged."""
        return len(self.files) - len(self._large)

    def write(self, first: int, last: int, rows: pa.Table) -> None:
        """Add the rows of commits."""
        name = self._history.seen(first, last)
        self._folder.write(name, _as_parquet(rows), replace=True)
        self.files[name] = (first, last)

    def merge(self) -> None:
        """Replace many files by few."""
        for files in self._mergeable():
            rows = pa.concat_tables([table for _, table in files])
            first, last = self.files[files[0][0]][0], self.files[files[-1][0]][1]
            self._folder.write(self._history.hidden(first, last), _as_parquet(rows), replace=True)
            finish_merges(self._folder, self._history)
            self.files = self._history.ranges(self._folder.names())

    def _mergeable(self) -> Iterator[list[tuple[str, pa.Table]]]:
        """Yield runs of two or more small files in order, with the same columns."""
        run: list[tuple[str, pa.Table]] = []
        size = 0
        for name in sorted(self.files):
            data = b"" if name in self._large else self._folder.read(name)
            table = None
            if not data or len(data) >= _LARGE_BYTES:
                self._large.add(name)
            else:
                table = _rows(data)
            if run and (table is None or size >= _LARGE_BYTES or not table.schema.equals(run[0][1].schema)):
                if len(run) > 1:
                    yield run
                run, size = [], 0
            if table is not None:
                run.append((name, table))
                size += len(data)
        if len(run) > 1:
            yield run


def refuse_foreign(folder: Folder, history: History) -> None:
    """Raise Fenced if a folder holds results of another checkpoint."""
    foreign = history.of_others(folder.names(), runs=False)
    if foreign:
        raise Fenced(
            f"{folder.uri} holds results of another checkpoint (such as {foreign[0]}), which are not this "
            "run's to remove; name another folder with --out, or give the query another name. If that "
            "checkpoint is not needed any more, weft run --checkpoint … --rewind takes the folder over, and "
            "first shows what it removes"
        )


def cut_after(folder: Folder, history: History, commit: int, watermark: int | None) -> None:
    """Remove the results of later commits; in a file with earlier ones, too, `watermark` separates them."""
    finish_merges(folder, history)
    for name, (first, last) in history.ranges(folder.names()).items():
        if first <= commit < last:
            hidden = history.hidden(first, commit)
            folder.write(hidden, _as_parquet(until(_rows(folder.read(name)), watermark)), replace=True)
            folder.delete(name)
            folder.rename(hidden, history.seen(first, commit))
        elif last > commit:
            folder.delete(name)


def rows_after(folder: Folder, history: History, commit: int, watermark: int | None) -> int:
    """Return the number of rows that `cut_after` would remove."""
    count = 0
    for name, (first, last) in history.ranges(folder.names()).items():
        if last > commit:
            rows = _rows(folder.read(name))
            count += rows.num_rows - (until(rows, watermark).num_rows if first <= commit else 0)
    return count


def until(rows: pa.Table, watermark: int | None) -> pa.Table:
    """Return the results of windows that end by a watermark, in microseconds."""
    if watermark is None:
        return rows.slice(0, 0)
    return rows.filter(pc.less_equal(rows["window_end"].cast(pa.int64()), watermark))


def finish_merges(folder: Folder, history: History) -> None:
    """Complete the merges that have begun."""
    for hidden, (first, last) in history.ranges(folder.names(), hidden=True).items():
        seen = history.seen(first, last)
        for name, (begin, end) in history.ranges(folder.names()).items():
            if first <= begin and end <= last and name != seen:
                folder.delete(name)
        folder.rename(hidden, seen)


def _digest(text: str, size: int) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=size).hexdigest()


def _rows(data: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(data))


def _as_parquet(rows: pa.Table) -> bytes:
    # Few numbers repeat: to look for those that do takes 30 % of the time, and saves 0.5 % of the bytes.
    texts = [column.name for column in rows.schema if pa.types.is_string(column.type)]
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer, use_dictionary=texts or False)
    return bytes(buffer.getvalue())
