"""Sets of the values that one expression can have.

A set is written as the places where one enters and leaves it, walking up all values in Spark's order:

    x BETWEEN 5 AND 9        ──────5━━━━━━━━━9──────     cuts: before 5, after 9
    x > 5                    ──────5━━━━━━━━━━━━━━━━     cut: after 5
    x <> 5                   ━━━━━━5━━━━━━━━━━━━━━━━     cuts: before 5, after 5, and it begins inside

NULL lies on no such line: it is in the set or not. Values are plain numbers (whole numbers for decimals,
dates, timestamps and booleans, see weft.predicates.domain) or bytes, so that they compare as Spark compares
them. NaN, greater than all other doubles and equal to itself, is what lies after infinity.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import and_, or_

Point = int | float | bytes


@dataclass(frozen=True, slots=True, order=True)
class Cut:
    """A place just before or just after a value."""

    value: Point
    after: bool


@dataclass(frozen=True, slots=True)
class Values:
    """A set of values of one type, with or without NULL."""

    lowest: bool = False
    """Whether the values before the first cut are in it."""
    cuts: tuple[Cut, ...] = ()
    """Where one enters or leaves it, in order."""
    null: bool = False

    def __or__(self, other: "Values") -> "Values":
        return self._with(other, or_)

    def __and__(self, other: "Values") -> "Values":
        return self._with(other, and_)

    def __invert__(self) -> "Values":
        return Values(not self.lowest, self.cuts, not self.null)

    def without_null(self) -> "Values":
        """Return the same set less NULL."""
        return Values(self.lowest, self.cuts)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return self == Values()

    @property
    def is_everything(self) -> bool:
        """Whether all is in it, NULL too."""
        return (~self).is_empty

    def has(self, point: Point) -> bool:
        """Say whether a value is in it.

        >>> values = Values(cuts=(Cut(0, after=True), Cut(1, after=True)))
        >>> values.has(0), values.has(1)
        (False, True)
        """
        return self.lowest ^ (bisect_right(self.cuts, Cut(point, after=False)) % 2 == 1)

    @property
    def cuts_out_points(self) -> bool:
        """Whether all that is cut out of its line, or is left of it, is single values."""
        pairs = zip(self.cuts[::2], self.cuts[1::2], strict=False)
        return len(self.cuts) % 2 == 0 and all(before.value == after.value for before, after in pairs)

    def stretches(self) -> Iterator[tuple[Cut | None, Cut | None]]:
        """Yield where each unbroken stretch begins and ends; None stands for no bound."""
        bounds: list[Cut | None] = [None] if self.lowest else []
        bounds += self.cuts
        if len(bounds) % 2:
            bounds.append(None)
        yield from zip(bounds[::2], bounds[1::2], strict=True)

    def _with(self, other: "Values", join: Callable[[bool, bool], bool]) -> "Values":
        inside = [self.lowest, other.lowest]
        lowest = joint = join(*inside)
        cuts = []
        marked = merge(((cut, 0) for cut in self.cuts), ((cut, 1) for cut in other.cuts))
        for cut, changes in groupby(marked, key=lambda pair: pair[0]):
            for _, side in changes:
                inside[side] = not inside[side]
            if join(*inside) != joint:
                joint = not joint
                cuts.append(cut)
        return Values(lowest, tuple(cuts), join(self.null, other.null))


NOTHING = Values()
ONLY_NULL = Values(null=True)
ANY_VALUE = Values(lowest=True)
"""Every value but NULL."""


def from_cut(cut: Cut) -> Values:
    """Return the values after a cut.

    >>> list(from_cut(Cut(5, after=True)).stretches())
    [(Cut(value=5, after=True), None)]
    """
    return Values(cuts=(cut,))


def joined(sets: Sequence[Values], join: Callable[[Values, Values], Values]) -> Values:
    """Join one set or more, two by two: one by one, a long IN would be walked for each of its values."""
    while len(sets) > 1:
        pairs = [join(left, right) for left, right in zip(sets[::2], sets[1::2], strict=False)]
        sets = [*pairs, sets[-1]] if len(sets) % 2 else pairs
    return sets[0]
