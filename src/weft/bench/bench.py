"""The interface of a benchmark and its results, and the runner that all share.

options ─measure→ results, one by one ─show→ tables
                  all results ─as_json→ a file
                  all results ─draw→ a picture
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from rich.console import Console

from weft.bench.equality import NOT_COMPARED, Comparison
from weft.bench.options import Options
from weft.bench.records import Record
from weft.bench.report import Figure
from weft.errors import NotInstalled


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Record, ABC):
    """What one measurement of a bench found, and how that is shown."""

    bench: "Bench[Any]"
    cores: int = 0
    """How many tasks Spark ran at once."""
    compared: Comparison = NOT_COMPARED
    """Rows that were compared with those of another system."""

    @property
    def rows_equal(self) -> bool | None:
        """Whether all rows compared are right; None when nothing was compared."""
        return self.compared.equal

    @property
    def passed(self) -> bool:
        """Whether no row was found to be wrong."""
        return self.rows_equal is not False

    def as_json(self) -> dict[str, object]:
        """Return options and figures by name."""
        found = {**Record.as_json(self), "rows_equal": self.rows_equal, "pyspark": version("pyspark")}
        del found["bench"]
        return {**self.bench.chosen, **found}

    @abstractmethod
    def show(self, console: Console) -> None:
        """Print the figures as tables."""


class PicturedResult(Result):
    """A result that can also be drawn."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def draw(cls, results: Sequence[Self]) -> Figure:
        """Return a picture of all results."""


AnyResult = TypeVar("AnyResult", bound=Result)
Source = TypeVar("Source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(Options, ABC, Generic[AnyResult]):
    """A benchmark and its options: a command of `weft bench`, whose help is the docstring."""

    offers: ClassVar[str] = "queries rows seeds measured repeats warmups slicing check json data cores"
    """The options that the command line has, by the names of fields."""
    pictures: ClassVar[tuple[str, ...]] = ()
    """Default names of its pictures; a benchmark without any draws none."""

    @property
    def picture(self) -> int:
        """Index of the picture that these options make."""
        return 0

    @property
    def chosen(self) -> dict[str, object]:
        """The options of the command line by name, those of files aside."""
        return {name: getattr(self, name) for name in self.offers.split() if name not in ("json", "data")}

    @abstractmethod
    def measure(self) -> Iterator[AnyResult]:
        """Yield the results, one for each measurement that the options ask for."""

    def as_json(self, results: Sequence[AnyResult]) -> object:
        """Return the results as JSON: one as an object, several as a list."""
        return results[0].as_json() if len(results) == 1 else [result.as_json() for result in results]

    def run(self) -> tuple[AnyResult, ...]:
        """Measure all that the options ask for, print it, and write it where they say."""
        needs_matplotlib(self.plot)
        results = []
        for result in self.measure():
            result.show(self.console)
            results.append(result)
        if self.json is not None:
            save(self.as_json(results), self.json)
            self.console.print(f"json: {self.json}", soft_wrap=True)
        if self.plot is not None:
            kind: Any = type(results[0])
            save_figure(kind.draw(results), self.plot)
            self.console.print(f"plot: {self.plot}", soft_wrap=True)
        return tuple(results)

    def over_sets(
        self, prepare: Callable[[int], Source], measure: Callable[[Source, int, int], AnyResult]
    ) -> Iterator[AnyResult]:
        """Yield what each set of queries gives, and after several seeds what they give together.

        `prepare` makes a number of rows, over which all sizes and seeds are measured.
        """
        for rows in self.rows:
            source = prepare(rows)
            for size in self.queries:
                of_seeds = []
                for seed in self.seeds:
                    of_seeds.append(measure(source, size, seed))
                    yield of_seeds[-1]
                if len(of_seeds) > 1:
                    yield type(of_seeds[-1]).pooled(of_seeds)


def needs_matplotlib(plot: Path | None) -> None:
    """Refuse to draw without Matplotlib: before an hour of measuring, not after it."""
    if plot is None:
        return
    try:
        import_module("matplotlib.figure")
    except ImportError as error:
        hint = ", or leave the picture out with --no-plot"
        raise NotInstalled("matplotlib", "the picture", otherwise=hint) from error


def save(content: object, path: Path) -> None:
    """Write JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, default=str) + "\n")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
