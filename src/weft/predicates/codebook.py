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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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

        A set is changed where it begins and ends, and told everywhere by one sum over all positions: told on
        its own, each of 10,000 would be spelled out for 20,000 positions.
        """
        number = np.arange(len(sets))
        bits = np.left_shift(1, number % 8).astype(np.uint8)
        begins = [self.begins(values) for values in sets]
        packed: Packed = np.zeros((self.positions, -(-len(sets) // 8)), dtype=np.uint8)
        lowest = np.array([values.lowest for values in sets], dtype=bool)
        np.bitwise_xor.at(packed, (0, number[lowest] // 8), bits[lowest])
        which = np.repeat(number, list(map(len, begins)))
        places = np.array([begin for some in begins for begin in some], dtype=np.intp)
        np.bitwise_xor.at(packed, (places, which // 8), bits[which])
        np.bitwise_xor.accumulate(packed, axis=0, out=packed)
        null = np.array([values.null for values in sets], dtype=bool)
        packed[-1] = np.packbits(null, bitorder="little")
        return packed


def attributes(formulas: Iterable[Formula]) -> dict[Expression, Attribute]:
    """Gather the tests of all formulas by the expression that they test, in an order of the expressions' own.

    Whoever comes or goes then does not put them in another.
    """
    sets: dict[Expression, set[Values]] = {}
    for formula in formulas:
        for one in tests(formula):
            sets.setdefault(one.expression, set()).add(one.values)
    return {expression: _attribute(expression, sets[expression]) for expression in sorted(sets, key=str)}


def _attribute(expression: Expression, sets: Iterable[Values]) -> Attribute:
    points: set[Point] = set()
    kind = AttributeKind.BIT if expression.type.kind is Kind.BOOLEAN else AttributeKind.CATEGORY
    for values in sets:
        points.update(cut.value for cut in values.cuts)
        pairs = zip(values.cuts[::2], values.cuts[1::2], strict=False)
        only_points = len(values.cuts) % 2 == 0 and all(one.value == two.value for one, two in pairs)
        if kind is AttributeKind.CATEGORY and not only_points:
            kind = AttributeKind.INTERVAL
    return Attribute(expression, tuple(sorted(points)), kind)


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
        for one in tests(formula):
            own = known.get(one.expression)
            if own is None or not {cut.value for cut in one.values.cuts} <= set(own.points):
                return None
        grid = self._grid()
        if not all(map(grid.tells, tests(formula))):
            return None
        cells = np.broadcast_to(grid.evaluate(formula), grid.sizes).ravel()
        if cells[self.fragments == NO_FRAGMENT].any():
            return None
        true = np.zeros(len(self.signatures), dtype=bool)
        false = np.zeros(len(self.signatures), dtype=bool)
        true[self.fragments[cells]] = True
        false[self.fragments[~cells & (self.fragments != NO_FRAGMENT)]] = True
        return None if (true & false).any() else true

    def _grid(self) -> "_Grid":
        """Return the grid that the fragments were made from."""
        coded = [np.unique(share, return_inverse=True)[1].ravel().astype(np.int32) for share in self.shares]
        sizes = [int(codes.max()) + 1 for codes in coded]
        return _Grid(self.attributes, coded, sizes, _axes(self.attributes))


def codebook(predicates: Sequence[Formula], known: Mapping[Expression, Attribute] | None = None) -> Codebook:
    """Return the fragments of some predicates; `known` attributes may have more cuts than these need."""
    own = attributes(predicates)
    used = tuple((known or own)[expression] for expression in own)
    sets = _sets(predicates)
    told = [attribute.among_all(sets[attribute.expression]) for attribute in used]
    numbered = [distinct_rows(rows) for rows in told]
    coded = [codes.astype(np.int32) for _, codes in numbered]
    sizes = [len(firsts) for firsts, _ in numbered]
    tested = [one.values for one in predicates if isinstance(one, Test)]
    if len(used) == 1 and len(tested) == len(predicates) and tested == sets[used[0].expression]:
        # Each predicate is one of the tests, in their order.
        packed = told[0][numbered[0][0]]
    else:
        packed = _evaluated(predicates, _Grid(used, coded, sizes, _axes(used)))
    firsts, numbers = distinct_rows(packed)
    signatures = packed[firsts]
    satisfied = signatures.any(axis=1)
    bits = np.unpackbits(signatures[satisfied], axis=1, count=len(predicates), bitorder="little").view(bool)
    names = np.where(satisfied, np.cumsum(satisfied) - 1, NO_FRAGMENT).astype(np.int32)
    strides = [prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    shares = tuple((codes * stride).astype(np.int32) for codes, stride in zip(coded, strides, strict=True))
    return Codebook(tuple(predicates), used, shares, names[numbers], bits)


def _sets(predicates: Iterable[Formula]) -> dict[Expression, list[Values]]:
    """Return the sets that predicates test each expression against, in the order of the predicates."""
    sets: dict[Expression, dict[Values, None]] = {}
    for predicate in predicates:
        for one in tests(predicate):
            sets.setdefault(one.expression, {})[one.values] = None
    return {expression: list(some) for expression, some in sets.items()}


def _axes(used: Iterable[Attribute]) -> dict[Expression, int]:
    return {attribute.expression: axis for axis, attribute in enumerate(used)}


def _evaluated(predicates: Sequence[Formula], grid: "_Grid") -> Packed:
    """Return, for each cell of the grid, which predicates it satisfies: one bit a predicate, lowest first."""
    packed: Packed = np.zeros((prod(grid.sizes), -(-len(predicates) // 8)), dtype=np.uint8)
    for begin in range(0, len(predicates), 8):
        some = [
            np.broadcast_to(grid.evaluate(one), grid.sizes).ravel() for one in predicates[begin : begin + 8]
        ]
        packed[:, begin // 8] = np.packbits(np.array(some, dtype=bool), axis=0, bitorder="little")[0]
    return packed


@dataclass(frozen=True, slots=True)
class _Grid:
    """The cells that the codes of some attributes span."""

    attributes: tuple[Attribute, ...]
    codes: Sequence[Codes]
    sizes: Sequence[int]
    axes: Mapping[Expression, int]

    def tells(self, one: Test) -> bool:
        """Say whether a test is true or false of each code as a whole."""
        axis = self.axes[one.expression]
        among = self.attributes[axis].among(one.values)
        by_code = np.zeros(self.sizes[axis], dtype=bool)
        by_code[self.codes[axis]] = among
        return bool((by_code[self.codes[axis]] == among).all())

    def evaluate(self, formula: Formula) -> Bits:
        """Return where a formula is true, with an axis of length 1 for attributes it does not test."""
        if isinstance(formula, Test):
            axis = self.axes[formula.expression]
            by_code = np.zeros(self.sizes[axis], dtype=bool)
            by_code[self.codes[axis]] = self.attributes[axis].among(formula.values)
            shape = [1] * len(self.sizes)
            shape[axis] = self.sizes[axis]
            return by_code.reshape(shape)
        join = np.logical_and if isinstance(formula, All) else np.logical_or
        found = np.full([1] * len(self.sizes), isinstance(formula, All))
        for part in formula.parts:
            found = join(found, self.evaluate(part))
        return found


def distinct_rows(rows: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first of each set of equal rows, and for each row the number of its set."""
    if not rows.shape[1]:
        return np.zeros(min(1, len(rows)), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, firsts, numbers = np.unique(whole, return_index=True, return_inverse=True)
    return firsts, numbers.ravel()
