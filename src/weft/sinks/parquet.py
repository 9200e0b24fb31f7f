"""Results as Parquet datasets, one for each query."""

import math
import threading
from collections.abc import Mapping
from itertools import groupby
from time import monotonic
from uuid import uuid4

import pyarrow as pa

from weft.faultpoints import reach
from weft.sinks.dataset import Dataset, History, finish_merges
from weft.sinks.sink import Results
from weft.storage import Folder
from weft.storage.names import file_name

_BUFFERED_BYTES = 64 << 20
"""How much waits in memory before files are written: many batches, few files."""
_BUFFERED_SECONDS = 60.0
"""How long results wait at most."""
_SMALL_FILES = 64
"""More small files than this are merged."""
_MERGED_AT_ONCE = 16
"""How many queries' files are merged after a flush at most, so that none takes long."""


class ParquetSink:
    """Write one Parquet dataset per query, in few files however many batches there were.

    `queries` are the columns of all queries of the stream: each has a dataset, if only one without rows.
    `run` is what commits are counted in where no checkpoint does: the run's name, a space, and the stream's.
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
        self.found: int
        """The last commit of which anything was there at the beginning, and stays."""
        self._folder = folder
        self._queries = dict(queries or {})
        self._changing = threading.Lock()
        self._buffer: dict[str, list[tuple[int, pa.Table]]] = {}
        self._buffered_bytes = 0
        self._buffered_at = math.inf
        self._first = self._last = self.found = -1
        self._run = run or uuid4().hex
        self._history = History.of(self._run)
        self._datasets: dict[str, Dataset] = {}

    def expect(self, query: str, schema: pa.Schema) -> None:
        """Let a query have a dataset, even if it never gives a row."""
        with self._changing:
            self._queries = {**self._queries, query: schema}

    def expect_no_more(self, query: str) -> None:
        """Let go of a query's dataset once all that it gave is written."""
        with self._changing:
            self._queries = {name: schema for name, schema in self._queries.items() if name != query}

    def resume(self, after: int, *, origin: str = "") -> None:
        """Remove the files of commits after `after`.

        One that holds earlier commits too stays, and its later commits are not written again.
        """
        self._buffer, self._buffered_bytes, self._buffered_at = {}, 0, math.inf
        self.done = self._first = self._last = after
        self._history = History.of(origin or self._run)
        self._datasets = {}
        self.found = self._mend(after) if origin else after
        for query in self._queries:
            self._dataset(query)

    def _mend(self, after: int) -> int:
        """Finish merges of all queries, also of those that rest; return the last commit that stays."""
        found = after
        for name in self._folder.names():
            folder = self._folder.folder(name)
            names = folder.names()
            if self._history.ranges(names, hidden=True):
                finish_merges(folder, self._history)
                names = folder.names()
            files = self._history.ranges(names).values()
            found = max(found, *(last for first, last in files if first <= after), -1)
            # Older versions called folders just as their queries, which never had a percent sign.
            today = name if "%" in name else file_name(name)
            if files and today != name and not self._folder.has(today):
                self._folder.rename(name, today)
        return found

    def deliver(self, commit: int, results: Results) -> None:
        """Keep results until there is enough for a file, or a minute has passed."""
        if commit <= self.done:
            return
        self._last = commit
        given = {query: table for query, table in results.items() if table.num_rows}
        if not self._buffer and not given:
            self.done = commit
            return
        if not self._buffer:
            self._first, self._buffered_at = commit, monotonic()
        for query, table in given.items():
            self._buffer.setdefault(query, []).append((commit, table))
            self._buffered_bytes += table.nbytes
        if self._buffered_bytes > _BUFFERED_BYTES:
            self.flush()

    def flush_due_in(self) -> float:
        """Return how long results may still be kept back."""
        return self._buffered_at + _BUFFERED_SECONDS - monotonic()

    def flush(self) -> None:
        """Write a file for each query that has new results."""
        for query, parts in self._buffer.items():
            self._write(query, parts)
            reach("deliver.partly")
        for query, schema in self._queries.items():
            # A query without results has a dataset too, with no rows.
            if self._dataset(query).is_empty:
                self._dataset(query).write(max(self._first, 0), max(self._last, 0), schema.empty_table())
        self._buffer, self._buffered_bytes, self._buffered_at = {}, 0, math.inf
        self.done = self._last
        self._merge()
        expected = self._queries
        self._datasets = {query: one for query, one in self._datasets.items() if query in expected}

    def close(self) -> None:
        """Forget what is kept back."""
        self._buffer, self._buffered_bytes, self._buffered_at = {}, 0, math.inf

    def _write(self, query: str, parts: list[tuple[int, pa.Table]]) -> None:
        dataset = self._dataset(query)
        first = max(self._first, dataset.through + 1)
        new = [part for part in parts if part[0] >= first]
        # Columns change when a name is given to another query: a file has those of one.
        alike = [list(some) for _, some in groupby(new, key=lambda part: part[1].schema)]
        for number, some in enumerate(alike):
            last = self._last if number == len(alike) - 1 else some[-1][0]
            dataset.write(first, last, pa.concat_tables([table for _, table in some]))
            first = last + 1

    def _dataset(self, query: str) -> Dataset:
        """Return a query's files, after those of commits that are delivered again were removed."""
        if query not in self._datasets:
            folder = self._folder.folder(file_name(query))
            self._datasets[query] = Dataset(folder, after=self.done, history=self._history)
        return self._datasets[query]

    def _merge(self) -> None:
        full = [dataset for dataset in self._datasets.values() if dataset.small_files > _SMALL_FILES]
        for dataset in sorted(full, key=lambda one: -one.small_files)[:_MERGED_AT_ONCE]:
            dataset.merge()
