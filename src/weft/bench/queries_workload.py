"""Thousands of queries of which no two have the same window or the same threshold."""

from itertools import repeat
from random import Random

from weft.bench.workloads import first_distinct

_RANGES_S = range(20, 3_601)
_SLIDES_S = range(10, 601)
_THRESHOLDS = range(10, 1_600_000)


def many_queries(count: int, *, seed: int) -> dict[str, str]:
    """Return queries over trades, by name: plain sums, groups, two columns tested, HAVING.

    >>> list(many_queries(2, seed=1))
    ['q0', 'q1']
    """
    chance = Random(seed)
    lengths = ((chance.choice(_RANGES_S), chance.choice(_SLIDES_S)) for _ in repeat(None))
    windows = first_distinct(lengths, count)
    thresholds = chance.sample(_THRESHOLDS, count)
    return {
        f"q{number}": _sql(number, f"[RANGE '{range_s} s' SLIDE '{slide_s} s']", threshold)
        for number, ((range_s, slide_s), threshold) in enumerate(zip(windows, thresholds, strict=True))
    }


def _sql(number: int, window: str, threshold: int) -> str:
    shapes = (
        f"SELECT sum(price * vol) AS v FROM trades {window} WHERE vol > {threshold}",
        f"SELECT symbol, avg(price) AS v FROM trades {window} WHERE vol > {threshold} GROUP BY symbol",
        f"SELECT max(price) AS v FROM trades {window} WHERE vol > {threshold} AND price < {number + 1}",
        f"SELECT count(*) AS v FROM trades {window} WHERE vol > {threshold} HAVING count(*) > {number % 7}",
    )
    return shapes[number % len(shapes)]
