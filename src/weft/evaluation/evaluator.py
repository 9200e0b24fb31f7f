"""Expressions evaluated over given columns: a batch's rows, or the finals of windows.

Positions of values among constants are found by one binary search, however many predicates compare with them.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import arrow_type
from weft.arrays import Numbers
from weft.errors import InternalError
from weft.evaluation.casts import converted
from weft.evaluation.conditions import holding
from weft.evaluation.implementations import IMPLEMENTATIONS, NULL_TOLERANT
from weft.evaluation.nested import FROM_OUTSIDE, outside
from weft.evaluation.vector import Array, Mask, Vector, constant, from_arrow, null, to_arrow
from weft.expression import Call, Column, Expression, Literal, Slot, walk
from weft.query.failures import sites
from weft.types import DataType, Kind

Point = int | float | bytes


def positions(vector: Vector, points: Sequence[Point]) -> Numbers:
    """Return the positions of values among ordered points.

    Points and the stretches between them are numbered from below: 0 is less than all points, 1 is the first
    itself, 2 lies between that and the next, and so on. NULL comes last. NaN is greater than all numbers.

    >>> positions(Vector(np.array([4, 5, 7, 9, 10]), None), (5, 9)).tolist()
    [0, 1, 2, 3, 4]
    """
    numbers = _among(vector.values, _array(points, vector.values))
    if vector.valid is not None:
        numbers = np.where(vector.valid, numbers, 2 * len(points) + 1)
    return numbers


def text_positions(encoded: pa.DictionaryArray, points: Sequence[Point]) -> Numbers:
    """Return the positions of strings or binaries, searched once for each distinct value."""
    binary = encoded.dictionary.cast(pa.binary())
    numbers = _among(_objects(binary.to_pylist()), _objects(points))
    by_value: Numbers = np.append(numbers, 2 * len(points) + 1)
    by_row: Numbers = by_value[np.asarray(encoded.indices.fill_null(len(binary)))]
    return by_row


@lru_cache(maxsize=1 << 14)
def point(literal: Literal, type: DataType) -> Point | None:
    """Return a constant as a point among values of a type; None for NULL, and for NaN, which equals no point.

    >>> from weft.types import INT, decimal
    >>> point(Literal(5, INT), decimal(12, 2))
    500
    """
    with np.errstate(all="ignore"):
        vector = converted(constant(literal.value, literal.type), literal.type, type)
    if vector.valid is not None and not vector.valid[0]:
        return None
    value: Point = vector.values[0].as_py() if type.is_text else vector.values.tolist()[0]
    return value if value == value else None


def _among(values: Array, points: Array) -> Numbers:
    if len(points) == 0:
        return np.zeros(len(values), dtype=np.int64)
    index = np.searchsorted(points, values)
    equal = points[np.minimum(index, len(points) - 1)] == values
    numbers: Numbers = 2 * index + equal.astype(np.int64)
    return numbers


def _array(points: Sequence[Point], values: Array) -> Array:
    """Return points in the form in which values compare with them: as doubles or as whole numbers."""
    if values.dtype.kind == "f":
        return np.array(points, dtype=np.float64)
    try:
        return _objects(points) if values.dtype == object else np.array(points, dtype=np.int64)
    except OverflowError:
        # Decimals that are small themselves may be compared with any.
        return _objects(points)


def _objects(values: Sequence[Point]) -> Array:
    # None keeps NumPy from making an array of byte strings of one length.
    return np.array([*values, None], dtype=object)[:-1]


Given = Slot | Column
_Item = TypeVar("_Item", bound=np.generic)


class Truths(NamedTuple):
    """The values of a condition: 0 for false, 1 for true, 2 for NULL."""

    answers: npt.NDArray[np.int8]
    which: Numbers | None
    """For each row, the index of its answer; None where each row has an answer of its own."""


class Evaluator:
    """Evaluate expressions over given columns; equal subexpressions are computed once."""

    def __init__(self, columns: Mapping[Slot, pa.Array] | Mapping[Column, pa.Array], rows: int) -> None:
        self._columns: dict[Given, pa.Array] = dict(columns.items())
        self._rows = rows
        self._known: dict[Expression, Vector] = {}
        self._encoded: dict[Expression, pa.DictionaryArray] = {}
        self._truths: dict[Expression, Truths] = {}
        self._by_value: dict[Column, tuple[Evaluator, Numbers]] = {}
        """For columns of text: an evaluator over their distinct values, and which of them each row has."""

    def values(self, expression: Expression) -> pa.Array:
        """Return the values of an expression, as `arrow_type` of its type."""
        if isinstance(expression, Given):
            column = self._column(expression)
            whole = isinstance(column, pa.Array) and len(column) == self._rows
            if whole and column.type == arrow_type(expression.type):
                return column
        with np.errstate(all="ignore"):
            return to_arrow(self._vector(expression), expression.type, self._rows)

    def holds(self, condition: Expression) -> Mask:
        """Return the rows in which a condition is true: neither false nor NULL."""
        with np.errstate(all="ignore"):
            return self._all_rows(holding(self._vector(condition)))

    def failed(self, expression: Expression) -> Mask | None:
        """Return the rows in which an operation failed: NULL though no input is; None if there are none."""
        with np.errstate(all="ignore"):
            return self._shown(self._failed(expression))

    def failed_at(self, site: Expression) -> Mask | None:
        """Return the rows in which an operation itself failed; None if there are none: see `sites`."""
        with np.errstate(all="ignore"):
            return self._shown(self._failed_site(site))

    def encoded(self, expression: Expression) -> pa.DictionaryArray:
        """Return the distinct values of an expression, and which of them each row has; NULL for NULL."""
        if expression not in self._encoded:
            self._encoded[expression] = self.values(expression).dictionary_encode()
        return self._encoded[expression]

    def positions(self, expression: Expression, points: Sequence[Point]) -> Numbers:
        """Return the positions of an expression's values among ordered points: see `positions`."""
        with np.errstate(all="ignore"):
            if expression.type.is_text:
                return text_positions(self.encoded(expression), points)
            numbers = positions(self._vector(expression), points)
        return self._all_rows(numbers)

    def truths(self, condition: Expression) -> Truths:
        """Return the values of a condition.

        A condition that reads nothing but a column of text is evaluated once for each of the column's values.
        """
        if condition not in self._truths:
            columns = {node for node in walk(condition) if isinstance(node, Column)}
            by_text = len(columns) == 1 and all(node.type.is_text and node != condition for node in columns)
            compute = self._truths_by_text if by_text else self._truths_by_row
            self._truths[condition] = compute(condition, *columns)
        return self._truths[condition]

    def _truths_by_row(self, condition: Expression, *_: Column) -> Truths:
        with np.errstate(all="ignore"):
            vector = self._vector(condition)
        answers = vector.values.astype(np.int8)
        if vector.valid is not None:
            answers = np.where(vector.valid, answers, np.int8(2))
        return Truths(self._all_rows(answers), None)

    def _truths_by_text(self, condition: Expression, column: Column) -> Truths:
        if column not in self._by_value:
            encoded = self.encoded(column)
            # NULL is a value like others, and comes last.
            values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
            which = np.asarray(encoded.indices.fill_null(len(values) - 1))
            self._by_value[column] = Evaluator({column: values}, len(values)), which
        evaluator, which = self._by_value[column]
        return Truths(evaluator._truths_by_row(condition).answers, which)

    def _all_rows(self, values: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
        return values if len(values) == self._rows else np.repeat(values, self._rows)

    def _shown(self, failed: Mask) -> Mask | None:
        return self._all_rows(failed) if failed.any() else None

    def _vector(self, expression: Expression) -> Vector:
        vector = self._known.get(expression)
        if vector is None:
            if isinstance(expression, Call):
                implementation = IMPLEMENTATIONS.get(expression.function)
                if implementation is None:
                    raise InternalError(f"function {expression.function} cannot be evaluated outside Spark")
                has_null = any(argument.type.kind is Kind.NULL for argument in expression.args)
                if has_null and expression.function not in NULL_TOLERANT:
                    vector = null(expression.type)
                else:
                    vector = implementation(expression, *map(self._vector, expression.args))
            elif isinstance(expression, Literal):
                vector = constant(expression.value, expression.type)
            else:
                vector = from_arrow(self._column(expression), expression.type)
            self._known[expression] = vector
        return vector

    def _column(self, given: Given) -> pa.Array:
        column = self._columns.get(given)
        if column is None:
            raise InternalError(f"{given} has no column to be evaluated over")
        return column

    def _failed(self, expression: Expression) -> Mask:
        failed = np.zeros(1, dtype=bool)
        for site in sites(expression):
            failed = failed | self._failed_site(site)
        return failed

    def _failed_site(self, site: Expression) -> Mask:
        assert isinstance(site, Call)
        if site.function == "case":
            # A condition failed, or the branch that is taken.
            failed, left = np.zeros(1, dtype=bool), np.ones(1, dtype=bool)
            for condition, value in zip(site.args[:-1:2], site.args[1::2], strict=True):
                holds = holding(self._vector(condition))
                failed = failed | self._failed(condition) | (self._failed(value) & holds & left)
                left = left & ~holds
            return failed | (self._failed(site.args[-1]) & left)
        if site.function in FROM_OUTSIDE:
            return outside(site, *map(self._vector, site.args))
        valid = self._vector(site).valid
        if valid is None:
            return np.zeros(1, dtype=bool)
        failed = ~valid
        for argument in site.args:
            known = None if isinstance(argument, Literal) else self._vector(argument).valid
            failed = failed if known is None else failed & known
        return failed
