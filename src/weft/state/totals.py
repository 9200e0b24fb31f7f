"""Final aggregation by running totals: any number of windows in one pass over the rows.

Windows that have a moment in common, their anchor, are answered together. Partials are added up outward from
the anchor, once for all windows, so that each window is the sum of two totals and nothing is ever subtracted:

    anchor                      |
    window    [-----------------|------)
    totals    <-----------------|------>

This is done for all groups side by side, and what is left is to add up the fragments that satisfy the
window's predicate (STS Algorithm 2).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates import Partial, Primitive, empty
from weft.arrays import Rows, Times
from weft.predicates import Formula
from weft.state.anchors import Job
from weft.state.signatures import Classes, Fragments
from weft.state.sorted_runs import SortedRun
from weft.state.store import Combined

Values = npt.NDArray[Any]
_Name = tuple[Primitive | None, bool]
"""What is added up: a primitive's values, or (True) which of them are valid."""
_SHARDS: _Name = (None, False)
_CELLS = 2_000_000
"""Maximum number of totals of one kind at a time: 16 MB of them."""
_BATCH = 1 << 16
"""Maximum number of totals read for windows at a time: they should stay in the processor's cache."""
_RESULTS = 2_000_000
"""Maximum number of (window, key) pairs answered at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Due windows, one by one: the ask, the end and the predicate of each."""

    ask: Rows
    end: Times
    predicate: npt.NDArray[np.int32]
    """Which of the predicates that are given beside the windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measure:
    """Something that is added up: a primitive's values, which are valid, or how many shards there are."""

    ufunc: np.ufunc
    nothing: float | int
    values: Values
    """One for each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """Rows by cell of time and by column; a column is a key and a class of fragments."""

    runs: list[tuple[SortedRun, Rows]]
    """Where the rows come from."""
    cell: Rows
    column: Rows
    key: Rows
    """Each column's key, in order."""
    sample: Rows
    """A fragment of each column's class."""

    def gather(self, primitive: Primitive) -> Partial:
        """Return a primitive's partials for the rows."""
        parts = [run.partial(primitive).take(rows) for run, rows in self.runs]
        if all(part.valid is None for part in parts):
            valid = None
        else:
            valid = np.concatenate([part.valid_mask() for part in parts])
        return Partial((np.concatenate([part.fields[0] for part in parts]),), valid, primitive.types)


def has_totals(primitive: Primitive) -> bool:
    """Return whether a primitive can be added up here: one field of plain numbers."""
    return primitive.combine.running is not None and empty(primitive, 0).fields[0].dtype != object


def totals(
    runs: Sequence[SortedRun], fragments: Fragments, primitives: Sequence[Primitive],
    together: Iterable[Job], windows: Windows, predicates: Sequence[Formula],
) -> Iterator[Combined]:  # fmt: skip
    """Yield the combined partials of windows, each over the fragments that satisfy its predicate."""
    asked, which = np.unique(windows.predicate, return_inverse=True)
    formulas = [predicates[number] for number in asked]
    classes = fragments.classes(formulas)
    for job in together:
        grid = _grid(runs, job, classes)
        if grid is not None:
            for piece in _answers(fragments, primitives, job, grid, which[job.window], formulas):
                yield piece.of(windows)


def _grid(runs: Sequence[SortedRun], job: Job, classes: Classes) -> _Grid | None:
    """Place the rows that lie in any of the job's windows and satisfy any of its predicates."""
    sources, cells, codes = [], [], []
    for run in runs:
        bounds = np.searchsorted(run.start, job.edges)
        of = classes.of[run.fragment[bounds[0] : bounds[-1]]]
        rows = np.flatnonzero(of >= 0)
        cell = np.repeat(np.arange(len(job.edges) - 1, dtype=np.int32), np.diff(bounds))
        sources.append((run, rows + bounds[0]))
        cells.append(cell[rows])
        codes.append(run.key[rows + bounds[0]] * np.int64(len(classes)) + of[rows])
    if not sum(map(len, cells)):
        return None
    distinct, column = _ranked(np.concatenate(codes))
    key, kind = np.divmod(distinct, len(classes))
    return _Grid(
        runs=sources, cell=np.concatenate(cells), column=column, key=key, sample=classes.samples[kind]
    )


def _ranked(codes: Times) -> tuple[Times, Rows]:
    """Return the distinct codes in order, and the rank of each; by a table if that is not too large."""
    size = int(codes.max()) + 1
    if size > max(1 << 20, 4 * len(codes)):
        distinct, ranks = np.unique(codes, return_inverse=True)
        return distinct, ranks
    present = np.zeros(size, dtype=bool)
    present[codes] = True
    distinct = np.flatnonzero(present)
    rank = np.empty(size, dtype=np.int64)
    rank[distinct] = np.arange(len(distinct))
    return distinct, rank[codes]


def _answers(
    fragments: Fragments, primitives: Sequence[Primitive], job: Job, grid: _Grid, predicate: Rows,
    formulas: Sequence[Formula],
) -> Iterator["_Piece"]:  # fmt: skip
    measures = _measures(grid, primitives)
    most = max(1, min(_CELLS // (len(job.edges)), 8 * _CELLS // len(formulas)))
    spans = list(_spans(grid.key, most, max(1, _RESULTS // len(job.window))))
    chunks = [chunk for span in spans for chunk in span]
    rows = iter(_by_chunk(grid.column, chunks))
    # Memory that was used before is faster than new memory.
    room = np.empty(len(job.edges) * max(chunk.stop - chunk.start for chunk in chunks), dtype=np.int64)
    for span in spans:
        keys = grid.key[span[0].start : span[-1].stop]
        distinct = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
        shape = len(job.window), len(distinct)
        sums = {name: _nothing(measure, shape) for name, measure in measures.items()}
        # Infinities of both signs add up to NaN, as they should.
        with np.errstate(all="ignore"):
            for chunk in span:
                _add_chunk(fragments, job, grid, predicate, formulas, measures, chunk, next(rows), room, sums)
        yield _piece(primitives, job, distinct, sums)


def _measures(grid: _Grid, primitives: Sequence[Primitive]) -> dict[_Name, _Measure]:
    """Return what is added up: the number of shards, then each primitive's values, and which are valid.

    Where all are, a window with a shard has a valid one, and nothing is to be added up.
    """
    ones = np.ones(len(grid.cell), dtype=np.int32)
    measures: dict[_Name, _Measure] = {_SHARDS: _Measure(ufunc=np.add, nothing=0, values=ones)}
    for primitive in primitives:
        partial = grid.gather(primitive)
        values = partial.fields[0]
        form = primitive.combine.running
        assert form is not None
        ufunc = form.ufunc
        nothing = form.nothing_double if values.dtype == np.float64 else form.nothing_integer
        if partial.valid is None:
            measures[primitive, False] = _Measure(ufunc=ufunc, nothing=nothing, values=values)
            continue
        values = np.where(partial.valid, values, nothing)
        measures[primitive, False] = _Measure(ufunc=ufunc, nothing=nothing, values=values)
        valid = partial.valid.view(np.int8)
        measures[primitive, True] = _Measure(ufunc=np.maximum, nothing=0, values=valid)
    return measures


def _spans(key: Rows, most: int, keys: int) -> Iterator[list[slice]]:
    """Cut columns into spans of whole keys, and a key that is too wide for one piece into several."""
    begins = np.append(np.flatnonzero(np.diff(key, prepend=-1)), len(key))
    first = 0
    while first < len(begins) - 1:
        begin = int(begins[first])
        last = int(np.searchsorted(begins, begin + most, side="right")) - 1
        last = max(first + 1, min(last, first + keys))
        end = int(begins[last])
        yield [slice(cut, min(cut + most, end)) for cut in range(begin, end, most)]
        first = last


def _by_chunk(column: Rows, chunks: Sequence[slice]) -> Iterator[Rows]:
    """Yield the rows of each chunk of columns."""
    if len(chunks) == 1:
        yield np.arange(len(column))
        return
    sizes = [chunk.stop - chunk.start for chunk in chunks]
    # Whole numbers of two bytes are sorted in linear time.
    numbers = np.arange(len(chunks), dtype=np.uint16 if len(chunks) < 1 << 16 else np.int64)
    number = np.repeat(numbers, sizes)[column]
    yield from np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])


def _nothing(measure: _Measure, shape: tuple[int, ...]) -> Values:
    return np.full(shape, measure.nothing, dtype=measure.values.dtype)


def _add_chunk(
    fragments: Fragments, job: Job, grid: _Grid, predicate: Rows, formulas: Sequence[Formula],
    measures: dict[_Name, _Measure], chunk: slice, rows: Rows, room: Times,
    sums: dict[_Name, Values],
) -> None:  # fmt: skip
    """Add some columns to the sums of all windows and of the columns' keys."""
    samples, keys = grid.sample[chunk], grid.key[chunk]
    held = fragments.satisfied(formulas, samples)
    bits = fragments.bits([formulas[number] for number in np.flatnonzero(held).tolist()], samples)
    # As whole numbers, 0 and −1 are masks for numbers of any width.
    mask = None if bits.all() else -bits.view(np.int8)
    windows = np.flatnonzero(held[predicate])
    windows = windows[np.argsort(job.first[windows], kind="stable")]
    which = (np.cumsum(held) - 1)[predicate]
    begins = np.flatnonzero(np.diff(keys, prepend=-1))
    index = grid.cell[rows] * np.int64(len(keys)) + (grid.column[rows] - chunk.start)
    step = max(1, _BATCH // len(keys))
    for name, measure in measures.items():
        total = sums[name]
        running = _room(room, measure, len(job.edges), len(keys))
        _accumulate(measure.ufunc, running, index, measure.values[rows], job.anchor)
        for begin in range(0, len(windows), step):
            batch = windows[begin : begin + step]
            picked = _picked(measure.ufunc, running, job, batch)
            if mask is not None:
                _blank(picked, measure, mask[which[batch]])
            total[batch] = measure.ufunc(total[batch], _by_key(measure.ufunc, picked, begins))


def _room(room: Times, measure: _Measure, cells: int, width: int) -> Values:
    """Return room for totals, with nothing in it."""
    grid = room.view(measure.values.dtype)[: cells * width].reshape(cells, width)
    grid[:] = measure.nothing
    return grid


def _accumulate(ufunc: np.ufunc, grid: Values, index: Times, values: Values, anchor: int) -> None:
    """Fill in totals from each cell to the anchor (with it on the left), and leave the last row empty."""
    ufunc.at(grid.reshape(-1), index, values)
    for cell in range(anchor - 1, -1, -1):
        ufunc(grid[cell], grid[cell + 1], out=grid[cell])
    for cell in range(anchor + 2, len(grid) - 1):
        ufunc(grid[cell], grid[cell - 1], out=grid[cell])


def _picked(ufunc: np.ufunc, running: Values, job: Job, windows: Rows) -> Values:
    """Return each window's total for each column: what is left of the anchor, and what is right of it."""
    picked = running[job.first[windows]]
    right = job.last[windows]
    if (right > job.anchor).any():
        rest = np.where(right > job.anchor, right, len(running) - 1)
        ufunc(picked, running[rest], out=picked)
    return picked


def _blank(picked: Values, measure: _Measure, mask: npt.NDArray[np.int8]) -> None:
    """Put nothing where the mask is 0, in place and without a branch for each number."""
    bits = picked.view(f"i{picked.itemsize}")
    nothing = np.array(measure.nothing, dtype=picked.dtype).view(bits.dtype)
    if nothing:
        bits ^= nothing
    bits &= mask
    if nothing:
        bits ^= nothing


def _by_key(ufunc: np.ufunc, picked: Values, begins: Rows) -> Values:
    if len(begins) == picked.shape[1]:
        return picked
    if len(begins) == 1:
        reduced: Values = ufunc.reduce(picked, axis=1, keepdims=True, dtype=picked.dtype)
    else:
        reduced = ufunc.reduceat(picked, begins, axis=1, dtype=picked.dtype)
    return reduced


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Sums of some windows (rows) and keys (columns)."""

    window: Rows
    key: Rows
    shards: Values
    partials: dict[Primitive, Partial]

    def of(self, windows: Windows) -> Combined:
        """Return the sums that have a shard, ask by ask."""
        pairs = np.nonzero(self.shards)
        window = self.window[pairs[0]]
        order = np.argsort(windows.ask[window], kind="stable")
        window = window[order]
        return Combined(
            ask=windows.ask[window],
            key=self.key[pairs[1][order]],
            end=windows.end[window],
            partials={primitive: partial.take(order) for primitive, partial in self.partials.items()},
            operations=int(self.shards.sum(dtype=np.int64)),
        )


def _piece(primitives: Sequence[Primitive], job: Job, keys: Rows, sums: dict[_Name, Values]) -> _Piece:
    pairs = np.nonzero(sums[_SHARDS])
    partials = {}
    for primitive in primitives:
        valid = sums.get((primitive, True))
        mask = None if valid is None else valid[pairs].view(bool)
        partials[primitive] = Partial((sums[primitive, False][pairs],), mask, primitive.types)
    return _Piece(window=job.window, key=keys, shards=sums[_SHARDS], partials=partials)
