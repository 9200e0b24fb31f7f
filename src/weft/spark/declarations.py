"""Streams, tables and functions by name: what queries may use, and the DataFrames behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from weft.aggregates import aggregate
from weft.errors import EngineError
from weft.query import check_stream
from weft.query.functions import SPELLINGS
from weft.query.logical import Catalog, FunctionDef, StreamDef, TableDef
from weft.spark.columns import Udf
from weft.spark.schemas import column_defs
from weft.spark.sources import open_static, open_stream, open_table, typed_stream
from weft.spark.tables import StaticTable


@dataclass(slots=True)
class DeclaredStream:
    """A stream's definition, and its rows once they are asked for."""

    definition: StreamDef
    frame: DataFrame | None = None
    """Given from Python, or opened from the definition's source."""
    base: Path | None = None
    """Where a relative path starts."""


class Declarations:
    """All that has been declared; a name is a stream or a table, never both."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self.streams: dict[str, DeclaredStream] = {}
        self.tables: dict[str, StaticTable] = {}
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
        """Declare a stream; without columns, they are read off its rows."""
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
        if frame is None:
            definition, frame = open_table(self._session(), definition, base)
        else:
            definition = TableDef(name=definition.name, columns=column_defs(frame.schema))
        self._table_defs[definition.name] = definition
        self.tables[definition.name] = StaticTable(frame)

    def function(self, name: str, udf: Udf, returns: str) -> None:
        """Register a function under a name that the language does not use itself."""
        if name.casefold() in SPELLINGS or aggregate(name) is not None:
            raise EngineError(f'"{name}" is a function of the language already; choose another name')
        declared = getattr(udf, "returnType", None) or _parse_datatype_string(returns)
        type = column_defs(StructType().add("value", declared))[0].type
        self.functions[name.casefold()] = udf
        self._function_defs[name.casefold()] = FunctionDef(name=name.casefold(), type=type)

    def rows(self, name: str) -> DataFrame:
        """Return a stream's rows as they come."""
        stream = self.streams[name]
        if stream.frame is None:
            stream.definition, stream.frame = open_stream(self._session(), stream.definition, stream.base)
        return stream.frame

    def all_rows(self, name: str) -> DataFrame:
        """Return all there is of a stream now, as a static DataFrame."""
        stream = self.streams[name]
        if stream.frame is not None and not stream.frame.isStreaming:
            return stream.frame
        return open_static(self._session(), stream.definition, stream.base)[1]

    def _claim(self, name: str) -> None:
        if name in self.streams or name in self.tables:
            raise EngineError(f'there is a stream or table "{name}" already; choose another name')
