"""Names under which expressions, predicates, primitives and groupings are stored.

A name is JSON: a list that begins with a word of its own, and never with the name of a class or a field.

    vol > 50000 and symbol = 'A'

    ["all", ["test", ["column", "symbol", "string"], [false, false, [["bytes", "41"], false], …]],
            ["test", ["column", "vol", "bigint"], [false, false, [50000, true]]]]

Different objects have different names, and equal objects equal ones, in every run and version. To store
another class, add how it is written and read to the two tables at the end. A name once stored is never given
another meaning: what means something else gets another word.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from weft.aggregates import COMBINES, SKETCHES, Combine, Primitive
from weft.errors import InternalError, WeftError
from weft.expression import Call, Column, Expression, Literal, Scalar, Slot, SlotKind
from weft.optimizer.plan import Grouping
from weft.predicates import formula as formulas
from weft.predicates import values as sets
from weft.query.allowed_functions import FUNCTIONS
from weft.query.logical import Join, JoinKind
from weft.types import DataType, Kind

Encoded = Any
"""What JSON can hold."""
_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)
_EXACT = Context(prec=100)
_SHOWN = 200
"""Maximum number of characters of a name in an error."""
_LIFTS = frozenset(
    "count sum min max avg mean var_pop bag timed_bag bit_and bit_or bit_xor product skewness kurtosis "
    "covar_pop earliest earliest_known latest latest_known".split()
)
"""The functions that compute the fields of primitives."""
_TYPE = re.compile(r"(?P<kind>[a-z_]+)(?:\((?P<bounds>\d+,\d+)\))?")
_NAME = json.JSONDecoder()
_PREDICATE_NAMES: WeakKeyDictionary[formulas.Formula, str] = WeakKeyDictionary()
"""Names found before: every new plan asks for those of all its predicates."""


class Unknown(WeftError):
    """A stored name has a word that this version does not know; the text says which."""


def predicate_name(predicate: formulas.Formula) -> str:
    """Return the name of a predicate."""
    name = _PREDICATE_NAMES.get(predicate)
    if name is None:
        name = _PREDICATE_NAMES[predicate] = _text(encoded(predicate))
    return name


@lru_cache(maxsize=4096)
def primitive_name(primitive: Primitive) -> str:
    """Return the name of a primitive."""
    return _text(encoded(primitive))


@lru_cache(maxsize=1024)
def grouping_name(grouping: Grouping) -> str:
    """Return the name of what is joined and of the keys, in the order in which blocks have them."""
    joins, keys = grouping
    return _text(["grouping", list(map(encoded, joins)), list(map(encoded, keys))])


def read_predicate(name: str) -> formulas.Formula:
    """Return the predicate of a name; raise Unknown if this version cannot tell which it is."""
    return _whole(name, _formula, "predicate")


def read_primitive(name: str) -> Primitive:
    """Return the primitive of a name; raise Unknown if this version cannot tell which it is."""
    found: Primitive = _whole(name, lambda stored: _read(stored, ("primitive",)), "primitive")
    return found


def read_grouping(name: str) -> Grouping:
    """Return the grouping of a name; raise Unknown if this version cannot tell which it is."""

    def read(stored: Encoded) -> Grouping:
        word, joins, keys = stored
        if word != "grouping":
            raise Unknown(f'grouping "{word}"')
        return tuple(_read(join, ("join",)) for join in joins), tuple(map(_expression, keys))

    return _whole(name, read, "grouping")


def type_name(type: DataType) -> str:
    """Return the name of a type.

    >>> type_name(DataType(Kind.BIGINT)), type_name(DataType(Kind.DECIMAL, 10, 2))
    ('bigint', 'decimal(10,2)')
    >>> type_name(DataType(Kind.STRUCT, fields=(("value", DataType(Kind.STRING)),)))
    'struct<"value":string>'
    """
    kind = type.kind.value
    if type.is_nested:
        return f"{kind}<{','.join(f'{json.dumps(name)}:{type_name(field)}' for name, field in type.fields)}>"
    return f"{kind}({type.precision},{type.scale})" if type.precision or type.scale else kind


def only(record: Mapping[str, object], fields: Iterable[str], what: str) -> None:
    """Raise Unknown if a stored record has other fields."""
    for field in record.keys() - set(fields):
        raise Unknown(f'field "{field}" of {what}')


def encoded(value: object) -> Encoded:
    """Return an expression, predicate, primitive or join as values for JSON; others raise InternalError."""
    return _written(value, WRITERS)


def _written(value: object, writers: Mapping[type, Callable[[Any], Encoded]]) -> Encoded:
    kind = type(value)
    if kind not in writers:
        raise InternalError(f"{kind.__name__} has no stored name; add it to weft.durability.stored_names")
    return writers[kind](value)


def _text(stored: Encoded) -> str:
    return json.dumps(stored, separators=(",", ":"))


def _whole(name: str, read: Callable[[Encoded], _T], what: str) -> _T:
    try:
        return read(json.loads(name))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise Unknown(f"{what} {name[:_SHOWN]}") from error


def _read(stored: Encoded, among: Iterable[str]) -> Any:
    word = stored[0]
    if word not in READERS or word not in among:
        raise Unknown(f'operator "{word}"')
    return READERS[word](*stored[1:])


def _expression(stored: Encoded) -> Expression:
    found: Expression = _read(stored, ("column", "literal", "call", "function", "slot"))
    return found


def _formula(stored: Encoded) -> formulas.Formula:
    found: formulas.Formula = _read(stored, ("test", "all", "any"))
    return found


def _type(stored: str) -> DataType:
    type, end = _type_from(stored, 0)
    if end != len(stored):
        raise Unknown(f'type "{stored}"')
    return type


def _type_from(stored: str, begin: int) -> tuple[DataType, int]:
    """Return the type whose name begins at a position, and where the name ends."""
    match = _TYPE.match(stored, begin)
    if match is None:
        raise Unknown(f'type "{stored[begin:]}"')
    kind, end = _member(Kind, match["kind"], "type"), match.end()
    if kind not in (Kind.ARRAY, Kind.STRUCT):
        bounds = map(int, match["bounds"].split(",")) if match["bounds"] else ()
        return DataType(kind, *bounds), end
    fields: list[tuple[str, DataType]] = []
    while stored[end : end + 1] == ("," if fields else "<"):
        name, end = _NAME.raw_decode(stored, end + 1)
        type, end = _type_from(stored, stored.index(":", end) + 1)
        fields.append((name, type))
    if not fields or stored[end : end + 1] != ">" or (kind is Kind.ARRAY and len(fields) > 1):
        raise Unknown(f'type "{stored[begin:]}"')
    return DataType(kind, fields=tuple(fields)), end + 1


def _member(choices: type[_E], word: str, what: str) -> _E:
    try:
        return choices(word)
    except ValueError:
        raise Unknown(f'{what} "{word}"') from None


# Constants. Equal numbers have one name: 1 and 1.0, 0.0 and -0.0, 1.5 and 1.50.


def _scalar(value: Scalar) -> Encoded:
    return _written(value, SCALARS)


def _float(value: float) -> Encoded:
    return ["float", (value + 0.0).hex()]


def _decimal(value: Decimal) -> Encoded:
    return ["decimal", str(value.normalize(_EXACT) if value else Decimal(0))]


def _moment(value: datetime) -> Encoded:
    return ["timestamp", (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()]


def _read_scalar(stored: Encoded) -> Any:
    if not isinstance(stored, list):
        return stored
    word, text = stored
    if word not in _SCALAR_READERS:
        raise Unknown(f'constant "{word}"')
    return _SCALAR_READERS[word](text)


SCALARS: Mapping[type, Callable[[Any], Encoded]] = {
    type(None): lambda value: None,
    bool: lambda value: value,
    int: lambda value: value,
    str: lambda value: value,
    float: _float,
    Decimal: _decimal,
    bytes: lambda value: ["bytes", value.hex()],
    date: lambda value: ["date", value.isoformat()],
    datetime: _moment,
}
"""How constants are written, by their class."""
_SCALAR_READERS: Mapping[str, Callable[[str], Scalar]] = {
    "float": float.fromhex,
    "decimal": Decimal,
    "bytes": bytes.fromhex,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
}


# Expressions.


def _literal(literal: Literal) -> Encoded:
    value = literal.value
    if literal.type.is_fractional and isinstance(value, int | float | Decimal):
        value = float(value)
    return ["literal", _scalar(value), type_name(literal.type)]


def _call(call: Call) -> Encoded:
    # A function of the user's may come to be one of the language: that would be another one.
    word = "call" if call.function in FUNCTIONS else "function"
    return [word, call.function, type_name(call.type), *map(encoded, call.args)]


def _read_call(function: str, type: str, *args: Encoded) -> Call:
    if function not in FUNCTIONS:
        raise Unknown(f'function "{function}"')
    return _read_function(function, type, *args)


def _read_function(function: str, type: str, *args: Encoded) -> Call:
    return Call(function, tuple(map(_expression, args)), _type(type))


def _read_slot(kind: str, index: int, type: str) -> Slot:
    return Slot(_member(SlotKind, kind, "slot"), index, _type(type))


# Predicates. The parts of AND and OR are in the order of their names, whatever order they are shown in.


def _test(test: formulas.Test) -> Encoded:
    values = test.values
    cuts = [[_scalar(cut.value), cut.after] for cut in values.cuts]
    return ["test", encoded(test.expression), [values.lowest, values.null, *cuts]]


def _read_test(expression: Encoded, values: Encoded) -> formulas.Test:
    lowest, null, *cuts = values
    found = tuple(sets.Cut(_read_scalar(value), after) for value, after in cuts)
    return formulas.Test(_expression(expression), sets.Values(lowest, found, null))


def _parts(parts: Iterable[formulas.Formula]) -> list[Encoded]:
    return sorted(map(encoded, parts), key=_text)


# Primitives and joins.


def _primitive(primitive: Primitive) -> Encoded:
    # A single argument stands by itself, as it did when there was never more than one.
    first, *others = primitive.arguments or (None,)
    types = list(map(type_name, primitive.types))
    stored = [
        "primitive",
        list(primitive.lifts),
        encoded(first) if first else None,
        _combine(primitive.combine),
        types,
    ]
    if others or primitive.parameters:
        stored += [list(map(encoded, others)), list(map(_scalar, primitive.parameters))]
    return stored


def _combine(combine: Combine) -> Encoded:
    return [combine.name, *map(_scalar, combine.parameters)] if combine.parameters else combine.name


def _read_combine(stored: Encoded) -> Combine:
    if isinstance(stored, str) and stored in COMBINES:
        return COMBINES[stored]
    if isinstance(stored, list) and stored[0] in SKETCHES:
        return SKETCHES[stored[0]](*map(_read_scalar, stored[1:]))
    raise Unknown(f'way to merge "{stored}"')


def _read_primitive(
    lifts: list[str], argument: Encoded, combine: Encoded, types: list[str], others: Encoded = (),
    parameters: Encoded = (),
) -> Primitive:  # fmt: skip
    for lift in lifts:
        if lift.partition(".")[0] not in _LIFTS:
            raise Unknown(f'aggregate "{lift}"')
    arguments = () if argument is None else (_expression(argument), *map(_expression, others))
    read = tuple(map(_read_scalar, parameters))
    return Primitive(tuple(lifts), arguments, _read_combine(combine), tuple(map(_type, types)), read)


def _join(join: Join) -> Encoded:
    pairs = [[encoded(left), encoded(right)] for left, right in join.on]
    return ["join", join.table, join.alias, join.kind.value, pairs]


def _read_join(table: str, alias: str, kind: str, pairs: Encoded) -> Join:
    on = tuple((_expression(left), _expression(right)) for left, right in pairs)
    return Join(table=table, alias=alias, kind=_member(JoinKind, kind, "join"), on=on)


WRITERS: Mapping[type, Callable[[Any], Encoded]] = {
    Column: lambda column: ["column", column.name, type_name(column.type)],
    Literal: _literal,
    Call: _call,
    Slot: lambda slot: ["slot", slot.kind.value, slot.index, type_name(slot.type)],
    formulas.Test: _test,
    formulas.All: lambda formula: ["all", *_parts(formula.parts)],
    formulas.Any: lambda formula: ["any", *_parts(formula.parts)],
    Primitive: _primitive,
    Join: _join,
}
"""How each class is written."""
READERS: Mapping[str, Callable[..., Any]] = {
    "column": lambda name, type: Column(name, _type(type)),
    "literal": lambda value, type: Literal(_read_scalar(value), _type(type)),
    "call": _read_call,
    "function": _read_function,
    "slot": _read_slot,
    "test": _read_test,
    "all": lambda *parts: formulas.all_of(map(_formula, parts)),
    "any": lambda *parts: formulas.any_of(map(_formula, parts)),
    "primitive": _read_primitive,
    "join": _read_join,
}
"""How each word is read."""
