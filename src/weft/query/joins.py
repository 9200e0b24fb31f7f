"""FROM: the stream and tables that a query reads, and the equalities that join them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import AmbiguousName, BadWindow, NotAllowed, TypeMismatch, UnknownName, suggestion
from weft.expression import Call, Expression, columns
from weft.query.coercion import common_type
from weft.query.expressions import Context, condition
from weft.query.logical import Catalog, Join, JoinKind, StreamDef, TableDef
from weft.query.scope import Input, Scope
from weft.query.syntax import SelectSyntax, SourceSyntax

_Pair = tuple[Expression, Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class From:
    """The inputs of a query."""

    stream: StreamDef
    source: SourceSyntax
    """How the stream was written."""
    tables: tuple[tuple[SourceSyntax, Input], ...]
    scope: Scope


def bind_from(syntax: SelectSyntax, catalog: Catalog) -> From:
    """Find the stream and tables that a query names."""
    definitions: tuple[StreamDef | TableDef, ...] = (*catalog.streams, *catalog.tables)
    streams: list[tuple[SourceSyntax, StreamDef]] = []
    tables: list[tuple[SourceSyntax, TableDef]] = []
    for source in syntax.sources:
        name = source.name.casefold()
        definition = next((other for other in definitions if other.name.casefold() == name), None)
        if definition is None:
            hint = suggestion(source.name, [other.name for other in definitions])
            raise UnknownName(f'unknown stream or table "{source.name}"{hint}', span=source.span)
        if isinstance(definition, StreamDef):
            streams.append((source, definition))
        else:
            tables.append((source, definition))
    if not streams:
        known = ", ".join(stream.name for stream in catalog.streams)
        problem = f"{tables[0][1].name} is a table; a query reads a stream{': ' + known if known else ''}"
        raise NotAllowed(problem, span=tables[0][0].span)
    stream_source, stream = streams[0]
    if len(streams) > 1:
        problem = "a query reads one stream; joins of streams are not in the language"
        raise NotAllowed(f"{problem}: {stream.name} and {streams[1][1].name}", span=streams[1][0].span)
    after_a_table = syntax.sources[0] is not stream_source and any(source.left for source, _ in tables)
    if stream_source.left or after_a_table:
        raise NotAllowed("the stream stands before LEFT JOIN", span=stream_source.span)
    for source, table in tables:
        if source.window is not None:
            raise BadWindow(f"{table.name} is a table; only the stream has a window", span=source.window.span)
    # Tables have their own names where they can, so that equal joins under other aliases are equal.
    times = Counter(table.name for _, table in tables)
    labels = [source.alias or table.name for source, table in tables]
    pairs = list(zip((table for _, table in tables), labels, strict=True))
    prefixes = [table.name if times[table.name] == 1 else label for table, label in pairs]
    if len({prefix.casefold() for prefix in prefixes}) < len(prefixes):
        prefixes = labels
    inputs = [Input.of(stream, "stream", stream_source.alias, "")]
    for (source, table), prefix in zip(tables, prefixes, strict=True):
        input = Input.of(table, "table", source.alias, prefix)
        if any(input.called(other.label) for other in inputs):
            problem = f'"{input.label}" stands for two inputs; give one an alias, as in {input.name} AS other'
            raise AmbiguousName(problem, span=source.span)
        inputs.append(input)
    joined = tuple(zip((source for source, _ in tables), inputs[1:], strict=True))
    merged = frozenset(name.parts[0].casefold() for source, _ in joined for name in source.using)
    return From(stream=stream, source=stream_source, tables=joined, scope=Scope(tuple(inputs), merged))


def bind_joins(
    origin: From, where: tuple[Expression, ...], context: Context
) -> tuple[tuple[Join, ...], tuple[Expression, ...]]:
    """Return the joins, and the conditions that are not part of one."""
    conditions = [*where]
    for source, _ in origin.tables:
        if not source.left and source.on is not None:
            conditions.extend(conjuncts(condition(source.on, context, "ON")))
    waiting, joined, joins = list(origin.tables), {""}, list[Join]()
    while waiting:
        # A table may be linked to the stream only through a later one.
        for source, input in waiting:
            join, conditions = _join(source, input, origin, conditions, joined, context)
            if join is not None:
                joins.append(join)
                joined.add(input.prefix)
                waiting.remove((source, input))
                break
        else:
            source, input = waiting[0]
            problem = f"table {input.name} is joined without an equality"
            raise NotAllowed(f"{problem}; add one, as in {input.label}.column = …", span=source.span)
    return tuple(joins), tuple(conditions)


def _join(
    source: SourceSyntax, input: Input, origin: From, conditions: list[Expression], joined: set[str],
    context: Context,
) -> tuple[Join | None, list[Expression]]:  # fmt: skip
    """Return the join of a table with those joined before it, or None, and the conditions left over."""
    pairs: list[_Pair] = []
    before = Scope(origin.scope.inputs[: origin.scope.inputs.index(input)], origin.scope.merged)
    for name in source.using:
        sides = before.resolve(name), Scope((input,)).resolve(name)
        if common_type(sides[0].type, sides[1].type) is None:
            problem = f'USING joins {sides[0].type} with {sides[1].type} by "{name.parts[0]}"'
            raise TypeMismatch(problem, span=name.span)
        pairs.append(sides)
    if any(not _prefixes_of(left, origin) <= joined for left, _ in pairs):
        return None, conditions
    terms: Sequence[Expression] = conditions
    if source.left:
        terms = conjuncts(condition(source.on, context, "ON")) if source.on is not None else ()
    rest: list[Expression] = []
    for term in terms:
        pair = _pair(term, input, joined, origin)
        if pair is None:
            rest.append(term)
        else:
            pairs.append(pair)
    if source.left and rest:
        problem = f"ON of LEFT JOIN {input.name} holds only equalities with its columns; use WHERE"
        raise NotAllowed(problem, span=rest[0].span)
    if not pairs:
        return None, conditions
    kind = JoinKind.LEFT if source.left else JoinKind.INNER
    join = Join(table=input.name, alias=input.prefix, kind=kind, on=tuple(dict.fromkeys(pairs)))
    return join, conditions if source.left else rest


def _pair(term: Expression, input: Input, joined: set[str], origin: From) -> _Pair | None:
    if not isinstance(term, Call) or term.function != "=":
        return None
    sides = [_prefixes_of(arg, origin) for arg in term.args]
    for own, other in ((1, 0), (0, 1)):
        if sides[own] == {input.prefix} and sides[other] and sides[other] <= joined:
            return term.args[other], term.args[own]
    return None


def _prefixes_of(expression: Expression, origin: From) -> set[str]:
    """Return the prefixes of the inputs that an expression reads."""
    prefixes = [input.prefix for _, input in origin.tables]
    return {
        next((prefix for prefix in prefixes if name.startswith(prefix + ".")), "")
        for name in columns(expression)
    }


def conjuncts(expression: Expression | None) -> tuple[Expression, ...]:
    """Return the terms of an AND."""
    if expression is None:
        return ()
    if isinstance(expression, Call) and expression.function == "and":
        return expression.args
    return (expression,)
