"""The bench of everyday queries: a team's dashboards and alerts over a year of flights.

All contenders read the same files and write Parquet, in one process, alternating, after warm-up rounds.
Starting Spark is not timed. Static tables are in memory for all but Weft, whose time includes reading them.
Replay processes the whole year in few batches, live processes small batches one after another. Weft's rows
are compared with DuckDB's, query by query.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Annotated, NamedTuple

from typer import Option

from weft.bench.bench import Bench
from weft.bench.contenders import (
    BatchTimes,
    duck_file,
    run_batch,
    run_duck,
    run_stream,
    stream_columns,
)
from weft.bench.dashboards_figures import Contender, DashboardsResult, Mode
from weft.bench.duck import Duck, duckdb
from weft.bench.equality import Comparison, compare_rows, read_rows
from weft.bench.flights import YEAR_ROWS, make_flights, make_live_flights, make_tables, package_folder
from weft.bench.options import Queries, Repeats, Timed, Warmups, progress
from weft.bench.runs import Input, Settings, WeftRun, run_scan, run_weft
from weft.bench.workloads import SqlQuery, spread_over
from weft.errors import SourceError, Span
from weft.expression import Slot, SlotKind, walk
from weft.query import bind, parse
from weft.query.logical import Catalog, LogicalQuery
from weft.query.statements import CreateQuery, CreateStream, CreateTable
from weft.spark.session.local import DEFAULT_MEMORY
from weft.storage.names import file_name

DEFAULT_WORKLOAD = Path(__file__).parents[3] / "examples" / "flights" / "workload.sql"
"""The workload of the repository."""
_HAVING = re.compile(r"\bHAVING\s+(.*)$", re.DOTALL)
_FROM_TO_HAVING = re.compile(r"(\bFROM \w+.*?)(?:\s+HAVING\b.*)?$", re.DOTALL)
_VARIANTS = (Contender.NO_CHECKPOINT, Contender.PLAIN, Contender.KEEPING)


class Workload(NamedTuple):
    """A workload's queries, in the order of the file."""

    catalog: Catalog
    queries: tuple[LogicalQuery, ...]


def read_dashboards(path: Path = DEFAULT_WORKLOAD) -> Workload:
    """Read a workload file and bind its queries."""
    if not path.is_file():
        raise SourceError(f"no workload file {path}; name one with --workload")
    statements = parse(path.read_text(encoding="utf-8"))
    catalog = Catalog(
        streams=tuple(stream.definition for stream in statements if isinstance(stream, CreateStream)),
        tables=tuple(table.definition for table in statements if isinstance(table, CreateTable)),
    )
    queries = tuple(bind(query, catalog) for query in statements if isinstance(query, CreateQuery))
    return Workload(catalog=catalog, queries=queries)


def computes(query: LogicalQuery) -> bool:
    """Say whether a query has HAVING, or arithmetic on what is known after aggregation."""
    return query.having is not None or any(
        not isinstance(output.expression, Slot) for output in query.outputs
    )


def sample(queries: Sequence[LogicalQuery], size: int) -> list[LogicalQuery]:
    """Return some of the queries that ordinary Spark can run, evenly spread.

    Spark has no windows with gaps between them.
    """
    possible = [query for query in queries if query.window.slide_ms <= query.window.range_ms]
    return spread_over(possible, size)


def as_written(query: LogicalQuery) -> str:
    """Return a query's own text."""
    return query.text


def plain_text(query: LogicalQuery) -> str:
    """Return the text of the query without HAVING, its outputs just its keys and aggregates.

    It is cut from the query's own text, so that both read the same.

    Keys must be in SELECT as they are.
    """
    expressions = [output.expression for output in query.outputs]
    expressions += [] if query.having is None else [query.having]
    slots = [node for expression in expressions for node in walk(expression) if isinstance(node, Slot)]
    spans = {slot.index: slot.span for slot in slots if slot.kind is SlotKind.AGGREGATE}
    items = [
        f"{_cut(query, output.expression.span)} AS {output.name}"
        for output in query.outputs
        if isinstance(output.expression, Slot) and output.expression.kind is SlotKind.KEY
    ]
    items += [f"{_cut(query, spans[index])} AS aggregate{index}" for index in sorted(spans)]
    rest = _FROM_TO_HAVING.search(query.text)
    assert rest is not None
    return f"SELECT {', '.join(items)} {rest[1]}"


def keeping_text(query: LogicalQuery) -> str:
    """Return the query with a HAVING that is evaluated and keeps every row: as many as `plain_text`."""
    return _HAVING.sub(r"HAVING (\1) OR count(*) > 0", query.text)


def _cut(query: LogicalQuery, span: Span | None) -> str:
    assert span is not None
    return query.text[slice(*span)]


_TEXTS = {Contender.PLAIN: plain_text, Contender.KEEPING: keeping_text}
"""The text that Weft is given where it is not the query's own."""


@dataclass(slots=True)
class _Contest:
    """One number of queries in one mode."""

    options: "Dashboards"
    given: Input
    duck: Duck
    queries: Sequence[LogicalQuery]
    scratch: Path
    weft_runs: dict[Contender, list[WeftRun]] = field(default_factory=dict)

    def turns(self, mode: Mode) -> dict[Contender, Timed]:
        """Return the contenders: each takes its seconds for the whole year, or its median batch if live."""
        options, turns = self.options, dict[Contender, Timed]()
        if mode is Mode.REPLAY:
            turns[Contender.SCAN] = partial(run_scan, self.given, stream_columns(self.queries))
            turns[Contender.DUCKDB] = self._run_duck
        for contender in (Contender.WEFT, *(() if options.no_variants else _VARIANTS)):
            turns[contender] = partial(self._weft, contender, mode)
        if options.measured and mode is Mode.REPLAY:
            turns[Contender.SPARK_BATCH] = self._spark_batch
        if options.streaming:
            turns[Contender.SPARK_STREAM if mode is Mode.REPLAY else Contender.ONE_STREAM] = partial(
                self._spark_stream, mode
            )
        return turns

    def stages(self, contender: Contender) -> dict[str, float]:
        """Return where the time of the counted runs went, within batches and outside them: medians."""
        stages = [
            {
                "register": run.register_s,
                **run.stages_s,
                "the rest": run.stream_s - sum(run.stages_s.values()),
            }
            for run in self.weft_runs[contender][-self.options.repeats :]
        ]
        return {name: median(seconds.get(name, 0.0) for seconds in stages) for name in stages[-1]}

    def compare(self) -> Comparison:
        """Compare the rows of Weft's last run with DuckDB's."""
        if not self._duck_folder.is_dir():
            self._run_duck()
        compared = list[Comparison]()
        with progress(self.options.console) as bar:
            for query in bar.track(self.queries, description="comparing rows with DuckDB's"):
                weft = read_rows(self.scratch / Contender.WEFT.name / file_name(query.name))
                compared.append(
                    compare_rows(query.name, weft, read_rows(duck_file(self._duck_folder, query)))
                )
        return Comparison.pooled(compared)

    @property
    def _duck_folder(self) -> Path:
        return self.scratch / "duckdb"

    def _run_duck(self) -> float:
        return run_duck(self.duck, self.queries, self._duck_folder)

    def _weft(self, contender: Contender, mode: Mode) -> float:
        out = self.scratch / contender.name
        shutil.rmtree(out, ignore_errors=True)
        text = _TEXTS.get(contender, as_written)
        queries = [SqlQuery(name=query.name, sql=text(query)) for query in self.queries]
        settings = Settings(durable=contender is not Contender.NO_CHECKPOINT)
        with BatchTimes(self.given.spark) as times:
            run = run_weft(self.given, queries, settings=settings, out=out, keep=False)
            run.batch_s = times.settled()
        self.weft_runs.setdefault(contender, []).append(run)
        return run.seconds if mode is Mode.REPLAY else median(run.batch_s)

    def _spark_batch(self) -> float:
        """Run a sample one by one, and scale the mean to all queries."""
        chosen = sample(self.queries, self.options.measured)
        folder = self.scratch / "batch"
        return mean(run_batch(self.given, query, folder) for query in chosen) * len(self.queries)

    def _spark_stream(self, mode: Mode) -> float:
        """Run a sample one by one: the mean scaled to all queries, or the median of their median batches."""
        chosen = sample(self.queries, self.options.streaming)
        runs = [run_stream(self.given, query, self.scratch / "stream") for query in chosen]
        if mode is Mode.LIVE:
            return median(median(batch_s) for _, batch_s in runs)
        return mean(seconds for seconds, _ in runs) * len(self.queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboards(Bench[DashboardsResult]):
    """Dashboards and alerts over a year of flights, against DuckDB and ordinary Spark.

    Example: weft bench dashboards --mode replay -n 1 -n 4 -n 16 -n 60
    """

    offers = (
        "queries modes flights batches live_rows live_batches measured streaming no_variants repeats warmups "
        "workload json data cores"
    )
    pictures = ("dashboards",)
    queries: Queries = (60,)
    """How many of the workload, from the first on."""
    modes: Annotated[
        tuple[Mode, ...], Option("--mode", help="The year in few batches, or small ones; may be repeated.")
    ] = tuple(Mode)
    flights: Annotated[int, Option("--rows", help="The first flights of the year.", min=1000)] = YEAR_ROWS
    batches: Annotated[int, Option(help="Micro-batches of a replay.", min=1)] = 4
    live_rows: Annotated[int, Option(help="Flights in a live batch.", min=1)] = 1000
    live_batches: Annotated[int, Option(help="Live batches.", min=1)] = 40
    measured: Annotated[
        int, Option(help="Ordinary Spark batch queries that are measured; 0: none.", min=0)
    ] = 60  # fmt: skip
    streaming: Annotated[
        int, Option(help="Ordinary streaming queries that are measured; 0: none.", min=0)
    ] = 3  # fmt: skip
    no_variants: Annotated[
        bool, Option("--no-variants", help="Leave out Weft without a checkpoint, and without HAVING.")
    ] = False
    repeats: Repeats = 3
    warmups: Warmups = 3
    """Java compiles what it runs often: Weft's third round of 60 queries took 4.6 s, its second 5.2 s."""
    workload: Annotated[
        Path, Option(help="The queries.", show_default="examples/flights/workload.sql")
    ] = DEFAULT_WORKLOAD  # fmt: skip
    memory: str = DEFAULT_MEMORY

    def measure(self) -> Iterator[DashboardsResult]:
        """Measure the first queries of the workload, each number of them in each mode."""
        # What is not installed is told before an hour of measuring.
        duckdb()
        package_folder()
        known = read_dashboards(self.workload).queries
        with self.console.status("starting Spark, writing flights"):
            given = {mode: self._given(mode) for mode in self.modes}
        for mode, stream in given.items():
            duck = Duck(stream.dataset, stream.tables, threads=stream.cores)
            with stream.persisted() as held, closing(duck):
                for count in sorted(set(self.queries)):
                    yield self._measure(held, duck, mode, known[:count])

    def _given(self, mode: Mode) -> Input:
        """Return the stream as a mode takes it, and the static tables."""
        spark, tables = self.session(), make_tables(self.data)
        cores = spark.sparkContext.defaultParallelism
        if mode is Mode.REPLAY:
            # A file for each core and batch: a file of this size is one task's work.
            dataset = make_flights(self.data, rows=self.flights, files=self.batches * cores)
            return Input(spark=spark, dataset=dataset, files_per_trigger=cores, tables=tables)
        batches = min(self.live_batches, -(-self.flights // self.live_rows))
        dataset = make_live_flights(self.data, batch_rows=self.live_rows, batches=batches)
        return Input(spark=spark, dataset=dataset, files_per_trigger=1, tables=tables)

    def _measure(
        self, given: Input, duck: Duck, mode: Mode, queries: Sequence[LogicalQuery]
    ) -> DashboardsResult:
        rows = given.dataset.rows
        with given.folder() as scratch:
            contest = _Contest(self, given, duck, queries, scratch)
            self.console.print(f"{mode}, {len(queries)} queries over {rows:,} flights", style="bold")
            taken = self.alternate([(str(name), run) for name, run in contest.turns(mode).items()])
            compared = contest.compare()
        return DashboardsResult(
            bench=self, cores=given.cores, compared=compared, mode=mode, queries=len(queries),
            computing=sum(map(computes, queries)), rows=rows,
            batches=given.batches,
            runs_s={Contender(name): seconds for name, seconds in taken.items()},
            results={name: runs[-1].windows for name, runs in contest.weft_runs.items()},
            stages_s={name: contest.stages(name) for name in contest.weft_runs},
            batch_sample=min(self.measured, len(queries)),
            streaming_sample=min(self.streaming, len(queries)),
        )  # fmt: skip
