"""Grouping sets: combined partials of all keys, grouped once more by some of them.

Only the groups of all keys are aggregated from rows and kept in the store. Those of fewer keys are merged
from what the store combined for a window, so they cost nothing until it is due. Pieces of an ask may divide
its keys: each piece is merged on its own, and then what is left of all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.aggregates import Partial, Primitive, combine, concatenate, materialized
from weft.finals.readings import Absent, Reading
from weft.finals.selecting import Finals
from weft.state.groups import distinct_rows
from weft.state.store import Combined, PartialStore

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Partials of (ask, some keys, window), sorted by ask."""

    ask: Rows
    key: Rows
    """The number by which the store knows one of the keys that became this group."""
    end: Times
    partials: dict[Primitive, Partial]

    def take(self, rows: Rows) -> "_Groups":
        """Return the given rows, in that order."""
        partials = {primitive: partial.take(rows) for primitive, partial in self.partials.items()}
        return _Groups(ask=self.ask[rows], key=self.key[rows], end=self.end[rows], partials=partials)


class Regrouping:
    """What the queries of one grouping read that group by fewer keys as well."""

    def __init__(self, reading: Reading, store: PartialStore) -> None:
        self._range_us = reading.windows[:, 0] * 1000
        self._store = store
        wanted: dict[Absent, list[int]] = {}
        for number, ask in enumerate(reading.asks):
            for absent in {absent for reader in ask.readers for absent in reader.absent if absent}:
                wanted.setdefault(absent, []).append(number)
        self._wanted = {absent: np.array(asks) for absent, asks in wanted.items()}
        self._pieces: dict[tuple[Absent, frozenset[Primitive]], list[_Groups]] = {}

    def add(self, asks: Rows, piece: Combined) -> int:
        """Take in combined partials, numbered by the given asks; return how many were merged."""
        merged = 0
        for absent, wanted in self._wanted.items():
            rows = np.flatnonzero(np.isin(asks, wanted)[piece.ask])
            if len(rows):
                whole = _Groups(ask=asks[piece.ask], key=piece.key, end=piece.end, partials=piece.partials)
                merged += len(rows)
                pieces = self._pieces.setdefault((absent, frozenset(piece.partials)), [])
                pieces.append(self._merged(absent, whole.take(rows)))
        return merged

    def finals(self) -> Iterator[tuple[Rows, Rows, Finals]]:
        """Yield the finals of fewer keys, with the asks and the number of each row's ask among these."""
        for (absent, _), pieces in self._pieces.items():
            groups = self._merged(absent, _joined(pieces))
            asks, order = np.unique(groups.ask, return_inverse=True)
            start = groups.end - self._range_us[groups.ask]
            yield (
                asks,
                order,
                Finals(self._store.keys, groups.key, start, groups.end, groups.partials, absent),
            )

    def _merged(self, absent: Absent, groups: _Groups) -> _Groups:
        """Merge groups that differ in nothing but absent keys."""
        key = self._same(absent, groups.key)
        order = np.lexsort((groups.end, key, groups.ask))
        ask, key, end = groups.ask[order], key[order], groups.end[order]
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = (ask[1:] != ask[:-1]) | (key[1:] != key[:-1]) | (end[1:] != end[:-1])
        lo = np.flatnonzero(begins)
        hi = np.append(lo[1:], len(order))
        partials = {
            primitive: combine(primitive, materialized(primitive, partial.take(order)), lo, hi)
            for primitive, partial in groups.partials.items()
        }
        return _Groups(ask=ask[lo], key=key[lo], end=end[lo], partials=partials)

    def _same(self, absent: Absent, key: Rows) -> Rows:
        """Return, for each key, one that is the same for all that differ in nothing but absent keys."""
        distinct, which = np.unique(key, return_inverse=True)
        values = self._store.keys(distinct)
        present = [index for index in range(values.num_columns) if index not in absent]
        if not present:
            return np.full(len(key), distinct[0])
        firsts, same = distinct_rows(values.select(present))
        alike: Rows = distinct[firsts][same][which]
        return alike


def _joined(pieces: Sequence[_Groups]) -> _Groups:
    if len(pieces) == 1:
        return pieces[0]
    return _Groups(
        ask=np.concatenate([piece.ask for piece in pieces]),
        key=np.concatenate([piece.key for piece in pieces]),
        end=np.concatenate([piece.end for piece in pieces]),
        partials={
            primitive: concatenate([piece.partials[primitive] for piece in pieces])
            for primitive in pieces[0].partials
        },
    )
