"""Answer the due windows of all queries at once; an error of one query does not affect the others."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from weft.aggregates import empty
from weft.arrays import Rows, spelled_out
from weft.errors import TooLarge
from weft.finals.limiting import limited
from weft.finals.readings import Program, Reader, Reading, readings
from weft.finals.regrouping import Regrouping
from weft.finals.selecting import Finals, ReadRows, Selected, select, select_by_spark
from weft.limits import LimitName, Limits, over_limit
from weft.notices import Failure
from weft.optimizer.plan import Answer, Grouping
from weft.query.logical import LogicalQuery
from weft.spark.columns import Udf
from weft.spark.session.troubles import culprits
from weft.state.clock import Clock
from weft.state.running_query import RunningQuery
from weft.state.store import Combined, DueWindows, GroupQuestion, PartialStore
from weft.threads import side_by_side

_WORTH_THREADS = 20_000
"""Number of shards from which on groupings are answered in parallel."""
_EMPTY_WINDOWS = 1 << 20
"""Maximum number of windows without a row that are answered together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The stores, queries and rules that windows are answered by."""

    stores: Mapping[Grouping, PartialStore]
    queries: Mapping[str, RunningQuery]
    clock: Clock
    functions: Mapping[str, Udf]
    limits: Limits


@dataclass(slots=True)
class Answered:
    """New results, and the queries that failed."""

    results: dict[str, pa.Table] = field(default_factory=dict)
    final_ops: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    broken: dict[str, Failure] = field(default_factory=dict)


def answer_due(
    spark: SparkSession, answers: Sequence[Answer], read: Sequence[Reading], asked: Asked
) -> Answered:
    """Return the results of all windows that are due; queries that are shown to make it fail are left out."""

    def answer_some(queries: Sequence[LogicalQuery]) -> Answered:
        names = {query.name for query in queries}
        theirs = [answer for answer in answers if answer.query.name in names]
        return _answer(spark, readings(theirs, asked.queries), asked)

    try:
        return _answer(spark, read, asked)
    except Exception as error:
        queries = [answer.query for answer in answers]
        broken = culprits(queries, answer_some, error)
        if not broken:
            raise
    answered = answer_some([query for query in queries if query.name not in broken])
    answered.broken |= broken
    return answered


def _answer(spark: SparkSession, read: Sequence[Reading], asked: Asked) -> Answered:
    many = sum(len(asked.stores[reading.grouping]) for reading in read) > _WORTH_THREADS
    parts = side_by_side(partial(_finals, asked), read, worth=many)
    answered, selected = Answered(), Selected()
    for part in parts:
        answered.final_ops += part.operations
        answered.broken |= part.broken
        selected.take(part.selected)
    for_spark = [rows for part in parts for rows in part.for_spark]
    if for_spark:
        select_by_spark(spark, for_spark, asked.functions, selected)
    answered.failures = selected.failures
    for name, tables in selected.tables.items():
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        results = limited(asked.queries[name].query, whole)
        if results.num_rows > asked.limits.result_rows:
            answered.broken[name] = _over("result_rows", results.num_rows, asked.limits)
        else:
            answered.results[name] = results
    return answered


@dataclass(slots=True)
class _Part:
    """What the finals of one grouping give."""

    selected: Selected = field(default_factory=Selected)
    for_spark: list[ReadRows] = field(default_factory=list)
    """What only Spark can evaluate."""
    operations: int = 0
    broken: dict[str, Failure] = field(default_factory=dict)


def _finals(asked: Asked, reading: Reading) -> _Part:
    """Make the finals of one grouping and have all programs read them; groupings have nothing in common."""
    part, store = _Part(), asked.stores[reading.grouping]
    due, asks = _due(reading, store, asked, part.broken)
    bare, regrouping = EmptyWindows(reading, due, asks, store), Regrouping(reading, store)
    for asks_together, piece in store.answer(due, asks, reading.predicates, reading.primitives):
        part.operations += piece.operations
        part.operations += regrouping.add(asks_together, piece)
        bare.fill(asks_together, piece)
        start = piece.end - due.range_us[asks_together][piece.ask]
        finals = Finals(store.keys, piece.key, start, piece.end, piece.partials)
        _select(reading, asks_together, piece.ask, finals, part)
    for asks_together, ask, finals in chain(regrouping.finals(), bare.finals()):
        _select(reading, asks_together, ask, finals, part)
    return part


def _select(reading: Reading, asks: Rows, of: Rows, finals: Finals, part: _Part) -> None:
    """Have every program read its part of some finals; `of` is each row's ask among those given."""
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    ends = np.append(begins[1:], len(of))
    present = of[begins]
    by_program: dict[Program, tuple[list[int], list[list[Reader]]]] = {}
    for order, ask in enumerate(asks[present].tolist()):
        for reader in reading.asks[ask].readers:
            if finals.absent not in reader.absent:
                continue
            numbers, readers = by_program.setdefault(reader.program, ([], []))
            if not numbers or numbers[-1] != order:
                numbers.append(order)
                readers.append([])
            readers[-1].append(reader)
    for program, (numbers, readers) in by_program.items():
        rows, bounds = _rows(begins[numbers], ends[numbers])
        read = ReadRows(program=program, finals=finals, rows=rows, bounds=bounds, readers=readers)
        if program.needs_spark:
            part.for_spark.append(read)
        else:
            select(read, part.selected)


def _rows(begins: Rows, ends: Rows) -> tuple[slice | Rows, Rows]:
    """Return the rows of ranges, as a slice if they follow each other, and where each begins among them."""
    lengths = ends - begins
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    if np.array_equal(begins[1:], ends[:-1]):
        return slice(int(begins[0]), int(ends[-1])), bounds
    return spelled_out(begins, lengths), bounds


def _due(
    reading: Reading, store: PartialStore, asked: Asked, broken: dict[str, Failure]
) -> tuple[DueWindows, Rows]:
    """Return the due windows of all asks, and which asks have any; those over a limit go to `broken`."""
    due, limits = reading.due(asked.clock, store.starts()), asked.limits
    asks, refused = np.flatnonzero(due.last >= due.first), dict[int, Failure]()
    for ask in np.flatnonzero(reading.emit_empty & (due.last - due.first >= limits.result_rows)).tolist():
        windows = int(due.last[ask] - due.first[ask]) + 1
        refused[ask] = _over("result_rows", windows, limits)
    since = due.since
    questions = (
        (ask, GroupQuestion(window=one.window, predicate=one.predicate, since=int(since[ask])))
        for ask in asks.tolist()
        for one in (reading.asks[ask],)
    )
    for ask, groups in store.groups_over(limits.groups_per_query, questions).items():
        refused[ask] = _over("groups_per_query", groups, limits)
    for ask, failure in refused.items():
        broken |= {reader.answer.query.name: failure for reader in reading.asks[ask].readers}
    return due, np.array([ask for ask in asks.tolist() if ask not in refused], dtype=np.intp)


def _over(name: LimitName, count: int, limits: Limits) -> Failure:
    """Return the failure of a query that exceeds a limit."""
    return Failure(kind=TooLarge.__name__, text=over_limit(name, count, limits))


class EmptyWindows:
    """Due windows of EMIT EMPTY queries, which have no keys, that turn out to hold no row."""

    def __init__(self, reading: Reading, due: DueWindows, asks: Rows, store: PartialStore) -> None:
        self._reading, self._due, self._store = reading, due, store
        self._bare = {
            ask: np.ones(int(due.last[ask] - due.first[ask]) + 1, dtype=bool)
            for ask in asks.tolist()
            if reading.emit_empty[ask]
        }

    def fill(self, asks: Rows, piece: Combined) -> None:
        """Mark windows that hold rows."""
        if not self._bare:
            return
        for order, ask in enumerate(asks.tolist()):
            if ask in self._bare:
                ends = piece.end[slice(*np.searchsorted(piece.ask, [order, order + 1]).tolist())]
                numbers = (ends - self._due.offset_us[ask]) // self._due.slide_us[ask]
                self._bare[ask][numbers - self._due.first[ask]] = False

    def finals(self) -> Iterator[tuple[Rows, Rows, Finals]]:
        """Yield the finals of the other windows, with the ask and its number for each row."""
        for ask, bare in self._bare.items():
            numbers = np.flatnonzero(bare)
            for begin in range(0, len(numbers), _EMPTY_WINDOWS):
                piece = numbers[begin : begin + _EMPTY_WINDOWS] + self._due.first[ask]
                end = piece * self._due.slide_us[ask] + self._due.offset_us[ask]
                zeros = np.zeros(len(piece), dtype=np.intp)
                partials = {
                    primitive: empty(primitive, len(piece)) for primitive in self._reading.primitives[ask]
                }
                start = end - self._due.range_us[ask]
                yield np.array([ask]), zeros, Finals(self._store.keys, zeros, start, end, partials)
