"""Who reads what: queries with the same windows over the same rows read one set of finals.

An ask is a window and a predicate, with the time from which and until which its windows are wanted. Queries
that differ in aggregates, SELECT or HAVING alone read the same ask.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.aggregates import Primitive
from weft.expression import Literal
from weft.finals.programs import Program, program_of
from weft.optimizer.plan import Answer, Grouping
from weft.predicates import Formula
from weft.state.clock import Advance, Clock, Times, shapes
from weft.state.lives import LiveQuery, answered_between
from weft.state.store import DueWindows
from weft.window import Window

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
_US = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Windows of rows that satisfy a predicate; times are in microseconds."""

    window: Window
    predicate: Formula
    first_start: int
    until: int
    late: bool
    """Whether windows are due however long ago they ended."""
    emit_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A query as a reader of an ask's finals."""

    answer: Answer
    program: Program
    parameters: tuple[Literal, ...]
    rank: int = 0
    """The program's place among all programs."""


@dataclass(slots=True)
class Reading:
    """The asks of one grouping, and who reads each."""

    grouping: Grouping
    readers: dict[Ask, list[Reader]] = field(default_factory=dict)
    asks: tuple[Ask, ...] = ()
    windows: Times = field(default_factory=lambda: shapes(()))
    first_start: Times = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    until: Times = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    late: Bools = field(default_factory=lambda: np.empty(0, dtype=bool))
    predicates: tuple[Formula, ...] = ()
    predicate: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    primitives: tuple[tuple[Primitive, ...], ...] = ()
    """What the readers of each ask need, in an order of its own."""

    def settle(self) -> None:
        """Lay out the asks side by side, those of one program next to each other."""
        self.asks = tuple(sorted(self.readers, key=lambda ask: [reader.rank for reader in self.readers[ask]]))
        self.windows = shapes(ask.window for ask in self.asks)
        self.first_start = np.array([ask.first_start for ask in self.asks], dtype=np.int64)
        self.until = np.array([ask.until for ask in self.asks], dtype=np.int64)
        self.late = np.array([ask.late for ask in self.asks], dtype=bool)
        numbers = {ask.predicate: 0 for ask in self.asks}
        self.predicates = tuple(numbers)
        numbers = {predicate: number for number, predicate in enumerate(self.predicates)}
        self.predicate = np.array([numbers[ask.predicate] for ask in self.asks], dtype=np.int32)
        known: dict[tuple[Primitive, ...], tuple[Primitive, ...]] = {}
        self.primitives = tuple(_interned(self.readers[ask], known) for ask in self.asks)

    def due(self, advance: Advance, starts: Times) -> DueWindows:
        """Return each ask's due windows among those that may hold a slice; `starts` are the slices'."""
        range_us, slide_us, offset_us = (self.windows * _US).T
        if not len(starts) or not len(self.windows):
            nothing = np.zeros(len(self.windows), dtype=np.int64)
            first, last = nothing, nothing - 1
        else:
            earliest = np.maximum(int(starts[0]) + 1, self.first_start + range_us)
            if advance.before is not None:
                earliest = np.where(self.late, earliest, np.maximum(earliest, advance.before + 1))
            latest = np.minimum(int(starts[-1]) + range_us, self.until)
            if advance.now is not None:
                latest = np.minimum(latest, advance.now)
            first, last = -((offset_us - earliest) // slide_us), (latest - offset_us) // slide_us
        return self._windows(first, last)

    def _windows(self, first: Times, last: Times) -> DueWindows:
        range_us, slide_us, offset_us = (self.windows * _US).T
        return DueWindows(
            range_us=range_us, slide_us=slide_us, offset_us=offset_us, first=first, last=last,
            predicate=self.predicate,
        )  # fmt: skip

    def readers_of(self, ask: int) -> Sequence[Reader]:
        """Return the readers of an ask, given by its number."""
        return self.readers[self.asks[ask]]

    def every(self, advance: Advance, clock: Clock) -> DueWindows:
        """Return each ask's due windows, with or without rows.

        They end after the stream's first row and begin by its last one.
        """
        range_us, slide_us, offset_us = (self.windows * _US).T
        if clock.oldest is None or clock.newest is None:
            nothing = np.zeros(len(self.windows), dtype=np.int64)
            first, last = nothing, nothing - 1
        else:
            since = clock.oldest if advance.before is None else max(clock.oldest, advance.before)
            after = np.where(self.late, clock.oldest, since)
            after = np.maximum(after, self.first_start + range_us - 1)
            latest = np.minimum(clock.newest + range_us, self.until)
            if advance.now is not None:
                latest = np.minimum(latest, advance.now)
            first, last = (after - offset_us) // slide_us + 1, (latest - offset_us) // slide_us
        return self._windows(first, last)


def _interned(
    readers: Iterable[Reader], known: dict[tuple[Primitive, ...], tuple[Primitive, ...]]
) -> tuple[Primitive, ...]:
    """Return all primitives of some readers, the same tuple wherever they are the same."""
    needed = {
        primitive
        for reader in readers
        for _, primitives, _ in reader.program.aggregates
        for primitive in primitives
    }
    ordered = tuple(sorted(needed, key=str))
    return known.setdefault(ordered, ordered)


def readings(
    answers: Iterable[Answer], lives: Mapping[str, LiveQuery], waiting: Collection[str]
) -> Sequence[Reading]:
    """Return what some queries read, by grouping."""
    by_grouping: dict[Grouping, Reading] = {}
    programs: dict[Program, tuple[int, Program]] = {}
    for answer in answers:
        query = answer.query
        first_start, until = answered_between(lives[query.name])
        ask = Ask(
            window=query.window, predicate=answer.predicate, first_start=first_start, until=until,
            late=query.name in waiting, emit_empty=query.emit_empty,
        )  # fmt: skip
        program, parameters = program_of(answer)
        rank, program = programs.setdefault(program, (len(programs), program))
        reading = by_grouping.get(answer.grouping)
        if reading is None:
            reading = by_grouping[answer.grouping] = Reading(answer.grouping)
        reader = Reader(answer=answer, program=program, parameters=parameters, rank=rank)
        reading.readers.setdefault(ask, []).append(reader)
    for reading in by_grouping.values():
        reading.settle()
    return tuple(by_grouping.values())
