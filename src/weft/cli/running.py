"""What `weft run` does once its workload is checked: imported then, because Spark's modules take long."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track

from weft.cli.live import LiveView
from weft.cli.rewinding import asking
from weft.cli.stopping import Stop, await_end, say_leaving
from weft.cli.workload import load
from weft.engine import Engine
from weft.errors import EngineError
from weft.finals.results import result_schema
from weft.limits import DEFAULTS, Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.query import Statement
from weft.query.logical import SinkDef, SinkKind
from weft.sinks import DeliveryStatus, as_table
from weft.sinks.declared import short_form
from weft.spark.session.local import hush

_SHOWN_QUERIES = 5
_NAMED_QUERIES = 20
_QUERY_FAILED = 3
"""The exit code of a run that ended as asked, but without some of its queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a run shares work, where its state, results and set-aside rows go, and when it ends."""

    sharing: Sharing | None = Sharing.AUTO
    """None: each query is run on its own, as ordinary Spark."""
    slicing: Slicing = Slicing.PAIRED
    limits: Limits = DEFAULTS

    out: str | None
    checkpoint: str | None
    postgres: str | None = field(repr=False)  # it may hold a password
    quarantine: str | None
    late: str | None
    follow: bool
    flush: bool
    interval: str
    idle: str | None
    rewind: bool | None = None
    """Whether sinks are taken back to the checkpoint: True without asking, False after asking."""
    cores: int | None = None
    memory: str | None = None


def run_workload(statements: Sequence[Statement], options: Options, *, base: Path) -> None:
    """Answer the queries of a workload; relative paths start at `base`."""
    console = Console(stderr=True)
    with console.status("starting Spark"):
        engine = load(
            statements, base=base, slicing=options.slicing, sharing=options.sharing or Sharing.AUTO,
            cores=options.cores, memory=options.memory, limits=options.limits, sinks=short_forms(options),
            try_sinks=lambda engine, queries: engine.try_sinks(
                queries=queries, checkpoint=options.checkpoint, follow=options.follow
            ),
        )  # fmt: skip
        _ = engine.spark
    if options.sharing is None:
        _run_plain(engine)
    else:
        _run(console, engine, options)


def _run(console: Console, engine: Engine, options: Options) -> None:
    if options.follow and not engine.sinks and not (console.is_terminal and sys.stdout.isatty()):
        # On a terminal the live view shows the newest results.
        engine.sink("console", "console")
    _tell_unread(engine)
    keep = not options.follow and not engine.sinks
    stop = Stop(say_leaving)
    _run_streams(console, engine, options, stop, keep=keep)
    if stop.asked:
        console.print("stopped between batches" + ("" if options.follow else ", before the end of the input"))
    status, durable = engine.status(), options.checkpoint is not None
    check_delivered(status.sinks, durable=durable)
    if keep:
        names = list(engine.queries)
        for name in names[:_SHOWN_QUERIES]:
            _print(name, engine.results(name))
        if len(names) > _SHOWN_QUERIES:
            print(f"and {len(names) - _SHOWN_QUERIES:,} more queries; --out FOLDER keeps all results")
    elif not options.follow:
        targets = dict.fromkeys(sink.target for sink in engine.sinks.values())
        console.print(f"results of {len(engine.queries):,} queries in {', '.join(targets)}")
    failed = [name for stream in status.streams.values() for name in stream.failed]
    if failed:
        # Without the errors, which may hold values of rows.
        what = "query failed" if len(failed) == 1 else "queries failed"
        why = "weft show has the errors" + ("" if durable else " of a run with --checkpoint")
        print(f"{len(failed):,} {what} in this run: {_listed(failed)}; {why}", file=sys.stderr)
        raise typer.Exit(_QUERY_FAILED)


def _run_streams(console: Console, engine: Engine, options: Options, stop: Stop, *, keep: bool) -> None:
    """Run streams to their end, or until a stop is requested, with the live view."""
    rewind = options.rewind
    view, ended, clean = LiveView(console, engine.status), False, False
    with stop.listening(), view as observe:
        engine.start(
            checkpoint=options.checkpoint, quarantine=options.quarantine, late=options.late,
            on_batch=observe, keep=keep, follow=options.follow,
            interval=options.interval, idle=options.idle if options.follow else None,
            rewind=False if rewind is None else asking(console, yes=rewind, hidden=view.hidden),
        )  # fmt: skip
        try:
            ended = await_end(engine.wait, stop)
            clean = True
        finally:
            # A run over all data there is closes windows only if it came to their end.
            at_end = ended and (options.flush or options.checkpoint is None)
            hush(engine.spark)
            engine.stop(flush=clean and (options.flush if options.follow else at_end))


def check_delivered(sinks: Sequence[DeliveryStatus], *, durable: bool) -> None:
    """Raise EngineError if a sink has not taken all results of a run."""
    for status in sinks:
        if status.behind:
            fate = (
                "they wait in the checkpoint: mend it and start again"
                if durable
                else "they are lost, for there is no --checkpoint to keep them"
            )
            raise EngineError(
                f"sink {status.sink} has not taken the results of {status.behind:,} commits "
                f"({status.error or 'it is too slow'}); {fate}"
            )


def short_forms(options: Options) -> list[SinkDef]:
    """Return the sinks that `--out` and `--postgres` declare."""
    given = {SinkKind.PARQUET: options.out, SinkKind.POSTGRES: options.postgres}
    return [short_form(kind, value) for kind, value in given.items() if value is not None]


def _tell_unread(engine: Engine) -> None:
    """Print the names of queries that no sink gets, if there are sinks at all."""
    declared = engine.sinks.values()
    if declared and all(sink.queries for sink in declared):
        unread = [name for name in engine.queries if not any(name in sink.queries for sink in declared)]
        if unread:
            print(f"no sink is FOR {_listed(unread)}: their results are not kept", file=sys.stderr)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED_QUERIES:,} more" if len(names) > _NAMED_QUERIES else ""
    return ", ".join(names[:_NAMED_QUERIES]) + more


def _run_plain(engine: Engine) -> None:
    names = list(engine.queries)
    outlets = engine.outlets()
    for outlet in outlets:
        for name, query in engine.queries.items():
            outlet.expect(name, result_schema(query.logical))
        outlet.sink.resume(-1)
    for number, name in enumerate(track(names, description="ordinary Spark", console=Console(stderr=True))):
        rows = engine.run_plain(name)
        for outlet in outlets:
            outlet.sink.deliver(number, {name: rows} if outlet.gets(name) else {})
        if not outlets and number < _SHOWN_QUERIES:
            _print(name, rows)
    for outlet in outlets:
        outlet.sink.flush()
        outlet.sink.close()


def _print(name: str, rows: pa.Table) -> None:
    Console().print(as_table(name, rows, rows=10))
