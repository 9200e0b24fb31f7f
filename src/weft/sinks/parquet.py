"""Results as Parquet datasets, one for each query."""

import logging
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from time import monotonic
from uuid import uuid4

import pyarrow as pa

from weft.faultpoints import reach
from weft.sinks.dataset import (
    Dataset,
    History,
    cut_after,
    finish_merges,
    refuse_foreign,
    rows_after,
    rows_in,
)
from weft.sinks.fence import Claim, Lineage, Surplus, Target, judge, read_claim
from weft.sinks.sink import Results
from weft.storage import Folder
from weft.storage.names import file_name
from weft.threads import side_by_side

_log = logging.getLogger("weft.sinks")
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
        self._folder = folder
        self._queries = dict(queries or {})
        self._changing = threading.Lock()
        self._buffer: dict[str, list[tuple[int, pa.Table]]] = {}
        self._buffered_bytes = 0
        self._buffered_at = math.inf
        self._first = self._last = -1
        self._run = run or uuid4().hex
        self._history = History.of(self._run, run=True)
        self._origin = ""
        self._lineage: Lineage | None = None
        self._others: frozenset[str] = frozenset()
        """Claims of other histories, as of the last look whether they have queries of the same names."""
        self._datasets: dict[str, Dataset] = {}

    def expect(self, query: str, schema: pa.Schema) -> None:
        """Let a query have a dataset, even if it never gives a row."""
        with self._changing:
            self._queries = {**self._queries, query: schema}

    def expect_no_more(self, query: str) -> None:
        """Let go of a query's dataset once all that it gave is written."""
        with self._changing:
            self._queries = {name: schema for name, schema in self._queries.items() if name != query}

    def check_free(self, query: str) -> None:
        """Raise Fenced if a query's folder holds results of another checkpoint."""
        refuse_foreign(self._folder.folder(file_name(query)), self._history)

    def stand_as(self, lineage: Lineage) -> None:
        """Deliver as the current incarnation of a lineage from now on."""
        self._lineage = lineage

    def seen(self, origin: str) -> Claim | None:
        """Return who delivered last to this folder, as the claim beside the datasets tells."""
        history = History.of(origin)
        try:
            claim = self._folder.read(history.claim)
        except FileNotFoundError:
            # Written before there were claims: files tell through which commit.
            last = max((last for _, (_, last) in self._files(history)), default=None)
            return None if last is None else Claim(through=last)
        return read_claim(claim, name=f"{self._folder.uri}/{history.claim}")

    def surplus(self, target: Target) -> list[Surplus]:
        """Return the results of later commits, and what other checkpoints have in this one's folders."""
        history, found = History.of(target.origin), list[Surplus]()
        later = f"after commit {target.commit}, which this checkpoint does not have"
        for dataset in self._datasets_of(history):
            rows = rows_after(self._folder.folder(dataset), history, target.commit, target.watermark)
            found.append(Surplus(query=dataset, rows=rows, why=later))
        for query in self._queries:
            folder = self._folder.folder(file_name(query))
            rows = rows_in(folder, history.foreign(folder.names()))
            found.append(Surplus(query=query, rows=rows, why="of another checkpoint"))
        return [one for one in found if one.rows]

    def rewind(self, target: Target) -> None:
        """Remove what `surplus` tells, and then claim the folder for the current incarnation."""
        history = History.of(target.origin)
        with self._folder.alone():
            for dataset in self._datasets_of(history):
                cut_after(self._folder.folder(dataset), history, target.commit, target.watermark)
            for query in self._queries:
                folder = self._folder.folder(file_name(query))
                for name in history.foreign(folder.names()):
                    folder.delete(name)
            claim = Claim(through=target.commit, lineage=target.lineage)
            self._folder.write(history.claim, claim.as_json().encode(), replace=True)

    def _files(self, history: History) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the datasets of a history, each with the first and last commit of one of its files."""
        for dataset in self._folder.names():
            names = self._folder.folder(dataset).names()
            for hidden in (False, True):
                yield from ((dataset, commits) for commits in history.ranges(names, hidden=hidden).values())

    def _datasets_of(self, history: History) -> list[str]:
        return list(dict.fromkeys(dataset for dataset, _ in self._files(history)))

    def resume(self, after: int, *, origin: str = "") -> None:
        """Remove the files of commits after `after`.

        One that holds earlier commits too stays, and its later commits are not written again. Where another
        incarnation was here, or another checkpoint, nothing is removed: Fenced is raised.
        """
        first_time = self.done == -1
        self._buffer, self._buffered_bytes, self._buffered_at = {}, 0, math.inf
        self.done = self._first = self._last = after
        self._origin, self._datasets = origin, {}
        self._history = History.of(origin or self._run, run=not origin)
        with self._alone():
            if self._judge() is None and first_time:
                self._tell_missing()
            for query in self._queries:
                self.check_free(query)
            self._others = self._history.other_claims(self._folder.names()) if origin else frozenset()
            if origin:
                # Also of queries that rest.
                for dataset in self._datasets_of(self._history):
                    finish_merges(self._folder.folder(dataset), self._history)
                    self._rename_old(dataset)
            for query in self._queries:
                self._dataset(query)

    def _tell_missing(self) -> None:
        """Say so if nothing is here of what has been delivered: it is another folder, or was emptied."""
        if self._lineage is not None and self._origin and self.done >= 0:
            fields = {"sink": self.name, "folder": self._folder.uri, "last": self.done}
            message = "sink %s: %s has none of the results through commit %d; it gets those that follow"
            _log.warning(message, self.name, self._folder.uri, self.done, extra=fields)

    def _rename_old(self, dataset: str) -> None:
        """Give a dataset the name that it has today: older versions called folders just as their queries."""
        # Those never had a percent sign.
        today = dataset if "%" in dataset else file_name(dataset)
        if today != dataset and not self._folder.has(today):
            self._folder.rename(dataset, today)

    def _alone(self) -> AbstractContextManager[None]:
        """Keep others out while it is judged who may deliver, and until that is done; runs have no rivals."""
        return nullcontext() if self._lineage is None else self._folder.alone()

    def _judge(self) -> Claim | None:
        """Return what the folder has seen; raise Fenced if that is not known to this lineage."""
        if self._lineage is None or not self._origin:
            return None
        claim = self.seen(self._origin)
        judge(f"{self.name} ({self._folder.uri})", self._lineage, claim)
        return claim

    def _claim(self) -> None:
        """Tell the folder who delivers, and through which commit, before anything of that is there."""
        claim, lineage = self._judge(), self._lineage
        if lineage is None or not self._origin:
            return
        others = self._history.other_claims(self._folder.names())
        if others != self._others:
            # Another checkpoint's engine has come since, perhaps with queries of the same names.
            for query in {*self._queries, *self._buffer}:
                self.check_free(query)
            self._others = others
        through = self._last if claim is None else max(self._last, claim.through)
        new = Claim(through=through, lineage=lineage)
        if claim != new:
            self._folder.write(self._history.claim, new.as_json().encode(), replace=True)

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
        """Write a file for each query that has new results; raise Fenced if another incarnation was here."""
        with self._alone():
            # A query without results has a dataset too, with no rows.
            empty = [query for query in self._queries if self._dataset(query).is_empty]
            if self._buffer or empty:
                self._claim()
            side_by_side(lambda parts: self._write(*parts), self._buffer.items(), waits=True)
            for query in empty:
                if self._dataset(query).is_empty:
                    rows = self._queries[query].empty_table()
                    self._dataset(query).write(max(self._first, 0), max(self._last, 0), rows)
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
        reach("deliver.partly")

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
