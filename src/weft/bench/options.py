"""The options that benchmarks share, and the rounds in which contenders alternate.

A field that is annotated with an `Option` can be one of the command line: a bench names those that it offers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Annotated, TypeVar

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer import Option

from weft.bench.dataset import DEFAULT_DATA
from weft.bench.records import Seconds
from weft.errors import UserError
from weft.optimizer.slices import Slicing
from weft.spark.session.local import local_session

PAPER_ROWS = 1_138_636
"""How many trades the paper's hour has (STS, section 6.2)."""
_SAMPLED = 16
Query = TypeVar("Query")
Timed = Callable[[], float]
"""Something that runs and returns its seconds."""


class Check(StrEnum):
    """Which queries' rows are compared."""

    ALL = "all"
    SAMPLE = "sample"
    NONE = "none"

    def choose(self, queries: Sequence[Query]) -> Sequence[Query]:
        """Return the queries to compare."""
        if self is Check.NONE:
            return ()
        return queries if self is Check.ALL else queries[:: max(1, len(queries) // _SAMPLED)]


Counts = tuple[int, ...]
Queries = Annotated[Counts, Option("--queries", "-n", help="How many queries; may be repeated.", min=1)]
Rows = Annotated[Counts, Option(help="How many rows; paper: the paper's 1,138,636. May be repeated.")]
Seeds = Annotated[Counts, Option("--seed", help="Another set of queries each; may be repeated.")]
OneSeed = Annotated[int, Option("--seed", help="What rows or queries are drawn from.")]
"""For a benchmark that takes a single seed."""
Batches = Annotated[int, Option(help="Micro-batches in a run.", min=2)]
Measured = Annotated[int, Option(help="Ordinary Spark queries that are measured.", min=1)]
Repeats = Annotated[int, Option(help="Rounds that count; all that is compared runs in each.", min=1)]
Warmups = Annotated[int, Option(help="Rounds before them that do not count.", min=0)]
Sliced = Annotated[Slicing, Option(help="How time is cut; operations are counted alike.")]
Checked = Annotated[Check, Option(help="Which queries' rows are compared with Spark's.")]
Json = Annotated[Path | None, Option("--json", help="Write the figures there.", show_default=False)]
Data = Annotated[Path, Option(help="Where generated data is kept, and checkpoints during a run.")]
Cores = Annotated[int | None, Option(help="Cores of the local Spark.", min=1, show_default="all")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that benches have in common."""

    console: Console
    queries: Queries = (256,)
    rows: Rows = (4_000_000, PAPER_ROWS)
    """Each number is a measurement of its own."""
    seeds: Seeds = (1,)
    """Each seed is another set of queries over the same rows."""
    batches: Batches = 8
    measured: Measured = 3
    """How many ordinary queries are run."""
    repeats: Repeats = 5
    """Rounds that count."""
    warmups: Warmups = 1
    """Rounds that do not."""
    tiny_batches: int = 20
    adds: int = 5
    """How many queries join a running stream."""
    slicing: Sliced = Slicing.PAIRED
    check: Checked = Check.ALL
    json: Json = None
    plot: Path | None = None
    """Where the picture goes."""
    data: Data = DEFAULT_DATA
    cores: Cores = None
    memory: str = "4g"
    """Heap of the local Spark."""

    def __post_init__(self) -> None:
        if not (self.queries and self.rows and self.seeds):
            raise UserError("a bench needs a number of queries, a number of rows and a seed")

    def session(self) -> SparkSession:
        """Return the session that all contenders share."""
        return local_session(cores=self.cores, memory=self.memory)

    def alternate(
        self,
        turns: Sequence[tuple[str, Timed]],
        *,
        patience_s: float = inf,
        clock: Callable[[], float] = perf_counter,
    ) -> dict[str, Seconds]:
        """Take all turns, round after round; the first rounds warm up and are not counted.

        Every second round goes backwards, so that nothing always runs after the same neighbour. A name may
        have several turns in a round. A name that takes longer than `patience_s` has no further turn.
        """
        repeats, warmups = self.repeats, self.warmups
        if repeats < 1 or warmups < 0:
            raise ValueError(f"repeats must be 1 or more and warm-ups 0 or more, got {repeats} and {warmups}")
        counted: dict[str, list[float]] = {name: [] for name, _ in turns}
        before: dict[str, list[float]] = {name: [] for name, _ in turns}
        too_slow: set[str] = set()
        with progress(self.console) as bar:
            task = bar.add_task("", total=len(turns) * (repeats + warmups))
            for number in range(1 - warmups, repeats + 1):
                label = f"round {number} of {repeats}" if number > 0 else "warm-up"
                for name, run in turns if number % 2 else reversed(turns):
                    bar.update(task, description=f"{label}: {name}")
                    bar.advance(task)
                    if name in too_slow:
                        continue
                    began = clock()
                    seconds = run()
                    (counted if number > 0 else before)[name].append(seconds)
                    if not self.console.is_terminal:
                        # A log has no bar.
                        self.console.print(f"{label}: {name}: {seconds:,.2f} s", soft_wrap=True)
                    # By the clock, not by the seconds returned: those may be scaled.
                    if clock() - began > patience_s:
                        too_slow.add(name)
        return {name: Seconds(tuple(runs), tuple(before[name])) for name, runs in counted.items()}


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


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Show a bar that goes when it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar
