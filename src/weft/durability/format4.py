"""How commits of format 4 named what they held: by hashes of what Python printed of it at that time.

The words of these texts are those of the classes and fields of then, whatever they are called now. Commits of
that format are read, and never written.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from weft.aggregates import Primitive
from weft.expression import Call, Column, Literal, Slot
from weft.optimizer.plan import Grouping
from weft.predicates import Cut, Formula, Values
from weft.predicates import formula as formulas
from weft.query.logical import Join, StreamDef
from weft.types import DataType


def predicate_name(predicate: Formula) -> str:
    """Return the name that a predicate had."""
    return sha256(_printed(predicate).encode()).hexdigest()[:32]


def primitive_name(primitive: Primitive) -> str:
    """Return the name that a primitive had."""
    return _printed(primitive)


def grouping_name(grouping: Grouping) -> str:
    """Return the name that a grouping had."""
    return sha256(_printed(grouping).encode()).hexdigest()[:16]


def stream_text(stream: StreamDef) -> str:
    """Return what was stored of a stream's declaration."""
    columns = ", ".join(f"{column.name} {_type_text(column.type)}" for column in stream.columns)
    unit = f" UNIT '{stream.time_unit.value}'" if stream.time_unit else ""
    return f"({columns}) EVENT TIME {stream.time}{unit}"


def _type_text(type: DataType) -> str:
    bounds = f"({type.precision},{type.scale})" if type.kind.value == "decimal" else ""
    return f"{type.kind.value}{bounds}"


def _printed(value: Any) -> str:
    printer = _PRINTERS.get(type(value))
    return repr(value) if printer is None else printer(value)


def _object(of: str, /, **fields: Any) -> str:
    return f"{of}({', '.join(f'{field}={_printed(value)}' for field, value in fields.items())})"


def _tuple(values: tuple[Any, ...]) -> str:
    inner = ", ".join(map(_printed, values))
    return f"({inner},)" if len(values) == 1 else f"({inner})"


class _Choice(str):
    """A member of an enumeration, printed in full."""


def _choice(name: str, value: str) -> _Choice:
    return _Choice(f"<{name}.{'NULL' if value == 'void' else value.upper()}: {value!r}>")


def _primitive(primitive: Primitive) -> str:
    return _object(
        "Primitive", lifts=primitive.lifts, argument=next(iter(primitive.arguments), None),
        combine=_choice("Combine", primitive.combine.name), types=primitive.types,
    )  # fmt: skip


def _join(join: Join) -> str:
    kind = _choice("JoinKind", join.kind.value)
    return _object("Join", table=join.table, alias=join.alias, kind=kind, on=join.on)


_PRINTERS: Mapping[type, Callable[[Any], str]] = {
    tuple: _tuple,
    _Choice: str,
    DataType: lambda type: _object(
        "DataType", kind=_choice("Kind", type.kind.value), precision=type.precision, scale=type.scale
    ),
    Column: lambda column: _object("Column", name=column.name, type=column.type),
    Literal: lambda literal: _object("Literal", value=literal.value, type=literal.type),
    Call: lambda call: _object("Call", function=call.function, args=call.args, type=call.type),
    Slot: lambda slot: _object(
        "Slot", kind=_choice("SlotKind", slot.kind.value), index=slot.index, type=slot.type
    ),
    Cut: lambda cut: _object("Cut", value=cut.value, after=cut.after),
    Values: lambda values: _object("Values", lowest=values.lowest, cuts=values.cuts, null=values.null),
    formulas.Test: lambda test: _object("Test", expression=test.expression, values=test.values),
    formulas.All: lambda formula: _object("All", parts=formula.parts),
    formulas.Any: lambda formula: _object("Any", parts=formula.parts),
    Primitive: _primitive,
    Join: _join,
}
