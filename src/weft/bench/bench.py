"""What every bench is: its options, what it measures, and how that is shown.

options ─measure→ results, one by one ─show→ tables
                  all results ─as_json→ a file
                  all results ─draw→ a picture
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from weft.bench.options import Options
from weft.bench.report import Figure, Result
from weft.errors import UserError

AnyResult = TypeVar("AnyResult", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(Options, ABC, Generic[AnyResult]):
    """A bench, with what it is asked: a command of `weft bench`, whose help is the docstring."""

    offers: ClassVar[str] = "queries rows seeds measured repeats warmups slicing check json data cores"
    """The options that the command line has, by the names of fields."""
    pictures: ClassVar[tuple[str, ...]] = ()
    """What its picture is called unless another path is given; if there is none, it draws no picture."""

    @property
    def picture(self) -> int:
        """Which of the pictures these options make."""
        return 0

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

    def over_sets(self, measure: Callable[[int, int, int], AnyResult]) -> Iterator[AnyResult]:
        """Yield what each set of queries gives, and after several seeds what they give together."""
        for rows in self.rows:
            for size in self.queries:
                of_seeds = []
                for seed in self.seeds:
                    of_seeds.append(measure(rows, size, seed))
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
        raise UserError(
            "the picture needs Matplotlib, which is not installed: install Weft with the extra bench, "
            "or leave the picture out with --no-plot"
        ) from error


def save(content: object, path: Path) -> None:
    """Write JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, default=str) + "\n")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
