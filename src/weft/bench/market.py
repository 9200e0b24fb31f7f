"""The paper's static tables: yesterday's closing prices, and who belongs to which index (STS, Table 7).

A price is within 1 % of the company's level and a closing price within 9 % of it, so that the day's changes
lie between 0 and about 10 %. Indexes nest as they do in reality: the 1,000 largest companies are R1000, the
next 2,000 R2000, and both together R3000. Large companies are traded more, but not strictly so.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from weft.bench.dataset import TableFiles, uniform, write_tables
from weft.bench.trades import SYMBOLS, price_level, symbol

LARGE, SMALL = 1_000, 2_000
"""How many companies R1000 and R2000 have."""
_CHANGE = 0.09
_CHANGE_SALT, _SIZE_SALT = 6, 7


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
