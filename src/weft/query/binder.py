"""From a query as written to a `LogicalQuery`: its names, types, window, keys and aggregates resolved."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from weft.aggregates import Aggregate
from weft.aggregates.aggregate_functions import CALLED, called
from weft.errors import GroupingMistake, NotAllowed, QueryError, TooLarge, TypeMismatch
from weft.expression import Call, Column, Expression, Literal, Slot, SlotKind, walk
from weft.limits import DEFAULTS, Limits
from weft.query.aggregate_arguments import bind_arguments
from weft.query.cursor import located
from weft.query.expressions import Context, condition, outside_group_by, typed
from weft.query.grouping import (
    GROUPING,
    RESERVED_OUTPUTS,
    START,
    Grouping,
    bind_grouping,
    buckets,
    is_window_call,
    ordinal,
    output_name,
    window_bound,
)
from weft.query.joins import From, bind_from, bind_joins, conjuncts
from weft.query.logical import AggregateCall, Catalog, LogicalQuery, NamedExpression
from weft.query.ordering import bind_limits
from weft.query.statements import CreateQuery
from weft.query.syntax import Invocation, ItemSyntax, Name, Node, Number
from weft.types import BIGINT, BOOLEAN, INT, DataType, Kind


def row_guard(clause: str) -> Callable[[Node], Expression | None]:
    """Return an intercept that refuses what is known only after aggregation; no clause means an argument."""
    problem = {
        "WHERE": "is an aggregate, but WHERE tests single rows; use HAVING",
        "": "stands inside another aggregate; use one of them",
    }.get(clause, f"is an aggregate, and {clause} has none")

    def guard(node: Node) -> Expression | None:
        if isinstance(node, Invocation):
            if called(node.name) is not None:
                raise GroupingMistake(f"{node.name}(…) {problem}", span=node.span)
            if is_window_call(node):
                raise outside_group_by(node)
        return None

    return guard


@dataclass(slots=True, kw_only=True)
class Outputs:
    """SELECT and HAVING of a query while they are bound; equal aggregates are kept once."""

    origin: From
    grouping: Grouping
    row: Context
    """What the arguments of aggregates refer to."""
    aggregates: dict[AggregateCall, int] = field(default_factory=dict)
    items: list[Expression] = field(default_factory=list)
    """SELECT's items, for ORDER BY."""
    names: dict[str, Expression] = field(default_factory=dict)
    """SELECT's aliases, for HAVING and what follows it."""

    def select(self, items: tuple[ItemSyntax, ...]) -> tuple[NamedExpression, ...]:
        """Bind the items of SELECT."""
        outputs: dict[str, NamedExpression] = {}
        context = replace(self.row, intercept=self._intercept)
        for item in items:
            expression = self._grouped(typed(item.node, context))
            name = output_name(item)
            if item.alias is None and window_bound(item.node) == expression:
                name = "window_start" if expression == START else "window_end"
            elif RESERVED_OUTPUTS.get(name.casefold(), expression) != expression:
                problem = f'the results have a column "{name}" of their own; choose another alias'
                raise NotAllowed(problem, span=item.node.span)
            if name.casefold() in outputs:
                problem = f'two columns are named "{name}"; give one another alias'
                raise NotAllowed(problem, span=item.node.span)
            if expression != RESERVED_OUTPUTS.get(name.casefold()):
                outputs[name.casefold()] = NamedExpression(name=name, expression=expression)
            self.items.append(expression)
            if item.alias is not None:
                self.names[item.alias.casefold()] = expression
        return tuple(outputs.values())

    def having(self, node: Node) -> Expression:
        """Bind HAVING, which may use SELECT's aliases."""
        return self._grouped(condition(node, replace(self.row, intercept=self._with_aliases), "HAVING"))

    def after(self, node: Node, clause: str) -> Expression:
        """Bind an expression of ORDER BY or LIMIT BY, which may use SELECT's aliases and ordinals."""
        if isinstance(node, Number):
            return self.items[ordinal(node, len(self.items), clause)]
        expression = self._grouped(typed(node, replace(self.row, intercept=self._with_aliases)))
        if expression.type.is_nested:
            problem = f"{clause} needs values in an order, found {expression.type}"
            raise TypeMismatch(f"{problem}; use another expression", span=node.span)
        slots = [part for part in walk(expression) if isinstance(part, Slot)]
        if all(slot.kind in (SlotKind.WINDOW_START, SlotKind.WINDOW_END) for slot in slots):
            problem = f"{clause} applies within each window, and this is the same for all rows of a window"
            raise NotAllowed(f"{problem}; remove it", span=node.span)
        return expression

    def _with_aliases(self, node: Node) -> Expression | None:
        if isinstance(node, Name) and len(node.parts) == 1:
            named = self.names.get(node.parts[0].casefold())
            if named is not None:
                return named
        return self._intercept(node)

    def _intercept(self, node: Node) -> Expression | None:
        if isinstance(node, Name):
            return self._named(node)
        window = self.grouping.bound
        if window.buckets is not None and buckets(node, self.origin) == window.buckets:
            return window.value
        if isinstance(node, Invocation):
            function = called(node.name)
            if node.name.casefold() in ("grouping", "grouping_id"):
                return self._absent_keys(node)
            if function is None and is_window_call(node):
                raise outside_group_by(node)
            return None if function is None else self._aggregate(node, function)
        return None

    def _absent_keys(self, node: Invocation) -> Expression:
        """Bind `grouping(key)` and `grouping_id()`: which keys a row's grouping set is without."""
        keys = self.grouping.keys
        if not self.grouping.sets:
            problem = f"{node.name}(…) is for ROLLUP, CUBE and GROUPING SETS, and GROUP BY has none of them"
            raise GroupingMistake(f"{problem}; remove it", span=node.span)
        context = replace(self.row, intercept=self._intercept)
        found = [self._grouped(typed(argument, context)) for argument in node.args]
        slots = [Slot(SlotKind.KEY, index, key.expression.type) for index, key in enumerate(keys)]
        if node.name.casefold() == "grouping_id" and found in ([], slots):
            return GROUPING
        if node.name.casefold() == "grouping" and len(found) == 1 and found[0] in slots:
            place = Literal(len(slots) - 1 - slots.index(found[0]), INT)
            bit = Call("&", (Call("shiftright", (GROUPING, place), BIGINT), Literal(1, BIGINT)), BIGINT)
            return Call("cast", (bit,), DataType(Kind.TINYINT))
        names = ", ".join(key.name for key in keys)
        takes = {"grouping": f"one key of GROUP BY: {names}"}.get(
            node.name.casefold(), f"nothing, or all keys in order: {names}"
        )
        raise GroupingMistake(f"{node.name} takes {takes}", span=node.span)

    def _named(self, node: Name) -> Expression | None:
        if len(node.parts) == 1:
            alias = dict(self.grouping.aliases).get(node.parts[0].casefold())
            if alias is not None:
                return alias
            if node.parts[0].casefold() == "window" and not self.origin.scope.has(node):
                problem = "the window is two columns; write window_start and window_end"
                raise NotAllowed(problem, span=node.span)
        return window_bound(node)

    def _aggregate(self, node: Invocation, function: Aggregate) -> Slot:
        function, arguments, constants = bind_arguments(node, function, self.row, self.origin.stream)
        filter = None if node.filter is None else condition(node.filter, self.row, "FILTER")
        type = function.result(tuple(argument.type for argument in arguments), constants)
        is_null = any(argument.type.kind is Kind.NULL for argument in arguments)
        if type is None or (is_null and function.name != "count"):
            # The event time and the columns that settle ties were not written.
            written = arguments[: function.most] if function.by_time else arguments
            found = ", ".join(str(argument.type) for argument in written)
            raise TypeMismatch(f"{node.name} takes {function.takes}, found {found}", span=node.span)
        call = AggregateCall(
            function=function.name, arguments=arguments, constants=constants, filter=filter, type=type
        )
        index = self.aggregates.setdefault(call, len(self.aggregates))
        return Slot(SlotKind.AGGREGATE, index, type, node.span)

    def _grouped(self, expression: Expression) -> Expression:
        """Replace the keys by their slots; a column that remains is a mistake."""
        for index, key in enumerate(self.grouping.keys):
            if expression == key.expression:
                return Slot(SlotKind.KEY, index, expression.type, expression.span)
        if isinstance(expression, Call):
            args = tuple([self._grouped(arg) for arg in expression.args])
            return Call(expression.function, args, expression.type, expression.span)
        if isinstance(expression, Column):
            shown = self.origin.scope.shown(expression)
            problem = f'column "{shown}" is neither in GROUP BY nor inside an aggregate'
            hint = f"add it to GROUP BY or write e.g. max({shown})"
            raise GroupingMistake(f"{problem}; {hint}", span=expression.span)
        return expression


def bind(query: CreateQuery, catalog: Catalog, *, limits: Limits = DEFAULTS) -> LogicalQuery:
    """Return what a query means, given the names that it may use."""
    try:
        return _bind(query, catalog, limits)
    except QueryError as error:
        located(error, query.select, start=query.start).named(query.name)
        raise
    except RecursionError:
        raise TooLarge("the query nests too deeply; write it with fewer levels", query=query.name) from None


def _bind(query: CreateQuery, catalog: Catalog, limits: Limits) -> LogicalQuery:
    syntax = query.syntax
    origin = bind_from(syntax, catalog)
    functions = {function.name.casefold(): function for function in catalog.functions}

    def row(clause: str) -> Context:
        return Context(scope=origin.scope, functions=functions, intercept=row_guard(clause), known=CALLED)

    where = condition(syntax.where, row("WHERE"), "WHERE") if syntax.where else None
    joins, rest = bind_joins(origin, conjuncts(where), row("ON"))
    predicate = rest[0] if rest else None
    if len(rest) > 1:
        predicate = Call("and", rest, BOOLEAN, None if where is None else where.span)
    grouping = bind_grouping(syntax, origin, row("GROUP BY"))
    window = grouping.bound.window
    per_row = -(-window.range_ms // (window.step_ms or window.slide_ms))
    limits.enforce("windows_per_row", per_row, span=grouping.bound.span)
    binding = Outputs(origin=origin, grouping=grouping, row=row(""))
    outputs = binding.select(syntax.items)
    having = binding.having(syntax.having) if syntax.having is not None else None
    order, row_limits = bind_limits(syntax, grouping, binding.after)
    if not binding.aggregates and not grouping.keys:
        span = syntax.items[0].node.span[0], syntax.items[-1].node.span[1]
        problem = "the query aggregates nothing; add an aggregate such as count(*), or GROUP BY a column"
        raise GroupingMistake(problem, span=span)
    if syntax.emit_empty is not None and grouping.keys:
        names = ", ".join(key.name for key in grouping.keys)
        problem = f"EMIT EMPTY cannot tell which groups ({names}) an empty window would have"
        raise NotAllowed(f"{problem}; remove it or the GROUP BY", span=syntax.emit_empty)
    return LogicalQuery(
        name=query.name, text=query.select, stream=origin.stream.name, joins=joins,
        window=window, predicate=predicate, keys=grouping.keys, sets=grouping.sets,
        aggregates=tuple(binding.aggregates), outputs=outputs, having=having, order=order, limits=row_limits,
        emit_empty=syntax.emit_empty is not None, lifetime_ms=syntax.lifetime_ms,
        notes=(grouping.bound.note,) if grouping.bound.note else (),
    )  # fmt: skip
