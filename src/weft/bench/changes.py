"""Queries that come and go while a bench runs, and the windows that they have to answer."""

from dataclasses import dataclass, field
from random import Random
from time import perf_counter

from weft.bench.equality import Span
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.handle import Query
from weft.runtime.pipeline import BatchReport


@dataclass(slots=True)
class Changes:
    """Let queries come and go after each batch, as many of each, until all that are to join have joined."""

    engine: Engine
    joining: list[BenchQuery]
    pairs: int
    """How many join and how many leave after a batch."""
    seed: int
    there: list[str] = field(default_factory=list)
    spans: dict[str, Span] = field(default_factory=dict)
    """The windows that queries have to answer, of those that came or went."""
    handles: dict[str, Query] = field(default_factory=dict)
    operations: int = 0
    plans: int = 0
    batches: int = 0
    warm: int = 0
    calls_s: float = 0.0
    _chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self.handles.update(self.engine.queries)
        self.there.extend(self.engine.queries)

    def note(self, stream: str, report: BatchReport) -> None:
        """Change queries after a batch."""
        # The windows closed at the end of input come as a report that read nothing.
        if "spark" not in report.seconds:
            return
        self.batches += 1
        self.plans += report.replanned
        began = perf_counter()
        for _ in range(min(self.pairs, len(self.joining))):
            self._join(self.joining.pop(), stream)
            self._leave(self.there.pop(self._chance.randrange(len(self.there))), stream)
        self.calls_s += perf_counter() - began

    def _join(self, query: BenchQuery, stream: str) -> None:
        handle = self.engine.add(query.sql, name=query.name)
        first, watermark = handle.info.first_window, self.engine.clock(stream).watermark
        self.spans[query.name] = Span(since=None if first is None else first[0])
        self.warm += first is not None and watermark is not None and first[1] <= watermark
        self.handles[query.name] = handle
        self.there.append(query.name)
        self.operations += 1

    def _leave(self, name: str, stream: str) -> None:
        self.engine.remove(name)
        since = self.spans[name].since if name in self.spans else None
        self.spans[name] = Span(since=since, until=self.engine.clock(stream).watermark)
        self.operations += 1
