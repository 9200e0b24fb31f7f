"""Each number of rows, each number of queries and each seed in turn, and what all seeds found together."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from weft.bench.figures import Figures
from weft.bench.options import Options


class Measured(Protocol):
    """What was found for one set of queries, or for several."""

    @property
    def figures(self) -> Figures:
        """What was measured."""


Found = TypeVar("Found", bound=Measured)


def measure_sets(
    options: Options,
    measure: Callable[[int, int, int], Found],
    pool: Callable[[Sequence[Found]], Found],
    show: Callable[[Found], None],
) -> tuple[Found, ...]:
    """Measure each set of queries, given rows, queries and seed; after several seeds, tell them together."""
    results: list[Found] = []
    for rows in options.rows:
        for size in options.queries:
            of_seeds = []
            for seed in options.seeds:
                of_seeds.append(measure(rows, size, seed))
                show(of_seeds[-1])
            results += of_seeds
            if len(of_seeds) > 1:
                results.append(pool(of_seeds))
                show(results[-1])
    return tuple(results)


def headlines(results: Sequence[Found]) -> list[Found]:
    """Return one result for each number of rows and queries: over all seeds, where there are several."""
    last = {(one.figures.rows, one.figures.queries): one for one in results}
    return list(last.values())
