"""Typing rules of arrays and structs: their elements, fields and sizes, and nothing else."""

from weft.errors import Span, TypeMismatch, UnknownName, suggestion
from weft.expression import Call, Expression, Literal
from weft.types import INT, STRING, DataType, Kind


def element_type(args: tuple[Expression, ...]) -> DataType | None:
    """Return the type of an array's element, None where the arguments do not fit."""
    array, index = args
    return array.type.element if array.type.kind is Kind.ARRAY and index.type.is_integer else None


def size_type(args: tuple[Expression, ...]) -> DataType | None:
    """Return the type of an array's size, None if it is no array."""
    return INT if args[0].type.kind is Kind.ARRAY else None


def field_of(struct: Expression, name: str, span: Span) -> Call:
    """Return a field of a struct; names may be in any case."""
    if struct.type.kind is not Kind.STRUCT:
        raise TypeMismatch(f".{name} takes a struct, found {struct.type}{hint([struct.type])}", span=span)
    for known, type in struct.type.fields:
        if known.casefold() == name.casefold():
            return Call("field", (struct, Literal(known, STRING)), type, span)
    known_names = [known for known, _ in struct.type.fields]
    problem = f'{struct.type} has no field "{name}"{suggestion(name, known_names)}'
    raise UnknownName(problem, span=span)


def hint(types: list[DataType]) -> str:
    """Return how to get at what is inside an array or struct; nothing if there is none."""
    nested = next((type for type in types if type.is_nested), None)
    if nested is None:
        return ""
    if nested.kind is Kind.ARRAY:
        return "; take one element of the array, as in x[0]"
    return f"; take one field of the struct, as in (x).{nested.fields[0][0]}"
