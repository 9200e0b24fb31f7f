"""The bench of everyday queries: a team's dashboards and alerts over a year of flights.

Everyone reads the same files and writes Parquet, in one process, by turns, after rounds that are not counted.
Starting Spark is nobody's time; static tables are in memory for all but Weft, which fetches them in its own.
Replay takes the whole year in few batches; live takes small batches one after another. Weft's rows are
compared with DuckDB's, query by query.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console

from weft.bench.dashboards_figures import Contender, Figures, Mode
from weft.bench.dashboards_queries import (
    DEFAULT_WORKLOAD,
    computes,
    keeping_text,
    plain_text,
    read_dashboards,
    sample,
)
from weft.bench.dashboards_runs import (
    Setting,
    WeftRun,
    as_written,
    duck_file,
    hold_tables,
    run_batch,
    run_duck,
    run_scan,
    run_stream,
    run_weft,
    weft_folder,
)
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.duck import Duck
from weft.bench.flights import YEAR_ROWS, make_flights, make_live_flights, make_tables
from weft.bench.measure import Timed, alternate, progress
from weft.bench.report import needs_matplotlib, publish
from weft.bench.report_dashboards import show_dashboards
from weft.bench.same_rows import difference, read_rows
from weft.query.logical import LogicalQuery
from weft.spark.session.local import local_session

_VARIANTS = (Contender.NO_CHECKPOINT, Contender.PLAIN, Contender.KEEPING)
_TEXTS = {Contender.PLAIN: plain_text, Contender.KEEPING: keeping_text}
"""What Weft is asked where it is not the query as written."""


class Modes(StrEnum):
    """Which ways of taking the stream are measured."""

    REPLAY = "replay"
    LIVE = "live"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the year is cut, how often each contender runs, and which run at all."""

    rows: int = YEAR_ROWS
    batches: int = 4
    """Of a replay."""
    live_rows: int = 1000
    """Of one batch."""
    live_batches: int = 40
    repeats: int = 3
    warmups: int = 3
    """Java compiles what it runs often: Weft's third round of 60 queries took 4.6 s, its second 5.2 s."""
    batch_queries: int = 60
    """How many queries run as ordinary Spark batch queries, at most; 0: none."""
    streaming_queries: int = 3
    """How many run as ordinary streaming queries."""
    variants: bool = True
    """Whether Weft also runs without a checkpoint, without HAVING and arithmetic, and with all rows kept."""


def run_dashboards(
    *,
    console: Console,
    queries: Sequence[int] = (60,),
    modes: Modes = Modes.BOTH,
    plan: Plan = Plan(),  # noqa: B008
    workload: Path = DEFAULT_WORKLOAD,
    json: Path | None = None,
    plot: Path | None = None,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
) -> list[Figures]:
    """Measure the first so many queries of the workload, for each number given."""
    needs_matplotlib(plot)
    known = read_dashboards(workload).queries
    with console.status("starting Spark, writing flights"):
        make = _Settings(data, plan, cores)
    found: list[Figures] = []
    for mode in (Mode.REPLAY, Mode.LIVE):
        if modes in (Modes.BOTH, Modes(mode)):
            setting = make.setting(mode)
            for count in sorted(set(queries)):
                found.append(_measure(setting, mode, known[:count], plan, console))
                show_dashboards(found[-1], console)
            setting.duck.close()
    if plot is not None:
        from weft.bench.plot_dashboards import plot_dashboards

        publish(found, json=json, plot=plot, draw=plot_dashboards, console=console)
    else:
        publish(found, json=json, plot=None, draw=lambda results, path: None, console=console)
    return found


class _Settings:
    """The session, the static tables, and the stream as each mode takes it."""

    def __init__(self, data: Path, plan: Plan, cores: int | None) -> None:
        self._data, self._plan = data, plan
        self._spark = local_session(cores=cores)
        self._cores = self._spark.sparkContext.defaultParallelism
        self._tables = make_tables(data)
        self._held = hold_tables(self._spark, self._tables)

    def setting(self, mode: Mode) -> Setting:
        """Return what contenders read in a mode."""
        plan = self._plan
        if mode is Mode.REPLAY:
            # A file for each core and batch: a file of this size is one task's work.
            dataset = make_flights(self._data, rows=plan.rows, files=plan.batches * self._cores)
            files = self._cores
        else:
            batches = min(plan.live_batches, -(-plan.rows // plan.live_rows))
            dataset = make_live_flights(self._data, batch_rows=plan.live_rows, batches=batches)
            files = 1
        return Setting(
            spark=self._spark,
            dataset=dataset,
            files_per_trigger=files,
            tables=self._tables,
            held=self._held,
            duck=Duck(dataset, self._tables, threads=self._cores),
        )


def _measure(
    setting: Setting, mode: Mode, queries: Sequence[LogicalQuery], plan: Plan, console: Console
) -> Figures:
    # Beside the data: where folders for temporary files are memory, a checkpoint costs nothing.
    with TemporaryDirectory(prefix=".weft-bench-", dir=setting.dataset.folder.parent) as scratch:
        bench = _Bench(setting, queries, plan, Path(scratch))
        turns = bench.replay_turns() if mode is Mode.REPLAY else bench.live_turns()
        named = [(str(name), run) for name, run in turns.items()]
        console.print(f"{mode}, {len(queries)} queries over {setting.dataset.rows:,} flights", style="bold")
        taken = alternate(named, repeats=plan.repeats, warmups=plan.warmups, console=console)
        differences = bench.compare(console)
        return Figures(
            mode=mode,
            queries=len(queries),
            computing=sum(map(computes, queries)),
            rows=setting.dataset.rows,
            batches=setting.batches,
            cores=setting.spark.sparkContext.defaultParallelism,
            runs_s={Contender(name): seconds.runs for name, seconds in taken.items()},
            warmup_s={Contender(name): seconds.warmups for name, seconds in taken.items()},
            results={name: runs[-1].results for name, runs in bench.weft_runs.items()},
            stages_s={name: _median_stages(runs[-plan.repeats :]) for name, runs in bench.weft_runs.items()},
            batch_sample=min(plan.batch_queries, len(queries)),
            streaming_sample=min(plan.streaming_queries, len(queries)),
            differences=tuple(differences),
        )


def _median_stages(runs: Sequence[WeftRun]) -> dict[str, float]:
    return {stage: median(run.stages.get(stage, 0.0) for run in runs) for stage in runs[-1].stages}


@dataclass(slots=True)
class _Bench:
    """One number of queries in one mode."""

    setting: Setting
    queries: Sequence[LogicalQuery]
    plan: Plan
    scratch: Path
    weft_runs: dict[Contender, list[WeftRun]] = field(default_factory=dict)

    def replay_turns(self) -> dict[Contender, Timed]:
        """Return who takes part: each turn tells the seconds of the whole year."""
        turns: dict[Contender, Timed] = {
            Contender.SCAN: lambda: run_scan(self.setting, self.queries, self.scratch / "scan"),
            Contender.DUCKDB: self._duck,
            Contender.WEFT: self._weft(Contender.WEFT, lambda run: run.seconds),
        }
        if self.plan.variants:
            for variant in _VARIANTS:
                turns[variant] = self._weft(variant, lambda run: run.seconds)
        if self.plan.batch_queries:
            turns[Contender.SPARK_BATCH] = self._spark_batch
        if self.plan.streaming_queries:
            turns[Contender.SPARK_STREAM] = self._spark_stream
        return turns

    def live_turns(self) -> dict[Contender, Timed]:
        """Return who takes part: each turn tells the median seconds of a batch."""
        turns: dict[Contender, Timed] = {
            Contender.WEFT: self._weft(Contender.WEFT, lambda run: median(run.batch_s)),
        }
        if self.plan.variants:
            for variant in _VARIANTS:
                turns[variant] = self._weft(variant, lambda run: median(run.batch_s))
        if self.plan.streaming_queries:
            turns[Contender.ONE_STREAM] = self._one_stream
        return turns

    def compare(self, console: Console) -> list[str]:
        """Return how the rows of Weft's last run differ from DuckDB's."""
        if not self._duck_folder.is_dir():
            self._duck()
        found = []
        with progress(console) as bar:
            task = bar.add_task("comparing rows with DuckDB's", total=len(self.queries))
            for query in self.queries:
                weft = read_rows(weft_folder(self.scratch / Contender.WEFT.name, query))
                problem = difference(query.name, weft, read_rows(duck_file(self._duck_folder, query)))
                found += [] if problem is None else [problem]
                bar.advance(task)
        return found

    @property
    def _duck_folder(self) -> Path:
        return self.scratch / "duckdb"

    def _duck(self) -> float:
        return run_duck(self.setting, self.queries, self._duck_folder)

    def _weft(self, contender: Contender, told: Callable[[WeftRun], float]) -> Timed:
        def run() -> float:
            taken = run_weft(
                self.setting,
                self.queries,
                self.scratch / contender.name,
                durable=contender is not Contender.NO_CHECKPOINT,
                text=_TEXTS.get(contender, as_written),
            )
            self.weft_runs.setdefault(contender, []).append(taken)
            return told(taken)

        return run

    def _spark_batch(self) -> float:
        """Run a sample one by one; what all would take is scaled by the mean."""
        chosen = sample(self.queries, self.plan.batch_queries)
        seconds = [run_batch(self.setting, query, self.scratch / "batch") for query in chosen]
        return sum(seconds) / len(seconds) * len(self.queries)

    def _spark_stream(self) -> float:
        chosen = sample(self.queries, self.plan.streaming_queries)
        seconds = [run_stream(self.setting, query, self.scratch / "stream").seconds for query in chosen]
        return sum(seconds) / len(seconds) * len(self.queries)

    def _one_stream(self) -> float:
        """Return the median batch of one ordinary query: the median over a sample of them."""
        chosen = sample(self.queries, self.plan.streaming_queries)
        runs = [run_stream(self.setting, query, self.scratch / "stream") for query in chosen]
        return median(median(run.batch_s) for run in runs)
