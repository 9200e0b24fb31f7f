"""SELECT and HAVING: expressions over the keys, the aggregates and the window of a query."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from weft.aggregates.aggregate_functions import AGGREGATES, SYNONYMS, Aggregate, aggregate
from weft.errors import GroupingMistake, NotAllowed, TypeMismatch
from weft.expression import Call, Column, Expression, Literal, Slot, SlotKind
from weft.query.expressions import Context, condition, outside_group_by, typed
from weft.query.grouping import RESERVED_OUTPUTS, Grouping, output_name, window_bound
from weft.query.joins import From
from weft.query.logical import AggregateCall, NamedExpression
from weft.query.syntax import Invocation, ItemSyntax, Name, Node, Star
from weft.query.windows import CALLS, END, START, quotient
from weft.types import INT, Kind

KNOWN = (*(known.name for known in AGGREGATES), *SYNONYMS)
"""The names of aggregates, for suggestions."""


def row_guard(clause: str) -> Callable[[Node], Expression | None]:
    """Return an intercept that refuses what is known only after aggregation; no clause means an argument."""

    def guard(node: Node) -> Expression | None:
        if isinstance(node, Invocation):
            if aggregate(node.name) is not None:
                raise _misplaced(node, clause)
            if node.name.casefold() in CALLS:
                raise outside_group_by(node)
        return None

    return guard


def _misplaced(node: Invocation, clause: str) -> GroupingMistake:
    if clause == "WHERE":
        problem = "is an aggregate, but WHERE tests single rows; use HAVING"
    elif clause == "":
        problem = "stands inside another aggregate; use one of them"
    else:
        problem = f"is an aggregate, and {clause} has none"
    return GroupingMistake(f"{node.name}(…) {problem}", span=node.span)


@dataclass(slots=True, kw_only=True)
class Outputs:
    """SELECT and HAVING of a query while they are bound; equal aggregates are kept once."""

    origin: From
    grouping: Grouping
    row: Context
    """What the arguments of aggregates refer to."""
    aggregates: dict[AggregateCall, int] = field(default_factory=dict)
    names: dict[str, Expression] = field(default_factory=dict)
    """SELECT's aliases, for HAVING."""

    def select(self, items: tuple[ItemSyntax, ...]) -> tuple[NamedExpression, ...]:
        """Bind the items of SELECT."""
        outputs: dict[str, NamedExpression] = {}
        context = replace(self.row, intercept=self._intercept)
        for item in items:
            expression = self._grouped(typed(item.node, context))
            name = self._output_name(item, expression)
            if name.casefold() in outputs:
                problem = f'two columns are named "{name}"; give one another alias'
                raise NotAllowed(problem, span=item.node.span)
            if expression != RESERVED_OUTPUTS.get(name.casefold()):
                outputs[name.casefold()] = NamedExpression(name=name, expression=expression)
            if item.alias is not None:
                self.names[item.alias.casefold()] = expression
        return tuple(outputs.values())

    def having(self, node: Node) -> Expression:
        """Bind HAVING, which may use SELECT's aliases."""
        context = replace(self.row, intercept=self._having_intercept)
        return self._grouped(condition(node, context, "HAVING"))

    def _output_name(self, item: ItemSyntax, expression: Expression) -> str:
        if item.alias is None and isinstance(item.node, Name) and expression in (START, END):
            return "window_start" if expression == START else "window_end"
        name = output_name(item)
        reserved = RESERVED_OUTPUTS.get(name.casefold())
        if reserved is not None and expression != reserved:
            problem = f'the results have a column "{name}" of their own; choose another alias'
            raise NotAllowed(problem, span=item.node.span)
        return name

    def _having_intercept(self, node: Node) -> Expression | None:
        if isinstance(node, Name) and len(node.parts) == 1:
            named = self.names.get(node.parts[0].casefold())
            if named is not None:
                return named
        return self._intercept(node)

    def _intercept(self, node: Node) -> Expression | None:
        if isinstance(node, Name):
            return self._named(node)
        if isinstance(node, Invocation):
            function = aggregate(node.name)
            if function is None and node.name.casefold() in CALLS:
                raise outside_group_by(node)
            return None if function is None else self._aggregate(node, function)
        window = self.grouping.bound
        same = window.divisor and quotient(node, self.origin.stream, self.origin.scope) == window.divisor
        return window.index if same else None

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
        if node.distinct:
            problem = "(DISTINCT …) is not in the language; group by the column in a query of its own"
            raise NotAllowed(f"{node.name}{problem}", span=node.span)
        argument = _argument(node, function, self.row)
        filter = None if node.filter is None else condition(node.filter, self.row, "FILTER")
        type = function.result(INT if argument is None else argument.type)
        is_null = argument is not None and argument.type.kind is Kind.NULL
        if type is None or (is_null and function.name != "count"):
            assert argument is not None
            raise TypeMismatch(f"{node.name} takes {function.takes}, found {argument.type}", span=node.span)
        call = AggregateCall(function=function.name, argument=argument, filter=filter, type=type)
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


def _argument(node: Invocation, function: Aggregate, context: Context) -> Expression | None:
    if len(node.args) != 1:
        raise TypeMismatch(f"{node.name} takes one argument, found {len(node.args)}", span=node.span)
    if isinstance(node.args[0], Star):
        if function.name != "count":
            raise TypeMismatch(
                f"{node.name} takes {function.takes}, found *; only count has *", span=node.span
            )
        return None
    argument = typed(node.args[0], context)
    # count(1) counts rows, and shares with count(*).
    constant = isinstance(argument, Literal) and argument.value is not None
    return None if constant and function.name == "count" else argument
