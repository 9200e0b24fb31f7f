"""What every bench is asked: how much, how often, from which seeds, and where figures go."""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check
from weft.errors import UserError
from weft.optimizer.slices import Slicing
from weft.spark.session.local import local_session

PAPER_ROWS = 1_138_636
"""How many trades the paper's hour has (STS, section 6.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that benches have in common."""

    console: Console
    queries: tuple[int, ...] = (256,)
    rows: tuple[int, ...] = (4_000_000, PAPER_ROWS)
    """Each number is a measurement of its own."""
    seeds: tuple[int, ...] = (1,)
    """Each seed is another set of queries over the same rows."""
    batches: int = 8
    measured: int = 3
    """How many ordinary queries are run."""
    repeats: int = 5
    """Rounds that count."""
    warmups: int = 1
    """Rounds that do not, for everyone alike."""
    tiny_batches: int = 20
    adds: int = 5
    """How many queries join a running stream."""
    check: Check = Check.ALL
    slicing: Slicing = Slicing.PAIRED
    data: Path = DEFAULT_DATA
    cores: int | None = None
    memory: str = "4g"
    json: Path | None = None
    plot: Path | None = None

    def __post_init__(self) -> None:
        if not (self.queries and self.rows and self.seeds):
            raise UserError("a bench needs a number of queries, a number of rows and a seed")

    def session(self) -> SparkSession:
        """Return the session that everyone runs in."""
        return local_session(cores=self.cores, memory=self.memory)


def row_count(text: str) -> int:
    """Return how many rows an option asks for; `paper` is as many as the paper had.

    >>> row_count("paper"), row_count("4000000")
    (1138636, 4000000)
    """
    if text == "paper":
        return PAPER_ROWS
    if not text.isdigit() or int(text) < 1000:
        raise UserError(f"rows must be a number from 1000 on, or paper, got {text}")
    return int(text)
