"""The queries of the benches."""

from dataclasses import dataclass
from random import Random

from weft.window import Window, duration

PAPER_SIZES = (16, 32, 64, 128, 256)
"""How many queries the paper measured."""
SCOTTY_SIZES = (1, 10, 80, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchQuery:
    """A query as a user would write it, and what plain Spark needs to know of it."""

    name: str
    window: Window
    stream: str
    value: str
    """What is added up."""

    @property
    def sql(self) -> str:
        """The text that Weft is given."""
        return f"SELECT sum({self.value}) AS value FROM {self.stream} {_clause(self.window)}"


def _clause(window: Window) -> str:
    return f"[RANGE '{duration(window.range_ms)}' SLIDE '{duration(window.slide_ms)}']"


def paper_queries(count: int, *, seed: int = 1) -> tuple[BenchQuery, ...]:
    """Return workload (A): ranges from [600, 900] s and slides from [300, 600] s, in whole seconds.

    >>> paper_queries(1)[0].sql
    "SELECT sum(price * vol) AS value FROM trades [RANGE '668 s' SLIDE '591 s']"
    """
    chance = Random(seed)
    windows = [
        Window(range_ms=chance.randint(600, 900) * 1000, slide_ms=chance.randint(300, 600) * 1000)
        for _ in range(count)
    ]
    return _named(windows, stream="trades", value="price * vol")


def scotty_queries(count: int, *, seed: int = 1) -> tuple[BenchQuery, ...]:
    """Return Scotty's workload: tumbling windows of 1 to 20 s, in whole milliseconds.

    >>> scotty_queries(1)[0].window.range_ms
    3552
    """
    chance = Random(seed)
    lengths = [int((1 + 19 * chance.random()) * 1000) for _ in range(count)]
    windows = [Window(range_ms=length, slide_ms=length) for length in lengths]
    return _named(windows, stream="events", value="value")


def _named(windows: list[Window], *, stream: str, value: str) -> tuple[BenchQuery, ...]:
    return tuple(
        BenchQuery(name=f"q{number:04d}", window=window, stream=stream, value=value)
        for number, window in enumerate(windows)
    )
