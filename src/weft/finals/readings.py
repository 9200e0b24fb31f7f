"""Who reads what: queries with the same windows over the same rows read one set of finals.

An ask is a window and a predicate, for queries that have been answered through the same time and end at the
same. Queries that differ in aggregates, SELECT or HAVING alone read the same ask.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.aggregates import Primitive
from weft.expression import Literal
from weft.finals.programs import Program, program_of
from weft.optimizer.plan import Answer, Grouping
from weft.predicates import Formula
from weft.state.clock import Clock, Times, shapes
from weft.state.running_query import RunningQuery
from weft.state.store import DueWindows
from weft.window import Window

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Absent = frozenset[int]
"""The keys of a grouping that rows of a grouping set are without."""
_US = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A query as a reader of an ask's finals."""

    answer: Answer
    program: Program
    parameters: tuple[Literal, ...]
    rank: int = 0
    """The program's place among all programs."""
    absent: tuple[Absent, ...] = field(init=False, compare=False)
    """For each grouping set of the query, the grouping's keys that it is without."""

    def __post_init__(self) -> None:
        keys, sets = self.answer.keys, self.answer.query.sets or (tuple(range(len(self.answer.keys))),)
        absent = (frozenset(keys) - {keys[place] for place in own} for own in sets)
        object.__setattr__(self, "absent", tuple(absent))


@dataclass(eq=False, slots=True, kw_only=True)
class Ask:
    """Windows of rows that satisfy a predicate, and who reads them."""

    window: Window
    """Of cumulative windows, those of one length."""
    predicate: Formula
    live: RunningQuery
    """One of its queries: what is answered of one is answered of all."""
    readers: list[Reader] = field(default_factory=list)


@dataclass(slots=True)
class Reading:
    """The asks of one grouping."""

    grouping: Grouping
    asks: Sequence[Ask] = ()
    windows: Times = field(default_factory=lambda: shapes(()))
    emit_empty: Bools = field(default_factory=lambda: np.empty(0, dtype=bool))
    predicates: tuple[Formula, ...] = ()
    predicate: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    primitives: tuple[tuple[Primitive, ...], ...] = ()
    """What the readers of each ask need, in an order of its own."""

    @classmethod
    def of(cls, grouping: Grouping, asks: Iterable[Ask]) -> "Reading":
        """Return asks laid out side by side, those of one program next to each other."""
        ordered = sorted(asks, key=lambda ask: [reader.rank for reader in ask.readers])
        predicates = tuple(dict.fromkeys(ask.predicate for ask in ordered))
        numbers = {predicate: number for number, predicate in enumerate(predicates)}
        known: dict[tuple[Primitive, ...], tuple[Primitive, ...]] = {}
        return cls(
            grouping=grouping,
            asks=ordered,
            windows=shapes(ask.window for ask in ordered),
            emit_empty=np.array([ask.live.query.emit_empty for ask in ordered], dtype=bool),
            predicates=predicates,
            predicate=np.array([numbers[ask.predicate] for ask in ordered], dtype=np.int32),
            primitives=tuple(_interned(ask.readers, known) for ask in ordered),
        )

    def due(self, clock: Clock, starts: Times) -> DueWindows:
        """Return each ask's due windows: after what it was answered through, up to the watermark.

        Only those that may hold a slice are due, given all `starts` of slices. With EMIT EMPTY, all are that
        end after the stream's first row and begin by its last one.
        """
        now = clock.reached
        range_us, slide_us, offset_us = (self.windows * _US).T
        # Without a row, nothing ends after the first one and by the watermark.
        held = (int(starts[0]), int(starts[-1])) if len(starts) else (now, now)
        seen = (now, now) if clock.oldest is None or clock.newest is None else (clock.oldest, clock.newest)
        oldest, newest = (np.where(self.emit_empty, *ends) for ends in zip(seen, held, strict=True))
        answered = np.array([ask.live.answered_through for ask in self.asks], dtype=np.int64)
        untils = (ask.live.until for ask in self.asks)
        until = np.array([now if until is None else min(until, now) for until in untils], dtype=np.int64)
        after, latest = np.maximum(oldest, answered), np.minimum(newest + range_us, until)
        return DueWindows(
            range_us=range_us, slide_us=slide_us, offset_us=offset_us,
            first=(after - offset_us) // slide_us + 1, last=(latest - offset_us) // slide_us,
            predicate=self.predicate,
        )  # fmt: skip


def _interned(
    readers: Iterable[Reader], known: dict[tuple[Primitive, ...], tuple[Primitive, ...]]
) -> tuple[Primitive, ...]:
    """Return all primitives of some readers, the same tuple wherever they are the same."""
    needed = {
        primitive
        for reader in readers
        for _, primitives, *_ in reader.program.aggregates
        for primitive in primitives
    }
    ordered = tuple(sorted(needed, key=str))
    return known.setdefault(ordered, ordered)


def readings(answers: Iterable[Answer], lives: Mapping[str, RunningQuery]) -> Sequence[Reading]:
    """Return what some queries read, by grouping."""
    by_grouping: dict[Grouping, dict[object, Ask]] = {}
    programs: dict[Program, tuple[int, Program]] = {}
    for answer in answers:
        query, live = answer.query, lives[answer.query.name]
        asks = by_grouping.setdefault(answer.grouping, {})
        program, parameters = program_of(answer)
        rank, program = programs.setdefault(program, (len(programs), program))
        reader = Reader(answer=answer, program=program, parameters=parameters, rank=rank)
        for window in query.window.parts:
            alike = window, answer.predicate, query.emit_empty, live.answered_through, live.until
            ask = asks.setdefault(alike, Ask(window=window, predicate=answer.predicate, live=live))
            ask.readers.append(reader)
    return tuple(Reading.of(grouping, asks.values()) for grouping, asks in by_grouping.items())
