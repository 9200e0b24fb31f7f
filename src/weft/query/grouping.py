"""GROUP BY: which of its items is the window, and which are keys."""

from dataclasses import dataclass

from weft.errors import BadWindow, GroupingMistake, NotAllowed
from weft.expression import Expression
from weft.query.expressions import Context, typed
from weft.query.joins import From
from weft.query.logical import NamedExpression
from weft.query.syntax import Invocation, ItemSyntax, Name, Node, Number, SelectSyntax
from weft.query.windows import (
    CALLS,
    END,
    REFUSED_CALLS,
    START,
    BoundWindow,
    bind_quotient,
    bind_window,
    from_call,
    no_window,
    quotient,
)

_BOUNDS = {
    ("window_start",): START, ("window_end",): END, ("window", "start"): START, ("window", "end"): END,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The window and keys of a query, and the names that GROUP BY gives them."""

    bound: BoundWindow
    divisor: int | None = None
    """300 when the window was written `time/300`."""
    keys: tuple[NamedExpression, ...]
    aliases: tuple[tuple[str, Expression], ...]
    """Folded names: expressions over columns, or over the window's slots."""


def window_bound(node: Node) -> Expression | None:
    """Return the slot of `window_start`, `window.end` and the like."""
    return _BOUNDS.get(tuple(part.casefold() for part in node.parts)) if isinstance(node, Name) else None


def bind_grouping(syntax: SelectSyntax, origin: From, context: Context) -> Grouping:
    """Tell the window from the keys."""
    windows: list[tuple[BoundWindow, int | None, ItemSyntax | None]] = []
    if origin.source.window is not None:
        windows.append((bind_window(origin.source.window, origin.stream, origin.scope), None, None))
    keys: list[ItemSyntax] = []
    for written in syntax.groups:
        key = _meant(written, syntax, origin)
        window = _as_window(key, origin)
        if window is None:
            keys.append(key)
        elif windows:
            raise BadWindow("the query has two windows; remove one", span=written.node.span)
        else:
            windows.append((*window, key))
    if not windows:
        raise no_window(origin.stream, origin.source.span)
    bound, divisor, item = windows[0]
    return _grouping(bound, divisor, item, keys, origin, context)


def _grouping(
    bound: BoundWindow, divisor: int | None, item: ItemSyntax | None, keys: list[ItemSyntax], origin: From,
    context: Context,
) -> Grouping:  # fmt: skip
    named: dict[Expression, NamedExpression] = {}
    aliases: dict[str, Expression] = {}
    if item is not None and item.alias and bound.index is not None:
        aliases[item.alias.casefold()] = bound.index
    for key in keys:
        if window_bound(key.node) is not None and not (
            isinstance(key.node, Name) and origin.scope.has(key.node)
        ):
            continue
        expression = typed(key.node, context)
        _check_key_name(key)
        taken = {other.name.casefold() for other in named.values()}
        named.setdefault(expression, NamedExpression(name=_unique(key, taken), expression=expression))
        if key.alias:
            aliases[key.alias.casefold()] = expression
    return Grouping(bound=bound, divisor=divisor, keys=tuple(named.values()), aliases=tuple(aliases.items()))


def _check_key_name(key: ItemSyntax) -> None:
    name = output_name(key)
    if name.casefold() in ("window_start", "window_end"):
        problem = f'the results have a column "{name}" of their own; add an alias, as in {key.written} AS k'
        raise NotAllowed(problem, span=key.node.span)


def _unique(key: ItemSyntax, taken: set[str]) -> str:
    candidates = (
        output_name(key),
        key.written,
        *(f"{output_name(key)}_{n}" for n in range(2, len(taken) + 3)),
    )
    return next(name for name in candidates if name.casefold() not in taken)


def output_name(item: ItemSyntax) -> str:
    """Return the name of an item's column: its alias, its column's, or its text."""
    if item.alias is not None:
        return item.alias
    return item.node.parts[-1] if isinstance(item.node, Name) else item.written


def _meant(item: ItemSyntax, syntax: SelectSyntax, origin: From) -> ItemSyntax:
    """Follow `GROUP BY 1` and `GROUP BY alias` to the item of SELECT."""
    node = item.node
    if isinstance(node, Number) and item.alias is None:
        return _ordinal(node, syntax)
    if isinstance(node, Name) and len(node.parts) == 1 and not origin.scope.has(node):
        for selected in syntax.items:
            if selected.alias is not None and selected.alias.casefold() == node.parts[0].casefold():
                return selected
    return item


def _ordinal(node: Number, syntax: SelectSyntax) -> ItemSyntax:
    count = len(syntax.items)
    if not node.text.isdecimal() or len(node.text) > 6 or not 1 <= int(node.text) <= count:
        raise GroupingMistake(f"GROUP BY {node.text} names no item of SELECT; it has {count}", span=node.span)
    return syntax.items[int(node.text) - 1]


def _as_window(item: ItemSyntax, origin: From) -> tuple[BoundWindow, int | None] | None:
    node = item.node
    if isinstance(node, Invocation):
        name = node.name.casefold()
        if name in REFUSED_CALLS:
            raise BadWindow(
                f"{node.name} is not in the language; use window, HOP or TUMBLE", span=node.name_span
            )
        if name in CALLS:
            return bind_window(from_call(node), origin.stream, origin.scope), None
    divisor = quotient(node, origin.stream, origin.scope)
    if divisor is None:
        return None
    return bind_quotient(divisor, origin.stream, node.span), divisor
