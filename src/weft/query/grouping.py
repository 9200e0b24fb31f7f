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
    bind_call,
    bind_quotient,
    bind_window,
)

_EXAMPLE = "[RANGE '12 min' SLIDE '5 min'] after the stream, or GROUP BY window(time, '12 min', '5 min')"
RESERVED_OUTPUTS = {"window_start": START, "window_end": END}
"""Columns that all results have."""
_BOUNDS = {
    ("window_start",): START, ("window_end",): END, ("window", "start"): START, ("window", "end"): END,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """The window and keys of a query, and the names that GROUP BY gives them."""

    bound: BoundWindow
    keys: tuple[NamedExpression, ...]
    aliases: tuple[tuple[str, Expression], ...]
    """Folded names: expressions over columns, or over the window's slots."""


def window_bound(node: Node) -> Expression | None:
    """Return the slot of `window_start`, `window.end` and the like."""
    return _BOUNDS.get(tuple(part.casefold() for part in node.parts)) if isinstance(node, Name) else None


def bind_grouping(syntax: SelectSyntax, origin: From, context: Context) -> Grouping:
    """Return the window and the keys of a query."""
    bound: BoundWindow | None = None
    if origin.source.window is not None:
        bound = bind_window(origin.source.window, origin.stream, origin.scope)
    keys: list[ItemSyntax] = []
    aliases: dict[str, Expression] = {}
    for written in syntax.groups:
        item = _followed(written, syntax, origin)
        window = _window(item.node, origin)
        if window is None:
            keys.append(item)
        elif bound is not None:
            raise BadWindow("the query has two windows; remove one", span=written.node.span)
        else:
            bound = window
            if item.alias and window.index is not None:
                aliases[item.alias.casefold()] = window.index
    if bound is None:
        problem = f"the query has no window over stream {origin.stream.name}; write {_EXAMPLE}"
        raise BadWindow(problem, span=origin.source.span)
    named = _keys(keys, aliases, origin, context)
    return Grouping(bound=bound, keys=named, aliases=tuple(aliases.items()))


def _keys(
    items: list[ItemSyntax], aliases: dict[str, Expression], origin: From, context: Context
) -> tuple[NamedExpression, ...]:
    """Return the keys, and add their aliases to the others."""
    keys: dict[Expression, NamedExpression] = {}
    for item in items:
        node = item.node
        if isinstance(node, Name) and window_bound(node) is not None and not origin.scope.has(node):
            continue
        expression = typed(node, context)
        if output_name(item).casefold() in RESERVED_OUTPUTS:
            problem = f'the results have a column "{output_name(item)}" of their own'
            raise NotAllowed(f"{problem}; add an alias, as in {item.written} AS k", span=node.span)
        taken = {key.name.casefold() for key in keys.values()}
        keys.setdefault(expression, NamedExpression(name=_unique_name(item, taken), expression=expression))
        if item.alias:
            aliases[item.alias.casefold()] = expression
    return tuple(keys.values())


def _unique_name(key: ItemSyntax, taken: set[str]) -> str:
    name = output_name(key)
    candidates = (name, key.written, *(f"{name}_{number}" for number in range(2, len(taken) + 3)))
    return next(candidate for candidate in candidates if candidate.casefold() not in taken)


def output_name(item: ItemSyntax) -> str:
    """Return the name of an item's column: its alias, its column's, or its text."""
    if item.alias is not None:
        return item.alias
    return item.node.parts[-1] if isinstance(item.node, Name) else item.written


def _followed(item: ItemSyntax, syntax: SelectSyntax, origin: From) -> ItemSyntax:
    """Follow `GROUP BY 1` and `GROUP BY alias` to the item of SELECT."""
    node = item.node
    if isinstance(node, Number) and item.alias is None:
        count = len(syntax.items)
        if not node.text.isdecimal() or len(node.text) > 6 or not 1 <= int(node.text) <= count:
            problem = f"GROUP BY {node.text} names no item of SELECT; it has {count}"
            raise GroupingMistake(problem, span=node.span)
        return syntax.items[int(node.text) - 1]
    if isinstance(node, Name) and len(node.parts) == 1 and not origin.scope.has(node):
        for selected in syntax.items:
            if selected.alias is not None and selected.alias.casefold() == node.parts[0].casefold():
                return selected
    return item


def _window(node: Node, origin: From) -> BoundWindow | None:
    """Return the window that an item of GROUP BY means, or None for a key."""
    if isinstance(node, Invocation):
        name = node.name.casefold()
        if name in REFUSED_CALLS:
            problem = f"{node.name} is not in the language; use window, HOP or TUMBLE"
            raise BadWindow(problem, span=node.name_span)
        if name in CALLS:
            return bind_call(node, origin.stream, origin.scope)
    return bind_quotient(node, origin.stream, origin.scope)
