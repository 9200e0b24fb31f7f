"""Streams, tables and functions by name: what queries may use, and the DataFrames behind it."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from weft.aggregates import aggregate
from weft.errors import EngineError, UnknownName, suggestion
from weft.notices import Failure, Notice, NoticeKind
from weft.query import check_stream
from weft.query.allowed_functions import SPELLINGS
from weft.query.logical import Catalog, FunctionDef, StreamDef, TableDef
from weft.spark.builders import BUILDERS
from weft.spark.columns import Udf
from weft.spark.input.rows import column_defs
from weft.spark.input.sources import TableReader, open_static, open_stream, typed_stream
from weft.spark.input.tables import StaticTable
from weft.types import Kind

_LOG = logging.getLogger("weft")
_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


@dataclass(slots=True)
class DeclaredStream:
    """A stream's definition, and its rows once they are needed."""

    definition: StreamDef
    frame: DataFrame | None = None
    """Given from Python, or opened from the definition's source."""
    base: Path | None = None
    """The folder that relative paths start at."""


class Tables(dict[str, StaticTable]):
    """The static tables by name."""

    @property
    def errors(self) -> Mapping[str, str]:
        """Why tables could not be read again, by name, until they can."""
        return {name: failure.text for name, failure in self._failures().items()}

    def notices(self) -> list[Notice]:
        """Return notices of tables that could not be read again."""
        kind = NoticeKind.TABLE_NOT_REFRESHED
        return [
            Notice(kind=kind, subject=name, error_kind=failure.kind, detail=failure.text)
            for name, failure in self._failures().items()
        ]

    def refresh_due(self) -> None:
        """Read tables again that were asked for or are due, and release what no job reads; before a batch."""
        for name, table in list(self.items()):
            if not table.refresh_if_due():
                # Logs leave out the reason, which may contain values of rows.
                message = "table %s keeps its old contents, for it cannot be read"
                _LOG.warning(message, name, extra={"table": name})
            table.sweep()

    def release(self) -> None:
        """Release all contents: nothing runs any more."""
        for table in self.values():
            table.release()

    def _failures(self) -> dict[str, Failure]:
        return {name: table.failure for name, table in list(self.items()) if table.failure is not None}


class Declarations:
    """All declared streams, tables and functions; a name is a stream or a table, never both."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self.streams: dict[str, DeclaredStream] = {}
        self.tables = Tables()
        self.functions: dict[str, Udf] = {}
        self._table_defs: dict[str, TableDef] = {}
        self._function_defs: dict[str, FunctionDef] = {}

    def catalog(self) -> Catalog:
        """Return the names that queries may use."""
        return Catalog(
            streams=tuple(stream.definition for stream in self.streams.values()),
            tables=tuple(self._table_defs.values()),
            functions=tuple(self._function_defs.values()),
        )

    def stream(
        self, definition: StreamDef, *, frame: DataFrame | None = None, base: Path | None = None
    ) -> None:
        """Declare a stream; columns that are not given are inferred from its rows."""
        self._claim(definition.name)
        if frame is not None:
            definition = typed_stream(definition, frame)
        elif definition.columns:
            check_stream(definition)
        else:
            definition, frame = open_stream(self._session(), definition, base)
        self.streams[definition.name] = DeclaredStream(definition, frame, base)

    def table(
        self, definition: TableDef, *, frame: DataFrame | None = None, base: Path | None = None
    ) -> None:
        """Declare a static table."""
        self._claim(definition.name)
        reopen = None
        if frame is None:
            reopen = TableReader(self._session(), definition, base)
            frame = reopen()
        self._table_defs[definition.name] = replace(definition, columns=column_defs(frame.schema))
        self.tables[definition.name] = StaticTable(
            frame, name=definition.name, reopen=reopen, refresh_ms=definition.refresh_ms
        )

    @property
    def session(self) -> SparkSession:
        """The Spark session, made if need be."""
        return self._session()

    def refresh(self, name: str) -> None:
        """Have a table read again before the next batch."""
        by_folded = {table.casefold(): table for table in self.tables}
        if name.casefold() not in by_folded:
            raise UnknownName(f'unknown table "{name}"{suggestion(name, self.tables)}')
        self.tables[by_folded[name.casefold()]].ask()

    def function(self, name: str, udf: Udf, returns: str) -> None:
        """Register a function under a name that the language does not use itself."""
        if not _FUNCTION_NAME.fullmatch(name):
            raise EngineError(f'function "{name}": a name is made of letters, digits and underscores')
        if not callable(udf):
            raise EngineError(
                f'function "{name}": a PySpark UDF is wanted, or a function from columns to a column; '
                f"this is {udf!r}"
            )
        is_scalar = name.casefold() in SPELLINGS or name.casefold() in BUILDERS
        if is_scalar or aggregate(name) is not None:
            raise EngineError(f'"{name}" is a function of the language already; choose another name')
        try:
            declared = getattr(udf, "returnType", None) or _parse_datatype_string(returns)
        except PySparkException as error:
            problem = f"returns={returns!r} is no type; write 'boolean' or 'double', for example"
            raise EngineError(f'function "{name}": {problem}') from error
        type = column_defs(StructType().add("value", declared))[0].type
        if type.kind is Kind.OTHER:
            problem = f"returns {declared.simpleString()}, which queries cannot use"
            raise EngineError(f'function "{name}" {problem}')
        self.functions[name.casefold()] = udf
        self._function_defs[name.casefold()] = FunctionDef(name=name.casefold(), type=type)

    def rows(self, name: str) -> DataFrame:
        """Return a stream's rows as they come."""
        stream = self.streams[name]
        if stream.frame is None:
            stream.definition, stream.frame = open_stream(self._session(), stream.definition, stream.base)
        return stream.frame

    def all_rows(self, name: str) -> DataFrame:
        """Return all rows that a stream has now, as a static DataFrame."""
        stream = self.streams[name]
        if stream.frame is not None and not stream.frame.isStreaming:
            return stream.frame
        return open_static(self._session(), stream.definition, stream.base)[1]

    def _claim(self, name: str) -> None:
        if name in self.streams or name in self.tables:
            raise EngineError(f'there is a stream or table "{name}" already; choose another name')
