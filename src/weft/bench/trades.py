"""An hour of trades whose volumes follow the paper's statistics (STS, sections 4.3.3 and 6.1).

Half of the trades are of 100 shares, the 15 commonest volumes are 90 %, and the rest lies between 10 and
1.6 million with fewer than 2,000 different values.

Most orders are filled by one trade and some by several, of one company, price and volume and right after one
another, as on an exchange. So rows of a slice repeat each other, and sharing saves as much work as in the
paper: with 256 queries of workload C low over 1,138,636 rows, shared and unshared operations stand about
1 : 1.85. Trades that are independent of one another would make it 1 : 0.8.

Static tables have yesterday's closing prices, and who belongs to which index (STS, Table 7).
A price is within 1 % of the company's level and a closing price within 9 % of it, so that the day's changes
lie between 0 and about 10 %. Indexes nest as they do in reality: the 1,000 largest companies are R1000, the
next 2,000 R2000, and both together R3000. Large companies are traded more, but not strictly so.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import log
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.bench.dataset import Dataset, TableFiles, make, moment, uniform, write_tables

HOUR_MS = 3_600_000
COLUMNS = "time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT"
ROUND_LOTS = (200, 300, 500, 400, 1000, 600, 700, 800, 2000, 900, 1500, 1200, 5000, 1100)
"""The commonest volumes after 100, commonest first."""
_LEAST, _GREATEST, _STEPS = 10, 1_600_000, 1_900
"""The other volumes, in steps of equal ratio."""
SYMBOLS = 8_000
"""How many companies are traded."""
_LETTERS = 26
_FILLS = (1, 2, 5)
"""How many trades fill each of three consecutive orders."""
LARGE, SMALL = 1_000, 2_000
"""How many companies R1000 and R2000 have."""
_CHANGE = 0.09
_CHANGE_SALT, _SIZE_SALT = 6, 7


def make_trades(
    spark: SparkSession, data: Path, *, rows: int, files: int = 16, seed: int = 1, hours: int = 1
) -> Dataset:
    """Write trades at an even rate, or return those that an earlier run wrote."""
    folder = data / f"trades-orders-{rows}-{files}-{hours}h-seed{seed}"
    dataset = Dataset(
        name="trades", folder=folder, columns=COLUMNS, rows=rows, files=files, span_ms=hours * HOUR_MS
    )
    return make(spark, dataset, trades, seed)


def trades(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into trades."""
    moments = numbered.select("id", moment(dataset, uniform(seed, 2)).alias("time"))
    # What an order decides is drawn by its number instead of the trade's.
    orders = moments.select("time", _order(F.col("id")).alias("id"))
    return orders.withColumn("rank", _rank(uniform(seed, 1))).select(
        "time",
        symbol(F.col("rank")).alias("symbol"),
        _price(F.col("rank"), seed).alias("price"),
        _volume(uniform(seed, 4), uniform(seed, 5)).alias("vol"),
    )


def _order(trade: Column) -> Column:
    """Return the number of the order that a trade fills."""
    block = sum(_FILLS)
    orders = F.array(*(F.lit(number) for number, fills in enumerate(_FILLS) for _ in range(fills)))
    within = F.element_at(orders, (trade % F.lit(block)).cast("int") + F.lit(1))
    return F.floor(trade / F.lit(block)) * F.lit(len(_FILLS)) + within


def volume_shares() -> tuple[tuple[int, float], ...]:
    """Return the 15 commonest volumes and their shares, commonest first.

    >>> shares = volume_shares()
    >>> shares[0], len(shares), round(sum(share for _, share in shares), 9)
    ((100, 0.5), 15, 0.9)
    """
    weights = [1 / rank for rank in range(1, len(ROUND_LOTS) + 1)]
    rest = [(lot, 0.4 * weight / sum(weights)) for lot, weight in zip(ROUND_LOTS, weights, strict=True)]
    return ((100, 0.5), *rest)


def _volume(chance: Column, where: Column) -> Column:
    shares = volume_shares()
    limits: Sequence[float] = tuple(accumulate(share for _, share in shares))
    chosen = F.when(chance < F.lit(limits[0]), F.lit(shares[0][0]))
    for (lot, _), limit in zip(shares[1:], limits[1:], strict=True):
        chosen = chosen.when(chance < F.lit(limit), F.lit(lot))
    step = F.floor(where * F.lit(_STEPS)) / F.lit(_STEPS - 1)
    odd = F.lit(_LEAST) * F.pow(F.lit(_GREATEST / _LEAST), step)
    return chosen.otherwise(F.round(odd)).cast("bigint")


def _rank(chance: Column) -> Column:
    """Return a symbol's rank, the r-th about r times as rare as the first (Zipf)."""
    return F.least(F.floor(F.exp(chance * F.lit(log(SYMBOLS + 1)))), F.lit(SYMBOLS)).cast("int")


def symbol(rank: Column) -> Column:
    """Return three letters; a multiplier prime to 26³ keeps symbols apart and ranks out of order."""
    number = F.pmod(rank * F.lit(7_919), F.lit(_LETTERS**3))
    digits = [F.floor(number / F.lit(_LETTERS**power)) % F.lit(_LETTERS) for power in (2, 1, 0)]
    return F.concat(*(F.char((digit + F.lit(65)).cast("int")) for digit in digits))


def price_level(rank: Column, seed: int) -> Column:
    """Return what a symbol costs on the whole: from 2 to 200."""
    level = F.shiftrightunsigned(F.xxhash64(rank, F.lit(seed)), 11) / F.lit(float(1 << 53))
    return F.lit(2.0) * F.pow(F.lit(100.0), level)


def _price(rank: Column, seed: int) -> Column:
    """Return the symbol's price level and a percent of fluctuation about it."""
    wave = F.lit(1.0) + (uniform(seed, 3) - F.lit(0.5)) / F.lit(50.0)
    return F.round(price_level(rank, seed) * wave, 2)


def make_market(spark: SparkSession, data: Path, *, seed: int = 1) -> tuple[TableFiles, TableFiles]:
    """Write the tables `close` and `index`, or return those that an earlier run wrote."""
    close = TableFiles(name="close", folder=data / f"close-seed{seed}", columns="symbol STRING, cp DOUBLE")
    index = TableFiles(
        name="index",
        folder=data / f"index-seed{seed}",
        columns="symbol STRING, r3000 BOOLEAN, r2000 BOOLEAN, r1000 BOOLEAN",
    )
    if not (close.folder.is_dir() and index.folder.is_dir()):
        listed = _listed(spark, seed)
        write_tables(close.folder, [listed.select(["symbol", "cp"])])
        write_tables(index.folder, [_members(listed)])
    return close, index


def _listed(spark: SparkSession, seed: int) -> pa.Table:
    """Return each company's symbol, closing price, and how many companies are larger, more or less."""
    rank = F.col("id").cast("int")
    # A change of c since yesterday: cp = level / (1 + c).
    change = (uniform(seed, _CHANGE_SALT) * F.lit(2.0) - F.lit(1.0)) * F.lit(_CHANGE)
    noise = F.exp(uniform(seed, _SIZE_SALT) * F.lit(2.0) - F.lit(1.0))
    companies = spark.range(1, SYMBOLS + 1, 1, 1).select(
        symbol(rank).alias("symbol"),
        F.round(price_level(rank, seed) / (F.lit(1.0) + change), 2).alias("cp"),
        (rank * noise).alias("larger"),
    )
    return companies.toArrow()


def _members(listed: pa.Table) -> pa.Table:
    rank = np.argsort(np.argsort(listed["larger"].to_numpy(), kind="stable"), kind="stable")
    large, either = rank < LARGE, rank < LARGE + SMALL
    columns = [listed["symbol"], pa.array(either), pa.array(either & ~large), pa.array(large)]
    return pa.table(columns, names=["symbol", "r3000", "r2000", "r1000"])
