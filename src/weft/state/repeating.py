"""Final aggregation by repeating shards: each shard once for every ask that it counts for.

An ask is a predicate and a window: all its due windows are answered together. Time is cut into the ask's
own panes (STS 3.1), whose bounds are a part of the slices', so shards of one pane are combined first, into
parts. Sorted by ask, key and pane, the parts of a window are a range of rows, and windows are found from
parts: those that hold a part and no earlier one of the same key begin after that earlier part.

    panes      0   1   2   3   4   5   6   7        windows of 3 panes, each one pane later
    parts          a       b           c
    windows  [---------)                            first hold a
                 [---------)
                     [---------)                    first hold b
                         [---------) …

So work grows with shards and results, however many windows and asks there are, and keys that are absent from
most windows cost nothing there. The loops below are over pieces of bounded size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from weft.aggregates import Bags, Partial, Primitive, Ranges, combine
from weft.arrays import Bools, Rows, Times, changes, spelled_out
from weft.predicates import Formula
from weft.state.signatures import Fragments
from weft.state.sorted_runs import ShardsByKey
from weft.state.store import Combined, DueWindows

_PAIRS = 1 << 20
"""Maximum number of (ask, shard) pairs looked at together; one key of one ask is never divided."""
_LOOKED_AT = 64
"""Number of pairs looked at for each that counts, above which pieces get smaller."""
_RESULTS = 1 << 20
"""Maximum number of results made together, but for those that first hold one part."""
_ELEMENTS = 1 << 22
"""Maximum number of elements of bags that are merged together, but for those of one window."""
_BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PanePartials:
    """Combined shards of one ask, key and pane."""

    ask: Rows
    key: npt.NDArray[np.int32]
    pane: Times
    group: Rows
    """Cells of one ask and key have one number, which ascends."""
    begins: Rows
    """Where the shards of each part begin, and where those of the last end."""
    partials: dict[Primitive, Partial]


def repeated(
    fragments: Fragments, shards: ShardsByKey, due: DueWindows, pairs: Times,
    predicates: Sequence[Formula], primitives: Sequence[Primitive],
) -> Iterator[Combined]:  # fmt: skip
    """Yield the combined partials of all due windows, in pieces of bounded size.

    `pairs` is the number of shards that count for each ask.
    """
    every = np.arange(len(fragments))
    most = _PAIRS // max(1, _elements_per_shard(shards, primitives))
    # A table says which shards count for which asks: if few do, its size is what must be bounded.
    for asks in _bounded(np.maximum(pairs, len(shards) // _LOOKED_AT), most):
        satisfied = fragments.bits([predicates[number] for number in due.predicate[asks].tolist()], every)
        for rows in _spans(shards, int(pairs[asks].sum()), most):
            ask, row = _counting(satisfied, shards.fragment[rows])
            parts = _pane_partials(shards, due, ask + asks.start, row + rows.start, primitives)
            if parts is not None:
                yield from _answers(due, parts, primitives)


def by_predicate(
    fragments: Fragments, shards: ShardsByKey, due: DueWindows, predicates: Sequence[Formula],
    primitives: Sequence[Primitive],
) -> Iterator[Combined]:  # fmt: skip
    """Yield the same where some primitives are read off ranges: fragments are merged once per predicate.

    Then every shard counts for every ask with that predicate, and the shards of a window follow each other.
    """
    every = np.arange(len(fragments))
    merged = [primitive for primitive in primitives if not primitive.combine.reads_ranges]
    most = _PAIRS // max(1, _elements_per_shard(shards, merged))
    for number in np.unique(due.predicate).tolist():
        (satisfied,) = fragments.bits([predicates[number]], every)
        own = shards.satisfying(satisfied)
        asks = np.flatnonzero(due.predicate == number)
        if not len(own):
            continue
        for span in _bounded(np.full(len(asks), len(own)), most):
            these = due.take(asks[span])
            ask = np.repeat(np.arange(len(these)), len(own))
            parts = _pane_partials(own, these, ask, np.tile(np.arange(len(own)), len(these)), primitives)
            if parts is not None:
                for piece in _answers(these, parts, primitives):
                    yield replace(piece, ask=asks[span][piece.ask])


def _bounded(sizes: Times, most: int) -> Iterator[slice]:
    """Yield spans of items whose sizes add up to at most a bound, or single items that are larger."""
    passed = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(passed[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(passed, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def _spans(shards: ShardsByKey, pairs: int, most: int) -> Iterator[slice]:
    """Yield all shards, in spans of whole keys if there are too many pairs for one piece."""
    if pairs <= most:
        yield slice(0, len(shards))
        return
    begins = np.flatnonzero(np.diff(shards.key, prepend=-1))
    ends = np.append(begins[1:], len(shards))
    for keys in _bounded(ends - begins, most):
        yield slice(int(begins[keys.start]), int(ends[keys.stop - 1]))


def _counting(satisfied: Bools, fragment: npt.NDArray[np.int32]) -> tuple[Rows, Rows]:
    """Return which shards count for which asks, ask by ask."""
    if len(satisfied) == 1:
        if satisfied.all():
            return np.zeros(len(fragment), dtype=np.intp), np.arange(len(fragment))
        row = np.flatnonzero(satisfied[0][fragment])
        return np.zeros(len(row), dtype=np.intp), row
    ask, row = np.nonzero(np.take(satisfied, fragment, axis=1))
    return ask, row


def _pane_partials(
    shards: ShardsByKey, due: DueWindows, ask: Rows, row: Rows, primitives: Sequence[Primitive]
) -> _PanePartials | None:
    """Combine shards of one ask, key and pane."""
    if not len(ask):
        return None
    of_ask = _ask_index(ask)
    pane = _panes(due, of_ask, shards.start[row])
    inside = (pane >= (due.step * due.first - due.width)[of_ask]) & (pane < (due.step * due.last)[of_ask])
    if not inside.all():
        kept = np.flatnonzero(inside)
        ask, row, pane = ask[kept], row[kept], pane[kept]
        if not len(kept):
            return None
    alone, key = ask[0] == ask[-1], shards.key[row]
    another = changes(key) if alone else changes(key) | changes(ask)
    begins = np.append(np.flatnonzero(another | changes(pane)), len(key))
    lo, hi = begins[:-1], begins[1:]
    # One ask that every shard counts for reads them as they are.
    whole = alone and len(row) == len(shards)
    partials = {}
    for primitive in primitives:
        partial = shards.partial(primitive)
        if primitive.combine.reads_ranges:
            # Every shard counts (weft.state.by_predicate), so those of one part follow each other.
            partials[primitive] = _ranges(partial, row[lo], row[hi - 1] + 1)
        else:
            partials[primitive] = combine(primitive, partial if whole else partial.take(row), lo, hi)
    group = np.cumsum(another[lo]) - 1
    return _PanePartials(
        ask=_taken(ask, lo), key=key[lo], pane=pane[lo], group=group, begins=begins, partials=partials
    )


def _taken(ask: Rows, rows: Rows) -> Rows:
    """Return the ask of each of some rows."""
    return ask[rows] if ask[0] != ask[-1] else np.full(len(rows), ask[0])


def _ask_index(ask: Rows) -> Rows:
    """Return the index of each row's ask, of length 1 if all rows have the same ask."""
    return ask if ask[0] != ask[-1] else ask[:1]


def _panes(due: DueWindows, ask: Rows, start: Times) -> Times:
    """Return the number of each moment's pane; window k ends with pane (panes in a slide) · k − 1.

    range 18, slide 15      |-----0------|--1--|-----2------|--3--|-----4------|--5--|
                                         [---------window 2---------)
    """
    slide = due.slide_us[ask]
    since = start - due.offset_us[ask]
    slides = since // slide
    rest = due.range_us % due.slide_us
    if not rest.any():
        return slides
    late = since - slides * slide >= (due.slide_us - rest)[ask]
    return np.where((rest > 0)[ask], 2 * slides + late, slides)


def _answers(due: DueWindows, parts: _PanePartials, primitives: Sequence[Primitive]) -> Iterator[Combined]:
    """Yield the windows that hold any of the parts."""
    of_ask = _ask_index(parts.ask)
    step, width = due.step[of_ask], due.width[of_ask]
    if int(step.max()) == int(width.max()) == 1:
        # Each part is a window.
        yield Combined(
            ask=parts.ask,
            key=parts.key.astype(np.intp),
            end=(parts.pane + 1) * due.slide_us[of_ask] + due.offset_us[of_ask],
            partials=parts.partials,
            operations=int(parts.begins[-1]),
        )
        return
    former = np.full(len(parts.pane), _BEFORE_ALL)
    same = parts.group[1:] == parts.group[:-1]
    former[1:][same] = parts.pane[:-1][same]
    begin = np.maximum(former + 1, parts.pane - width + 1)
    # A step is of one pane or of two.
    lowest = np.maximum(due.first[of_ask], -((-begin - width) >> (step - 1)))
    highest = np.minimum(due.last[of_ask], (parts.pane + width) >> (step - 1))
    count = np.maximum(0, highest - lowest + 1)
    searched = None if int(width.max()) == 1 else _searched(parts)
    for piece in _bounded(count, _RESULTS):
        part = np.repeat(np.arange(piece.start, piece.stop), count[piece])
        if len(part):
            number = spelled_out(lowest[piece], count[piece])
            yield from _combined(due, parts, primitives, part, number, searched)


def _searched(parts: _PanePartials) -> tuple[Times, int, int]:
    """Return each part's group and pane as one number, the number of panes, and the first of them."""
    first = int(parts.pane.min())
    stride = int(parts.pane.max()) - first + 1
    return parts.group * stride + (parts.pane - first), stride, first


def _combined(
    due: DueWindows, parts: _PanePartials, primitives: Sequence[Primitive], part: Rows, number: Times,
    searched: tuple[Times, int, int] | None,
) -> Iterator[Combined]:  # fmt: skip
    """Combine the parts of windows, given by the first part and the number of each."""
    ask = _taken(parts.ask, part)
    of_ask = _ask_index(ask)
    if searched is None:
        after = part + 1
    else:
        codes, stride, first = searched
        last = np.minimum(due.step[of_ask] * number - 1 - first, stride - 1)
        after = np.searchsorted(codes, parts.group[part] * stride + last, side="right")
    key, end = parts.key[part].astype(np.intp), number * due.slide_us[of_ask] + due.offset_us[of_ask]
    for rows in _bounded_bags([parts.partials[primitive] for primitive in primitives], part, after):
        lo, hi = part[rows], after[rows]
        yield Combined(
            ask=ask[rows],
            key=key[rows],
            end=end[rows],
            partials={own: _over(own, parts.partials[own], lo, hi) for own in primitives},
            operations=int((parts.begins[hi] - parts.begins[lo]).sum()),
        )


def _ranges(partial: Partial, lo: Rows, hi: Rows) -> Partial:
    return replace(partial, fields=(Ranges(partial.fields[0], lo, hi),))


def _over(primitive: Primitive, partial: Partial, lo: Rows, hi: Rows) -> Partial:
    """Combine partials of parts; ranges are not merged."""
    if primitive.combine.reads_ranges:
        return replace(partial, fields=(partial.fields[0].over(lo, hi),))
    return combine(primitive, partial, lo, hi)


def _elements_per_shard(shards: ShardsByKey, primitives: Sequence[Primitive]) -> int:
    elements = _elements([shards.partial(primitive) for primitive in primitives])
    return sum(int(begins[-1]) for begins in elements) // max(1, len(shards))


def _elements(partials: Sequence[Partial]) -> list[Times]:
    """Return where the elements of bags begin, for each of the partials that are bags."""
    return [partial.fields[0].begins for partial in partials if isinstance(partial.fields[0], Bags)]


def _bounded_bags(partials: Sequence[Partial], lo: Rows, hi: Rows) -> Iterator[slice]:
    """Yield ranges of parts in spans whose bags have a bounded number of elements, or single ranges."""
    elements = _elements(partials)
    if not elements:
        return iter((slice(None),))
    return _bounded(
        sum((begins[hi] - begins[lo] for begins in elements), np.zeros(len(lo), np.int64)), _ELEMENTS
    )
