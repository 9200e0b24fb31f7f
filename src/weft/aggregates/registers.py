"""Sketches of distinct values: the registers of HyperLogLog, as bags of coupons.

A value's hash picks a register by its lower bits and has a rank, the place of the lowest bit that is set in
the rest. A register holds the highest rank seen: the more different values there were, the higher. Both are
one number, a coupon; a bag of coupons holds the highest of each register that saw any.

    hash      … 0100 | 101        register 5, rank 3        coupon 5·64 + 3
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, log, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.bags import Bags
from weft.aggregates.combine import Bagged
from weft.aggregates.partial import Field, Parameter, Partial, Rows
from weft.aggregates.ranges import Ranges

Doubles = npt.NDArray[np.float64]
RANK_BITS = 6
"""The bits of a coupon that hold the rank."""
_RANK = (1 << RANK_BITS) - 1
_WEIGHTS = np.append(np.float32(0), np.float32(2) ** -np.arange(1, _RANK + 1, dtype=np.float32))
"""2^-rank, but nothing for registers that are empty."""
_WORTH_SPELLING_OUT = 8
"""How many times as long an element takes to be merged as a register to be compared."""
_BYTES = 1 << 23
"""Registers that are spelled out at a time: they should stay in the processor's cache."""
_NEGLIGIBLE = 1e-12
_SPARK_FACTOR = 1.106
"""By which Spark chooses the number of registers; one deviation is 1.04 / √registers."""


def register_bits(deviation: float) -> int:
    """Return the bits of a register's number for a relative standard deviation, as Spark does.

    >>> register_bits(0.05), register_bits(0.01)
    (9, 14)
    """
    return ceil(2 * log2(_SPARK_FACTOR / deviation))


@dataclass(frozen=True, repr=False)
class Registers(Bagged):
    """Bags of coupons, merged into the highest of each register."""

    bits: int
    """The bits of a register's number."""
    name, reads_ranges = "registers", True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The bits of a register's number."""
        return (self.bits,)

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return the highest coupons of each range."""
        return self.kept(super().merge(partial, lo, hi))

    def kept(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Return the highest coupon of each register."""
        return (_highest(fields[0]),)


def _highest(bags: Bags) -> Bags:
    """Return bags with the highest coupon of each register; coupons are in order."""
    register = _coupons(bags) >> RANK_BITS
    highest = np.ones(len(register), dtype=bool)
    highest[:-1] = register[1:] != register[:-1]
    ends = bags.begins[1:] - 1
    highest[ends[bags.sizes > 0]] = True
    return bags.only(highest)


def _coupons(bags: Bags) -> npt.NDArray[np.int32]:
    coupons: npt.NDArray[np.int32] = np.asarray(bags.dictionary).astype(np.int32)
    return coupons[bags.codes] if len(coupons) else bags.codes


def estimates(ranges: Ranges, bits: int) -> npt.NDArray[np.int64]:
    """Return the estimated number of distinct values of each range of bags of coupons.

    Where ranges overlap much, registers are spelled out; else coupons are merged.
    """
    registers = 1 << bits
    if int((ranges.ends - ranges.begins).sum()) < registers * len(ranges) // _WORTH_SPELLING_OUT:
        return _joined(_of_coupons(own, registers) for own in map(_highest, ranges.merged()))
    return _joined(_of_registers(piece, registers) for piece in _pieces(ranges, registers))


def _joined(pieces: Iterable[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *pieces])


def _of_coupons(bags: Bags, registers: int) -> npt.NDArray[np.int64]:
    weights = 2.0 ** -(_coupons(bags) & _RANK)
    return estimated(registers - bags.sizes, bags.added(weights), registers)


def _pieces(ranges: Ranges, registers: int) -> Iterator[Ranges]:
    """Yield ranges that have few registers, in all of their bags and in results."""
    begin, most = 0, max(1, _BYTES // registers)
    while begin < len(ranges):
        end = min(len(ranges), begin + most)
        bags = np.maximum.accumulate(ranges.hi[begin:end]) - np.minimum.accumulate(ranges.lo[begin:end])
        end = begin + max(1, int(np.searchsorted(bags, most, side="right")))
        yield ranges[begin:end]
        begin = end


def _of_registers(ranges: Ranges, registers: int) -> npt.NDArray[np.int64]:
    """Return the estimates of ranges, each of which is two that overlap and have a power of two of bags."""
    first, end = int(ranges.lo.min()), int(ranges.hi.max())
    source = ranges.source[first:end]
    coupons = _coupons(source)
    level = np.zeros((len(source), registers), dtype=np.uint8)
    level[source.owner, coupons >> RANK_BITS] = coupons & _RANK
    lo, hi = ranges.lo - first, ranges.hi - first
    power = np.frexp((hi - lo).astype(np.float64))[1] - 1
    counts = np.empty(len(ranges), dtype=np.int64)
    for exponent in range(int(power.max()) + 1):
        own = np.flatnonzero(power == exponent)
        length = 1 << exponent
        for some in np.array_split(own, -(-len(own) * registers // _BYTES) or 1):
            highest = np.maximum(level[lo[some]], level[hi[some] - length])
            empty = registers - np.count_nonzero(highest, axis=1)
            counts[some] = estimated(empty, _WEIGHTS[highest].sum(axis=1, dtype=np.float64), registers)
        level = np.maximum(level[:-length], level[length:])
    return counts


def estimated(empty: npt.NDArray[Any], added: Doubles, registers: int) -> npt.NDArray[np.int64]:
    """Return the estimates, given how many registers are empty, and the sum of 2^-rank of all others.

    By Ertl's formula (New cardinality estimation algorithms for HyperLogLog sketches, 2017, algorithm 6),
    which needs no correction of its bias, whatever the number of values.
    """
    with np.errstate(divide="ignore"):
        counts = registers**2 / (2 * log(2)) / (added + registers * _sigma(empty / registers))
    return np.rint(counts).astype(np.int64)


def _sigma(share: Doubles) -> Doubles:
    """Return x + Σ 2^(k−1) x^(2^k) of the shares of empty registers; infinite for 1."""
    total, power, factor = share.copy(), np.where(share < 1, share, 0.0), 1.0
    while (power * factor > _NEGLIGIBLE * total).any():
        power = power * power
        total = total + power * factor
        factor *= 2
    return np.where(share < 1, total, np.inf)
