"""From the tree as written to typed expressions over columns."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.errors import BadWindow, NotAllowed, Span, TypeMismatch, UnknownName, suggestion
from weft.expression import Call, Expression, Literal
from weft.query.coercion import castable
from weft.query.functions import FUNCTIONS, SPELLINGS, Function
from weft.query.literals import date_of, number, time_literal, timestamp_of
from weft.query.logical import FunctionDef
from weft.query.scope import Scope
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
    operation,
)
from weft.types import BOOLEAN, DATE, NULL, STRING, DataType, Kind

_CASES = {
    "if": "if(condition, value, otherwise)",
    "nullif": "nullif(x, y)",
    "nvl2": "nvl2(x, value, otherwise)",
}
"""Functions that are CASE in other words."""


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
    registered = context.functions.get(name)
    if registered is not None:
        args = tuple([typed(arg, context) for arg in node.args])
        return Call(registered.name, args, registered.type, node.span)
    if name in _CASES:
        return typed(_as_case(node, name), context)
    if name in ("isnull", "isnotnull") and len(node.args) == 1:
        test = operation("is_null", node.args, node.span)
        return typed(test if name == "isnull" else operation("not", (test,), node.span), context)
    function = SPELLINGS.get(name)
    if function is None:
        known = (*SPELLINGS, *_CASES, *context.known, *(f.name for f in context.functions.values()))
        close = suggestion(node.name, known)
        hint = close if "did you mean" in close else "; docs/query-language.md lists the functions"
        raise UnknownName(f'unknown function "{node.name}"{hint}', span=node.name_span)
    return _applied(function, node.name, tuple([typed(arg, context) for arg in node.args]), node.span)


def _as_case(node: Invocation, name: str) -> Node:
    wanted = 2 if name == "nullif" else 3
    if len(node.args) != wanted:
        raise TypeMismatch(f"{node.name} takes {wanted} arguments, found {len(node.args)}: {_CASES[name]}",
                           span=node.span)  # fmt: skip
    first, second, *rest = node.args
    if name == "if":
        return operation("case", node.args, node.span)
    if name == "nullif":
        same = operation("=", (first, second), node.span)
        return operation("case", (same, Constant(node.span, None), first), node.span)
    missing = operation("is_null", (first,), node.span)
    return operation("case", (missing, rest[0], second), node.span)


def _applied(function: Function, written: str, args: tuple[Expression, ...], span: Span) -> Expression:
    if not function.least <= len(args) <= function.most:
        raise TypeMismatch(f"{written} takes {function.takes}, found {len(args)} arguments", span=span)
    if function.compares:
        args = _times_read(args)
    if function.name == "date_trunc":
        args = _unit_folded(args)
    if function.name == "neg" and isinstance(args[0], Literal) and isinstance(args[0].value, int | float):
        return Literal(-args[0].value, args[0].type, span) if args[0].type.is_numeric else args[0]
    type = function.result(args)
    if type is None:
        raise _unfit(function, written, args, span)
    if function.name in ("like", "ilike", "rlike"):
        _check_pattern(function.name, args[1])
    return Call(function.name, args, type, span)


def _unfit(function: Function, written: str, args: tuple[Expression, ...], span: Span) -> TypeMismatch:
    found = [str(arg.type) for arg in args]
    shown = " and ".join(found) if len(found) < 3 else ", ".join(dict.fromkeys(found))
    shout = written.upper() if written.isalpha() and not function.spellings else written
    return TypeMismatch(f"{shout} takes {function.takes}, found {shown}{_hint(args)}", span=span)


def _hint(args: tuple[Expression, ...]) -> str:
    kinds = {arg.type.kind for arg in args}
    strings = [arg for arg in args if arg.type.kind is Kind.STRING]
    if any(arg.type.is_numeric for arg in args) and strings:
        constant = next((str(arg.value) for arg in strings if isinstance(arg, Literal)), "")
        if re.fullmatch(r"-?\d+(\.\d+)?", constant):
            return f"; write {constant} without quotes"
        return "; convert one, as in CAST(x AS DOUBLE) or CAST(x AS STRING)"
    if Kind.BOOLEAN in kinds and len(kinds) > 1:
        return "; a condition is no number: IF(condition, 1, 0) makes it one"
    if any(arg.type.is_time for arg in args):
        return "; unix_seconds(t) makes a timestamp a number"
    return ""


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


def _check_pattern(name: str, pattern: Expression) -> None:
    """Refuse a pattern that would make Spark fail for the whole batch."""
    assert isinstance(pattern, Literal)
    assert isinstance(pattern.value, str)
    if name != "rlike":
        if re.search(r"\\(?![%_\\])", re.sub(r"\\[%_\\]", "", pattern.value)):
            problem = f"in a {name.upper()} pattern a backslash stands before %, _ or another backslash"
            raise TypeMismatch(problem, span=pattern.span)
        return
    try:
        # Java's classes that Python lacks are put aside; its nested sets mean something else there.
        re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", pattern.value))
    except (re.error, OverflowError, RecursionError) as error:
        raise TypeMismatch(f"the pattern is not a regular expression: {error}", span=pattern.span) from None


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
