"""The types of columns and expressions, with Spark's names and rules."""

import re
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """A family of values."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    NULL = "void"
    ARRAY = "array"
    """Lists: only results of aggregates have them; columns of arrays are OTHER."""
    STRUCT = "struct"
    """Named values together: only results of aggregates have them; columns of structs are OTHER."""
    OTHER = "other"
    """A type that queries cannot use (map, interval, columns of arrays, …)."""


MAX_PRECISION = 38
_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_AS_DECIMAL = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class DataType:
    """A type of values; precision and scale are those of a decimal, fields those of an array or struct."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    fields: "tuple[tuple[str, DataType], ...]" = ()
    """The names and types of a struct's fields; an array has one, named "element"."""
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.precision, self.scale, self.fields)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind is Kind.ARRAY:
            return f"array<{self.element}>"
        if self.kind is Kind.STRUCT:
            return f"struct<{','.join(f'{_written(name)}:{type}' for name, type in self.fields)}>"
        return str(self.kind)

    @property
    def is_nested(self) -> bool:
        """Whether a value consists of others."""
        return self.kind in (Kind.ARRAY, Kind.STRUCT)

    @property
    def element(self) -> "DataType":
        """The type of an array's elements."""
        [(_, type)] = self.fields
        return type

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers of a fixed width."""
        return self.kind in _BITS

    @property
    def bits(self) -> int:
        """The width of an integer type."""
        return _BITS[self.kind]

    @property
    def is_fractional(self) -> bool:
        """Whether values are binary floating point."""
        return self.kind in (Kind.FLOAT, Kind.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic applies."""
        return self.is_integer or self.is_fractional or self.kind is Kind.DECIMAL

    @property
    def is_time(self) -> bool:
        """Whether values are points in time."""
        return self.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)

    @property
    def is_text(self) -> bool:
        """Whether values are bytes."""
        return self.kind in (Kind.STRING, Kind.BINARY)

    def as_decimal(self) -> "DataType":
        """Return the decimal type that holds every value of an integer type."""
        return self if self.kind is Kind.DECIMAL else DataType(Kind.DECIMAL, _AS_DECIMAL[self.kind], 0)


BOOLEAN = DataType(Kind.BOOLEAN)
INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
NULL = DataType(Kind.NULL)


def array_of(element: DataType) -> DataType:
    """Return the type of arrays of a type.

    >>> str(array_of(struct_of(("value", STRING), ("count", BIGINT))))
    'array<struct<value:string,count:bigint>>'
    """
    return DataType(Kind.ARRAY, fields=(("element", element),))


def struct_of(*fields: tuple[str, DataType]) -> DataType:
    """Return the type of structs with these fields, given by name and type."""
    return DataType(Kind.STRUCT, fields=fields)


def _written(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def decimal(precision: int, scale: int) -> DataType:
    """Return a decimal type as Spark bounds it (precision at most 38, at least 6 digits of scale kept).

    >>> str(decimal(40, 10))
    'decimal(38,8)'
    """
    if precision <= MAX_PRECISION:
        return DataType(Kind.DECIMAL, precision, scale)
    whole = precision - scale
    return DataType(Kind.DECIMAL, MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))
