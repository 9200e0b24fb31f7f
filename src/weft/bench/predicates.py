"""The paper's predicates (STS, Table 8): one test of membership and one of a quantity.

A constant is a quantile of the data, chosen so that its test accepts between a fifth and all of the rows,
0.6 of them on average. Membership accepts half on average, whatever the indexes, since each is asked for and
asked against equally often. So a row satisfies about 0.3 of the queries: the paper's 76 of 256.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from random import Random
from typing import Any

import numpy as np

Numbers = np.ndarray[tuple[int], np.dtype[Any]]
"""A column."""
_LEAST_SHARE = 0.2
_SHAKEN = 0.1
_TRIES, _MISSES = 20, 50


class Quantity(StrEnum):
    """What is compared with a constant."""

    VOLUME = "vol"
    VALUE = "vol * price"
    CHANGE = "abs(price - cp) / cp"

    @property
    def qualified(self) -> str:
        """The same with the aliases of Query 4."""
        return {"vol": "T.vol", "vol * price": "T.vol * T.price"}.get(self, "abs(T.price - C.cp) / C.cp")

    @property
    def digits(self) -> int:
        """How many digits after the point a constant has."""
        return {Quantity.VOLUME: 0, Quantity.VALUE: 2, Quantity.CHANGE: 6}[self]


class Index(StrEnum):
    """The index whose members are selected."""

    R3000 = "r3000"
    R2000 = "r2000"
    R1000 = "r1000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Trades with what the tables say of them, as columns in the order of time."""

    time_us: Numbers
    vol: Numbers
    price: Numbers
    cp: Numbers
    r1000: Numbers
    r2000: Numbers

    def __len__(self) -> int:
        return len(self.time_us)

    def take(self, rows: Numbers | slice) -> "Market":
        """Return some of the rows."""
        return Market(**{column.name: getattr(self, column.name)[rows] for column in fields(self)})

    def quantity(self, which: Quantity) -> Numbers:
        """Return a quantity of every row, in the arithmetic of Spark's doubles."""
        if which is Quantity.VOLUME:
            return self.vol
        return self.vol * self.price if which is Quantity.VALUE else np.abs(self.price - self.cp) / self.cp

    def members(self, index: Index) -> Numbers:
        """Return whether each row's company is in an index."""
        if index is Index.R3000:
            return self.r1000 | self.r2000
        return self.r1000 if index is Index.R1000 else self.r2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """`X.r2000 = true AND T.vol > 350`, or the like."""

    index: Index
    member: bool
    quantity: Quantity
    above: bool
    """Whether the quantity is to be greater than the constant, or less."""
    constant: float

    @property
    def sql(self) -> str:
        """The condition with the aliases of Query 4."""
        return f"X.{self._asked} AND {self.quantity.qualified} {self._compared}"

    @property
    def bare(self) -> str:
        """The condition over columns without aliases."""
        return f"{self._asked} AND {self.quantity} {self._compared}"

    @property
    def _asked(self) -> str:
        return f"{self.index} = {str(self.member).lower()}"

    @property
    def _compared(self) -> str:
        return f"{'>' if self.above else '<'} {self.constant:.{self.quantity.digits}f}"

    def holds(self, market: Market) -> Numbers:
        """Return for each row whether it satisfies the predicate."""
        value = market.quantity(self.quantity)
        compared = value > self.constant if self.above else value < self.constant
        return np.asarray(compared & (market.members(self.index) == self.member))


def predicates(count: int, market: Market, *, seed: int = 1) -> tuple[Predicate, ...]:
    """Return different predicates with constants for these rows; fewer are the first of more."""
    chance = Random(seed)
    values = {quantity: np.sort(market.quantity(quantity)) for quantity in Quantity}
    constants: set[tuple[Quantity, float]] = set()
    distinct: dict[Predicate, None] = {}
    misses = 0
    while len(distinct) < count:
        index, member = chance.choice(list(Index)), chance.random() < 0.5
        quantity, above = chance.choice(list(Quantity)), chance.random() < 0.5
        for _ in range(_TRIES + 1):
            constant = _constant(quantity, values[quantity], above=above, chance=chance)
            if (quantity, constant) not in constants:
                break
        constants.add((quantity, constant))
        predicate = Predicate(index=index, member=member, quantity=quantity, above=above, constant=constant)
        misses = misses + 1 if predicate in distinct else 0
        if misses > _MISSES:
            raise ValueError(f"{len(market):,} rows do not tell {count:,} predicates apart")
        distinct[predicate] = None
    return tuple(distinct)


def _constant(quantity: Quantity, values: Numbers, *, above: bool, chance: Random) -> float:
    """Draw a constant such that the comparison accepts a random share of the sorted values."""
    share = _LEAST_SHARE + (1 - _LEAST_SHARE) * chance.random()
    quantile = float(values[int((1 - share if above else share) * (len(values) - 1))])
    # Half of the trades have one volume: shaken, constants lie about it instead of on it.
    shaken = 1 + _SHAKEN * (2 * chance.random() - 1)
    return round(quantile * (shaken if quantity is Quantity.VOLUME else 1.0), quantity.digits)
