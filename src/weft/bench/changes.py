"""Queries that come and go while a bench runs, and the windows that they have to answer.

Changes are spread evenly over the batches, and each is a call of its own, durable when it returns. Calls
come from callers of their own, as they do in service: those that are made during a batch wait for its end
together. Where rows are to be compared, they are made one by one between two batches, so that it is known
which rows were read by then. Which windows a query has to answer follows from the rows of the files read so
far, not from what the engine says:

    files     |── batch 1 ──|── batch 2 ──|── batch 3 ──|
    joins                    ^ newest row of 2: all windows that begin after it
    leaves                                 ^ newest row of 3 less the delay: all windows that end by then
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise
from time import perf_counter
from typing import TypeVar

import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.bench.dataset import DELAY
from weft.bench.equality import Span
from weft.bench.runs import Input, is_micro_batch
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.query import parse_duration
from weft.service.queries import Query
from weft.stream.pipeline import BatchReport

Result = TypeVar("Result")
_CALLERS = 64
"""Maximum number of callers at once."""
Pair = tuple[str, BenchQuery]
"""The name of a query that leaves, and the query that joins in its place."""


def newest_rows(given: Input) -> list[int]:
    """Return after each batch the newest event time in the files read so far, in microseconds."""
    paths = sorted(given.dataset.folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    times = (pq.read_table(path, columns=["time"])["time"].cast("int64") for path in paths)
    newest = list(accumulate((pc.max(of_file).as_py() for of_file in times), max))
    last_files = range(given.files_per_trigger - 1, len(newest) - 1, given.files_per_trigger)
    return [*(newest[number] for number in last_files), newest[-1]]


def spread_evenly(count: int, boundaries: int) -> list[int]:
    """Return how many changes are made after each batch, spread as evenly as possible.

    >>> spread_evenly(5, 3)
    [1, 2, 2]
    """
    ends = [count * number // boundaries for number in range(boundaries + 1)]
    return [end - begin for begin, end in pairwise(ends)]


@dataclass(slots=True)
class Changes:
    """Adds and removes equally many queries after each batch."""

    engine: Engine
    pairs: Iterator[Pair]
    at_once: Sequence[int]
    """How many pairs are due after each batch."""
    newest: Sequence[int] | None = None
    """The newest event time after each batch, where what is to be compared is kept."""
    spans: dict[str, Span] = field(default_factory=dict)
    """The windows that queries have to answer, of those that came or went."""
    handles: dict[str, Query] = field(default_factory=dict)
    warm: int = 0
    """How many queries reported an earlier first window than they could rely on."""
    plans: int = 0
    batches: int = 0
    calls_s: list[float] = field(default_factory=list)
    _callers: ThreadPoolExecutor | None = None
    _called: list[Future[None]] = field(default_factory=list)
    _joining: dict[str, Future[None]] = field(default_factory=dict)
    """The calls that add queries, by name."""

    def __post_init__(self) -> None:
        if self.newest is not None:
            self.handles.update(self.engine.queries)

    @property
    def operations(self) -> int:
        """How many queries have joined or left."""
        return len(self.calls_s)

    def note(self, stream: str, report: BatchReport) -> None:
        """Change queries after a batch."""
        if not is_micro_batch(report):
            return
        self.batches += 1
        self.plans += report.replanned
        due = self.at_once[self.batches - 1] if self.batches <= len(self.at_once) else 0
        for leaves, joins in islice(self.pairs, due):
            if self._callers is None:
                self._join(joins)
                self._leave(leaves)
            else:
                self._joining[joins.name] = self._callers.submit(self._join, joins)
                self._called += [self._joining[joins.name], self._callers.submit(self._leave, leaves)]

    @contextmanager
    def callers(self) -> Iterator[None]:
        """Have changes made by callers of their own; wait for all at the end, and raise the error of any."""
        with ThreadPoolExecutor(_CALLERS) as self._callers:
            yield
        for call in self._called:
            call.result()

    def _join(self, query: BenchQuery) -> None:
        handle = self._call(lambda: self.engine.add(query.sql, name=query.name))
        if self.newest is not None:
            self.handles[query.name] = handle
            since = self.newest[self.batches - 1] + 1
            promised = handle.info.first_window
            # A promise of earlier windows binds; one of later windows excuses nothing.
            if promised is not None and promised[0] < since:
                self.warm += 1
                since = promised[0]
            self.spans[query.name] = Span(since=since)

    def _leave(self, name: str) -> None:
        if name in self._joining:
            self._joining[name].result()
        self._call(lambda: self.engine.remove(name))
        if self.newest is not None:
            watermark = self.newest[self.batches - 1] - parse_duration(DELAY) * 1000
            self.spans[name] = replace(self.spans.get(name, Span()), until=watermark)

    def _call(self, change: Callable[[], Result]) -> Result:
        began = perf_counter()
        result = change()
        self.calls_s.append(perf_counter() - began)
        return result


def changes(
    engine: Engine, pairs: Sequence[Pair], *, boundaries: int, newest: Sequence[int] | None = None
) -> Changes:
    """Return changes that are spread evenly over the batches of a run."""
    return Changes(engine, iter(pairs), spread_evenly(len(pairs), boundaries), newest)
