"""One input of awkward rows, cut into batches in several ways, and queries over it.

Rows without a time, or with one a hundred years ahead, are in every cut: they are set aside whenever they
come. Whether a row is late depends on the batches before it, and in a single batch none is. So rows that are
to be late are left out of the single batch. In every other cut they come a minute behind the newest row, when
the watermark has long passed them, and must change nothing. All other rows come no later than the delay after
their time, and so are late in no cut:

    a row of time t comes at t + u, u ≤ delay; whatever came before it has a time ≤ t + u;
    so the watermark then is ≤ t + u − delay ≤ t

No query has a LIFETIME: it begins with the oldest row of the first batch, whichever that is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.events import write
from tests.faults.site import Site

STREAM = "events"
DOUBLE_KEYS = ("ratio",)
"""The columns of results that are GROUP BY keys and doubles."""
_START = datetime(2026, 1, 1, tzinfo=UTC)
_US = 1_000_000
_DELAY_US = 5 * _US
_BEHIND = timedelta(seconds=60)
"""How far late rows are behind."""
_AHEAD = timedelta(days=36_525)
_NO_TIME, _FUTURE, _OF = 200, 350, 500
"""Which rows of so many have no time, and one far ahead: few, for they cost their batch a job of its own."""

SCHEMA = pa.schema({
    "time": pa.timestamp("us", "UTC"), "number": pa.int64(), "symbol": pa.string(), "price": pa.float64(),
    "vol": pa.int32(), "huge": pa.int64(), "amount": pa.decimal128(12, 2), "wide": pa.decimal128(38, 6),
    "ratio": pa.float64(), "flag": pa.bool_(), "day": pa.date32(),
})  # fmt: skip
_COLUMNS = (
    "time TIMESTAMP, number BIGINT, symbol STRING, price DOUBLE, vol INT, huge BIGINT, "
    "amount DECIMAL(12, 2), wide DECIMAL(38, 6), ratio DOUBLE, flag BOOLEAN, day DATE"
)
_SYMBOLS = ("a", "b", "bb", "", " b", "Ä", "A\u0308", "😀", None)
_LARGEST = "9" * 32 + "." + "9" * 6
_CHOICES: Mapping[str, Sequence[Any]] = {
    "symbol": _SYMBOLS,
    "huge": (2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1, 7, None),
    "wide": (Decimal(_LARGEST), Decimal(f"-{_LARGEST}"), Decimal("0.000001"), Decimal(-3), None),
    "ratio": (0.0, -0.0, nan, inf, 0.1, 2.5, None),
    "flag": (True, False, None),
    "day": (date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), None),
}
SECTORS = pa.table(
    {
        "symbol": ["a", "a", "b", " b", "Ä", "😀", None, "zz"],
        "sector": pa.array([1, 2, 1, 3, None, 2, 5, 6], pa.int32()),
        "rate": [0.5, 1.25, None, 3.0, 0.1, 7.5, 1.0, 1.0],
    }
)
"""A table with a key twice, a key that is NULL, and one that no row has."""

QUERIES = {
    "paired": "SELECT count(*) AS n, sum(vol) AS volume, sum(amount) AS money "
    "FROM events [RANGE '12 s' SLIDE '5 s'] WHERE vol > 40",
    "odd": "SELECT symbol, avg(price) AS p, stddev(price) AS d, min(number) AS first, max(number) AS last "
    "FROM events [RANGE '3700 ms' SLIDE '1300 ms' OFFSET '77 ms'] "
    "WHERE price BETWEEN 85.5 AND 112 GROUP BY symbol",
    "texts": "SELECT min(symbol) AS least, max(symbol) AS most, min(day) AS oldest, max(time) AS last "
    "FROM events [RANGE '1600 ms'] WHERE symbol LIKE '%b%' OR symbol > 'z' OR day < DATE '1970-01-01'",
    "gaps": "SELECT var_pop(price) AS v, avg(vol) AS m FROM events [RANGE '2 s' SLIDE '9 s'] "
    "WHERE symbol <> 'a'",
    "by_ratio": "SELECT ratio, vol % 7 AS k, count(*) AS n, sum(price) AS s "
    "FROM events [RANGE '6 s' SLIDE '2 s'] GROUP BY ratio, vol % 7",
    "ratios": "SELECT sum(ratio) AS s, max(ratio) AS most, min(ratio) AS least, count(ratio) AS n "
    "FROM events [RANGE '1 s' SLIDE '500 ms'] WHERE ratio >= 0 AND flag",
    "large": "SELECT sum(huge) AS h, avg(huge) AS a, sum(wide) AS w, avg(amount) AS m, max(wide) AS top "
    "FROM events [RANGE '800 ms' SLIDE '600 ms']",
    "squares": "SELECT ratio, vol % 7 AS k, sum(vol * vol) AS s, min(wide) AS least "
    "FROM events [RANGE '10 s' SLIDE '4 s'] WHERE flag IS NOT NULL GROUP BY ratio, vol % 7",
    "frequent": "SELECT symbol, count(*) AS n, avg(price) AS p FROM events "
    "GROUP BY symbol, window(time, '5 seconds', '2 seconds') "
    "HAVING count(*) > 6 AND avg(price) > 97.25 OR max(symbol) = 'a'",
    "weighted": "SELECT sum(price * vol) / sum(vol) AS mean, sum(amount) - max(amount) AS rest "
    "FROM events [RANGE '900 ms'] WHERE 1000 / vol > 15 OR flag",
    "joined": "SELECT S.sector, count(*) AS n, sum(E.price * S.rate) AS v "
    "FROM events E [RANGE '8 s' SLIDE '3 s'] LEFT JOIN sectors S ON E.symbol = S.symbol "
    "WHERE S.rate > 0.3 OR E.vol > 50 GROUP BY S.sector",
    "every": "SELECT count(*) AS n, max(amount) AS most FROM events [RANGE '400 ms' SLIDE '300 ms'] "
    "WHERE vol > 90 EMIT EMPTY",
}
"""The queries by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the stream."""

    at: int
    """When it comes if nothing delays it, in microseconds after the start."""
    values: dict[str, Any]
    late: bool = False
    """Whether it is late in every cut of more than one batch."""


def rows_of(count: int, *, seed: int, seconds: int) -> list[Row]:
    """Return rows that come in so many seconds of event time, in their order."""
    chance = Random(seed)
    moments = sorted(_moment(chance, seconds * _US) for _ in range(count))
    found = []
    for number, at in enumerate(moments):
        time = _START + timedelta(microseconds=at)
        late = at > 70 * _US and chance.random() < 0.04
        place = number % _OF
        timely = None if place == _NO_TIME else time + _AHEAD if place == _FUTURE else time
        values = {"time": time - _BEHIND if late else timely, "number": number, **_values(chance)}
        found.append(Row(at=at, values=values, late=late))
    return found


def _moment(chance: Random, until: int) -> int:
    """Return some moment; now and then one where windows end, that others have, too."""
    at = chance.randrange(until)
    return at - at % (_US // 2) if chance.random() < 0.3 else at


def _values(chance: Random) -> dict[str, Any]:
    some = {name: chance.choice(choices) for name, choices in _CHOICES.items()}
    return some | {
        "price": None if chance.random() < 0.05 else chance.gauss(100, 10),
        "vol": chance.choice((0, None)) if chance.random() < 0.1 else chance.randrange(100),
        "amount": Decimal(chance.randrange(-(10**11), 10**11)) / 100,
    }


def shuffled(rows: Sequence[Row], *, seed: int) -> list[Row]:
    """Return rows in an order in which they may come: each within the delay after its time."""
    chance = Random(seed)
    coming = [(row.at + chance.choice((0, chance.randint(0, _DELAY_US), _DELAY_US)), row) for row in rows]
    chance.shuffle(coming)
    return [row for _, row in sorted(coming, key=lambda pair: pair[0])]


def cut(rows: Sequence[Row], count: int, *, seed: int) -> list[pa.Table]:
    """Return rows in so many parts of random sizes, some of them empty."""
    chance = Random(seed)
    ends = [0, *sorted(chance.randint(0, len(rows)) for _ in range(count - 1)), len(rows)]
    parts = (rows[begin:end] for begin, end in pairwise(ends))
    return [pa.Table.from_pylist([row.values for row in part], schema=SCHEMA) for part in parts]


def site_of(
    root: Path, files: Sequence[pa.Table], *, files_per_batch: int, queries: Mapping[str, str] = QUERIES
) -> Site:
    """Return a site with the files as input, and the queries as its workload."""
    site = Site(root, root / "input", ())
    site.input.mkdir(parents=True)
    site.checkpoint.mkdir()
    for number, rows in enumerate(files):
        write(site.input, number, rows)
    pq.write_table(SECTORS, root / "sectors.parquet")
    declared = (
        f"CREATE STREAM {STREAM} ({_COLUMNS})\n"
        f"  USING parquet OPTIONS (path 'input', maxFilesPerTrigger '{files_per_batch}')\n"
        f"  EVENT TIME time DELAY '{_DELAY_US} microseconds';\n"
        "CREATE TABLE sectors (symbol STRING, sector INT, rate DOUBLE)\n"
        "  USING parquet OPTIONS (path 'sectors.parquet');\n"
    )
    site.workload.write_text(
        declared + "".join(f"CREATE QUERY {name} AS {text};\n" for name, text in queries.items())
    )
    return site


def neighbours(count: int, *, seed: int) -> dict[str, str]:
    """Return queries of many windows, predicates and groupings."""
    chance = Random(seed)
    return {f"neighbour{number}": _neighbour(chance) for number in range(count)}


def _neighbour(chance: Random) -> str:
    slide = chance.choice((500, 1_000, 2_000, 3_000, 5_000))
    range_ms = slide * chance.randint(1, 5) + chance.choice((0, 0, 100, 300))
    low = chance.randrange(90)
    where = chance.choice((
        f"vol > {low}", f"vol BETWEEN {low} AND {low + chance.randrange(40)}",
        f"price < {chance.gauss(100, 10):.3f}", f"amount >= {chance.randrange(-(10**8), 10**8)}.25",
        f"symbol = '{chance.choice(('a', 'b', 'bb', 'none'))}' AND price > {80 + low / 3:.2f}",
        f"flag OR vol < {low}",
    ))  # fmt: skip
    output = chance.choice(("count(*)", "sum(vol)", "sum(amount)", "avg(price)", "max(number)"))
    key = chance.choice(("", "symbol", "symbol, flag"))
    grouped = f" GROUP BY {key}" if key else ""
    window = f"[RANGE '{range_ms} ms' SLIDE '{slide} ms']"
    return f"SELECT {key + ', ' if key else ''}{output} AS x FROM {STREAM} {window} WHERE {where}{grouped}"
