"""The paper's Figures 13 to 16, timed: every way to share or not to share, side by side.

All ways are Weft's, each with a checkpoint on disk, over the same rows. For predicates (Figures 14 to 16)
each way is one engine that reads the stream once, as in the paper: `unshared` takes a row into each predicate
that it satisfies, `separate` has a relation for each predicate, `joint` as few relations as possible,
and `auto` what Weft chooses by cost. For windows alone (Figure 13) not to share is an engine for each query:
some are timed, and their mean is multiplied, with the reading of the stream, which the paper's program does
once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Self

from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.against_spark import trades_input
from weft.bench.bench import Bench, PicturedResult
from weft.bench.equality import Comparison, compare
from weft.bench.fragments import workloads
from weft.bench.options import Check, Checked, Counts, Options, Queries, Repeats, Rows
from weft.bench.records import Record, Seconds
from weft.bench.runs import Input, Settings, WeftRun, run_weft
from weft.bench.signatures import PAPER_COUNTS, PAPER_SECONDS, PAPER_SIZE, Strategy
from weft.bench.signatures import Sharing as Printed
from weft.bench.workloads import BenchQuery, Predicates, paper_queries, spread_over
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
class Timing(Record):
    """What one way took for one number of queries."""

    queries: int
    way: str
    seconds: Seconds
    """All counted rounds; none if the way took longer than there was patience for, or would have."""
    run: WeftRun
    """The last one; without relations if there was none."""

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        runs = self.seconds.runs
        timed = {"seconds": self.seconds.median if runs else None, "runs_s": runs}
        return {"queries": self.queries, "way": self.way, **timed, **self.run.as_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysResult(PicturedResult):
    """One of the paper's figures over one number of rows."""

    bench: "PaperFigures"
    figure: int
    rows: int
    taken: tuple[Timing, ...]

    @property
    def title(self) -> str:
        """The figure and its workload in words."""
        workload = FIGURES[self.figure]
        return f"Figure {self.figure}, {'A: n windows' if workload is None else workload.described}"

    @property
    def printed_s(self) -> dict[str, float]:
        """What the paper printed for 256 queries, by the name of the way that does the same."""
        workload = FIGURES[self.figure]
        if workload is None:
            return {str(strategy): seconds for strategy, seconds in PAPER_SECONDS.items()}
        both = PAPER_COUNTS[workload]
        return {"unshared": both[Printed.UNSHARED].seconds, "joint": both[Printed.SHARED].seconds}

    def show(self, console: Console) -> None:
        """Print the seconds of every way, and what was compared."""
        bench = self.bench
        caption = (
            f"Medians of all counted rounds ({bench.repeats} for each of {report.seeds_of(bench.seeds)}), "
            f"with their least and most, after {bench.warmups} that warm up; every way has a checkpoint "
            f"on disk. One that takes more than {bench.patience_s:g} s is not run again, and one that would "
            "is not run. The paper's program had 1,138,636 rows in memory and nothing durable."
        )
        if self.figure == 13:
            caption += (
                f" Unshared: the mean of {bench.measured} engines with one query each, times all; each "
                "engine reads the stream."
            )
        seconds, operations = [], []
        for taken in self.taken:
            timed = (f"> {bench.patience_s:g}" if taken.run.relations else "not run", "")
            if taken.seconds.runs:
                timed = (f"{taken.seconds.median:,.2f}", taken.seconds.spread)
            comparable = taken.queries == PAPER_SIZE and taken.way in self.printed_s
            seconds.append((taken, *timed, f"{self.printed_s[taken.way]:.2f}" if comparable else ""))
            operations += [taken] if taken.run.relations else []
        of_way = {"queries": "{0.queries:,}", "<way": "{0.way}"}
        columns = {**of_way, "seconds": "{1}", "spread": "{2}", "the paper, s": "{3}"}
        title = f"{self.title}, {self.rows:,} rows"
        console.print(report.make_table(title, columns, seconds, caption=caption, no_wrap=True))
        columns = {
            **of_way, "relations": "{0.run.relations:,}", "partial": "{0.run.partial_ops:,}",
            "final": "{0.run.final_ops:,}",
        }  # fmt: skip
        console.print(report.make_table("operations", columns, operations, no_wrap=True))
        console.print(report.equality(self.compared))

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw each figure: seconds of every way against the number of queries."""
        figure = report.new_figure(5.5 * len(results), 5.4)
        for axes, result in zip(figure.subplots(1, len(results), squeeze=False)[0], results, strict=True):
            ways = dict.fromkeys(taken.way for taken in result.taken)
            colors = (report.RED, report.ORANGE, report.GREY, report.BLUE, report.GREEN)
            for way, color in zip(ways, colors, strict=False):
                timed = [taken for taken in result.taken if taken.way == way and taken.seconds.runs]
                sizes, seconds = [taken.queries for taken in timed], [taken.seconds for taken in timed]
                report.draw_medians(axes, sizes, seconds, color=color, label=way)
                if way in result.printed_s:
                    printed = result.printed_s[way]
                    axes.plot([PAPER_SIZE], [printed], "x", color=color, label=f"the paper, {way}")
            sizes = [*(taken.queries for taken in result.taken), PAPER_SIZE]
            report.finish(axes, sizes, ylabel="seconds, least to most")
            title = f"{result.title}\n{result.rows:,} rows, {result.cores} cores"
            axes.set_title(title, fontsize="medium")
        return figure


@dataclass(slots=True)
class _QuerySet:
    """One set of queries, answered in every way."""

    given: Input
    queries: Sequence[BenchQuery]
    options: Options
    last: dict[str, WeftRun] = field(default_factory=dict)

    def run(self, way: Way) -> float:
        """Answer the queries in a way; where each has an engine of its own, scale the mean of some."""
        settings = Settings(slicing=way.slicing, sharing=way.sharing)
        if not way.alone:
            self.last[way.name] = run_weft(self.given, self.queries, settings=settings)
            return self.last[way.name].seconds
        chosen = spread_over(self.queries, self.options.measured)
        runs = [run_weft(self.given, [query], settings=settings) for query in chosen]
        times = len(self.queries) / len(chosen)
        self.last[way.name] = WeftRun(
            relations=round(times * sum(run.relations for run in runs)),
            partial_ops=round(times * sum(run.partial_ops for run in runs)),
            final_ops=round(times * sum(run.final_ops for run in runs)),
            results={name: rows for run in runs for name, rows in run.results.items()},
        )
        return times * sum(run.seconds for run in runs)

    def compare(self) -> Comparison:
        """Compare the last rows of every way with plain Spark's."""
        comparisons = []
        for name, run in self.last.items():
            known = [query for query in self.queries if query.name in run.results]
            chosen = self.options.check.choose(known)
            compared = compare(self.given, chosen, run.rows_of, self.options.console)
            named = tuple(f"{name}: {difference}" for difference in compared.differences)
            comparisons.append(replace(compared, differences=named))
        return Comparison.pooled(comparisons) if comparisons else Comparison()


def worth_running(way: Way, size: int, taken: Sequence[Timing], patience_s: float) -> bool:
    """Say whether a way is expected to end in time, if it takes as long for a query as it did with fewer."""
    before = [earlier for earlier in taken if earlier.way == way.name]
    if not before or way.alone:
        return True
    last = before[-1]
    return bool(last.seconds.runs) and last.seconds.median * size / last.queries <= patience_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigures(Bench[WaysResult]):
    """Each way to share or not, side by side: the paper's Figures 13 to 16, timed.

    Example: weft bench figures --figure 16 -n 64
    """

    offers = "figures patience_s queries rows seeds measured repeats warmups check json data cores"
    pictures = ("figures",)
    queries: Queries = (16, 64, 256)
    rows: Rows = (200_000,)
    repeats: Repeats = 3
    check: Checked = Check.SAMPLE
    figures: Annotated[
        Counts,
        Option("--figure", help="Which of the paper's figures, 13 to 16; may be repeated.", min=13, max=16),
    ] = tuple(FIGURES)
    patience_s: Annotated[
        float,
        Option(
            "--patience", min=0,
            help="Seconds after which a way is not run again; one that would take more is not run.",
        ),
    ] = 30.0  # fmt: skip
    """A way that takes longer is not run again, and one that would is not run."""

    def measure(self) -> Iterator[WaysResult]:
        """Time each way of each figure."""
        for workload in (FIGURES[figure] for figure in self.figures):
            for size in self.queries:
                if workload is not None:
                    workload.check(size)
        for rows in self.rows:
            for figure in self.figures:
                yield self._measure(rows, figure)

    def _measure(self, rows: int, figure: int) -> WaysResult:
        workload = FIGURES[figure]
        sources: dict[int, Callable[[int], Sequence[BenchQuery]]]
        if workload is None:
            given = trades_input(self.session(), self, rows)
            sources = {seed: partial(paper_queries, seed=seed) for seed in self.seeds}
        else:
            of_seeds = workloads(self, workload, rows)
            given = of_seeds[self.seeds[0]].given
            sources = {seed: source.queries for seed, source in of_seeds.items()}
        # The first run of a session starts Java and Spark: it must try nobody's patience.
        run_weft(given, sources[self.seeds[0]](min(self.queries)))
        taken, compared = list[Timing](), list[Comparison]()
        for size in sorted(self.queries):
            ways = [way for way in ways_of(workload) if worth_running(way, size, taken, self.patience_s)]
            rounds = []
            for queries_of in sources.values():
                answered = _QuerySet(given, queries_of(size), self)
                turns = [(way.name, partial(answered.run, way)) for way in ways]
                rounds.append(self.alternate(turns, patience_s=self.patience_s))
                compared.append(answered.compare())
            for way in ways_of(workload):
                seconds = Seconds.pooled([seconds.get(way.name, Seconds(())) for seconds in rounds])
                run = answered.last.get(way.name, WeftRun())
                taken.append(Timing(queries=size, way=way.name, seconds=seconds, run=run))
        return WaysResult(
            bench=self, cores=given.cores, figure=figure, rows=rows, taken=tuple(taken),
            compared=Comparison.pooled(compared),
        )  # fmt: skip
