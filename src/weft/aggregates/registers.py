"""Sketches of distinct values: the registers of HyperLogLog, as bags of coupons.

A value's hash picks a register by its lower bits and has a rank, the place of the lowest bit that is set in
the rest. A register holds the highest rank seen: the more different values there were, the higher. Both are
one number, a coupon; a bag of coupons holds the highest of each register that saw any.

    hash      … 0100 | 101        register 5, rank 3        coupon 5·64 + 3
"""

from dataclasses import dataclass
from math import ceil, log, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.aggregates.bags import Bags
from weft.aggregates.combine import Bagged
from weft.aggregates.partial import Field, Parameter, Partial, Rows

Doubles = npt.NDArray[np.float64]
RANK_BITS = 6
"""The bits of a coupon that hold the rank."""
_RANK = (1 << RANK_BITS) - 1
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
    name = "registers"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The bits of a register's number."""
        return (self.bits,)

    def merge(self, partial: Partial, lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return the highest coupons of each range."""
        return self.kept(super().merge(partial, lo, hi))

    def kept(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Return the highest coupon of each register; coupons are in order."""
        bags: Bags = fields[0]
        register = _coupons(bags) >> RANK_BITS
        highest = np.ones(len(register), dtype=bool)
        highest[:-1] = register[1:] != register[:-1]
        ends = bags.begins[1:] - 1
        highest[ends[bags.sizes > 0]] = True
        return (bags.only(highest),)


def _coupons(bags: Bags) -> npt.NDArray[np.int32]:
    coupons: npt.NDArray[np.int32] = np.asarray(bags.dictionary).astype(np.int32)
    return coupons[bags.codes] if len(coupons) else bags.codes


def estimates(bags: Bags, bits: int) -> npt.NDArray[np.int64]:
    """Return the estimated number of distinct values of each bag of highest coupons."""
    weights = 2.0 ** -(_coupons(bags) & _RANK)
    return estimated((1 << bits) - bags.sizes, bags.added(weights), bits)


def estimated(empty: npt.NDArray[Any], added: Doubles, bits: int) -> npt.NDArray[np.int64]:
    """Return the estimates, given how many registers are empty, and the sum of 2^-rank of all others.

    By Ertl's formula (New cardinality estimation algorithms for HyperLogLog sketches, 2017, algorithm 6),
    which needs no correction of its bias, whatever the number of values.
    """
    registers = 1 << bits
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
