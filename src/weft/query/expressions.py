"""From the tree as written to typed expressions over columns."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.errors import BadWindow, InternalError, NotAllowed, Span, TypeMismatch, UnknownName
from weft.expression import Call, Expression, Literal
from weft.query.allowed_functions import FUNCTIONS, SPELLINGS, Function
from weft.query.coercion import castable
from weft.query.constant_arguments import check_constants
from weft.query.expression_grammar import AT_TIME_ZONE, SUGAR
from weft.query.literals import date_of, number, time_literal, timestamp_of
from weft.query.logical import FunctionDef
from weft.query.nested import field_of, hint
from weft.query.other_dialects import instead
from weft.query.scope import Scope
from weft.query.syntax import (
    Constant,
    FieldName,
    Interval,
    Invocation,
    Name,
    Node,
    Number,
    Operation,
    Star,
    Text,
    TimeText,
)
from weft.types import BOOLEAN, DATE, NULL, STRING, DataType, Kind

_SHOWN = {"neg": "-", "concat": "||", "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE", "subscript": "x[i]"}
"""How operators are written, where their canonical names differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an expression may refer to."""

    scope: Scope
    functions: Mapping[str, FunctionDef]
    """Registered from Python, by folded name."""
    intercept: Callable[[Node], Expression | None]
    """Called first for every node: gives aggregates, windows and aliases their meaning, or refuses them."""
    known: tuple[str, ...] = ()
    """Names of further functions, for suggestions."""


_OF_ARRAYS = frozenset({"subscript", "get", "element_at", "size"})


def typed(node: Node, context: Context) -> Expression:
    """Return the typed expression of a node."""
    special = context.intercept(node)
    if special is not None:
        return special
    match node:
        case Name():
            return context.scope.resolve(node)
        case Number(span, text):
            return number(text, span)
        case Text(span, value):
            return Literal(value, STRING, span)
        case Constant(span, value):
            return Literal(value, NULL if value is None else BOOLEAN, span)
        case TimeText(span, value, type):
            return time_literal(value, type, span)
        case Operation(args=(struct, FieldName(name=field))):
            return field_of(typed(struct, context), field, node.span)
        case FieldName(_, field):
            raise InternalError(f"field {field} stands alone")
        case Operation():
            args = tuple([typed(arg, context) for arg in node.args])
            if node.type is not None:
                return _cast(args[0], node.type, node.span)
            if node.operator == AT_TIME_ZONE:
                return _at_time_zone(args, node.span)
            return _applied(FUNCTIONS[node.operator], node.operator, args, node.span)
        case Invocation():
            return _invocation(node, context)
        case Star(span):
            raise NotAllowed("* is allowed only in count(*)", span=span)
        case Interval(span):
            problem = "INTERVAL is allowed only in windows; compare times with constants instead"
            raise NotAllowed(problem, span=span)


def condition(node: Node, context: Context, clause: str) -> Expression:
    """Return a typed expression that must be true or false."""
    expression = typed(node, context)
    if expression.type.kind not in (Kind.BOOLEAN, Kind.NULL):
        problem = f"{clause} needs a condition, found {expression.type}; compare it with something"
        raise TypeMismatch(problem, span=node.span)
    return expression


def _invocation(node: Invocation, context: Context) -> Expression:
    name = node.name.casefold()
    if node.within:
        problem = f"WITHIN GROUP is for percentile_cont and percentile_disc, and {node.name} is neither"
        raise NotAllowed(problem, span=node.span)
    if node.distinct or node.filter is not None:
        word = "DISTINCT" if node.distinct else "FILTER"
        raise NotAllowed(f"{word} is for aggregates, and {node.name} is not one", span=node.span)
    args = tuple([typed(arg, context) for arg in node.args])
    function = SPELLINGS.get(name)
    if function is not None:
        return _applied(function, node.name, args, node.span)
    registered = context.functions.get(name)
    if registered is not None:
        return Call(name, args, registered.type, node.span)
    if name == "array":
        problem = "array(…) only lists the parameters of an aggregate, as in percentile(x, array(0.5, 0.95))"
        raise NotAllowed(problem, span=node.span)
    meant = instead(node.name, (*SPELLINGS, *SUGAR, *context.known, *context.functions))
    raise UnknownName(f'function "{node.name}" is not in the language{meant}', span=node.name_span)


def _applied(function: Function, written: str, args: tuple[Expression, ...], span: Span) -> Expression:
    if not function.least <= len(args) <= function.most:
        raise TypeMismatch(f"{written} takes {function.takes}, found {len(args)} arguments", span=span)
    if function.compares:
        # String constants beside a date or timestamp are read as such.
        time = next((arg.type for arg in args if arg.type.is_time), None)
        args = tuple([
            time_literal(arg.value, time, arg.span)
            if time is not None and isinstance(arg, Literal) and isinstance(arg.value, str) else arg
            for arg in args
        ])  # fmt: skip
    if function.name == "date_trunc" and isinstance(args[0], Literal) and isinstance(args[0].value, str):
        args = Literal(args[0].value.casefold(), STRING, args[0].span), *args[1:]
    type = function.result(args)
    if type is None:
        types = [str(arg.type) for arg in args]
        shown = " and ".join(types) if len(types) < 3 else ", ".join(dict.fromkeys(types))
        name = _SHOWN.get(written, written if function.spellings else written.upper())
        problem = f"{name} takes {function.takes}, found {shown}{_hint(function, args)}"
        raise TypeMismatch(problem, span=span)
    check_constants(function.name, args)
    return Call(function.name, args, type, span)


def _at_time_zone(args: tuple[Expression, ...], span: Span) -> Expression:
    """Return what clocks in a zone show at a TIMESTAMP; of one without a zone, when they show it."""
    kind = args[0].type.kind
    if kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        problem = f"AT TIME ZONE takes a timestamp, found {args[0].type}"
        convertible = kind in (Kind.DATE, Kind.STRING)
        remedy = "; convert it, as in CAST(x AS TIMESTAMP)" if convertible else hint([args[0].type])
        raise TypeMismatch(problem + remedy, span=span)
    name = "from_utc_timestamp" if kind is Kind.TIMESTAMP else "to_utc_timestamp"
    return _applied(FUNCTIONS[name], "AT TIME ZONE", args, span)


def _hint(function: Function, args: tuple[Expression, ...]) -> str:
    types = [arg.type for arg in args]
    if function.name not in _OF_ARRAYS and any(type.is_nested for type in types):
        return hint(types)
    kinds = {arg.type.kind for arg in args}
    strings = [arg for arg in args if arg.type.kind is Kind.STRING]
    numbers = [arg for arg in args if arg.type.is_numeric]
    if numbers and strings:
        constant = next((str(arg.value) for arg in strings if isinstance(arg, Literal)), "")
        if re.fullmatch(r"-?\d+(\.\d+)?", constant):
            return f"; write {constant} without quotes"
        number = next((arg for arg in numbers if isinstance(arg, Literal)), None)
        if number is not None:
            return f"; write '{number}' in quotes, or CAST the string AS DOUBLE"
        return "; convert one, as in CAST(x AS DOUBLE) or CAST(x AS STRING)"
    if Kind.BOOLEAN in kinds and len(kinds) > 1:
        return "; a condition is not a number: IF(condition, 1, 0) makes it one"
    takes_times = "timestamp" in function.takes
    if any(arg.type.is_time for arg in args) and "number" in function.takes and not takes_times:
        return "; unix_seconds(t) makes a timestamp a number"
    return ""


def outside_group_by(node: Invocation) -> BadWindow:
    """Return the error of a window function in the wrong place."""
    problem = f"{node.name}(…) is allowed only in GROUP BY; its bounds are window_start and window_end"
    return BadWindow(problem, span=node.name_span)


def _cast(operand: Expression, type: DataType, span: Span) -> Expression:
    if operand.type == type:
        return operand
    if not castable(operand.type, type):
        problem = f"CAST cannot turn {operand.type} into {type}{hint([operand.type])}"
        raise TypeMismatch(problem, span=span)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and type.is_time:
        value = date_of(operand.value) if type == DATE else timestamp_of(operand.value)
        if value is not None:
            return Literal(value, type, span)
    return Call("cast", (operand,), type, span)
