"""Sinks as they are declared, in a workload or in Python; each stream gets an instance of its own."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import EngineError, UnknownName, UserError
from weft.query.checking import unknown_query
from weft.query.logical import SinkDef, SinkKind
from weft.sinks.immediate import ConsoleSink
from weft.sinks.parquet import ParquetSink
from weft.sinks.postgres import PostgresSink
from weft.sinks.sink import Expecting, Placed, Sink, SinkError, Trying
from weft.storage import LocalFolder, is_local, open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeSink = Callable[[], Sink]
"""Makes a sink; each stream has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A sink of one stream with its queries; sinks that do not care are told nothing of these."""

    sink: Sink
    queries: frozenset[str] = frozenset()
    """The queries whose results it gets; empty for all."""

    def gets(self, query: str) -> bool:
        """Say whether the sink gets the results of a query."""
        return not self.queries or query in self.queries

    def check_free(self, query: str) -> None:
        """Raise an error if a query may not join."""
        if self.gets(query) and isinstance(self.sink, Expecting):
            self.sink.check_free(query)

    def expect(self, query: str, schema: pa.Schema) -> None:
        """Let the sink prepare for a query."""
        if self.gets(query) and isinstance(self.sink, Expecting):
            self.sink.expect(query, schema)

    def expect_no_more(self, query: str) -> None:
        """Let the sink release what it prepared for a query that has left."""
        if self.gets(query) and isinstance(self.sink, Expecting):
            self.sink.expect_no_more(query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a sink may need of the engine that makes it."""

    run: str
    """The history that commits are counted in without a checkpoint: the run's id, a space, the stream."""
    session: "Callable[[], SparkSession]"
    """Returns the Spark session, for folders of Hadoop's file systems."""


Make = Callable[[Surroundings], Sink]
Excused = Callable[[str, UserError], bool]
"""Says whether a start goes on though a sink, given by its name, has an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSink:
    """A declared sink, which each stream makes an instance of."""

    name: str
    make: Make = field(repr=False)
    queries: frozenset[str] = frozenset()
    """The queries whose results it gets; empty for all."""
    target: str
    """What it writes to, for messages."""
    by_kind: bool = True
    """Whether it is one of Weft's own, of which instances may be made to be tried and thrown away."""
    needs_spark: bool = False

    def outlet(self, surroundings: Surroundings) -> Outlet:
        """Return an instance with its queries."""
        return Outlet(sink=self.make(surroundings), queries=self.queries)


def declared_sink(definition: SinkDef, base: Path | None = None) -> DeclaredSink:
    """Return the sink that a definition declares; relative paths start at `base`."""
    return _KINDS[definition.kind](definition, base)


_SHORT_FORMS: Mapping[SinkKind, str] = {SinkKind.PARQUET: "path", SinkKind.POSTGRES: "connection"}
"""The kinds that `--out` and `--postgres` declare, with the option that these give."""


def short_form(kind: SinkKind, value: str) -> SinkDef:
    """Return the sink that `--out` or `--postgres` declares; it is named like its kind."""
    return SinkDef(name=kind.value, kind=kind, options=((_SHORT_FORMS[kind], value),))


def check_name(name: str, taken: Collection[str]) -> None:
    """Raise EngineError if there is a sink of this name already."""
    if name in taken:
        short = " (--out is the sink parquet, and --postgres the sink postgres)"
        hint = short if name in _SHORT_FORMS else ""
        raise EngineError(f'there is a sink "{name}" already{hint}; choose another name')


def given_sink(
    given: Sink | MakeSink, *, name: str = "", queries: Collection[str] = frozenset()
) -> DeclaredSink:
    """Return a sink of the user's own, or the function that makes one, as a declared sink."""

    def make(surroundings: Surroundings) -> Sink:
        # A class of sinks has all attributes of a sink, but makes them.
        sink = given() if isinstance(given, type) or not isinstance(given, Sink) else given
        if name and sink.name != name:
            raise EngineError(
                f'sink "{name}" calls itself "{sink.name}"; give both the same name: '
                f'{type(sink).__name__}(…, name="{name}")'
            )
        return sink

    return DeclaredSink(
        name=name, make=make, queries=frozenset(queries), target=name or "a function", by_kind=False
    )


def try_out(outlets: Iterable[Outlet], *, excused: Excused) -> None:
    """Try sinks before any row is read; raise the SinkError of one, unless it is excused."""
    for outlet in outlets:
        if isinstance(outlet.sink, Trying):
            try:
                outlet.sink.try_out()
            except SinkError as error:
                if not excused(outlet.sink.name, error):
                    raise


def check_places(outlets: Iterable[Outlet]) -> None:
    """Raise EngineError if two sinks write to the same place, or one to a folder inside another's."""
    placed: dict[str, str] = {}
    for sink in (outlet.sink for outlet in outlets):
        if isinstance(sink, Placed):
            other = placed.setdefault(sink.place, sink.name)
            if other != sink.name:
                raise EngineError(
                    f"sinks {other} and {sink.name} both write to {sink.place}, where results would get "
                    "mixed up; give each a place of its own, or make them one sink"
                )
    for (outer, owner), (inner, name) in permutations(placed.items(), 2):
        # A query may be named like the folder inside, today or later.
        if inner.startswith(outer.rstrip("/") + "/"):
            raise EngineError(
                f"sink {name} writes to {inner}, inside the folder {outer} of sink {owner}, where results "
                "would get mixed up; give each a folder of its own"
            )


def check_queries(
    sinks: Iterable[DeclaredSink], known: Collection[str], *, excused: Excused = lambda sink, error: False
) -> None:
    """Raise UnknownName if a sink is for a query that is not known, unless it is excused."""
    for sink in sinks:
        for query in sorted(sink.queries.difference(known)):
            error = UnknownName(unknown_query(sink.name, query, known))
            if not excused(sink.name, error):
                raise error


def _parquet(definition: SinkDef, base: Path | None) -> DeclaredSink:
    path = dict(definition.options)["path"]
    local = is_local(path)
    if local and base is not None:
        path = str(base / path)

    def make(surroundings: Surroundings) -> Sink:
        folder = open_folder(path, surroundings.session)
        if isinstance(folder, LocalFolder):
            _refuse_file(definition.name, folder.path)
        return ParquetSink(folder, run=surroundings.run, name=definition.name)

    return _declared(definition, make, target=path, needs_spark=not local)


def _refuse_file(name: str, path: Path) -> None:
    """Raise EngineError if a path is a file, or lies below one: trying again would not help."""
    found = next((parent for parent in (path, *path.parents) if parent.exists()), path)
    if found.exists() and not found.is_dir():
        below = "" if found == path else f", so there can be no folder {path}"
        raise EngineError(
            f"sink {name}: {found} is a file, and no folder{below}; give another --out, or path in OPTIONS"
        )


def _postgres(definition: SinkDef, base: Path | None) -> DeclaredSink:
    def make(surroundings: Surroundings) -> Sink:
        return PostgresSink(_connection(definition), name=definition.name)

    return _declared(definition, make, target="PostgreSQL")


def _connection(definition: SinkDef) -> str:
    options = dict(definition.options)
    if "connection" in options:
        return options["connection"]
    variable = options["connection_env"]
    found = os.environ.get(variable)
    if not found:
        raise SinkError(
            f"sink {definition.name}: the environment variable {variable} is not set; set it to a connection "
            "string, such as postgresql://user:password@host:5432/database"
        )
    return found


def _console(definition: SinkDef, base: Path | None) -> DeclaredSink:
    return _declared(definition, lambda surroundings: ConsoleSink(name=definition.name), target="the console")


def _declared(definition: SinkDef, make: Make, *, target: str, needs_spark: bool = False) -> DeclaredSink:
    return DeclaredSink(
        name=definition.name, make=make, queries=frozenset(definition.queries), target=target,
        needs_spark=needs_spark,
    )  # fmt: skip


_KINDS: Mapping[SinkKind, Callable[[SinkDef, Path | None], DeclaredSink]] = {
    SinkKind.PARQUET: _parquet, SinkKind.POSTGRES: _postgres, SinkKind.CONSOLE: _console,
}  # fmt: skip
