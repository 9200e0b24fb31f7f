"""Positions: where a row's values stand among the constants of an attribute.

A binary search answers i for the value of point i itself, and −(i + 1) for values between point i − 1 and
point i. Tables that are looked up by position are laid out in the order of those answers, with NULL last.

Numbers that depend on how many constants there are leave room for more: they are part of the code that Spark
generates, and change only when the next power of two is reached.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.internal import InternalFunction

from weft.expression import Expression
from weft.optimizer.plan import Relation
from weft.predicates import Attribute, Formula, attributes
from weft.predicates.values import Point
from weft.query.logical import Join
from weft.spark.job.points import comparable, points_array
from weft.types import Kind

_LEAST_ROOM = 64
_Number = TypeVar("_Number", np.int32, np.int64)
JoinedExpression = tuple[tuple[Join, ...], Expression]
"""An expression, and the tables that are joined where it is evaluated."""


def attributes_of(relations: Sequence[Relation]) -> dict[JoinedExpression, Attribute]:
    """Return the attributes that relations test, with the tables that each reads."""
    by_joins: dict[tuple[Join, ...], list[Formula]] = {}
    for relation in relations:
        by_joins.setdefault(relation.joins, []).extend(relation.predicates)
    return {
        (joins, expression): attribute
        for joins, formulas in by_joins.items()
        for expression, attribute in attributes(formulas).items()
    }


def position(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands: the search's answers −(m + 1) … m − 1, moved above 0, and NULL last."""
    middle = room(len(attribute.points) + 1)
    return F.nvl(search(attribute, value) + middle, F.lit(2 * middle))


def search(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands among the points, as Java's binary search tells it: NULL for NULL.

    i for the value of point i itself, −(i + 1) for those between point i − 1 and point i.
    """
    type = attribute.expression.type
    if type.kind is Kind.BOOLEAN:
        no, yes = (search_answer(attribute.points, point) for point in (0, 1))
        return F.when(value, yes).when(~value, no)
    if not attribute.points:
        return F.when(value.isNotNull(), F.lit(-1))
    return InternalFunction.array_binary_search(points_array(attribute.points, type), comparable(value, type))


def search_answer(points: Sequence[Point], value: Point) -> int:
    """Return what the search would answer."""
    index = bisect_left(points, value)
    return index if index < len(points) and points[index] == value else -(index + 1)


def in_search_order(by_position: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return shares where `position` looks for them: −(m + 1) … m − 1 around the middle, and NULL last.

    >>> shares = np.array([10, 11, 12, 13, 14, 99])  # points a, b: below a, a, between, b, above b; NULL
    >>> in_search_order(shares)[[61, 62, 63, 64, 65, 128]]
    array([14, 12, 10, 11, 13, 99])
    """
    below, points = by_position[:-1:2][::-1], by_position[1:-1:2]
    middle = room(len(below))
    ordered = np.zeros(2 * middle + 1, dtype=by_position.dtype)
    ordered[middle - len(below) : middle] = below
    ordered[middle : middle + len(points)] = points
    ordered[-1] = by_position[-1]
    return ordered


def room(count: int) -> int:
    """Return how many there may be before numbers change: a power of two.

    >>> room(1), room(64), room(65)
    (64, 64, 128)
    """
    return max(_LEAST_ROOM, 1 << (count - 1).bit_length())
