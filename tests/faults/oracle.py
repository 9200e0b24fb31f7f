"""What results must be, computed from the event files alone, and how those on the disk differ.

Shares no code with Weft, and never removes repeated rows before it compares.

    events   ·   ··· ·  |  · ·        each event is put into every window [end − range, end) that holds it,
    windows  [------)   |             end a multiple of the slide, and each window and group aggregated
                 [------)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.faults.events import BASE, BLOCK, own_second
from tests.faults.workload import AGGREGATES, PREDICATES, Asked

Key = tuple[Any, ...]
"""Start and end of a window in microseconds, then the group."""
Value = tuple[Any, ...]
Reader = Callable[[Asked], list[tuple[Key, Value]]]
"""Returns the rows that are there for a query, every one of them."""

_BEHIND_US = 10_000_000
"""An event so far behind its file's own second is late: all others are within the delay."""
_AHEAD_US = 365 * 86_400_000_000
"""A time so far ahead of its file's own second cannot be used."""
_RELATIVE = 1e-9
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When a query is answered, by the starts of windows in microseconds."""

    first: int | None = None
    """No window that starts earlier; None: every window."""
    ended: bool = False
    """Whether it was dropped or paused: then all windows up to the last one given must be there."""
    owed: int = 0
    """If it ended: where the watermark was when it was asked to; windows that end by then must be there."""
    allowed: int | None = None
    """If it ended: where the watermark was when that was known; no window that ends later may be there."""


@dataclass(kw_only=True)
class Verdict:
    """How results differ from what they must be."""

    lost: int = 0
    """Events that were not counted; late or unusable ones that were not kept."""
    twice: int = 0
    """Events that were counted, or kept, more than once."""
    missing: int = 0
    """Results that are not there."""
    extra: int = 0
    """Results that must not be there; events kept as late or unusable that are not."""
    repeated: int = 0
    """Results that are there again."""
    wrong: int = 0
    """Results with other values."""
    examples: list[str] = field(default_factory=list)
    """The first few, in words."""

    @property
    def counts(self) -> dict[str, int]:
        """The six counts by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "examples"}

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return not any(self.counts.values())

    @property
    def sound(self) -> bool:
        """Whether all that is there is right, be it all or not."""
        return not (self.twice or self.extra or self.repeated or self.wrong)

    def add(self, other: "Verdict") -> None:
        """Count what differs in another query too."""
        for name, count in other.counts.items():
            setattr(self, name, getattr(self, name) + count)
        self.examples += other.examples

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return "\n  ".join([counts, *self.examples])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Events by what must become of them, each in no particular order."""

    good: pa.Table
    late: pa.Table
    unusable: pa.Table
    """Without a time, or with one years ahead."""


def read_events(paths: Iterable[Path]) -> Sorted:
    """Return the events of some files; a file's name tells which second they are of."""
    files = [(own_second(path), pq.read_table(path)) for path in paths]
    rows = pa.concat_tables(table for _, table in files)
    begins = np.repeat([begin for begin, _ in files], [table.num_rows for _, table in files])
    times = np.asarray(pc.fill_null(rows["time"].cast(pa.int64()), np.iinfo(np.int64).max))
    unusable = times > begins + _AHEAD_US
    late = times < begins - _BEHIND_US
    return Sorted(
        good=rows.filter(pa.array(~late & ~unusable)),
        late=rows.filter(pa.array(late)),
        unusable=rows.filter(pa.array(unusable)),
    )


def expected(query: Asked, events: pa.Table) -> dict[Key, Value]:
    """Return a query's results over all good events, by window and group."""
    rows = events.filter(pc.fill_null(PREDICATES[query.where](events), False))
    times = np.asarray(rows["time"].cast(pa.int64()))
    range_us, slide_us = query.range_ms * 1000, query.slide_ms * 1000
    next_end = (times // slide_us + 1) * slide_us
    places, ends = [], []
    for step in range(-(-range_us // slide_us)):
        end = next_end + step * slide_us
        held = np.flatnonzero(end - range_us <= times)
        places.append(held)
        ends.append(end[held])
    repeated = rows.take(pa.array(np.concatenate(places))).append_column(
        "end", pa.array(np.concatenate(ends))
    )
    parts = [AGGREGATES[name][1] for name in query.outputs]
    asked = [
        (column, function, pc.CountOptions(mode="all" if nulls == "all" else "only_valid"))
        if function in ("count", "count_distinct")
        else (column, function)
        for column, function, nulls in parts
    ]
    grouped = repeated.group_by(["end", *query.keys]).aggregate(asked)
    names = [f"{column}_{function}" for column, function, _ in parts]
    keys = zip(*(grouped[name].to_pylist() for name in ["end", *query.keys]), strict=True)
    values = zip(*(grouped[name].to_pylist() for name in names), strict=True)
    found = {(end - range_us, end, *group): value for (end, *group), value in zip(keys, values, strict=True)}
    return _empty(query, events) | found if query.empty else found


def _empty(query: Asked, events: pa.Table) -> dict[Key, Value]:
    """Return all windows that end after the first event and begin by the last one, as if without rows."""
    times = np.asarray(events["time"].cast(pa.int64()))
    range_us, slide_us = query.range_ms * 1000, query.slide_ms * 1000
    first, last = (int(times.min()) // slide_us + 1) * slide_us, int(times.max()) + range_us
    nothing = tuple(0 if AGGREGATES[name][1][1].startswith("count") else None for name in query.outputs)
    return {(end - range_us, end): nothing for end in range(first, last + 1, slide_us)}


def actual(query: Asked, out: Path) -> list[tuple[Key, Value]]:
    """Return the rows that are on the disk for a query, every one of them."""
    found: list[tuple[Key, Value]] = []
    for path in sorted((out / query.name).glob("[!.]*.parquet")):
        found += by_key(query, pq.ParquetFile(path).read())
    return found


def by_key(query: Asked, rows: pa.Table) -> Iterator[tuple[Key, Value]]:
    """Yield a query's results, each as its window and group, and its values."""
    bounds = [rows[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end")]
    keys = zip(*bounds, *(rows[name].to_pylist() for name in query.keys), strict=True)
    values = zip(*(rows[name].to_pylist() for name in query.outputs), strict=True)
    yield from zip(keys, values, strict=True)


def judge(
    queries: Iterable[Asked],
    events: pa.Table,
    out: Path | Reader,
    spans: Mapping[str, tuple[Span, ...]] | None = None,
) -> Verdict:
    """Compare the results of all queries, in a folder or as a function reads them, with what they must be."""
    verdict = Verdict()
    for query in queries:
        rows = actual(query, out) if isinstance(out, Path) else out(query)
        must = expected(query, events)
        if spans is not None and query.name in spans:
            must = _within(must, rows, spans[query.name])
        verdict.add(_compared(query, must, rows))
        if query.audit:
            verdict.add(_audited(query, events, rows))
    return verdict


def _within(
    must: Mapping[Key, Value], rows: list[tuple[Key, Value]], spans: tuple[Span, ...]
) -> dict[Key, Value]:
    """Return what must be there of a query that came late, or went, or rested in between."""
    kept: dict[Key, Value] = {}
    for number, span in enumerate(spans):
        first = span.first if span.first is not None else min((key[0] for key in must), default=0)
        following = spans[number + 1].first if number + 1 < len(spans) else None
        until = None
        if span.ended:
            given = [
                key[1] for key, _ in rows if first <= key[0] and (following is None or key[0] < following)
            ]
            until = max([first, span.owed, *given])
            until = until if span.allowed is None else min(until, span.allowed)
        for key, value in must.items():
            begun = first <= key[0] and (following is None or key[0] < following)
            if begun and (until is None or key[1] <= until):
                kept[key] = value
    return kept


def _compared(query: Asked, must: Mapping[Key, Value], rows: list[tuple[Key, Value]]) -> Verdict:
    counts = Counter(key for key, _ in rows)
    missing = [key for key in must if key not in counts]
    extra = [key for key in counts if key not in must]
    repeated = [key for key, count in counts.items() if count > 1]
    wrong = [(key, value) for key, value in rows if key in must and not _same(must[key], value)]
    examples = [f"{query.name}: no window {key}" for key in missing[:_SHOWN]]
    examples += [f"{query.name}: a window too many {key}" for key in extra[:_SHOWN]]
    examples += [f"{query.name}: {counts[key]} times window {key}" for key in repeated[:_SHOWN]]
    examples += [f"{query.name}: window {key} has {value}, not {must[key]}" for key, value in wrong[:_SHOWN]]
    return Verdict(
        missing=len(missing),
        extra=len(extra),
        repeated=sum(counts[key] - 1 for key in repeated),
        wrong=len(wrong),
        examples=examples,
    )


def _audited(query: Asked, events: pa.Table, rows: list[tuple[Key, Value]]) -> Verdict:
    """Read off the marks how often each event was counted, over all rows."""
    times: Counter[tuple[str, int]] = Counter()
    place = query.outputs.index("marks")
    for (_, _, producer, block), values in rows:
        marks, number = values[place], block * BLOCK
        while marks:
            marks, digit = divmod(marks, BASE)
            times[producer, number] += digit
            number += 1
    known = list(zip(events["producer"].to_pylist(), events["seq"].to_pylist(), strict=True))
    lost = [event for event in known if not times[event]]
    twice = [event for event in known if times[event] > 1]
    examples = [f"{query.name}: event {event} is lost" for event in lost[:_SHOWN]]
    examples += [f"{query.name}: event {event} counts {times[event]} times" for event in twice[:_SHOWN]]
    return Verdict(lost=len(lost), twice=len(twice), examples=examples)


def _same(left: Value, right: Value) -> bool:
    return all(_alike(one, other) for one, other in zip(left, right, strict=True))


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=_RELATIVE)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other
    return type(one) is type(other) and bool(one == other)
