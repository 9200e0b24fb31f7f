"""Who reads what: queries with the same windows over the same rows read one set of finals.

An ask is a window and a predicate, for queries that have been answered through the same time and end at the
same. Queries that differ in aggregates, SELECT or HAVING alone read the same ask. A program is what a query
computes apart from its name, window and predicate; queries of one program are evaluated together. Constants
that HAVING compares with are not part of it: alerts that differ in their thresholds alone are one program
with many parameters.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from weft.aggregates import Constants, Primitive
from weft.arrays import Bools, Times
from weft.evaluation import Evaluator, can_evaluate
from weft.evaluation.conditions import as_written
from weft.expression import Call, Expression, Literal, Slot, SlotKind, walk
from weft.finals.limiting import hidden
from weft.optimizer.plan import Answer, Grouping
from weft.predicates import Formula
from weft.query.coercion import common_type
from weft.state.clock import Clock, shapes
from weft.state.running_query import RunningQuery
from weft.state.store import DueWindows
from weft.types import DataType, Kind
from weft.window import Window

Absent = frozenset[int]
"""The keys of a grouping that rows of a grouping set are without."""
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
_CONNECTIVES = frozenset({"and", "or", "not"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How results are read off the partials of a grouping."""

    keys: tuple[int, ...]
    """For each GROUP BY key, its place among the grouping's keys."""
    aggregates: tuple[tuple[str, tuple[Primitive, ...], DataType, Constants], ...]
    """Function, primitives, result type and constants of each aggregate."""
    outputs: tuple[Expression, ...]
    """What is selected, and what LIMIT goes by."""
    having: Expression | None
    """The condition, with parameters for the constants that it compares with."""
    needs_spark: bool = field(init=False, compare=False)
    """Whether it calls a registered function, or anything else that only Spark evaluates."""

    def __post_init__(self) -> None:
        having = () if self.having is None else (self.having,)
        object.__setattr__(self, "needs_spark", not all(map(can_evaluate, (*self.outputs, *having))))


def program_of(answer: Answer) -> tuple[Program, tuple[Literal, ...]]:
    """Return the program of one query, and its parameters."""
    query = answer.query
    calls = zip(query.aggregates, answer.aggregates, strict=True)
    program = Program(
        keys=answer.keys,
        aggregates=tuple(
            (call.function, primitives, call.type, call.constants) for call, primitives in calls
        ),
        outputs=(*(output.expression for output in query.outputs), *hidden(query)),
        having=query.having,
    )
    if query.having is None or program.needs_spark:
        return program, ()
    constants: list[Literal] = []
    having = _parametrised(query.having, constants)
    return replace(program, having=having), tuple(constants)


def _parametrised(condition: Expression, constants: list[Literal]) -> Expression:
    """Put parameters in place of the constants that are compared with, and collect those."""
    if not isinstance(condition, Call):
        return condition
    if condition.function in _CONNECTIVES:
        parts = tuple(_parametrised(part, constants) for part in condition.args)
        return Call(condition.function, parts, condition.type)
    if condition.function in _COMPARISONS:
        left, right = condition.args
        operands = _parameter(left, right.type, constants), _parameter(right, left.type, constants)
        return Call(condition.function, operands, condition.type)
    return condition


def _parameter(operand: Expression, beside: DataType, constants: list[Literal]) -> Expression:
    constant = _constant(operand)
    if constant is None or constant.value is None:
        return operand
    if isinstance(constant.value, int) and beside.kind is Kind.DECIMAL:
        constant = _beside_decimal(constant, as_written(operand), beside)
    constants.append(constant)
    return Slot(SlotKind.PARAMETER, len(constants) - 1, constant.type)


def _beside_decimal(constant: Literal, written: DataType, beside: DataType) -> Literal:
    """Return a whole constant as a decimal of the digits it has, if more would round what stands beside it.

    Else all such constants keep one type, and so belong to one program.
    """
    common = common_type(constant.type, beside)
    if common is None or common.scale == beside.scale:
        return constant
    return Literal(Decimal(constant.value), written.as_decimal())  # type: ignore[arg-type]


def _constant(expression: Expression) -> Literal | None:
    """Return the value of an expression over constants, such as −5; None if it reads any slot, or fails."""
    if isinstance(expression, Literal) or any(isinstance(node, Slot) for node in walk(expression)):
        return expression if isinstance(expression, Literal) else None
    return Literal(Evaluator({}, 1).values(expression)[0].as_py(), expression.type)


def has_parameter(expression: Expression) -> bool:
    """Say whether an expression reads a parameter."""
    return any(isinstance(node, Slot) and node.kind is SlotKind.PARAMETER for node in walk(expression))


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
