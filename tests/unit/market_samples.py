"""Rows of a small market, made without Spark."""

import numpy as np

from weft.bench.dataset import NOON_MS
from weft.bench.predicates import Market
from weft.bench.trades import HOUR_MS


def small_market(rows: int, *, seed: int = 1) -> Market:
    """Return an hour of trades of 50 companies, half of them of 100 shares."""
    chance = np.random.default_rng(seed)
    company = chance.integers(0, 50, rows)
    level = 2 * 100 ** chance.random(50)
    vol = np.where(chance.random(rows) < 0.5, 100, chance.integers(1, 500, rows) * 10)
    price = np.round(level[company] * (0.99 + 0.02 * chance.random(rows)), 2)
    close = np.round(level / (0.91 + 0.18 * chance.random(50)), 2)
    return Market(
        time_us=np.sort(chance.integers(NOON_MS * 1000, (NOON_MS + HOUR_MS) * 1000, rows)),
        vol=vol,
        price=price,
        cp=close[company],
        r1000=company < 10,
        r2000=(company >= 10) & (company < 25),
    )
