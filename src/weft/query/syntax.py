"""The tree of a query as it was written, before names and types are known.

Sugar is gone already (BETWEEN is two comparisons, IF is CASE), so the same part of the text may stand in
the tree twice. `depth` and `weight` (nodes, counted as often as they occur) keep that within bounds: depth is
checked here, weight when the query is complete.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from weft.errors import Span
from weft.limits import Limits
from weft.query.cursor import MAX_DEPTH, too_deep
from weft.types import DataType


@dataclass(frozen=True, slots=True)
class _Leaf:
    span: Span
    depth: ClassVar[int] = 1
    weight: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Name(_Leaf):
    """A column, with what qualifies it: `T.price` is ("T", "price")."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldName(_Leaf):
    """A field of a struct, only as the second operand of "field": `x[0].value`."""

    name: str


@dataclass(frozen=True, slots=True)
class Number(_Leaf):
    """A number as written, with sign and suffix."""

    text: str


@dataclass(frozen=True, slots=True)
class Text(_Leaf):
    """A string."""

    value: str


@dataclass(frozen=True, slots=True)
class Constant(_Leaf):
    """NULL, TRUE or FALSE."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class TimeText(_Leaf):
    """A string that its prefix makes a time: `DATE '2026-01-31'`."""

    value: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Interval(_Leaf):
    """A length of time as written: `INTERVAL 12 MINUTES` is "12 MINUTES"."""

    text: str


@dataclass(frozen=True, slots=True)
class Star(_Leaf):
    """The star of `count(*)` or `SELECT *`."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator, by its canonical name, and its operands."""

    operator: str
    args: "tuple[Node, ...]"
    span: Span
    type: DataType | None = None
    """The target of a cast."""
    depth: int = field(init=False)
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, self.args)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A function called by name."""

    name: str
    name_span: Span
    args: "tuple[Node, ...]"
    span: Span
    distinct: bool = False
    filter: "Node | None" = None
    within: bool = False
    """Whether the first argument was written WITHIN GROUP (ORDER BY …); the last one is whether DESC was."""
    depth: int = field(init=False)
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        _measure(self, self.args if self.filter is None else (*self.args, self.filter))


Node = Name | FieldName | Number | Text | Constant | TimeText | Interval | Star | Operation | Invocation


def _measure(node: Operation | Invocation, below: tuple[Node, ...]) -> None:
    depth = 1 + max((child.depth for child in below), default=0)
    if depth > MAX_DEPTH:
        raise too_deep(node.span)
    object.__setattr__(node, "depth", depth)
    object.__setattr__(node, "weight", 1 + sum(child.weight for child in below))


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSyntax:
    """A window as written in brackets or as a call of `window`, `HOP`, `TUMBLE` or `CUMULATE`."""

    form: str
    """RANGE and WINDOW in brackets; SLIDING (`window(…)`), HOP, TUMBLE and CUMULATE as calls."""
    time: Node | None = None
    """The time argument; brackets have none."""
    durations: tuple[Node | None, ...]
    """Range, slide and offset in brackets; what was written, in its order, in calls."""
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSyntax:
    """A stream or table in FROM."""

    name: str
    alias: str | None
    span: Span
    window: WindowSyntax | None = None
    left: bool = False
    """Whether it is the right side of a LEFT JOIN."""
    on: Node | None = None
    using: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSyntax:
    """An expression of SELECT or GROUP BY."""

    node: Node
    alias: str | None
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetsSyntax:
    """The grouping sets of ROLLUP, CUBE and GROUPING SETS, spelled out."""

    sets: tuple[tuple[int, ...], ...]
    """Each has items of GROUP BY, by their index."""
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderSyntax:
    """An item of ORDER BY."""

    node: Node
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSyntax:
    """`LIMIT 10`, or `LIMIT 3 BY symbol`."""

    rows: int
    by: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSyntax:
    """A whole SELECT."""

    items: tuple[ItemSyntax, ...]
    sources: tuple[SourceSyntax, ...]
    where: Node | None = None
    groups: tuple[ItemSyntax, ...] = ()
    sets: SetsSyntax | None = None
    """How the items of GROUP BY are combined, if not in one way."""
    having: Node | None = None
    order: tuple[OrderSyntax, ...] = ()
    limits: tuple[LimitSyntax, ...] = ()
    emit_empty: Span | None = None
    lifetime_ms: int | None = None


def check_size(syntax: SelectSyntax, limits: Limits) -> None:
    """Refuse a query whose expressions are too large, also once clauses after FROM follow aliases."""
    conditions = (*(source.on for source in syntax.sources), syntax.where, syntax.having)
    groups = [item.node for item in syntax.groups]
    ordering = [item.node for item in syntax.order] + [node for limit in syntax.limits for node in limit.by]
    expressions = [item.node for item in syntax.items]
    expressions += [node for node in conditions if node is not None] + groups + ordering
    aliases = {item.alias.casefold(): item.node.weight for item in syntax.items if item.alias is not None}
    followed = {id(node) for node in (*groups, *ordering, syntax.having)}

    def enforce(weights: list[int]) -> None:
        largest = weights.index(max(weights))
        limits.enforce("expression_nodes", sum(weights), span=expressions[largest].span)

    # Sugar repeats a node without copying it. So weights come first: they bound the walk that follows.
    enforce([node.weight for node in expressions])
    enforce([
        _followed_weight(node, aliases) if id(node) in followed else node.weight for node in expressions
    ])  # fmt: skip


def _followed_weight(node: Node, aliases: dict[str, int]) -> int:
    """Return how many nodes an expression has once its aliases are replaced by what they stand for."""
    weight, stack = 0, [node]
    while stack:
        top = stack.pop()
        weight += 1
        if isinstance(top, Name) and len(top.parts) == 1:
            weight += aliases.get(top.parts[0].casefold(), 1) - 1
        if isinstance(top, Operation | Invocation):
            stack.extend(top.args)
            if isinstance(top, Invocation) and top.filter is not None:
                stack.append(top.filter)
    return weight
