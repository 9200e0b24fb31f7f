"""Scalar expressions in DuckDB's SQL, with Spark's results.

Decimals are doubles here: DuckDB divides decimals as doubles anyway, and comparing rows allows for that. What
overflows is an error in DuckDB where Weft has NULL, so that it cannot pass unnoticed.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType

from weft.errors import UserError
from weft.expression import Call, Column, Expression, Literal, Slot
from weft.types import DataType, Kind

_DIGITS = 12
"""From this many digits after the point on, decimals are as good as doubles to 1e-9."""
Render = Callable[[Call, list[str]], str]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES = MappingProxyType(
    {
        Kind.BOOLEAN: "BOOLEAN",
        Kind.TINYINT: "TINYINT",
        Kind.SMALLINT: "SMALLINT",
        Kind.INT: "INTEGER",
        Kind.BIGINT: "BIGINT",
        Kind.FLOAT: "FLOAT",
        Kind.DOUBLE: "DOUBLE",
        Kind.DECIMAL: "DOUBLE",
        Kind.STRING: "VARCHAR",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMPTZ",
    }
)


def render(expression: Expression, name: Callable[[Column | Slot], str]) -> str:
    """Return an expression as SQL; `name` says what columns and slots are called."""
    if isinstance(expression, Literal):
        return _literal(expression)
    if not isinstance(expression, Call):
        if expression.type.kind is Kind.DECIMAL and isinstance(expression, Column):
            raise UserError(f"column {expression.name}: decimals are not translated to DuckDB")
        return name(expression)
    builder = _RENDER.get(expression.function)
    if builder is None:
        raise UserError(f"function {expression.function} is not translated to DuckDB")
    return builder(expression, [render(argument, name) for argument in expression.args])


def duck_type(type: DataType) -> str:
    """Return DuckDB's name of a type."""
    if type.kind not in _TYPES:
        raise UserError(f"type {type} is not translated to DuckDB")
    return _TYPES[type.kind]


def quoted(name: str) -> str:
    """Return a name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Return a string constant."""
    return "'" + value.replace("'", "''") + "'"


def _literal(constant: Literal) -> str:
    value = constant.value
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return f"make_timestamptz({(moment - _EPOCH) // timedelta(microseconds=1)})"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float | Decimal):
        return f"CAST({float(value)!r} AS DOUBLE)"
    return f"CAST({value!r} AS {duck_type(constant.type)})"


def _operator(symbol: str) -> Render:
    return lambda call, args: f"({args[0]} {symbol} {args[1]})"


def _joined(symbol: str) -> Render:
    return lambda call, args: "(" + f" {symbol} ".join(args) + ")"


def _call(name: str) -> Render:
    return lambda call, args: f"{name}({', '.join(args)})"


def _cast_call(name: str) -> Render:
    return lambda call, args: f"CAST({name}({', '.join(args)}) AS {duck_type(call.type)})"


def _divide(call: Call, args: list[str]) -> str:
    quotient = f"(CAST({args[0]} AS DOUBLE) / nullif(CAST({args[1]} AS DOUBLE), 0))"
    coarse = call.type.kind is Kind.DECIMAL and call.type.scale < _DIGITS
    return _rounded(quotient, call.type.scale) if coarse else quotient


def _case(call: Call, args: list[str]) -> str:
    pairs = zip(args[0:-1:2], args[1::2], strict=True)
    branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CAST(CASE {branches} ELSE {args[-1]} END AS {duck_type(call.type)})"


def _round(call: Call, args: list[str]) -> str:
    scale = call.args[1] if len(call.args) > 1 else None
    digits = int(str(scale.value)) if isinstance(scale, Literal) else 0
    if call.type.is_integer:
        return f"CAST(round({args[0]}, {digits}) AS {duck_type(call.type)})"
    return _rounded(args[0], digits)


def _rounded(value: str, digits: int) -> str:
    """Round half up by the digits that a double is printed with, as Spark does.

    DuckDB multiplies first, so that 0.285 becomes 28.499999999999996. Only what is near a half is printed.
    """
    power = f"1e{digits}"
    near_half = f"abs(abs({value} * {power}) % 1 - 0.5) < 1e-6"
    printed = f"CAST(CAST(CAST({value} AS VARCHAR) AS DECIMAL(38, {max(digits, 0)})) AS DOUBLE)"
    return f"(CASE WHEN {near_half} THEN {printed} ELSE round({value}, {digits}) END)"


def _like(name: str) -> Render:
    return lambda call, args: rf"({args[0]} {name} {args[1]} ESCAPE '\')"


_SAME = (
    "abs sqrt exp ln log10 pow isnan upper lower length trim ltrim rtrim substring replace left right "
    "contains concat concat_ws split_part translate repeat md5 last_day "
    "cbrt sin cos tan atan atan2 degrees radians"
)
"""Functions that have the same name and type in DuckDB."""
_CAST = (
    "coalesce greatest least floor ceil sign year month day hour minute second date_trunc quarter "
    "dayofyear weekofyear ascii"
)
"""Functions that have the same name there, and another type."""
_RENDER: Mapping[str, Render] = MappingProxyType(
    {
        **{name: _operator(name) for name in "+ - * = <> < <= > >=".split()},
        **{name: _call(name) for name in _SAME.split()},
        **{name: _cast_call(name) for name in _CAST.split()},
        "<=>": _operator("IS NOT DISTINCT FROM"),
        "/": _divide,
        "%": lambda call, args: f"({args[0]} % nullif({args[1]}, 0))",
        "div": lambda call, args: f"CAST({args[0]} // nullif({args[1]}, 0) AS BIGINT)",
        "neg": lambda call, args: f"(-{args[0]})",
        "and": _joined("AND"),
        "or": _joined("OR"),
        "not": lambda call, args: f"(NOT {args[0]})",
        "is_null": lambda call, args: f"({args[0]} IS NULL)",
        "in": lambda call, args: f"({args[0]} IN ({', '.join(args[1:])}))",
        "like": _like("LIKE"),
        "ilike": _like("ILIKE"),
        "rlike": _call("regexp_matches"),
        "case": _case,
        "cast": lambda call, args: f"TRY_CAST({args[0]} AS {duck_type(call.type)})",
        "round": _round,
        "regexp_extract": lambda call, args: (
            f"regexp_extract({args[0]}, {args[1]}, {args[2] if args[2:] else 1})"
        ),
        "instr": lambda call, args: f"CAST(instr({args[0]}, {args[1]}) AS INTEGER)",
        "datediff": lambda call, args: f"CAST(CAST({args[0]} AS DATE) - CAST({args[1]} AS DATE) AS INTEGER)",
        "date_add": lambda call, args: f"(CAST({args[0]} AS DATE) + CAST({args[1]} AS INTEGER))",
        "date_sub": lambda call, args: f"(CAST({args[0]} AS DATE) - CAST({args[1]} AS INTEGER))",
        "startswith": _call("starts_with"),
        "endswith": _call("ends_with"),
        "dayofweek": lambda call, args: f"CAST(dayofweek({args[0]}) + 1 AS INTEGER)",
        "to_date": lambda call, args: f"TRY_CAST({args[0]} AS DATE)",
        "unix_seconds": lambda call, args: f"CAST(floor(epoch_us({args[0]}) / 1e6) AS BIGINT)",
        "unix_millis": lambda call, args: f"CAST(floor(epoch_us({args[0]}) / 1e3) AS BIGINT)",
        "unix_micros": lambda call, args: f"epoch_us({args[0]})",
    }
)
"""Each function of the language that is translated, by its canonical name."""
