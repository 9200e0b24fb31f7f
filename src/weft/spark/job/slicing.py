"""Give each row its slice, as Spark columns.

Three ways, all exact:

- *grid*: the common panes of all windows. One modulo per row; best as long as a batch has few groups.
- *panes*: where slices are several panes long and groups are many, the slice of each pane ahead is looked up.
- *table*: for windows with hardly any common divisor, over batches long in event time. Time ahead is cut into
  equal cells; a cell's entry names the last edge before it and the edges inside it, so a row costs a look-up
  and a few comparisons.

Rows outside a look-up table use the grid. Each way may give a time inside a slice instead of its start; the
driver, which sees only distinct times, rounds them down to the slice's edge.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.arrays import Times
from weft.optimizer.cost import edge_rate
from weft.optimizer.plan import Relation
from weft.optimizer.slices import MICROSECONDS, EdgeClass, SliceManager, Slicing, common_grid, slice_starts
from weft.spark.job.constants import Constants

_FEW_GROUPS = 32_768
_PANES_PER_SLICE = 1.5
"""Panes are looked up when they make more groups than the first, and a slice has more than the second."""
_MOST_LOOKED_UP = 65_536
"""Maximum number of panes that are looked up; those after them use the grid."""
_MAX_PANES = 65_536
_PANES_PER_SLICE_OF_TABLE = 4
"""The table pays when a batch has more panes than the first, and a slice more than the second."""
_NEVER = np.iinfo(np.int64).max
_MAX_EDGES = 16_384
_MAX_CELLS = 65_536
_MAX_EDGES_IN_CELL = 6


@dataclass(frozen=True, slots=True)
class Table:
    """Edges ahead, by cells of equal width, in microseconds after `begin`."""

    begin: int
    end: int
    width: int
    before: Times
    """The last edge at or before each cell's start."""
    inside: tuple[Times, ...]
    """The first, second, … edge inside each cell, or a time after the end."""


class SliceCoder:
    """Code rows of one relation by slice."""

    def __init__(self, relation: Relation, slicing: Slicing, name: str) -> None:
        self.classes = relation.edges(slicing)
        self._grid = common_grid(self.classes)
        self._windows, self._slicing = relation.windows, slicing
        self._name = name
        self.uses_table = False
        """Whether slices are looked up in cells; that stays so once it has paid."""
        self.uses_panes = False
        """Whether slices are looked up by pane."""
        self.depth = 0
        """Maximum number of edges in a cell; as it is part of the generated code, it only grows."""

    @property
    def shape(self) -> Hashable:
        """What the column depends on: relations of one shape can use one column."""
        return self._name if self.uses_table or self.uses_panes else self._grid

    def prepare(
        self, constants: Constants, *, begin_us: int | None, span_us: int, groups: float = 1.0
    ) -> None:
        """Set the constants for a batch: `begin_us` is when its rows are expected to begin, if known.

        `groups` is the expected number of groups per pane.
        """
        panes = span_us / (self._grid.modulus * MICROSECONDS)
        table_pays = panes > _MAX_PANES and self._panes_per_slice > _PANES_PER_SLICE_OF_TABLE
        panes_pay = panes * groups > _FEW_GROUPS and self._panes_per_slice > _PANES_PER_SLICE
        if begin_us is not None and (self.uses_table or table_pays):
            self.uses_table = True
            self._prepare_table(constants, begin_us, span_us)
        elif self.uses_panes or panes_pay:
            self.uses_panes = True
            self._prepare_panes(constants, begin_us, span_us)

    def _prepare_panes(self, constants: Constants, begin_us: int | None, span_us: int) -> None:
        width = self._grid.modulus * MICROSECONDS
        # Without a beginning nothing is looked up, but the code should be that of other batches.
        count = 1 if begin_us is None else min(_MOST_LOOKED_UP, span_us // width + 2)
        begin_us = begin_us or 0
        begin = begin_us - (begin_us - self._grid.residue * MICROSECONDS) % width
        panes = begin + np.arange(count, dtype=np.int64) * width
        constants.number(f"{self._name}_begin", begin)
        constants.array(f"{self._name}_panes", (slice_starts(panes, self.classes) - begin) // width)

    def _prepare_table(self, constants: Constants, begin_us: int, span_us: int) -> None:
        table = build_table(self._manager, self.classes, begin_us, span_us)
        # More comparisons than needed are harmless; a stable number keeps the compiled code.
        self.depth = max(self.depth, len(table.inside))
        constants.number(f"{self._name}_begin", table.begin)
        constants.number(f"{self._name}_end", table.end)
        constants.number(f"{self._name}_width", table.width)
        constants.array(f"{self._name}_before", table.before)
        for depth in range(self.depth):
            edges = table.inside[depth] if depth < len(table.inside) else np.full(1, _NEVER)
            constants.array(f"{self._name}_inside{depth}", edges)

    @cached_property
    def _manager(self) -> SliceManager:
        return SliceManager(self._windows, slicing=self._slicing)

    @cached_property
    def _panes_per_slice(self) -> float:
        return 1 / self._grid.modulus / edge_rate(tuple(self._windows), self._slicing)

    def starts(self, coded: Times) -> Times:
        """Return the starts of the slices that coded times lie in."""
        return slice_starts(coded, self.classes)

    def column(self, time: Column, constants: Constants) -> Column:
        """Return the start of each row's slice, or a time within it, in microseconds."""
        width = self._grid.modulus * MICROSECONDS
        pane = time - F.pmod(time - F.lit(self._grid.residue * MICROSECONDS), F.lit(width))
        if self.uses_panes and not self.uses_table:
            begin = constants.read(f"{self._name}_begin")
            number = F.call_function("div", time - begin, F.lit(width)).try_cast("int")
            # Division rounds towards zero: times just before the beginning must not get the first pane.
            first = F.get(constants.whole(f"{self._name}_panes"), F.when(time >= begin, number))
            return F.coalesce(begin + first * F.lit(width), pane)
        if not self.uses_table:
            return pane
        begin, end = (constants.read(f"{self._name}_{bound}") for bound in ("begin", "end"))
        since = time - begin
        cell = F.call_function("div", since, constants.read(f"{self._name}_width")).cast("int")
        start = F.get(constants.whole(f"{self._name}_before"), cell)
        for depth in range(self.depth):
            edge = F.get(constants.whole(f"{self._name}_inside{depth}"), cell)
            start = F.when(since >= edge, edge).otherwise(start)
        return F.when((time >= begin) & (time < end), begin + start).otherwise(pane)


def build_table(manager: SliceManager, classes: frozenset[EdgeClass], begin_us: int, span_us: int) -> Table:
    """Return the edges from `begin_us` on, over about the given span."""
    # In whole milliseconds, as edges are: no edge may lie within the millisecond that the table ends in.
    begin_ms, span_ms = begin_us // MICROSECONDS, max(1, -(-span_us // MICROSECONDS))
    span_us = span_ms * MICROSECONDS
    manager.seek(begin_ms)
    edges: list[int] = []
    for edge in manager.until(begin_ms + span_ms):
        edges.append(edge)
        if len(edges) == _MAX_EDGES:
            break
    begin = begin_ms * MICROSECONDS
    if len(edges) == _MAX_EDGES:
        span_us = edges[-1] * MICROSECONDS - begin
    offsets = np.array(edges, dtype=np.int64) * MICROSECONDS - begin
    first = int(slice_starts(np.array([begin]), classes)[0]) - begin
    width = max(MICROSECONDS, span_us // (2 * max(1, len(edges))))
    while True:
        table = _cells(begin, span_us, width, first, offsets)
        small = width <= MICROSECONDS or span_us // (width // 2) > _MAX_CELLS
        if len(table.inside) <= _MAX_EDGES_IN_CELL or small:
            return table
        width //= 2


def _cells(begin: int, span: int, width: int, first: int, edges: Times) -> Table:
    cells = -(-span // width)
    starts = np.arange(cells, dtype=np.int64) * width
    known = np.concatenate(([first], edges))
    before = known[np.searchsorted(known, starts, side="right") - 1]
    inner = edges[(edges % width != 0) & (edges < cells * width)]
    cell = inner // width
    rank = np.arange(len(inner)) - np.searchsorted(cell, cell, side="left")
    inside = []
    for depth in range(int(rank.max()) + 1 if len(rank) else 0):
        column = np.full(cells, _NEVER)
        column[cell[rank == depth]] = inner[rank == depth]
        inside.append(column)
    return Table(begin, begin + span, width, before, tuple(inside))
