"""Bounded samples of values, from which percentiles are read: a weighted sample with small errors of rank.

A bag holds each value with its number of occurrences. If it has too many elements, some of about the same
count are replaced by half as many of twice the count, chosen by chance along their order, as in the sketch of
Karnin, Lang and Liberty (Optimal quantile approximation in streams, 2016). Small counts are replaced first:
each replacement moves ranks by less than the new count.

    elements   a:1  b:1  c:1  d:1  e:5        replaced in pairs   b:2  c:2  e:5

The number of rows does not change, nor do bags that are small enough: these are exact.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.aggregates.bags import Bags, bags
from weft.aggregates.combine import Bagged
from weft.aggregates.partial import Field, Parameter

Numbers = npt.NDArray[np.int64]
ELEMENTS_PER_ACCURACY = 4
"""How many elements of a sample make its errors of rank smaller than 1 / accuracy, but for rare cases."""
_TOP = 0.25
"""The share of the elements that may have the highest of the counts that are replaced…"""
_NEXT = 2 / 3
"""…and how much of that half as high a count may have, and so on."""


@dataclass(frozen=True, repr=False)
class Sample(Bagged):
    """Bags of which a store keeps samples."""

    most: int
    """How many elements a store keeps at most."""
    name, reads_ranges = "sample", True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """How many elements a store keeps at most."""
        return (self.most,)

    def kept(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Return samples of bags that have too many elements."""
        whole: Bags = fields[0]
        over = np.flatnonzero(whole.sizes > self.most)
        if not len(over):
            return fields
        rows = np.arange(len(whole))
        rows[over] = np.arange(len(over)) + len(whole)
        return (Bags.joined([whole, _sampled(whole[over], self.most)])[rows],)


def _sampled(own: Bags, most: int) -> Bags:
    """Return samples of bags, all of which have too many elements."""
    chance = np.random.default_rng([len(own.codes), int(own.counts.sum())])
    rows = own.added(own.counts)
    highest = np.maximum(np.ceil(np.log2(rows / (most * _TOP))), 0)
    for level in range(int(highest.max()) + 1):
        is_level = (own.counts >> level) == 1
        number = own.added(is_level.astype(np.int64))
        room = most * _TOP * _NEXT ** (highest - level)
        replaced = (own.sizes > most) & (number > np.maximum(room, 1)) & (level <= highest)
        elements = is_level & replaced[own.owner]
        if elements.any():
            own = _replaced(own, elements, 2 << level, chance)
    return own


def _replaced(own: Bags, elements: npt.NDArray[np.bool_], count: int, chance: np.random.Generator) -> Bags:
    """Return bags with some elements replaced by some of these, each for a stretch of `count` rows.

    Rows are in the order of their values; the last stretch of a bag may be shorter.
    """
    some, others = own.only(elements), own.only(~elements)
    rows = some.added(some.counts)
    through = np.cumsum(some.counts)
    stretches = -(-rows // count)
    owner = np.repeat(np.arange(len(own)), stretches)
    ends = np.cumsum(stretches)
    number = np.arange(len(owner)) - (ends - stretches)[owner]
    lengths = np.minimum(count, rows[owner] - number * count)
    before = np.cumsum(rows) - rows
    picked = before[owner] + number * count + (chance.random(len(owner)) * lengths).astype(np.int64)
    element = np.searchsorted(through, picked, side="right")
    return bags(
        np.concatenate([others.owner, owner]), len(own), np.concatenate([others.codes, some.codes[element]]),
        own.dictionary, counts=np.concatenate([others.counts, lengths]),
    )  # fmt: skip
