"""Predicates that follow from others in partials that were aggregated before anyone asked for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """How a predicate follows from others, all known by their descriptions: the same in every run."""

    predicate: str
    sources: tuple[str, ...]
    patterns: tuple[int, ...]
    """The predicate holds where the bits of the sources, the first one lowest, are one of these."""

    def as_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"predicate": self.predicate, "sources": self.sources, "patterns": self.patterns}

    def column(self, names: Sequence[str], bits: Bools) -> Bools:
        """Return which fragments satisfy the predicate, given the names and bits of others.

        A source that is not among them is a predicate of another relation, and no row here satisfies it.
        """
        columns = {name: column for column, name in enumerate(names)}
        codes = np.zeros(len(bits), dtype=np.int64)
        for order, source in enumerate(self.sources):
            if source in columns:
                codes |= bits[:, columns[source]].astype(np.int64) << order
        return np.isin(codes, self.patterns)


def derivation_from(record: Mapping[str, Any]) -> Derivation:
    """Return a derivation from plain values."""
    return Derivation(
        predicate=record["predicate"], sources=tuple(record["sources"]), patterns=tuple(record["patterns"])
    )
