"""Comparisons of values with a parameter of many readers: one search for all of them.

Values are looked up among the parameters of all readers, in order; each reader then has the rows whose places
are on its side of its own parameter:

    parameters in order            5         9
    places of values           0   1    2    3   4          > 5 has the rows from place 2 on
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.evaluation import Evaluator
from weft.evaluation.conditions import compared_type
from weft.evaluation.search import Numbers, Point, point
from weft.expression import Call, Expression, Literal, Scalar, Slot
from weft.finals.programs import has_parameter
from weft.finals.readings import Reader
from weft.types import DataType

Rows = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A comparison of values with a parameter: where values stand among the parameters of all readers."""

    comparison: str
    parameter: int
    places: Numbers
    """The place of each row's value: see `weft.evaluation.search.positions`."""
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
