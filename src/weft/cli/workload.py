"""Loads the statements of a workload file into an engine."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress
from operator import not_
from pathlib import Path

from weft.engine import Engine
from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.query import CreateQuery, CreateSink, Statement
from weft.query.logical import SinkDef
from weft.spark.session.local import local_session


def load(
    statements: Sequence[Statement],
    *,
    base: Path,
    slicing: Slicing,
    sharing: Sharing,
    limits: Limits,
    cores: int | None = None,
    memory: str | None = None,
    sinks: Iterable[SinkDef] = (),
    try_sinks: Callable[[Engine, Collection[str]], None] = lambda engine, queries: None,
) -> Engine:
    """Return an engine with a workload's streams, tables, queries and sinks, and with further `sinks`.

    Relative paths start at `base`. `try_sinks` gets the engine once it has sinks, and the names of the
    queries to come: nothing has started Spark by then.
    """
    engine = Engine(
        slicing=slicing,
        sharing=sharing,
        limits=limits,
        start_spark=lambda: local_session(cores=cores, memory=memory),
    )
    is_sink = [isinstance(statement, CreateSink) for statement in statements]
    engine.load(CreateSink(definition=sink) for sink in sinks)
    engine.load(compress(statements, is_sink), base=base)
    try_sinks(engine, [statement.name for statement in statements if isinstance(statement, CreateQuery)])
    engine.load(compress(statements, map(not_, is_sink)), base=base)
    return engine
