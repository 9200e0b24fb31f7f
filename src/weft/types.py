"""The types of columns and expressions, with Spark's names and rules."""

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
    OTHER = "other"
    """A type that queries cannot use (array, map, struct, …)."""


MAX_PRECISION = 38
_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_AS_DECIMAL = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}


@dataclass(frozen=True, slots=True)
class DataType:
    """A column's type; precision and scale are those of a decimal."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.kind, self.precision, self.scale)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return str(self.kind)

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


def decimal(precision: int, scale: int) -> DataType:
    """Return a decimal type as Spark bounds it (precision at most 38, at least 6 digits of scale kept).

    >>> str(decimal(40, 10))
    'decimal(38,8)'
    """
    if precision <= MAX_PRECISION:
        return DataType(Kind.DECIMAL, precision, scale)
    whole = precision - scale
    return DataType(Kind.DECIMAL, MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, 6)))
