"""The paper's Figures 13 to 16, timed: every way to share or not to share, side by side.

All ways are Weft's, each with a checkpoint on disk, over the same rows. For predicates (Figures 14 to 16)
each way is one engine that reads the stream once, as in the paper: `unshared` takes a row into each predicate
that it satisfies, `separate` has a relation for each predicate, `joint` as few relations as possible,
and `auto` what Weft chooses by cost. For windows alone (Figure 13) not to share is an engine for each query:
some are timed, and their mean is multiplied, with the reading of the stream, which the paper's program does
once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from weft.bench.against_spark import spread_over, trades_input
from weft.bench.equality import Comparison, compare, together
from weft.bench.fragments import Workload, collect
from weft.bench.market import make_market
from weft.bench.measure import Seconds, alternate, pooled
from weft.bench.operations import Strategy
from weft.bench.options import Options
from weft.bench.report import needs_matplotlib, publish
from weft.bench.report_ways import show_ways
from weft.bench.runs import How, Input, WeftRun, run_weft
from weft.bench.workloads import BenchQuery, Predicates, paper_queries
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing

FIGURES: dict[int, Predicates | None] = {
    13: None,
    14: Predicates.FRAGMENTS,
    15: Predicates.REGULAR,
    16: Predicates.LOW,
}
"""The paper's figures and their workloads; the first has no predicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to answer a set of queries."""

    name: str
    sharing: Sharing = Sharing.AUTO
    slicing: Slicing = Slicing.PAIRED
    alone: bool = False
    """Whether each query has an engine of its own."""


_OF_WINDOWS = tuple(
    Way(name=strategy, slicing=strategy.slicing, alone=not strategy.shared) for strategy in Strategy
)
_OF_PREDICATES = (
    Way(name="unshared", sharing=Sharing.UNSHARED),
    Way(name="separate", sharing=Sharing.SEPARATE),
    Way(name="joint, paned", sharing=Sharing.JOINT, slicing=Slicing.PANED),
    Way(name="joint", sharing=Sharing.JOINT),
    Way(name="auto"),
)


def ways_of(workload: Predicates | None) -> tuple[Way, ...]:
    """Return the ways that differ for a workload: where all windows tumble, panes and pairs are the same."""
    if workload is None:
        return _OF_WINDOWS
    tumbling = workload is Predicates.FRAGMENTS
    return tuple(way for way in _OF_PREDICATES if not (tumbling and way.slicing is Slicing.PANED))


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one way took for one number of queries."""

    queries: int
    way: str
    seconds: Seconds
    """All counted rounds; none if the way took longer than there was patience for, or would have."""
    relations: int
    """Of its plan; none if it was not run."""
    partial_ops: int
    final_ops: int

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        runs = self.seconds.runs
        return {
            "queries": self.queries,
            "way": self.way,
            "seconds": self.seconds.median if runs else None,
            "runs_s": runs,
            "relations": self.relations,
            "partial_ops": self.partial_ops,
            "final_ops": self.final_ops,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysResult:
    """One of the paper's figures over one number of rows."""

    figure: int
    rows: int
    seeds: tuple[int, ...]
    repeats: int
    warmups: int
    measured: int
    patience_s: float
    cores: int
    taken: tuple[Taken, ...]
    compared: Comparison

    @property
    def passed(self) -> bool:
        """Whether all rows compared are right, in every way."""
        return self.compared.equal is not False

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        plain = "figure rows seeds repeats warmups measured patience_s cores".split()
        return {
            **{name: getattr(self, name) for name in plain},
            "rows_equal": self.compared.equal,
            "differences": self.compared.differences,
            "taken": [one.as_json() for one in self.taken],
        }


@dataclass(slots=True)
class _Bench:
    """One set of queries in every way."""

    given: Input
    queries: Sequence[BenchQuery]
    options: Options
    last: dict[str, WeftRun] = field(default_factory=dict)

    def measure(self, ways: Sequence[Way], patience_s: float) -> dict[str, Seconds]:
        """Take all ways by turns."""
        return alternate(
            [(way.name, partial(self._run, way)) for way in ways],
            repeats=self.options.repeats,
            warmups=self.options.warmups,
            console=self.options.console,
            patience_s=patience_s,
        )

    def _run(self, way: Way) -> float:
        how = How(slicing=way.slicing, sharing=way.sharing)
        if not way.alone:
            self.last[way.name] = run_weft(self.given, self.queries, how=how)
            return self.last[way.name].seconds
        chosen = spread_over(self.queries, self.options.measured)
        runs = [run_weft(self.given, [query], how=how) for query in chosen]
        self.last[way.name] = _together(runs, len(self.queries) / len(chosen))
        return sum(run.seconds for run in runs) / len(runs) * len(self.queries)

    def compare(self) -> Comparison:
        """Compare the last rows of every way with plain Spark's."""
        compared = []
        for name, run in self.last.items():
            known = [query for query in self.queries if query.name in run.results]
            found = compare(self.given, self.options.check.choose(known), run.rows_of, self.options.console)
            told = tuple(f"{name}: {text}" for text in found.differences)
            compared.append(replace(found, differences=told))
        return together(compared)


def _together(runs: Sequence[WeftRun], times: float) -> WeftRun:
    """Return some engines' runs as if all had been run."""
    return WeftRun(
        relations=round(times * sum(run.relations for run in runs)),
        partial_ops=round(times * sum(run.partial_ops for run in runs)),
        final_ops=round(times * sum(run.final_ops for run in runs)),
        results={name: rows for run in runs for name, rows in run.results.items()},
    )


def run_ways(
    options: Options, *, figures: Sequence[int] = tuple(FIGURES), patience_s: float = 30.0
) -> tuple[WaysResult, ...]:
    """Time each way of each figure, print tables, and write JSON and a plot if asked.

    A way that takes longer than `patience_s` is not run again, and one that would is not run.
    """
    needs_matplotlib(options.plot)
    for workload in (FIGURES[figure] for figure in figures):
        for size in options.queries:
            if workload is not None:
                workload.check(size)
    results = []
    for rows in options.rows:
        for figure in figures:
            results.append(_measure(options, rows, figure, patience_s))
            show_ways(results[-1], options.console)
    publish(results, json=options.json, plot=options.plot, draw=_draw, console=options.console)
    return tuple(results)


def _measure(options: Options, rows: int, figure: int, patience_s: float) -> WaysResult:
    spark, workload = options.session(), FIGURES[figure]
    tables = () if workload is None else make_market(spark, options.data)
    given = trades_input(spark, options.data, rows=rows, batches=options.batches, tables=tables)
    market = None if workload is None else collect(given)
    taken, compared = list[Taken](), list[Comparison]()
    for size in sorted(options.queries):
        ways = [way for way in ways_of(workload) if worth_running(way, size, taken, patience_s)]
        benches = []
        for seed in options.seeds:
            if workload is None or market is None:
                queries = paper_queries(size, seed=seed)
            else:
                queries = Workload(workload, market, seed).queries(size)
            bench = _Bench(given, queries, options)
            benches.append((bench, bench.measure(ways, patience_s)))
            compared.append(bench.compare())
        taken += [_taken(way, size, benches) for way in ways_of(workload)]
    return WaysResult(
        figure=figure,
        rows=rows,
        seeds=options.seeds,
        repeats=options.repeats,
        warmups=options.warmups,
        measured=options.measured,
        patience_s=patience_s,
        cores=spark.sparkContext.defaultParallelism,
        taken=tuple(taken),
        compared=together(compared),
    )


def worth_running(way: Way, size: int, taken: Sequence[Taken], patience_s: float) -> bool:
    """Say whether a way is expected to end in time, if it takes as long for a query as it did with fewer."""
    before = [one for one in taken if one.way == way.name]
    if not before or way.alone:
        return True
    last = before[-1]
    return bool(last.seconds.runs) and last.seconds.median * size / last.queries <= patience_s


def _taken(way: Way, size: int, benches: Sequence[tuple[_Bench, dict[str, Seconds]]]) -> Taken:
    last = benches[-1][0].last.get(way.name, WeftRun())
    return Taken(
        queries=size,
        way=way.name,
        seconds=pooled(seconds.get(way.name, Seconds(())) for _, seconds in benches),
        relations=last.relations,
        partial_ops=last.partial_ops,
        final_ops=last.final_ops,
    )


def _draw(results: Sequence[WaysResult], path: Path) -> None:
    from weft.bench.plot_ways import plot_ways  # Matplotlib is an extra.

    plot_ways(results, path)
