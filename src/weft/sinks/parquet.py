"""Results as Parquet datasets, one for each query."""

import errno
import logging
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import groupby
from time import monotonic
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from weft.faultpoints import reach
from weft.sinks.dataset import Dataset, History, cut_after, finish_merges, refuse_foreign, rows_after
from weft.sinks.fence import Claim, Lineage, Surplus, Target, judge, read_claim
from weft.sinks.sink import Results, SinkError
from weft.storage import Folder, LocalFolder
from weft.storage.names import file_name
from weft.threads import side_by_side

_log = logging.getLogger("weft.sinks")
_BUFFERED_BYTES = 64 << 20
"""Results kept in memory before files are written: many batches, few files."""
_BUFFERED_SECONDS = 60.0
"""How long results are kept back."""
_SMALL_FILES = 64
"""More small files than this are merged."""
_MERGED_AT_ONCE = 16
"""Maximum number of queries whose files are merged after a flush, so that no flush takes long."""


class ParquetSink:
    """Write one Parquet dataset per query, in few files however many batches there were.

    `queries` are the columns of all queries of the stream: each has a dataset, even without rows.
    `run` is the history that commits are counted in without a checkpoint: the run's id, a space, and the
    stream's name.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        queries: Mapping[str, pa.Schema] | None = None,
        run: str = "",
        name: str = "parquet",
    ) -> None:
        self.name = name
        self.done = -1
        self._folder = folder
        self._queries = dict(queries or {})
        self._changing = threading.Lock()
        self.close()
        self._first = self._last = -1
        self._run = run or uuid4().hex
        self._history = History.of(self._run, run=True)
        self._origin = ""
        self._lineage: Lineage | None = None
        self._others: frozenset[str] = frozenset()
        """Claims of other histories when their files were last looked for."""
        self._datasets: dict[str, Dataset] = {}

    @property
    def place(self) -> str:
        """The folder, whatever way leads to it."""
        folder = self._folder
        return str(folder.path.resolve()) if isinstance(folder, LocalFolder) else folder.uri

    def try_out(self) -> None:
        """Write a file into the folder, and remove it again with the folders made for it."""
        try:
            self._folder.try_out()
        except OSError as error:
            raise SinkError(
                f"sink {self.name} cannot write to {self._folder.uri}: {error.strerror or error}; "
                f"{_mending(error)}, or give another folder"
            ) from error

    def expect(self, query: str, schema: pa.Schema) -> None:
        """Create a dataset for a query, even if it never gives a row."""
        with self._changing:
            self._queries = {**self._queries, query: schema}

    def expect_no_more(self, query: str) -> None:
        """Release a query's dataset once its results are written."""
        with self._changing:
            self._queries = {name: schema for name, schema in self._queries.items() if name != query}

    def check_free(self, query: str) -> None:
        """Raise Fenced if a query's folder holds results of another checkpoint."""
        refuse_foreign(self._folder_of(query), self._history)

    def set_lineage(self, lineage: Lineage) -> None:
        """Deliver as the current incarnation of a lineage from now on."""
        self._lineage = lineage

    def seen(self, origin: str) -> Claim | None:
        """Return who delivered last to this folder, from the claim beside the datasets."""
        history = History.of(origin)
        try:
            claim = self._folder.read(history.claim)
        except FileNotFoundError:
            # Written before there were claims: the names of files say through which commit.
            last = max((last for _, (_, last) in self._files(history)), default=None)
            return None if last is None else Claim(through=last)
        return read_claim(claim, name=f"{self._folder.uri}/{history.claim}")

    def surplus(self, target: Target) -> list[Surplus]:
        """Return the results of later commits, and those of other checkpoints in this one's folders."""
        history, surplus = History.of(target.origin), list[Surplus]()
        later = f"after commit {target.commit}, which this checkpoint does not have"
        for dataset in self._datasets_of(history):
            rows = rows_after(self._folder.folder(dataset), history, target.commit, target.watermark)
            surplus.append(Surplus(query=dataset, rows=rows, why=later))
        for query in self._queries:
            folder = self._folder_of(query)
            foreign = history.of_others(folder.names(), runs=False)
            rows = sum(pq.read_metadata(pa.BufferReader(folder.read(name))).num_rows for name in foreign)
            surplus.append(Surplus(query=query, rows=rows, why="of another checkpoint"))
        return [results for results in surplus if results.rows]

    def rewind(self, target: Target) -> None:
        """Remove what `surplus` returns, and then claim the folder for the current incarnation."""
        history = History.of(target.origin)
        with self._folder.alone():
            for dataset in self._datasets_of(history):
                cut_after(self._folder.folder(dataset), history, target.commit, target.watermark)
            for query in self._queries:
                folder = self._folder_of(query)
                for name in history.of_others(folder.names(), runs=False):
                    folder.delete(name)
            self._write_claim(history, Claim(through=target.commit, lineage=target.lineage))

    def _files(self, history: History) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield each file of a history: its dataset, and its first and last commit."""
        for dataset in self._folder.names():
            names = self._folder.folder(dataset).names()
            for hidden in (False, True):
                yield from ((dataset, commits) for commits in history.ranges(names, hidden=hidden).values())

    def _datasets_of(self, history: History) -> list[str]:
        return list(dict.fromkeys(dataset for dataset, _ in self._files(history)))

    def resume(self, after: int, *, origin: str = "") -> None:
        """Remove the files of commits after `after`.

        A file that also holds earlier commits stays, and its later commits are not written again. Where
        another incarnation or another checkpoint has delivered, nothing is removed: Fenced is raised.
        """
        first_time = self.done == -1
        self.close()
        self.done = self._first = self._last = after
        self._origin, self._datasets = origin, {}
        self._history = History.of(origin or self._run, run=not origin)
        with self._folder.alone() if self._lineage is not None else nullcontext():
            fresh = self._judge() is None and first_time
            if fresh and self._lineage is not None and origin and after >= 0:
                # All that was delivered is gone: it is another folder, or was emptied.
                fields = {"sink": self.name, "folder": self._folder.uri, "last": after}
                message = "sink %s: %s has none of the results through commit %d; it gets those that follow"
                _log.warning(message, self.name, self._folder.uri, after, extra=fields)
            for query in self._queries:
                self.check_free(query)
            self._others = self._history.other_claims(self._folder.names()) if origin else frozenset()
            if origin:
                # Also those of paused queries.
                for dataset in self._datasets_of(self._history):
                    finish_merges(self._folder.folder(dataset), self._history)
                    # Older versions named folders exactly as their queries, without a percent sign.
                    name = dataset if "%" in dataset else file_name(dataset)
                    if name != dataset and not self._folder.has(name):
                        self._folder.rename(dataset, name)
            for query in self._queries:
                self._dataset(query)

    def _judge(self) -> Claim | None:
        """Return what the folder has seen; raise Fenced if this lineage does not know it."""
        if self._lineage is None or not self._origin:
            return None
        claim = self.seen(self._origin)
        judge(f"{self.name} ({self._folder.uri})", self._lineage, claim)
        return claim

    def _claim(self) -> None:
        """Store who delivers, and through which commit, before any of it is visible."""
        claim, lineage = self._judge(), self._lineage
        if lineage is None or not self._origin:
            return
        others = self._history.other_claims(self._folder.names())
        if others != self._others:
            # Another checkpoint's engine has delivered since, perhaps for queries of the same names.
            for query in {*self._queries, *self._buffer}:
                self.check_free(query)
            self._others = others
        through = self._last if claim is None else max(self._last, claim.through)
        new = Claim(through=through, lineage=lineage)
        if claim != new:
            self._write_claim(self._history, new)

    def _write_claim(self, history: History, claim: Claim) -> None:
        self._folder.write(history.claim, claim.as_json().encode(), replace=True)

    def deliver(self, commit: int, results: Results) -> None:
        """Keep results until there is enough for a file, or a minute has passed."""
        if commit <= self.done:
            return
        self._last = commit
        nonempty = {query: rows for query, rows in results.items() if rows.num_rows}
        if not self._buffer and not nonempty:
            self.done = commit
            return
        if not self._buffer:
            self._first, self._buffered_at = commit, monotonic()
        # While the stream runs: when it ends, somebody waits for the files.
        new = [query for query in nonempty if query not in self._buffer]
        self._folder.prepare(file_name(query) for query in new if not self._dataset(query).files)
        for query, rows in nonempty.items():
            self._buffer.setdefault(query, []).append((commit, rows))
            self._buffered_bytes += rows.nbytes
        if self._buffered_bytes > _BUFFERED_BYTES:
            self.flush()

    def flush_due_in(self) -> float:
        """Return how long results may still be kept back."""
        return self._buffered_at + _BUFFERED_SECONDS - monotonic()

    def flush(self) -> None:
        """Write a file for each query that has new results; raise Fenced if another incarnation delivered."""
        with self._folder.alone() if self._lineage is not None else nullcontext():
            # A query without results has a dataset, too, with no rows.
            empty = [query for query in self._queries if not self._dataset(query).files]
            if self._buffer or empty:
                self._claim()
            side_by_side(lambda parts: self._write(*parts), self._buffer.items(), waits=True)
            for query in empty:
                if not self._dataset(query).files:
                    rows = self._queries[query].empty_table()
                    self._dataset(query).write(max(self._first, 0), max(self._last, 0), rows)
            self.close()
            self.done = self._last
            full = [dataset for dataset in self._datasets.values() if dataset.small_files > _SMALL_FILES]
            for dataset in sorted(full, key=lambda dataset: -dataset.small_files)[:_MERGED_AT_ONCE]:
                dataset.merge()
        expected = self._queries
        self._datasets = {query: dataset for query, dataset in self._datasets.items() if query in expected}

    def close(self) -> None:
        """Drop the results kept back."""
        self._buffer: dict[str, list[tuple[int, pa.Table]]] = {}
        self._buffered_bytes = 0
        self._buffered_at = math.inf

    def _write(self, query: str, parts: list[tuple[int, pa.Table]]) -> None:
        dataset = self._dataset(query)
        first = max(self._first, dataset.through + 1)
        new = [part for part in parts if part[0] >= first]
        # A file has one schema; columns change when a name is given to another query.
        runs = [list(run) for _, run in groupby(new, key=lambda part: part[1].schema)]
        for number, run in enumerate(runs, 1):
            last = self._last if number == len(runs) else run[-1][0]
            dataset.write(first, last, pa.concat_tables([rows for _, rows in run]))
            first = last + 1
        reach("deliver.partly")

    def _folder_of(self, query: str) -> Folder:
        return self._folder.folder(file_name(query))

    def _dataset(self, query: str) -> Dataset:
        """Return a query's files, without those of commits that are delivered again."""
        if query not in self._datasets:
            self._datasets[query] = Dataset(self._folder_of(query), after=self.done, history=self._history)
        return self._datasets[query]


def _mending(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free space there"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "let this user write there"
    return "repair what is wrong there"
