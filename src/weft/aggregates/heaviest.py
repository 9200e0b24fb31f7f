"""Bounded bags of the most frequent values (Misra and Gries, Finding repeated elements, 1982).

If a bag has more than m elements, the (m + 1)-th highest count is subtracted from all counts, and what is
left with none is forgotten. Each subtraction takes that count from m + 1 values at least. So of n rows, no
count is ever too low by more than n / (m + 1), in whatever order bags were merged (Agarwal et al., Mergeable
summaries, 2012); and no count is too high.
"""

from dataclasses import dataclass, replace

import numpy as np

from weft.aggregates.bags import Bags
from weft.aggregates.combine import Bagged
from weft.aggregates.partial import Field, Parameter


@dataclass(frozen=True, repr=False)
class Heaviest(Bagged):
    """Bags of which a store keeps the most frequent values."""

    most: int
    """How many elements a store keeps at most."""
    name, reads_ranges = "heaviest", True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """How many elements a store keeps at most."""
        return (self.most,)

    def kept(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Return bags of at most that many elements."""
        own: Bags = fields[0]
        over = np.flatnonzero(own.sizes > self.most)
        if not len(over):
            return fields
        falling = np.lexsort((-own.counts, own.owner))
        subtracted = np.zeros(len(own), dtype=np.int64)
        subtracted[over] = own.counts[falling[own.begins[over] + self.most]]
        lower = replace(own, counts=own.counts - subtracted[own.owner])
        return (lower.only(lower.counts > 0),)
