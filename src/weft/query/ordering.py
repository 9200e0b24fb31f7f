"""ORDER BY and LIMIT: which rows of each window are kept."""

from collections.abc import Callable

from weft.expression import Expression, Slot, SlotKind
from weft.query.grouping import GROUPING, Grouping
from weft.query.logical import RowLimit, SortKey
from weft.query.syntax import Node, SelectSyntax


def bind_limits(
    syntax: SelectSyntax, grouping: Grouping, bind: Callable[[Node, str], Expression]
) -> tuple[tuple[SortKey, ...], tuple[RowLimit, ...]]:
    """Return the order of a window's rows, and how many are kept; rows that tie come by their keys."""
    if not syntax.limits:
        return (), ()
    order = [
        SortKey(
            expression=bind(item.node, "ORDER BY"), descending=item.descending, nulls_first=item.nulls_first
        )
        for item in syntax.order
    ]
    ties = [Slot(SlotKind.KEY, index, key.expression.type) for index, key in enumerate(grouping.keys)]
    # A key that is NULL is not an absent one.
    ties += [GROUPING] if grouping.sets else []
    order += [SortKey(expression=slot, descending=False, nulls_first=True) for slot in ties]
    limits = (
        RowLimit(rows=limit.rows, by=tuple(bind(node, "LIMIT BY") for node in limit.by))
        for limit in syntax.limits
    )
    return tuple(order), tuple(limits)
