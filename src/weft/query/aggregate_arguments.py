"""What stands in the brackets of an aggregate: its arguments, then its constants, then a weight."""

from decimal import Decimal

from weft.aggregates import REQUIRED, Aggregate, Constant, ConstantRule, Constants, aggregate
from weft.errors import NotAllowed, Span, TypeMismatch
from weft.expression import Call, Column, Expression, Literal
from weft.query.expressions import Context, typed
from weft.query.logical import StreamDef
from weft.query.syntax import Invocation, Node, Star
from weft.types import BIGINT, DOUBLE, TIMESTAMP, Kind

Bound = tuple[Aggregate, tuple[Expression, ...], Constants]


def bind_arguments(node: Invocation, function: Aggregate, row: Context, stream: StreamDef) -> Bound:
    """Return the aggregate that a call means, with its arguments and constants."""
    if node.distinct:
        distinct = aggregate(function.distinct) if function.distinct is not None else None
        if distinct is None:
            problem = (
                f"{node.name}(DISTINCT …) is not in the language; DISTINCT can stand in count, sum and avg"
            )
            raise NotAllowed(problem, span=node.span)
        function = distinct
    if node.within != function.within_group:
        raise TypeMismatch(_usage(node, function), span=node.span)
    nodes, weights = _without_weight(node, function, row)
    _check_count(node, function, len(nodes))
    count = len(nodes) if not function.constants else function.least
    arguments = (
        *_arguments(node, function, nodes[:count], row),
        *weights,
        *(_time_and_ties(stream) if function.by_time else ()),
    )
    return function, arguments, _constants(node, function, nodes[count:], row)


def _time_and_ties(stream: StreamDef) -> tuple[Expression, ...]:
    """Return the event time as a whole number, and all columns of the stream in their order."""
    columns = {column.name.casefold(): Column(column.name, column.type) for column in stream.columns}
    time: Expression = columns[stream.time.casefold()]
    if time.type.is_time:
        moment = time if time.type == TIMESTAMP else Call("cast", (time,), TIMESTAMP)
        time = Call("unix_micros", (moment,), BIGINT)
    elif time.type.is_fractional:
        time = Call("cast", (Call("*", (time, Literal(1e6, DOUBLE)), DOUBLE),), BIGINT)
    usable = (column for column in columns.values() if column.type.kind is not Kind.OTHER)
    return time, *usable


def _usage(node: Invocation, function: Aggregate) -> str:
    if function.within_group:
        return f"{node.name} needs its column in WITHIN GROUP: {node.name}(0.95) WITHIN GROUP (ORDER BY x)"
    return f"{node.name} has no WITHIN GROUP; only percentile_cont and percentile_disc have"


def _without_weight(
    node: Invocation, function: Aggregate, row: Context
) -> tuple[tuple[Node, ...], tuple[Expression, ...]]:
    """Split off the y of a last argument sum(y), which says what values weigh."""
    last = node.args[-1] if node.args else None
    if function.weighted and isinstance(last, Invocation) and last.name.casefold() == "sum":
        if len(last.args) != 1 or last.distinct or last.filter is not None:
            raise TypeMismatch("a weight is sum(y), of one expression and nothing else", span=last.span)
        weight = typed(last.args[0], row)
        if not (weight.type.is_integer or weight.type.is_fractional):
            problem = f"a weight is sum(y) of whole numbers or doubles, found {weight.type}"
            raise TypeMismatch(problem, span=last.span)
        return node.args[:-1], (weight,)
    return node.args, ()


def _check_count(node: Invocation, function: Aggregate, found: int) -> None:
    needed = sum(rule.default is REQUIRED for rule in function.constants)
    least, most = function.least + needed, function.most + len(function.constants)
    if function.name == "count":
        least = 1
    if node.within and found != least:
        problem = f"{node.name} takes one share before WITHIN GROUP, found {found - 2}"
        raise TypeMismatch(problem, span=node.span)
    if not least <= found <= most:
        words = {1: "one argument", 2: "two arguments", 3: "three arguments"}
        takes = words.get(least, f"{least} arguments") if least == most else f"{least} to {most} arguments"
        raise TypeMismatch(f"{node.name} takes {takes}, found {found}", span=node.span)


def _arguments(
    node: Invocation, function: Aggregate, nodes: tuple[Node, ...], row: Context
) -> tuple[Expression, ...]:
    if any(isinstance(own, Star) for own in nodes):
        if function.name != "count":
            takes = "columns after DISTINCT" if node.distinct else function.takes
            problem = f"{node.name} takes {takes}, found *; only count(*) has *"
            raise TypeMismatch(problem, span=node.span)
        return ()
    arguments = tuple(typed(own, row) for own in nodes)
    # count(1) counts rows, and shares with count(*).
    if function.name == "count" and isinstance(arguments[0], Literal) and arguments[0].value is not None:
        return ()
    return arguments


def _constants(node: Invocation, function: Aggregate, nodes: tuple[Node, ...], row: Context) -> Constants:
    constants: list[Constant] = []
    for rule, given in zip(function.constants, nodes, strict=False):
        constants.append(_constant(node, rule, given, row))
    for rule in function.constants[len(nodes) :]:
        constants.append(rule.default)  # type: ignore[arg-type]
    return tuple(constants)


def _constant(call: Invocation, rule: ConstantRule, node: Node, row: Context) -> Constant:
    is_array = rule.many and isinstance(node, Invocation) and node.name.casefold() == "array"
    elements = node.args if is_array else (node,)  # type: ignore[union-attr]
    values: list[bool | int | float | str] = []
    for element in elements:
        value = _value(typed(element, row))
        if value is None or not rule.check(value):
            found = "what is no constant" if value is None else repr(value)
            problem = f"{call.name} takes {rule.takes}, found {found}"
            raise TypeMismatch(problem, span=_span(element, call.span))
        values.append(value)
    if not values:
        problem = f"{call.name} takes {rule.takes}, found an empty array"
        raise TypeMismatch(problem, span=_span(node, call.span))
    return tuple(values) if is_array else values[0]


def _value(expression: Expression) -> bool | int | float | str | None:
    """Return the value of a constant, if it is one; a decimal as a double."""
    if isinstance(expression, Call) and expression.function == "neg":
        negated = _value(expression.args[0])
        return -negated if isinstance(negated, int | float) else None
    value = expression.value if isinstance(expression, Literal) else None
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, bool | int | float | str) else None


def _span(node: Node, otherwise: Span) -> Span:
    return getattr(node, "span", None) or otherwise
