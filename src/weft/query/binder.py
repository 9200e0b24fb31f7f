"""From a query as written to a `LogicalQuery`: its names, types, window, keys and aggregates resolved."""

from weft.errors import GroupingMistake, NotAllowed, QueryError, TooLarge
from weft.expression import Call
from weft.limits import DEFAULTS, Limits
from weft.query.cursor import located
from weft.query.expressions import Context, condition
from weft.query.grouping import Grouping, bind_grouping
from weft.query.joins import bind_from, bind_joins, conjuncts
from weft.query.logical import Catalog, LogicalQuery
from weft.query.outputs import KNOWN, Outputs, row_guard
from weft.query.statements import CreateQuery
from weft.query.syntax import SelectSyntax
from weft.types import BOOLEAN


def bind(query: CreateQuery, catalog: Catalog, *, limits: Limits = DEFAULTS) -> LogicalQuery:
    """Return what a query means, given the names that it may use."""
    try:
        return _bind(query, catalog, limits)
    except QueryError as error:
        located(error, query.select).named(query.name)
        raise
    except RecursionError:
        raise TooLarge("the query nests too deeply; write it with fewer levels", query=query.name) from None


def _bind(query: CreateQuery, catalog: Catalog, limits: Limits) -> LogicalQuery:
    syntax = query.syntax
    origin = bind_from(syntax, catalog)
    functions = {function.name.casefold(): function for function in catalog.functions}

    def row(clause: str) -> Context:
        return Context(scope=origin.scope, functions=functions, intercept=row_guard(clause), known=KNOWN)

    where = condition(syntax.where, row("WHERE"), "WHERE") if syntax.where else None
    joins, rest = bind_joins(origin, conjuncts(where), row("ON"))
    predicate = rest[0] if rest else None
    if len(rest) > 1:
        predicate = Call("and", rest, BOOLEAN, None if where is None else where.span)
    grouping = bind_grouping(syntax, origin, row("GROUP BY"))
    window = grouping.bound.window
    per_row = -(-window.range_ms // window.slide_ms)
    limits.enforce("windows_per_row", per_row, span=grouping.bound.span)
    binding = Outputs(origin=origin, grouping=grouping, row=row(""))
    outputs = binding.select(syntax.items)
    having = binding.having(syntax.having) if syntax.having is not None else None
    _check(syntax, grouping, binding)
    return LogicalQuery(
        name=query.name, text=query.select, stream=origin.stream.name, joins=joins,
        window=window, predicate=predicate, keys=grouping.keys,
        aggregates=tuple(binding.aggregates), outputs=outputs, having=having,
        emit_empty=syntax.emit_empty is not None, lifetime_ms=syntax.lifetime_ms,
        notes=(grouping.bound.note,) if grouping.bound.note else (),
    )  # fmt: skip


def _check(syntax: SelectSyntax, grouping: Grouping, binding: Outputs) -> None:
    if not binding.aggregates and not grouping.keys:
        span = syntax.items[0].node.span[0], syntax.items[-1].node.span[1]
        problem = "the query aggregates nothing; add an aggregate such as count(*), or GROUP BY a column"
        raise GroupingMistake(problem, span=span)
    if syntax.emit_empty is not None and grouping.keys:
        names = ", ".join(key.name for key in grouping.keys)
        problem = f"EMIT EMPTY cannot tell which groups ({names}) an empty window would have"
        raise NotAllowed(f"{problem}; remove it or the GROUP BY", span=syntax.emit_empty)
