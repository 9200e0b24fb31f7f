"""Checks of the size of a query against the limits, as far as they need no data."""

from collections.abc import Iterator

from weft.limits import Limits
from weft.query.logical import LogicalQuery
from weft.query.syntax import Invocation, Name, Node, Operation, SelectSyntax
from weft.query.windows import BoundWindow


def check(query: LogicalQuery, limits: Limits, *, others: int) -> None:
    """Refuse a query that would exceed the number of queries, given how many others there are."""
    limits.enforce("queries", others + 1, query=query.name)


def check_window(bound: BoundWindow, limits: Limits) -> None:
    """Refuse a window that would put each row into too many windows."""
    window = bound.window
    limits.enforce("windows_per_row", -(-window.range_ms // window.slide_ms), span=bound.span)


def check_expressions(syntax: SelectSyntax, limits: Limits) -> None:
    """Refuse a query whose expressions are too large, also once HAVING and GROUP BY follow aliases."""
    expressions = tuple(_expressions(syntax))
    # Sugar repeats a node without copying it. So weights come first: they bound the walk that follows.
    _enforce(expressions, [node.weight for node in expressions], limits)
    aliases = {item.alias.casefold(): item.node.weight for item in syntax.items if item.alias is not None}
    followed = {id(item.node) for item in syntax.groups}
    if syntax.having is not None:
        followed.add(id(syntax.having))
    weights = [
        sum(_weight(inner, aliases) for inner in _walk(node)) if id(node) in followed else node.weight
        for node in expressions
    ]
    _enforce(expressions, weights, limits)


def _enforce(expressions: tuple[Node, ...], weights: list[int], limits: Limits) -> None:
    total = sum(weights)
    largest = max(range(len(weights)), key=weights.__getitem__)
    limits.enforce("expression_nodes", total, span=expressions[largest].span)


def _expressions(syntax: SelectSyntax) -> Iterator[Node]:
    yield from (item.node for item in syntax.items)
    yield from (source.on for source in syntax.sources if source.on is not None)
    yield from (node for node in (syntax.where, syntax.having) if node is not None)
    yield from (item.node for item in syntax.groups)


def _weight(node: Node, aliases: dict[str, int]) -> int:
    """Return how many nodes one node becomes: as many as its expression has, if it is an alias."""
    if isinstance(node, Name) and len(node.parts) == 1:
        return aliases.get(node.parts[0].casefold(), 1)
    return 1


def _walk(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        if isinstance(top, Operation | Invocation):
            stack.extend(top.args)
            if isinstance(top, Invocation) and top.filter is not None:
                stack.append(top.filter)
