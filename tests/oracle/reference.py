"""The reference evaluator: every row into every window that holds it, then aggregate.

batch 0   rows 1 4 9    W = 9 − 2 = 7     closes windows that end at or before 7
batch 1   rows 6 8 12   6 is late (6 < 7); W = 10
flush                                     closes the rest
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import total_ordering
from typing import Any

from tests.oracle.conditions import truth
from tests.oracle.results import Counters, Emission, Expected, Replay
from tests.oracle.spec import Spec
from tests.oracle.tables import joined_rows
from tests.oracle.types import Row, Value

Bounds = tuple[int, int]


class _NaN(Enum):
    """Stands for NaN in a group key, since NaN does not equal itself."""

    KEY = "NaN"


GroupKey = tuple[Value | _NaN, ...]


def windows_of(
    time_us: int, range_ms: int, slide_ms: int, offset_ms: int, step_ms: int | None = None
) -> list[Bounds]:
    """Return the windows [start, end) that hold a time, earliest first.

    Windows end where `end ≡ offset (mod slide)`.

    >>> windows_of(5_000, 7, 5, 2)
    [(0, 7000), (5000, 12000)]

    Cumulative windows start there, and end step by step.

    >>> windows_of(7_000, 12, 12, 0, 4)
    [(0, 8000), (0, 12000)]
    """
    if step_ms is not None:
        start = time_us - (time_us - offset_ms * 1000) % (slide_ms * 1000)
        ends = range(start + step_ms * 1000, start + range_ms * 1000 + 1, step_ms * 1000)
        return [(start, end) for end in ends if end > time_us]
    range_us, slide_us, offset_us = range_ms * 1000, slide_ms * 1000, offset_ms * 1000
    end = time_us - (time_us - offset_us) % slide_us + slide_us
    windows = []
    while end - range_us <= time_us:
        windows.append((end - range_us, end))
        end += slide_us
    return windows


def replay(
    batches: Sequence[Sequence[Row]],
    specs: Sequence[Spec],
    *,
    delay_ms: int,
    time: str = "time",
    skew_ms: int | None = None,
    now_us: int | None = None,
    flush: bool = True,
) -> Replay:
    """Run queries over micro-batches; `skew_ms` None sets no limit to the future."""
    horizon_us = None if skew_ms is None or now_us is None else now_us + skew_ms * 1000
    stream = _Stream(time=time, delay_us=delay_ms * 1000, horizon_us=horizon_us)
    queries: list[_Query] = []
    emissions = []
    for number, batch in enumerate(batches):
        queries = _living(queries, specs, number, stream)
        good = stream.admit(batch)
        for query in queries:
            query.add(good)
        results = _results(specs, {one.spec.name: list(one.close(stream.watermark_us)) for one in queries})
        emissions.append(
            Emission(results=results, watermark_us=stream.watermark_us, counters=stream.counters)
        )
    flushed = None
    if flush:
        queries = _living(queries, specs, len(batches), stream)
        results = _results(specs, {one.spec.name: list(one.close_all()) for one in queries})
        flushed = Emission(results=results, watermark_us=stream.watermark_us)
    return Replay(batches=emissions, flushed=flushed, accepted=stream.accepted)


def _living(queries: "list[_Query]", specs: Sequence[Spec], batch: int, stream: "_Stream") -> "list[_Query]":
    """Return the queries that answer a batch: those that stay, and those that come."""
    stay = [query for query in queries if query.spec.lives_in(batch)]
    come = [spec for spec in specs if spec.from_batch == batch and spec.lives_in(batch)]
    return [*stay, *(_Query(stream.joined(spec), stream.time) for spec in come)]


def _results(specs: Sequence[Spec], found: dict[str, list[Expected]]) -> dict[str, list[Expected]]:
    return {spec.name: found.get(spec.name, []) for spec in specs}


class _Stream:
    """Sorts rows into good, late and quarantined, and keeps the watermark."""

    def __init__(self, *, time: str, delay_us: int, horizon_us: int | None) -> None:
        self.time, self.delay_us, self.horizon_us = time, delay_us, horizon_us
        self.watermark_us: int | None = None
        self.counters = Counters()
        self.accepted: list[Row] = []

    def admit(self, batch: Sequence[Row]) -> list[Row]:
        """Return the good rows of a batch; the watermark they are judged by is the one before it."""
        before, good, fates = self.watermark_us, [], []
        for row in batch:
            fate = self._fate(row[self.time], before)
            fates.append(fate)
            if fate == "good":
                good.append(row)
        self.counters = Counters(
            len(fates), fates.count("late"), fates.count("no_time"), fates.count("future")
        )
        self._advance(good)
        self.accepted += good
        return good

    def joined(self, spec: Spec) -> Spec:
        """Return a query that comes now: its windows begin after all good rows so far."""
        if spec.from_batch == 0 or not self.accepted:
            return spec
        return replace(spec, first_start_us=max(_time(row, self.time) for row in self.accepted) + 1)

    def _fate(self, at: Value, watermark_us: int | None) -> str:
        if at is None:
            return "no_time"
        assert isinstance(at, int)
        if self.horizon_us is not None and at > self.horizon_us:
            return "future"
        return "late" if watermark_us is not None and at < watermark_us else "good"

    def _advance(self, good: list[Row]) -> None:
        if good:
            reached = max(_time(row, self.time) for row in good) - self.delay_us
            self.watermark_us = reached if self.watermark_us is None else max(self.watermark_us, reached)


class _Query:
    """One query's open windows."""

    def __init__(self, spec: Spec, time: str) -> None:
        self.spec, self.time = spec, time
        self.open: dict[Bounds, dict[GroupKey, list[Row]]] = defaultdict(lambda: defaultdict(list))
        self.seen: Bounds | None = None
        """The times of the first and the last good row of the stream that came since the query did."""
        self.closed_to: int | None = None
        """End of the last window that EMIT EMPTY gave."""

    def add(self, rows: Iterable[Row]) -> None:
        """Put each matching row into each window that holds it."""
        for row in rows:
            at = _time(row, self.time)
            windows = self._windows(at)
            self.seen = (at, at) if self.seen is None else (min(self.seen[0], at), max(self.seen[1], at))
            for joined in joined_rows(row, self.spec.joins):
                if self.spec.predicate is None or truth(self.spec.predicate.evaluate(joined)):
                    whole = tuple(_grouped(item.expression.evaluate(joined)) for item in self.spec.keys)
                    for number, own in enumerate(self.spec.all_sets):
                        key = tuple(part if place in own else None for place, part in enumerate(whole))
                        for window in windows:
                            self.open[window][number, *key].append(joined)

    def close(self, watermark_us: int | None) -> Iterator[Expected]:
        """Yield the results of windows that end at or before the watermark."""
        if watermark_us is not None:
            yield from self._emit(watermark_us)

    def close_all(self) -> Iterator[Expected]:
        """Yield the results of every open window."""
        if self.seen is not None:
            # No window that holds a row ends later.
            yield from self._emit(self.seen[1] + self.spec.range_ms * 1000)

    def _windows(self, time_us: int) -> list[Bounds]:
        spec = self.spec
        windows = windows_of(time_us, spec.range_ms, spec.slide_ms, spec.offset_ms, spec.step_ms)
        return [w for w in windows if spec.first_start_us is None or w[0] >= spec.first_start_us]

    def _emit(self, to_us: int) -> Iterator[Expected]:
        for window in self._due(to_us):
            groups = self.open.pop(window, {})
            if self.spec.emit_empty and not groups:
                groups = {(0,): []}
            results = [self._result(window, key, rows) for key, rows in groups.items()]
            for _, expected in _kept([result for result in results if result is not None], self.spec):
                yield expected

    def _due(self, to_us: int) -> list[Bounds]:
        if not self.spec.emit_empty:
            return sorted(window for window in self.open if window[1] <= to_us)
        if self.seen is None:
            return []
        if self.spec.step_ms is not None:
            return self._due_cumulative(to_us, self.spec.step_ms * 1000)
        range_us, slide_us = self.spec.range_ms * 1000, self.spec.slide_ms * 1000
        ends = range(self._first_end(self.seen[0]), to_us + 1, slide_us)
        if self.closed_to is not None:
            ends = range(self.closed_to + slide_us, to_us + 1, slide_us)
        if ends:
            self.closed_to = ends[-1]
        return [(end - range_us, end) for end in ends]

    def _due_cumulative(self, to_us: int, step_us: int) -> list[Bounds]:
        """Return cumulative ones that EMIT EMPTY gives, from when the query has come to the last row."""
        assert self.seen is not None
        spec, (oldest_us, newest_us) = self.spec, self.seen
        after_us = oldest_us if self.closed_to is None else self.closed_to
        slide_us, offset_us = spec.slide_ms * 1000, spec.offset_ms * 1000
        first = after_us - (after_us - offset_us) % step_us + step_us
        ends = [(end - 1 - (end - 1 - offset_us) % slide_us, end) for end in range(first, to_us + 1, step_us)]
        if ends:
            self.closed_to = ends[-1][1]
        begun = oldest_us - slide_us if spec.first_start_us is None else spec.first_start_us
        return [(start, end) for start, end in ends if begun <= start <= newest_us]

    def _first_end(self, oldest_us: int) -> int:
        """Return when the first window ends that EMIT EMPTY gives: after the stream's first row, if it begins
        when the query has come.
        """
        spec = self.spec
        after_us, slide_us, offset_us = oldest_us, spec.slide_ms * 1000, spec.offset_ms * 1000
        if spec.first_start_us is not None:
            begun_us = spec.first_start_us + spec.range_ms * 1000 - 1
            # For a query that came later, the stream's first row has been.
            after_us = begun_us if spec.from_batch else max(oldest_us, begun_us)
        return (after_us - offset_us) // slide_us * slide_us + slide_us + offset_us

    def _result(self, window: Bounds, key: GroupKey, rows: list[Row]) -> "tuple[Row, Expected] | None":
        spec = self.spec
        values: Row = {"window_start": window[0], "window_end": window[1]}
        number, *parts = key
        assert isinstance(number, int)
        bits = ("0" if place in spec.all_sets[number] else "1" for place in range(len(spec.keys)))
        values["gid"] = int("0" + "".join(bits), 2)
        for item, part in zip(spec.keys, parts, strict=True):
            values[item.name] = math.nan if isinstance(part, _NaN) else part
        answers = {call.name: call.answer(rows) for call in spec.computed()}
        values |= {name: answer.value for name, answer in answers.items()}
        if spec.having is not None and not truth(spec.having.evaluate(values)):
            return None
        return values, Expected(
            values={name: values[name] for name in spec.columns},
            scales={call.name: answers[call.name].scale for call in spec.aggregates},
            order_sensitive=frozenset(c.name for c in spec.aggregates if answers[c.name].order_sensitive),
        )


def _kept(results: "list[tuple[Row, Expected]]", spec: Spec) -> "list[tuple[Row, Expected]]":
    """Return the results of one window that LIMIT keeps."""
    if spec.limit is None and spec.limit_by is None:
        return results
    ties = [*(key.name for key in spec.keys), "gid"]
    ordered = sorted(results, key=lambda result: [_ordered(result[0][name], False, True) for name in ties])
    for item in reversed(spec.order):
        ordered.sort(
            key=lambda result, item=item: _ordered(  # type: ignore[misc]
                item.of.evaluate(result[0]), item.descending, item.puts_nulls_first
            )
        )
    if spec.limit_by is not None:
        rows, values = spec.limit_by
        seen: dict[GroupKey, int] = defaultdict(int)
        kept = []
        for result in ordered:
            group = tuple(_grouped(value.evaluate(result[0])) for value in values)
            seen[group] += 1
            if seen[group] <= rows:
                kept.append(result)
        ordered = kept
    return ordered[: spec.limit]


@total_ordering
class _Reversed:
    """A value that is less than those that it is greater than."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __lt__(self, other: "_Reversed") -> bool:
        return bool(other.value < self.value)


def _ordered(value: Value, descending: bool, nulls_first: bool) -> Any:
    """Return what orders as Spark orders values: NaN last, text by its bytes."""
    if value is None:
        return (0 if nulls_first else 2,)
    comparable: Any = value.encode() if isinstance(value, str) else value
    if isinstance(value, float):
        comparable = (1, 0.0) if math.isnan(value) else (0, value)
    return 1, (_Reversed(comparable) if descending else comparable)


def _grouped(value: Value) -> Value | _NaN:
    """Return what groups by equality: one NaN, one zero."""
    if isinstance(value, float):
        return _NaN.KEY if math.isnan(value) else value + 0.0
    return value


def _time(row: Row, column: str) -> int:
    at = row[column]
    assert isinstance(at, int)
    return at
