"""From rows to the fragments of a relation, in the driver.

What Spark does by look-ups when it groups rows itself (weft.spark.fragments):

    row ─search→ positions ─look up, add→ cell ─look up→ fragment, or none
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from weft.expression import Expression
from weft.predicates import TRUE, All, Attribute, Codebook, Formula, Test
from weft.predicates.codebook import Bits
from weft.spark.lifting import Numbers, Rows

Positions = Callable[[Attribute], Numbers]
"""Where the values of each row stand in an attribute."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """The fragments of a relation with several predicates."""

    first: int
    """The number of the first fragment."""
    book: Codebook
    attributes: tuple[Attribute, ...]
    """Those of the book, over the rows' own columns."""
    shared: bool
    """Whether a row is in one fragment; otherwise it is in one for each predicate that it satisfies."""

    def find(self, rows: int, positions: Positions) -> tuple[Rows, Numbers]:
        """Return the rows that are in a fragment, each once for every fragment, and these."""
        cell = np.zeros(rows, dtype=np.intp)
        for attribute, share in zip(self.attributes, self.book.shares, strict=True):
            cell += share[positions(attribute)]
        fragments = self.book.fragments[cell]
        taken = np.flatnonzero(fragments >= 0)
        if self.shared:
            return taken, fragments[taken].astype(np.int64) + self.first
        place, predicate = np.nonzero(self.book.signatures[fragments[taken]])
        return taken[place], predicate + self.first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lone:
    """The fragment of a relation with one predicate."""

    first: int
    predicate: Formula
    attributes: Mapping[Expression, Attribute]
    """By the expressions that the predicate tests: the same over the rows' own columns."""

    def find(self, rows: int, positions: Positions) -> tuple[Rows, Numbers]:
        """Return the rows that satisfy the predicate, and their fragment."""
        if self.predicate == TRUE:
            taken: Rows = np.arange(rows)
        else:
            taken = np.flatnonzero(np.broadcast_to(self._holds(self.predicate, positions), rows))
        return taken, np.full(len(taken), self.first, dtype=np.int64)

    def _holds(self, formula: Formula, positions: Positions) -> Bits:
        if isinstance(formula, Test):
            attribute = self.attributes[formula.expression]
            return attribute.satisfy(formula.values, positions(attribute))
        join = np.logical_and if isinstance(formula, All) else np.logical_or
        parts = [self._holds(part, positions) for part in formula.parts]
        return reduce(join, parts, np.full(1, isinstance(formula, All)))
