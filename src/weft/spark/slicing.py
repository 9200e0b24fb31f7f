"""Give each row its slice, natively.

Two ways, both exact:

- *grid*: the common panes of all windows. One modulo per row; right whenever panes are about as many as
  slices.
- *table*: for windows with hardly any common divisor. Time ahead is cut into equal cells; a cell's entry
  names the last edge before it and the edges inside it, so a row costs a look-up and a few comparisons.
  Rows outside the table take the grid.

Either may give a start inside a slice instead of its beginning; the driver, which sees only distinct
starts, rounds down (`slice_starts`).
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.optimizer.cost import edge_rate
from weft.optimizer.plan import Relation
from weft.optimizer.slice_manager import SliceManager
from weft.optimizer.slice_starts import MICROSECONDS, Times, slice_starts
from weft.optimizer.slices import EdgeClass, Slicing, common_grid
from weft.spark.constants import Constants

_PANES_PER_SLICE = 4
"""How many panes a slice may have before the table pays."""
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
        self._name = name
        # The grid is the slices themselves for panes, and when slices are nearly as fine as panes.
        panes_per_slice = 1 / self._grid.modulus / edge_rate(tuple(relation.windows), slicing)
        self._manager: SliceManager | None = None
        if panes_per_slice > _PANES_PER_SLICE:
            self._manager = SliceManager(relation.windows, slicing=slicing)
        self.depth = 0
        """How many edges a cell may have: a part of the generated code, so it only grows."""

    @property
    def shape(self) -> Hashable:
        """What the column depends on: relations of one shape can use one column."""
        return self._name if self.uses_table else self._grid

    @property
    def uses_table(self) -> bool:
        """Whether rows are looked up rather than computed."""
        return self._manager is not None

    def prepare(self, constants: Constants, *, begin_us: int | None, span_us: int) -> None:
        """Set what this batch's rows are coded with: `begin_us` is the watermark, if there is one yet."""
        if self._manager is None:
            return
        table = None
        if begin_us is not None and span_us > 0:
            table = build_table(self._manager, self.classes, begin_us, span_us)
        # More comparisons than needed are harmless; a stable number keeps the compiled code.
        self.depth = max(self.depth, len(table.inside) if table else 0)
        constants.number(f"{self._name}_begin", table.begin if table else 0)
        constants.number(f"{self._name}_end", table.end if table else 0)
        constants.number(f"{self._name}_width", table.width if table else 1)
        constants.array(f"{self._name}_before", table.before if table else np.zeros(1, np.int64))
        for depth in range(self.depth):
            known = table is not None and depth < len(table.inside)
            after = table.inside[depth] if table and known else np.full(1, np.iinfo(np.int64).max)
            constants.array(f"{self._name}_inside{depth}", after)

    def column(self, time: Column, constants: Constants) -> Column:
        """Return the start of each row's slice, or a time within it, in microseconds."""
        width = self._grid.modulus * MICROSECONDS
        pane = time - F.pmod(time - F.lit(self._grid.residue * MICROSECONDS), F.lit(width))
        if self._manager is None:
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
    # In whole milliseconds, as edges are: no edge may lie in a part of one that the table ends in.
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
        column = np.full(cells, np.iinfo(np.int64).max)
        column[cell[rank == depth]] = inner[rank == depth]
        inside.append(column)
    return Table(begin, begin + span, width, before, tuple(inside))
