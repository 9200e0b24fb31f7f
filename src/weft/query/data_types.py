"""The names of types, in CREATE statements and CAST."""

from weft.errors import TypeMismatch, UnknownName, suggestion
from weft.query.cursor import Cursor
from weft.query.lexer import TokenKind
from weft.types import MAX_PRECISION, DataType, Kind

_NAMES: dict[str, Kind] = {
    "BOOLEAN": Kind.BOOLEAN, "BOOL": Kind.BOOLEAN,
    "TINYINT": Kind.TINYINT, "BYTE": Kind.TINYINT,
    "SMALLINT": Kind.SMALLINT, "SHORT": Kind.SMALLINT,
    "INT": Kind.INT, "INTEGER": Kind.INT,
    "BIGINT": Kind.BIGINT, "LONG": Kind.BIGINT,
    "FLOAT": Kind.FLOAT, "REAL": Kind.FLOAT, "DOUBLE": Kind.DOUBLE,
    "DECIMAL": Kind.DECIMAL, "DEC": Kind.DECIMAL, "NUMERIC": Kind.DECIMAL,
    "STRING": Kind.STRING, "TEXT": Kind.STRING, "VARCHAR": Kind.STRING, "CHAR": Kind.STRING,
    "BINARY": Kind.BINARY, "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP, "TIMESTAMP_LTZ": Kind.TIMESTAMP, "TIMESTAMP_NTZ": Kind.TIMESTAMP_NTZ,
}  # fmt: skip
_NESTED = frozenset({"ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL"})
_SIZED = frozenset({"VARCHAR", "CHAR"})


def data_type(cursor: Cursor) -> DataType:
    """Read a type."""
    token, span = cursor.token, cursor.span()
    if token.key in _NESTED:
        raise TypeMismatch(f"queries cannot use type {token.key}; leave the column out", span=span)
    if token.kind is not TokenKind.WORD:
        raise cursor.mistake("expected a type")
    kind = _NAMES.get(token.key)
    if kind is None:
        raise UnknownName(f'unknown type "{token.text}"{suggestion(token.key, _NAMES)}', span=span)
    cursor.advance()
    if token.key in _SIZED and cursor.accept("("):
        _whole_number(cursor)
        cursor.expect(")")
    if kind is not Kind.DECIMAL:
        return DataType(kind)
    start, precision, scale = cursor.index, 10, 0
    if cursor.accept("("):
        precision = _whole_number(cursor)
        scale = _whole_number(cursor) if cursor.accept(",") else 0
        cursor.expect(")")
    if not (1 <= precision <= MAX_PRECISION and scale <= precision):
        problem = (
            f"DECIMAL({precision},{scale}) does not exist; at most {MAX_PRECISION} digits, scale included"
        )
        raise TypeMismatch(problem, span=cursor.span_from(start))
    return DataType(Kind.DECIMAL, precision, scale)


def _whole_number(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind is not TokenKind.NUMBER or not token.text.isdecimal() or len(token.text) > 6:
        raise cursor.mistake("expected a whole number")
    return int(cursor.advance().text)
