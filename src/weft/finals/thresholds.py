"""HAVING with parameters: which rows pass for each of many readers of the same finals.

Parameters on which all readers agree are constants, and what holds no other is evaluated once. Where the rest
is a comparison with a parameter, or an AND of such, each of these is one search however many alerts ask: for
values among the parameters of all readers, in order. Each reader then has the rows whose places are on its
side of its own parameter. Any other condition is evaluated reader by reader, for all asks at once.

    parameters in order            5         9
    places of values           0   1    2    3   4          > 5 has the rows from place 2 on
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.aggregates import arrow_type
from weft.arrays import Bools, Numbers, Rows, spelled_out
from weft.evaluation import Evaluator
from weft.evaluation.conditions import compared_type
from weft.evaluation.evaluator import Point, point
from weft.expression import Call, Expression, Literal, Scalar, Slot, SlotKind, walk
from weft.finals.readings import Reader, has_parameter
from weft.query.joins import conjuncts
from weft.types import DataType

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A comparison of values with a parameter: where values stand among the parameters of all readers."""

    comparison: str
    parameter: int
    places: Numbers
    """The place of each row's value: see `weft.evaluation.evaluator`."""
    own: Mapping[Scalar, int]
    """The place of each parameter."""
    last: int
    """The highest place of a value that is not NULL."""

    def spans(self, readers: Sequence[Reader]) -> list[tuple[int, int]]:
        """Return from which place up to which readers have their rows, or for <> do not have them."""
        own = [self.own[reader.parameters[self.parameter].value] for reader in readers]
        if self.comparison in ("<", "<="):
            return [(0, rank + (self.comparison == "<=")) for rank in own]
        if self.comparison in (">", ">="):
            return [(rank + (self.comparison == ">"), self.last + 1) for rank in own]
        return [(rank, rank + 1) for rank in own]

    def holds(self, rows: Rows, span: tuple[int, int]) -> Bools:
        """Say for which rows the comparison holds, for the reader of a span."""
        ranks = self.places[rows]
        inside: Bools = (ranks >= span[0]) & (ranks < span[1])
        return ~inside if self.comparison == "<>" else inside


def search_for(part: Expression, evaluator: Evaluator, readers: Sequence[Reader]) -> Search | None:
    """Look up the values that a condition compares with a parameter; None if it is another condition."""
    if not isinstance(part, Call) or part.function not in _MIRRORED:
        return None
    comparison, (left, right) = part.function, part.args
    if has_parameter(left):
        comparison, left, right = _MIRRORED[comparison], right, left
    if has_parameter(left) or not isinstance(right, Slot):
        return None
    type = compared_type(left, right)
    points = _points({reader.parameters[right.index] for reader in readers}, type)
    if points is None:
        return None
    ordered = sorted(set(points.values()))
    rank = {value: 2 * number + 1 for number, value in enumerate(ordered)}
    value = left if left.type == type else Call("cast", (left,), type)
    return Search(
        comparison=comparison, parameter=right.index, places=evaluator.positions(value, ordered),
        own={constant: rank[value] for constant, value in points.items()}, last=2 * len(ordered),
    )  # fmt: skip


def _points(constants: Iterable[Literal], type: DataType) -> dict[Scalar, Point] | None:
    """Return constants as points among values of a type; None if one cannot be searched for."""
    points: dict[Scalar, Point] = {}
    for constant in constants:
        value = point(constant, type)
        if value is None:
            return None
        points[constant.value] = value
    return points


def found_by(searches: Sequence[Search], rows: Rows, readers: Sequence[Reader]) -> list[tuple[Reader, Rows]]:
    """Return the rows of an ask that each reader gets: from a sorted list for the first comparison."""
    first, *others = searches
    rows = rows[np.argsort(first.places[rows], kind="stable")]
    cuts = np.searchsorted(first.places[rows], first.spans(readers)).tolist()
    spans = [search.spans(readers) for search in others]
    rows_by_reader = []
    for turn, (reader, (begin, end)) in enumerate(zip(readers, cuts, strict=True)):
        mine = np.delete(rows, slice(begin, end)) if first.comparison == "<>" else rows[begin:end]
        for search, own_spans in zip(others, spans, strict=True):
            mine = mine[search.holds(mine, own_spans[turn])]
        rows_by_reader.append((reader, np.sort(mine)))
    return rows_by_reader


Readers = Sequence[Sequence[Reader]]
_FEW_READERS = 4
"""Maximum number of readers of an ask for which conditions are evaluated reader by reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """Which rows pass, reader after reader."""

    rows: Rows
    counts: Rows
    """How many of them are each reader's."""
    readers: Sequence[Reader]


def passing(having: Expression, evaluator: Evaluator, bounds: Rows, readers: Readers) -> Passing:
    """Return the rows that pass HAVING; `bounds` tells which rows are those of each ask, and so whose."""
    having = _with_agreed(having, [reader for group in readers for reader in group])
    if not has_parameter(having):
        return passing_alike(evaluator.holds(having), bounds, readers)
    if max(map(len, readers)) > _FEW_READERS:
        searched = _passing_searched(having, evaluator, bounds, readers)
        if searched is not None:
            return searched
    return _passing_each(having, evaluator, bounds, readers)


def constant_parts(condition: Expression) -> list[Expression]:
    """Return the largest parts of a condition that hold no parameter."""
    if not has_parameter(condition):
        return [condition]
    return (
        [part for argument in condition.args for part in constant_parts(argument)]
        if isinstance(condition, Call)
        else []
    )


def _with_agreed(having: Expression, readers: Sequence[Reader]) -> Expression:
    """Put constants in place of the parameters that are the same for all readers."""
    columns = zip(*(reader.parameters for reader in readers), strict=True)
    numbered = enumerate(columns)
    agreed = {index: column[0] for index, column in numbered if len({own.value for own in column}) == 1}
    return _with_constants(having, agreed) if agreed else having


def _with_constants(expression: Expression, constants: Mapping[int, Literal]) -> Expression:
    if isinstance(expression, Slot) and expression.kind is SlotKind.PARAMETER:
        return constants.get(expression.index, expression)
    if isinstance(expression, Call) and has_parameter(expression):
        parts = tuple(_with_constants(part, constants) for part in expression.args)
        return Call(expression.function, parts, expression.type)
    return expression


def passing_alike(holds: Bools, bounds: Rows, readers: Readers) -> Passing:
    """Return rows that pass for every reader of their ask."""
    rows = np.flatnonzero(holds)
    cuts = np.searchsorted(rows, bounds)
    everyone = [reader for group in readers for reader in group]
    if len(everyone) == len(readers):
        return Passing(rows=rows, counts=np.diff(cuts), readers=everyone)
    times = [len(group) for group in readers]
    begin, count = np.repeat(cuts[:-1], times), np.repeat(np.diff(cuts), times)
    return Passing(rows=rows[spelled_out(begin, count)], counts=count, readers=everyone)


def _passing_each(having: Expression, evaluator: Evaluator, bounds: Rows, readers: Readers) -> Passing:
    """Evaluate the condition for the first reader of every ask, then for the second, and so on."""
    given: dict[Slot, pa.Array] = {}
    rest = _with_given(having, evaluator, given)
    found: list[tuple[Reader, Rows]] = []
    lengths = np.diff(bounds)
    for turn in range(max(map(len, readers))):
        asks = np.array([ask for ask, group in enumerate(readers) if len(group) > turn], dtype=np.intp)
        rows = spelled_out(bounds[asks], lengths[asks])
        whole = len(asks) == len(readers)
        columns = {slot: values if whole else values.take(pa.array(rows)) for slot, values in given.items()}
        mine = [readers[ask][turn] for ask in asks.tolist()]
        columns |= _parameters(rest, mine, lengths[asks])
        kept = rows[np.flatnonzero(Evaluator(columns, len(rows)).holds(rest))]
        cuts = np.searchsorted(kept, bounds)
        found += [(reader, kept[cuts[ask] : cuts[ask + 1]]) for ask, reader in zip(asks, mine, strict=True)]
    return _joined(found)


def _joined(found: Sequence[tuple[Reader, Rows]]) -> Passing:
    return Passing(
        rows=np.concatenate([rows for _, rows in found]),
        counts=np.array([len(rows) for _, rows in found], dtype=np.intp),
        readers=[reader for reader, _ in found],
    )


def _with_given(expression: Expression, evaluator: Evaluator, given: dict[Slot, pa.Array]) -> Expression:
    """Evaluate the parts without a parameter, and put slots in their place."""
    if isinstance(expression, Literal):
        return expression
    if not has_parameter(expression):
        # Numbers of parameters begin with 0.
        slot = Slot(SlotKind.PARAMETER, -1 - len(given), expression.type)
        given[slot] = evaluator.values(expression)
        return slot
    if isinstance(expression, Call):
        parts = tuple(_with_given(part, evaluator, given) for part in expression.args)
        return Call(expression.function, parts, expression.type)
    return expression


def _parameters(having: Expression, readers: Sequence[Reader], lengths: Rows) -> dict[Slot, pa.Array]:
    """Return each reader's parameters, repeated for its rows."""
    numbers = pa.array(np.repeat(np.arange(len(readers)), lengths))
    columns: dict[Slot, pa.Array] = {}
    for slot in walk(having):
        if isinstance(slot, Slot) and slot.index >= 0:
            values = [reader.parameters[slot.index].value for reader in readers]
            columns[slot] = pa.array(values, arrow_type(slot.type)).take(numbers)
    return columns


def _passing_searched(
    having: Expression, evaluator: Evaluator, bounds: Rows, readers: Readers
) -> Passing | None:
    """Give readers the rows of their spans; None where HAVING is not an AND of comparisons."""
    parts = conjuncts(having)
    everyone = [reader for group in readers for reader in group]
    searches: list[Search] = []
    for part in filter(has_parameter, parts):
        search = search_for(part, evaluator, everyone)
        if search is None:
            return None
        searches.append(search)
    usable = np.logical_and.reduce([search.places <= search.last for search in searches])
    for part in parts:
        if not has_parameter(part):
            usable = usable & evaluator.holds(part)
    found: list[tuple[Reader, Rows]] = []
    for group, begin, end in zip(readers, bounds.tolist(), bounds[1:].tolist(), strict=False):
        found += found_by(searches, begin + np.flatnonzero(usable[begin:end]), group)
    return _joined(found)
