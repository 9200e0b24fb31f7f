"""From the tree as written to typed expressions over columns."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.errors import BadWindow, NotAllowed, Span, TypeMismatch, UnknownName, suggestion
from weft.expression import Call, Expression, Literal
from weft.query.allowed_functions import FUNCTIONS, SPELLINGS, Function
from weft.query.coercion import castable
from weft.query.literals import date_of, number, time_literal, timestamp_of
from weft.query.logical import FunctionDef
from weft.query.pattern_checks import PATTERNS, check_pattern
from weft.query.scope import Scope
from weft.query.special_forms import SUGAR
from weft.query.syntax import (
    Constant,
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

_SHOWN = {"neg": "-", "concat": "||", "like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE"}
"""Operators whose canonical name is not how they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an expression may refer to."""

    scope: Scope
    functions: Mapping[str, FunctionDef]
    """Registered from Python, by folded name."""
    intercept: Callable[[Node], Expression | None]
    """Meets every node first: where aggregates, windows and aliases get their meaning, or are refused."""
    known: tuple[str, ...] = ()
    """Names of further functions, for suggestions."""


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
        case Operation():
            return _operation(node, context)
        case Invocation():
            return _invocation(node, context)
    raise _misplaced(node)


def condition(node: Node, context: Context, clause: str) -> Expression:
    """Return a typed expression that must be true or false."""
    expression = typed(node, context)
    if expression.type.kind not in (Kind.BOOLEAN, Kind.NULL):
        raise TypeMismatch(f"{clause} needs a condition, found {expression.type}; compare it with something",
                           span=node.span)  # fmt: skip
    return expression


def _misplaced(node: Interval | Star) -> NotAllowed:
    if isinstance(node, Star):
        return NotAllowed("* stands only in count(*)", span=node.span)
    return NotAllowed("INTERVAL stands only in windows; compare times with constants instead", span=node.span)


def _operation(node: Operation, context: Context) -> Expression:
    args = tuple([typed(arg, context) for arg in node.args])
    if node.type is not None:
        return _cast(args[0], node.type, node.span)
    return _applied(FUNCTIONS[node.operator], node.operator, args, node.span)


def _invocation(node: Invocation, context: Context) -> Expression:
    name = node.name.casefold()
    if node.distinct or node.filter is not None:
        word = "DISTINCT" if node.distinct else "FILTER"
        raise NotAllowed(f"{word} stands only in aggregates, and {node.name} is none", span=node.span)
    args = tuple([typed(arg, context) for arg in node.args])
    function = SPELLINGS.get(name)
    if function is not None:
        return _applied(function, node.name, args, node.span)
    registered = context.functions.get(name)
    if registered is not None:
        return Call(name, args, registered.type, node.span)
    raise _unknown(node, context)


def _unknown(node: Invocation, context: Context) -> UnknownName:
    known = (*SPELLINGS, *SUGAR, *context.known, *context.functions)
    close = suggestion(node.name, known)
    hint = close if "did you mean" in close else "; docs/query-language.md lists the functions"
    return UnknownName(f'unknown function "{node.name}"{hint}', span=node.name_span)


def _applied(function: Function, written: str, args: tuple[Expression, ...], span: Span) -> Expression:
    if not function.least <= len(args) <= function.most:
        raise TypeMismatch(f"{written} takes {function.takes}, found {len(args)} arguments", span=span)
    if function.compares:
        args = _times_read(args)
    if function.name == "date_trunc":
        args = _unit_folded(args)
    type = function.result(args)
    if type is None:
        raise _unfit(function, written, args, span)
    if function.name in PATTERNS:
        check_pattern(function.name, args[1])
    return Call(function.name, args, type, span)


def _unfit(function: Function, written: str, args: tuple[Expression, ...], span: Span) -> TypeMismatch:
    found = [str(arg.type) for arg in args]
    shown = " and ".join(found) if len(found) < 3 else ", ".join(dict.fromkeys(found))
    name = _SHOWN.get(written, written.upper() if not function.spellings else written)
    return TypeMismatch(f"{name} takes {function.takes}, found {shown}{_hint(function, args)}", span=span)


def _hint(function: Function, args: tuple[Expression, ...]) -> str:
    kinds = {arg.type.kind for arg in args}
    strings = [arg for arg in args if arg.type.kind is Kind.STRING]
    numbers = [arg for arg in args if arg.type.is_numeric]
    if numbers and strings:
        return _quotes_hint(strings, numbers)
    if Kind.BOOLEAN in kinds and len(kinds) > 1:
        return "; a condition is no number: IF(condition, 1, 0) makes it one"
    if any(arg.type.is_time for arg in args) and "number" in function.takes:
        return "; unix_seconds(t) makes a timestamp a number"
    return ""


def _quotes_hint(strings: list[Expression], numbers: list[Expression]) -> str:
    constant = next((str(arg.value) for arg in strings if isinstance(arg, Literal)), "")
    if re.fullmatch(r"-?\d+(\.\d+)?", constant):
        return f"; write {constant} without quotes"
    number = next((arg for arg in numbers if isinstance(arg, Literal)), None)
    if number is not None:
        return f"; write '{number}' in quotes, or CAST the string AS DOUBLE"
    return "; convert one, as in CAST(x AS DOUBLE) or CAST(x AS STRING)"


def _times_read(args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Read string constants beside a date or timestamp as such."""
    time = next((arg.type for arg in args if arg.type.is_time), None)
    if time is None:
        return args
    return tuple([_as_time(arg, time) for arg in args])


def _as_time(arg: Expression, type: DataType) -> Expression:
    if isinstance(arg, Literal) and isinstance(arg.value, str):
        return time_literal(arg.value, type, arg.span)
    return arg


def _unit_folded(args: tuple[Expression, ...]) -> tuple[Expression, ...]:
    unit = args[0]
    if isinstance(unit, Literal) and isinstance(unit.value, str):
        return Literal(unit.value.casefold(), STRING, unit.span), *args[1:]
    return args


def _cast(operand: Expression, type: DataType, span: Span) -> Expression:
    if operand.type == type:
        return operand
    if not castable(operand.type, type):
        raise TypeMismatch(f"CAST cannot turn {operand.type} into {type}", span=span)
    if isinstance(operand, Literal) and isinstance(operand.value, str) and type.is_time:
        value = date_of(operand.value) if type == DATE else timestamp_of(operand.value)
        if value is not None:
            return Literal(value, type, span)
    return Call("cast", (operand,), type, span)


def outside_group_by(node: Invocation) -> BadWindow:
    """Say that a window function stands in the wrong place."""
    return BadWindow(f"{node.name}(…) stands only in GROUP BY; its bounds are window_start and window_end",
                     span=node.name_span)  # fmt: skip
