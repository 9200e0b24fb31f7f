"""What is known of the stream when its queries are planned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.arrays import Bools, Numbers
from weft.expression import Expression
from weft.predicates import Attribute, Formula, Test, attributes, evaluate
from weft.query.logical import Join

Joins = tuple[Join, ...]
Measured = tuple[object, frozenset[Formula], bool]
"""What a root's groups are counted by: its grouping, its predicates and whether they share."""
_ASSUMED_ROWS = 1_024
_DENSE = 16
"""Values whose range is at most this many times their number are numbered without sorting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some rows of the stream, joined with its tables, as positions in attributes (see weft.predicates)."""

    rows: int
    attributes: Mapping[tuple[Joins, Expression], Attribute]
    positions: Mapping[tuple[Joins, Expression], npt.NDArray[np.integer]]
    keys: Mapping[tuple[Joins, tuple[Expression, ...]], npt.NDArray[np.int64]] = field(default_factory=dict)
    """A number for each row's GROUP BY keys."""
    values: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    """A number for each row's value, for columns whose values predicates might be evaluated by."""
    begin: int | None = None
    """About when they begin, in microseconds of event time."""
    _numbered: dict[tuple[Joins, tuple[Expression, ...]], Numbers] = field(
        default_factory=dict, compare=False, repr=False
    )

    def numbered_keys(self, joins: Joins, keys: tuple[Expression, ...]) -> Numbers | None:
        """Return a small number for each row's keys; None where they were not sampled."""
        key = joins, keys
        if key not in self._numbered:
            if key not in self.keys:
                return None
            self._numbered[key] = numbered(self.keys[key])
        return self._numbered[key]

    def satisfy(self, joins: Joins, formula: Formula) -> Bools:
        """Return which rows satisfy a predicate."""

        def holds(test: Test) -> Bools:
            key = joins, test.expression
            return self.attributes[key].satisfy(test.values, self.positions[key])

        return evaluate(formula, holds, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """A batch as it is expected: how many rows over how long, and what they look like."""

    rows: float = 500_000.0
    span_ms: float = 600_000.0
    sample: Sample
    groups: Mapping[Measured, float] = field(default_factory=dict)
    """How many groups roots had in the last batch."""


def numbered(values: Numbers) -> Numbers:
    """Return each value's rank among the distinct ones.

    >>> numbered(np.array([70, 5, 70])).tolist()
    [1, 0, 1]
    """
    first, last = int(values.min(initial=0)), int(values.max(initial=0))
    if last - first <= _DENSE * len(values):
        # Several times as fast as sorting, and planning does it thousands of times.
        present = np.zeros(last - first + 1, dtype=np.int64)
        present[values - first] = 1
        return (np.cumsum(present) - 1)[values - first]
    return np.unique(values, return_inverse=True)[1].ravel().astype(np.int64)


class Frequencies:
    """How often groups occur in a sample, one that stands for nothing aside."""

    def __init__(self, groups: Numbers, nothing: int) -> None:
        ordered = np.sort(groups[groups != nothing])
        begins = np.flatnonzero(np.diff(ordered, prepend=nothing))
        self._sampled = len(groups)
        self._groups = np.bincount(np.diff(begins, append=len(ordered)), minlength=3)
        """By a number of times, how many groups occur that often."""

    def distinct(self, rows: float) -> float:
        """Return how many distinct groups a number of rows is expected to show.

        Groups seen have the frequency they have in the sample. Those not seen are as many as Chao's estimate
        has them; they show up as rows outnumber the sample.
        """
        times = np.flatnonzero(self._groups)
        shown = float(((1 - (1 - times / self._sampled) ** rows) * self._groups[times]).sum())
        once, twice = int(self._groups[1]), int(self._groups[2])
        unseen = once * once / (2 * twice + 2)
        return min(rows, shown + unseen * max(0.0, 1 - self._sampled / max(rows, 1.0)))


def attributes_of(formulas: Iterable[tuple[Joins, Formula]]) -> dict[tuple[Joins, Expression], Attribute]:
    """Return the attributes that formulas test, with the tables that each reads."""
    by_joins: dict[Joins, list[Formula]] = {}
    for joins, formula in formulas:
        by_joins.setdefault(joins, []).append(formula)
    return {
        (joins, expression): attribute
        for joins, own in by_joins.items()
        for expression, attribute in attributes(own).items()
    }


def assumed_positions(
    attribute: Attribute, rows: int, chance: np.random.Generator
) -> npt.NDArray[np.integer]:
    """Return positions spread evenly over those of an attribute, NULL aside."""
    return chance.integers(0, attribute.positions - 1, rows)


def assumed(formulas: Iterable[tuple[Joins, Formula]]) -> Statistics:
    """Return statistics of a stream not seen yet: values fall evenly between all cuts, independently."""
    tested = attributes_of(formulas)
    chance = np.random.default_rng(1)
    positions = {
        key: assumed_positions(attribute, _ASSUMED_ROWS, chance) for key, attribute in tested.items()
    }
    return Statistics(sample=Sample(rows=_ASSUMED_ROWS, attributes=tested, positions=positions))
