"""Codes for what predicates tell apart, and the fragments that follow from them (SDF).

An *attribute* is an expression that predicates test. All constants it is compared with cut its values into
positions; a row's position is found by one binary search, however many predicates there are:

    constants       5       9                 NULL
    position    0   1   2   3   4             5

Positions that no predicate of a relation tells apart get one code, and the codes of all attributes of the
relation span a grid. Each cell of the grid satisfies certain predicates: that set is its signature, and cells
of equal signature are one fragment. Predicates are evaluated on the cells of the grid, once for a plan, and
never on rows. Cells that satisfy no predicate are fragment F0, and rows in them are dropped by Spark.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt

from weft.expression import Expression
from weft.predicates.formula import All, Formula, Test, tests
from weft.predicates.values import Point, Values
from weft.types import Kind

Bits = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int32]
Packed = npt.NDArray[np.uint8]
NO_FRAGMENT = -1
"""F0: what satisfies no predicate."""


class AttributeKind(StrEnum):
    """How an attribute tells values apart."""

    INTERVAL = "interval"
    CATEGORY = "category"
    BIT = "bit"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An expression and the constants it is compared with, in order."""

    expression: Expression
    points: tuple[Point, ...]
    kind: AttributeKind

    @property
    def positions(self) -> int:
        """How many there are: one for each constant, one between any two and beyond them, one for NULL."""
        return 2 * len(self.points) + 2

    def begins(self, values: Values) -> list[int]:
        """Return the positions at which one enters or leaves a set, in order."""
        return [2 * bisect_left(self.points, cut.value) + 1 + cut.after for cut in values.cuts]

    def among(self, values: Values) -> Bits:
        """Return, for each position, whether its values are in a set."""
        inside: Bits = np.full(self.positions, values.lowest)
        for begin in self.begins(values):
            inside[begin:] ^= True
        inside[-1] = values.null
        return inside

    def satisfy(self, values: Values, positions: npt.NDArray[np.integer]) -> Bits:
        """Return which of some positions have their values in a set: `among(values)[positions]`."""
        inside: Bits = np.full(len(positions), values.lowest)
        for begin in self.begins(values):
            inside ^= positions >= begin
        inside[positions == self.positions - 1] = values.null
        return inside

    def among_all(self, sets: Sequence[Values]) -> Packed:
        """Return, for each position, in which of the sets its values are: one bit a set, lowest first.

        A bit is flipped where its set begins or ends, and one cumulative XOR over all positions fills in the
        rest: set by set, each of 10,000 would be written out for 20,000 positions.
        """
        begins = [self.begins(values) for values in sets]
        packed: Packed = np.zeros((self.positions, -(-len(sets) // 8)), dtype=np.uint8)
        number = np.arange(len(sets))
        changed = np.repeat(number, list(map(len, begins)))
        positions = np.array([begin for own in begins for begin in own], dtype=np.intp)
        np.bitwise_xor.at(packed, (positions, changed // 8), (1 << changed % 8).astype(np.uint8))
        packed[0] ^= np.packbits([values.lowest for values in sets], bitorder="little")
        np.bitwise_xor.accumulate(packed, axis=0, out=packed)
        packed[-1] = np.packbits([values.null for values in sets], bitorder="little")
        return packed


def attributes(formulas: Iterable[Formula]) -> dict[Expression, Attribute]:
    """Gather the tests of all formulas by the expression that they test, in an order of the expressions' own.

    Whoever comes or goes then does not put them in another.
    """
    gathered: dict[Expression, Attribute] = {}
    by_expression = _sets(formulas)
    for expression in sorted(by_expression, key=str):
        sets, kind = by_expression[expression], AttributeKind.INTERVAL
        if expression.type.kind is Kind.BOOLEAN:
            kind = AttributeKind.BIT
        elif all(values.cuts_out_points for values in sets):
            kind = AttributeKind.CATEGORY
        points = {cut.value for values in sets for cut in values.cuts}
        gathered[expression] = Attribute(expression, tuple(sorted(points)), kind)
    return gathered


def _sets(formulas: Iterable[Formula]) -> dict[Expression, list[Values]]:
    """Return the sets that formulas test each expression against, in the order of the formulas."""
    sets: dict[Expression, dict[Values, None]] = {}
    for formula in formulas:
        for part in tests(formula):
            sets.setdefault(part.expression, {})[part.values] = None
    return {expression: list(own) for expression, own in sets.items()}


def evaluate(formula: Formula, holds: Callable[[Test], Bits], shape: int | Sequence[int]) -> Bits:
    """Return where a formula is true, given where tests are; what tests nothing has the given shape."""
    if isinstance(formula, Test):
        return holds(formula)
    join = np.logical_and if isinstance(formula, All) else np.logical_or
    parts = (evaluate(part, holds, shape) for part in formula.parts)
    return reduce(join, parts, np.full(shape, isinstance(formula, All)))


@dataclass(frozen=True, slots=True, eq=False)
class Codebook:
    """From positions to fragments, for the predicates of one relation."""

    predicates: tuple[Formula, ...]
    attributes: tuple[Attribute, ...]
    shares: tuple[Codes, ...]
    """For each attribute and position, what it adds to the number of the grid's cell."""
    fragments: Codes
    """For each cell of the grid, its fragment."""
    signatures: Bits
    """For each fragment and predicate, whether the one satisfies the other."""

    def verdict(self, formula: Formula) -> Bits | None:
        """Return, for each fragment, whether its rows satisfy a formula; None where fragments cannot tell.

        They tell if the formula cuts values only where these predicates do, is true or false of a fragment as
        a whole, and never true of F0, whose rows are gone.
        """
        known = {attribute.expression: attribute for attribute in self.attributes}
        for part in tests(formula):
            own = known.get(part.expression)
            if own is None or not {cut.value for cut in part.values.cuts} <= set(own.points):
                return None
        # The grid that the fragments were made from.
        codes = [np.unique(share, return_inverse=True)[1].ravel().astype(np.int32) for share in self.shares]
        grid = _Grid(self.attributes, codes)
        if not all(map(grid.tells, tests(formula))):
            return None
        cells = grid.evaluate(formula)
        if cells[self.fragments == NO_FRAGMENT].any():
            return None
        true = np.zeros(len(self.signatures), dtype=bool)
        false = np.zeros(len(self.signatures), dtype=bool)
        true[self.fragments[cells]] = True
        false[self.fragments[~cells & (self.fragments != NO_FRAGMENT)]] = True
        return None if (true & false).any() else true


def codebook(predicates: Sequence[Formula], known: Mapping[Expression, Attribute] | None = None) -> Codebook:
    """Return the fragments of some predicates; `known` attributes may have more cuts than these need."""
    own = attributes(predicates)
    used = tuple((known or own)[expression] for expression in own)
    sets = _sets(predicates)
    among = [attribute.among_all(sets[attribute.expression]) for attribute in used]
    coded = [distinct_rows(rows) for rows in among]
    grid = _Grid(used, [codes.astype(np.int32) for _, codes in coded])
    tested = [predicate.values for predicate in predicates if isinstance(predicate, Test)]
    if len(used) == 1 and len(tested) == len(predicates) and tested == sets[used[0].expression]:
        # Each predicate is one of the tests, in their order.
        packed = among[0][coded[0][0]]
    else:
        packed = grid.evaluate_all(predicates)
    firsts, numbers = distinct_rows(packed)
    signatures = packed[firsts]
    satisfied = signatures.any(axis=1)
    bits = np.unpackbits(signatures[satisfied], axis=1, count=len(predicates), bitorder="little").view(bool)
    names = np.where(satisfied, np.cumsum(satisfied) - 1, NO_FRAGMENT).astype(np.int32)
    return Codebook(tuple(predicates), used, grid.shares(), names[numbers], bits)


class _Grid:
    """The cells that the codes of some attributes span."""

    def __init__(self, attributes: Sequence[Attribute], codes: Sequence[Codes]) -> None:
        self._attributes, self._codes = attributes, codes
        self._sizes = [int(own.max()) + 1 for own in codes]
        self._axes = {attribute.expression: axis for axis, attribute in enumerate(attributes)}

    def shares(self) -> tuple[Codes, ...]:
        """Return, for each attribute and position, what it adds to the number of the cell."""
        strides = (prod(self._sizes[axis + 1 :]) for axis in range(len(self._sizes)))
        return tuple(
            (codes * stride).astype(np.int32) for codes, stride in zip(self._codes, strides, strict=True)
        )

    def tells(self, test: Test) -> bool:
        """Say whether a test is true or false of each code as a whole."""
        axis = self._axes[test.expression]
        by_code = self._by_code(test).ravel()
        return bool((by_code[self._codes[axis]] == self._attributes[axis].among(test.values)).all())

    def evaluate(self, formula: Formula) -> Bits:
        """Return in which cells a formula is true."""
        # Attributes that it does not test have one cell until the end.
        true = evaluate(formula, self._by_code, [1] * len(self._sizes))
        return np.broadcast_to(true, self._sizes).ravel()

    def evaluate_all(self, predicates: Sequence[Formula]) -> Packed:
        """Return, for each cell, which predicates it satisfies: one bit a predicate, lowest first."""
        packed: Packed = np.zeros((prod(self._sizes), -(-len(predicates) // 8)), dtype=np.uint8)
        for begin in range(0, len(predicates), 8):
            bits = np.array([self.evaluate(predicate) for predicate in predicates[begin : begin + 8]])
            packed[:, begin // 8] = np.packbits(bits, axis=0, bitorder="little")[0]
        return packed

    def _by_code(self, test: Test) -> Bits:
        """Return for which codes of its attribute a test is true, along the attribute's axis."""
        axis = self._axes[test.expression]
        shape = [1] * len(self._sizes)
        shape[axis] = self._sizes[axis]
        by_code = np.zeros(shape, dtype=bool)
        by_code.ravel()[self._codes[axis]] = self._attributes[axis].among(test.values)
        return by_code


def distinct_rows(rows: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first of each set of equal rows, and for each row the number of its set."""
    if not rows.shape[1]:
        return np.zeros(min(1, len(rows)), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, firsts, numbers = np.unique(whole, return_index=True, return_inverse=True)
    return firsts, numbers.ravel()
