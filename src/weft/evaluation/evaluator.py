"""Expressions evaluated over given columns: a batch's rows, or the finals of windows."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates import arrow_type
from weft.errors import InternalError
from weft.evaluation.implementations import IMPLEMENTATIONS, NULL_TOLERANT
from weft.evaluation.logic import holding
from weft.evaluation.search import Numbers, Point, places, text_places
from weft.evaluation.vector import TEXTS, Mask, Vector, constant, from_arrow, null, to_arrow
from weft.expression import Call, Column, Expression, Literal, Slot, walk
from weft.query.fallible import sites
from weft.types import Kind

Given = Slot | Column


class Truths(NamedTuple):
    """What a condition is: 0 for false, 1 for true, 2 for NULL."""

    answers: npt.NDArray[np.int8]
    which: Numbers | None
    """For each row, where its answer stands; None where each row has an answer of its own."""


class Evaluator:
    """Evaluate expressions over given columns; equal subexpressions are computed once."""

    def __init__(self, columns: Mapping[Slot, pa.Array] | Mapping[Column, pa.Array], rows: int) -> None:
        self._columns: dict[Given, pa.Array] = dict(columns.items())
        self._rows = rows
        self._known: dict[Expression, Vector] = {}
        self._encoded: dict[Expression, pa.DictionaryArray] = {}
        self._truths: dict[Expression, Truths] = {}
        self._by_value: dict[Column, tuple[Evaluator, Numbers]] = {}
        """For columns of text: what is evaluated over their different values, and which of them rows have."""

    def values(self, expression: Expression) -> pa.Array:
        """Return the values of an expression, as `arrow_type` of its type."""
        if isinstance(expression, Given) and self._is_ready(column := self._column(expression), expression):
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
            failed = self._failed(expression)
        return None if failed is None or not failed.any() else self._all_rows(failed)

    def failed_at(self, site: Expression) -> Mask | None:
        """Return the rows in which an operation itself failed; None if there are none: see `sites`."""
        with np.errstate(all="ignore"):
            failed = self._failed_site(site)
        return None if failed is None or not failed.any() else self._all_rows(failed)

    def encoded(self, expression: Expression) -> pa.DictionaryArray:
        """Return the different values of an expression, and which of them each row has; NULL for NULL."""
        if expression not in self._encoded:
            self._encoded[expression] = self.values(expression).dictionary_encode()
        return self._encoded[expression]

    def positions(self, expression: Expression, points: Sequence[Point]) -> Numbers:
        """Return where an expression's values stand among points in order: see `places`."""
        with np.errstate(all="ignore"):
            if expression.type.kind in TEXTS:
                found = text_places(self.encoded(expression), points)
            else:
                found = places(self._vector(expression), points)
        return found if len(found) == self._rows else np.repeat(found, self._rows)

    def truths(self, condition: Expression) -> Truths:
        """Return what a condition is: 0 for false, 1 for true, 2 for NULL.

        One that reads nothing but a column of text is evaluated once for each of its values.
        """
        if condition not in self._truths:
            read = {node for node in walk(condition) if isinstance(node, Column)}
            text = [one for one in read if one.type.kind in TEXTS and one != condition]
            alone = len(text) == len(read) == 1
            self._truths[condition] = self._by_text(condition, *text) if alone else self._told(condition)
        return self._truths[condition]

    def _told(self, condition: Expression) -> Truths:
        with np.errstate(all="ignore"):
            vector = self._vector(condition)
        answers = vector.values.astype(np.int8)
        if vector.valid is not None:
            answers = np.where(vector.valid, answers, np.int8(2))
        return Truths(answers if len(answers) == self._rows else np.repeat(answers, self._rows), None)

    def _by_text(self, condition: Expression, column: Column) -> Truths:
        if column not in self._by_value:
            encoded = self.encoded(column)
            # NULL is a value like others, and comes last.
            several = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
            which = np.asarray(encoded.indices.fill_null(len(several) - 1))
            self._by_value[column] = Evaluator({column: several}, len(several)), which
        evaluator, which = self._by_value[column]
        return Truths(evaluator._told(condition).answers, which)

    def _is_ready(self, column: pa.Array, given: Given) -> bool:
        """Say whether a given column is a result as it stands."""
        whole = isinstance(column, pa.Array) and len(column) == self._rows
        return whole and column.type == arrow_type(given.type)

    def _all_rows(self, mask: Mask) -> Mask:
        return mask if len(mask) == self._rows else np.repeat(mask, self._rows)

    def _vector(self, expression: Expression) -> Vector:
        vector = self._known.get(expression)
        if vector is None:
            vector = self._known[expression] = self._computed(expression)
        return vector

    def _computed(self, expression: Expression) -> Vector:
        if isinstance(expression, Call):
            return self._called(expression)
        if isinstance(expression, Literal):
            return constant(expression.value, expression.type)
        return from_arrow(self._column(expression), expression.type)

    def _column(self, given: Given) -> pa.Array:
        column = self._columns.get(given)
        if column is None:
            raise InternalError(f"{given} has no column to be evaluated over")
        return column

    def _called(self, call: Call) -> Vector:
        implementation = IMPLEMENTATIONS.get(call.function)
        if implementation is None:
            raise InternalError(f"function {call.function} cannot be evaluated outside Spark")
        if call.function not in NULL_TOLERANT and any(arg.type.kind is Kind.NULL for arg in call.args):
            return null(call.type)
        return implementation(call, *map(self._vector, call.args))

    def _failed(self, expression: Expression) -> Mask | None:
        found: Mask | None = None
        for site in sites(expression):
            failed = self._failed_site(site)
            if failed is not None:
                found = failed if found is None else found | failed
        return found

    def _failed_site(self, site: Expression) -> Mask | None:
        assert isinstance(site, Call)
        if site.function == "case":
            return self._failed_case(site)
        valid = self._vector(site).valid
        if valid is None:
            return None
        failed: Mask = ~valid
        for argument in site.args:
            known = None if isinstance(argument, Literal) else self._vector(argument).valid
            if known is not None:
                failed = failed & known
        return failed

    def _failed_case(self, case: Call) -> Mask | None:
        """Return where a condition, or the branch that is taken, failed."""
        conditions, values = case.args[0:-1:2], (*case.args[1:-1:2], case.args[-1])
        found: Mask | None = None
        left: Mask | None = None
        for condition in conditions:
            failed = self._failed(condition)
            found = failed if found is None else found if failed is None else found | failed
        for number, value in enumerate(values):
            failed = self._failed(value)
            taken = (
                holding(self._vector(conditions[number])) if number < len(conditions) else np.ones(1, bool)
            )
            if failed is not None:
                here = failed & taken if left is None else failed & taken & left
                found = here if found is None else found | here
            left = ~taken if left is None else left & ~taken
        return found
