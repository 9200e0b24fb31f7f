"""Queries that come and go while a bench runs, and the windows that they have to answer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter

from weft.bench.equality import Span
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.handle import Query
from weft.runtime.pipeline import BatchReport


@dataclass(slots=True)
class Changes:
    """Let queries come and go after each batch, as many of each, until there is nothing left to change."""

    engine: Engine
    pairs: Iterator[tuple[str, BenchQuery]]
    """Who leaves, and who joins in its place."""
    at_once: int
    """How many join and how many leave after a batch."""
    remembers: bool = True
    """Whether what is to be compared is kept, of queries that have left, too."""
    spans: dict[str, Span] = field(default_factory=dict)
    """The windows that queries have to answer, of those that came or went."""
    handles: dict[str, Query] = field(default_factory=dict)
    operations: int = 0
    plans: int = 0
    batches: int = 0
    calls_s: float = 0.0

    def __post_init__(self) -> None:
        if self.remembers:
            self.handles.update(self.engine.queries)

    def note(self, stream: str, report: BatchReport) -> None:
        """Change queries after a batch."""
        # The windows closed at the end of input come as a report that read nothing.
        if "spark" not in report.seconds:
            return
        self.batches += 1
        self.plans += report.replanned
        began = perf_counter()
        for leaves, joins in islice(self.pairs, self.at_once):
            self._join(joins)
            self._leave(leaves, stream)
        self.calls_s += perf_counter() - began

    def _join(self, query: BenchQuery) -> None:
        handle = self.engine.add(query.sql, name=query.name)
        self.operations += 1
        if self.remembers:
            first = handle.info.first_window
            self.spans[query.name] = Span(since=None if first is None else first[0])
            self.handles[query.name] = handle

    def _leave(self, name: str, stream: str) -> None:
        self.engine.remove(name)
        self.operations += 1
        if self.remembers:
            since = self.spans[name].since if name in self.spans else None
            self.spans[name] = Span(since=since, until=self.engine.clock(stream).watermark)
