"""The queries of the benches."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, product, repeat
from math import isqrt
from random import Random
from typing import TypeVar

from weft.bench.predicates import Market, Predicate, predicates
from weft.errors import UserError
from weft.window import Window, duration

Item = TypeVar("Item")
PAPER_SIZES = (16, 32, 64, 128, 256)
"""How many queries the paper measured."""
SCOTTY_SIZES = (1, 10, 80, 1000)
_MOST_TUMBLING = 19_000
_RANGES_S, _SLIDES_S = range(600, 901), range(300, 601)
"""From which windows are drawn (STS, Table 8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchQuery:
    """A query as a user would write it, and what plain Spark needs to know of it."""

    name: str
    window: Window
    stream: str
    value: str
    """What is added up."""
    where: str | None = None
    """Which rows are, by columns of the stream."""
    predicate: Predicate | None = None
    """Which rows are; a query that has one joins the tables `close` and `index` (STS, Query 4)."""

    @property
    def sql(self) -> str:
        """The text that Weft is given."""
        window = f"[RANGE '{duration(self.window.range_ms)}' SLIDE '{duration(self.window.slide_ms)}']"
        if self.predicate is not None:
            return (
                f"SELECT sum(T.price * T.vol) AS value FROM {self.stream} T {window}, close C, index X "
                f"WHERE T.symbol = C.symbol AND T.symbol = X.symbol AND {self.predicate.sql}"
            )
        where = "" if self.where is None else f" WHERE {self.where}"
        return f"SELECT sum({self.value}) AS value FROM {self.stream} {window}{where}"

    @property
    def condition(self) -> str | None:
        """Which rows count, over the joined rows of plain Spark."""
        return self.where if self.predicate is None else self.predicate.bare


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """A query of which no more than its text is needed."""

    name: str
    sql: str


class Predicates(StrEnum):
    """The paper's workloads with predicates."""

    FRAGMENTS = "fragments"
    """(B): different predicates, the same windows."""
    REGULAR = "regular"
    """(C): √n predicates with √n windows each."""
    LOW = "low"
    """(C): no predicate and no window twice."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many queries the paper measured."""
        return (16, 36, 64, 144, 256) if self is Predicates.REGULAR else PAPER_SIZES

    @property
    def described(self) -> str:
        """The workload in words."""
        return {
            Predicates.FRAGMENTS: "B: n predicates, windows of 600 s",
            Predicates.REGULAR: "C regular: √n predicates × √n windows",
            Predicates.LOW: "C low sharing: n predicates, n windows",
        }[self]

    def check(self, count: int) -> None:
        """Refuse a number of queries that the workload cannot have."""
        if count < 1:
            raise UserError(f"there must be 1 query or more, got {count}")
        if self is Predicates.REGULAR and isqrt(count) ** 2 != count:
            near = isqrt(count)
            raise UserError(
                f"a regular workload has a square number of queries, got {count:,}; "
                f"try {max(1, near**2):,} or {(near + 1) ** 2:,}"
            )


def spread_over(queries: Sequence[Item], count: int) -> list[Item]:
    """Return some of the queries, from the first on, evenly apart."""
    count = min(count, len(queries))
    return [queries[number * len(queries) // count] for number in range(count)]


def first_distinct(items: Iterator[Item], count: int) -> tuple[Item, ...]:
    """Return the first items of which no two are the same."""
    distinct: dict[Item, None] = {}
    while len(distinct) < count:
        distinct[next(items)] = None
    return tuple(distinct)


def paper_queries(count: int, *, seed: int = 1) -> tuple[BenchQuery, ...]:
    """Return workload (A): ranges from [600, 900] s and slides from [300, 600] s, no two windows alike.

    >>> paper_queries(1)[0].sql
    "SELECT sum(price * vol) AS value FROM trades [RANGE '668 s' SLIDE '591 s']"
    """
    return tuple(_over_trades(number, window) for number, window in enumerate(_windows(count, seed)))


def predicate_queries(
    workload: Predicates, count: int, market: Market, *, seed: int = 1
) -> tuple[BenchQuery, ...]:
    """Return a workload of predicates whose constants suit these rows."""
    workload.check(count)
    pairs: Iterable[tuple[Predicate, Window]]
    if workload is Predicates.REGULAR:
        root = isqrt(count)
        pairs = product(predicates(root, market, seed=seed), _windows(root, seed))
    else:
        same = repeat(Window(range_ms=600_000, slide_ms=600_000), count)
        windows = same if workload is Predicates.FRAGMENTS else _windows(count, seed)
        pairs = zip(predicates(count, market, seed=seed), windows, strict=True)
    return tuple(_over_trades(number, window, predicate) for number, (predicate, window) in enumerate(pairs))


def turnover(
    size: int, count: int, market: Market, *, seed: int = 1, run: int = 0
) -> Iterator[tuple[str, BenchQuery]]:
    """Yield changes that keep a workload regular: which query leaves, and which joins in its place.

    In turn, a predicate and a window make way for new ones, in all of their queries, the oldest first. Each
    run has predicates and windows that no other run of the seed has, those there at the beginning aside.
    """
    Predicates.REGULAR.check(size)
    root = isqrt(size)
    joining = -(-count // (2 * root))
    drawn = root + joining + run * joining
    kept = [*range(root), *range(drawn - joining, drawn)]
    all_tests, all_windows = predicates(drawn, market, seed=seed), _windows(drawn, seed)
    tests, windows = [all_tests[index] for index in kept], [all_windows[index] for index in kept]
    names = {pair: f"q{number:04d}" for number, pair in enumerate(product(range(root), repeat=2))}
    turns = islice(product(range(2 * len(kept)), range(root)), count)
    for number, (turn, other) in enumerate(turns):
        # The predicates in use are `root` from the first on, and so are the windows.
        first, of_windows = divmod(turn, 2)
        old, new = (other + first + of_windows, first), (other + first + of_windows, first + root)
        if not of_windows:
            old, new = old[::-1], new[::-1]
        names[new] = f"new{number:04d}"
        joins = _over_trades(number, windows[new[1]], tests[new[0]])
        yield names.pop(old), replace(joins, name=names[new])


def scotty_queries(count: int, *, seed: int = 1) -> tuple[BenchQuery, ...]:
    """Return Scotty's workload: tumbling windows of 1 to 20 s, in whole milliseconds, no two alike.

    >>> scotty_queries(1)[0].window.range_ms
    3552
    """
    if count > _MOST_TUMBLING:
        raise UserError(f"there are {_MOST_TUMBLING:,} different tumbling windows, got {count:,} queries")
    chance = Random(seed)
    lengths = first_distinct((int((1 + 19 * chance.random()) * 1000) for _ in repeat(None)), count)
    return tuple(
        BenchQuery(
            name=f"q{number:04d}", window=Window(range_ms=length, slide_ms=length), stream="events",
            value="value",
        )
        for number, length in enumerate(lengths)
    )  # fmt: skip


def _windows(count: int, seed: int) -> tuple[Window, ...]:
    """Return different windows in whole seconds."""
    most = len(_RANGES_S) * len(_SLIDES_S)
    if count > most:
        raise UserError(f"there are {most:,} different windows in whole seconds, got {count:,} queries")
    chance = Random(seed)
    drawn = (
        Window(
            range_ms=chance.randint(_RANGES_S[0], _RANGES_S[-1]) * 1000,
            slide_ms=chance.randint(_SLIDES_S[0], _SLIDES_S[-1]) * 1000,
        )
        for _ in repeat(None)
    )
    return first_distinct(drawn, count)


def _over_trades(number: int, window: Window, predicate: Predicate | None = None) -> BenchQuery:
    return BenchQuery(
        name=f"q{number:04d}", window=window, stream="trades", value="price * vol", predicate=predicate
    )
