"""The queries of `weft bench dashboards`: a workload file's, bound, and what they are without arithmetic."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from weft.bench.workloads import spread_over
from weft.errors import SourceError, Span
from weft.expression import Slot, SlotKind, walk
from weft.query import bind, parse
from weft.query.logical import Catalog, LogicalQuery
from weft.query.statements import CreateQuery, CreateStream, CreateTable

DEFAULT_WORKLOAD = Path(__file__).parents[3] / "examples" / "flights" / "workload.sql"
"""The workload of the repository."""
_HAVING = re.compile(r"\bHAVING\s+(.*)$", re.DOTALL)
_FROM_TO_HAVING = re.compile(r"(\bFROM \w+.*?)(?:\s+HAVING\b.*)?$", re.DOTALL)


class Dashboards(NamedTuple):
    """A workload's queries, in the order of the file."""

    catalog: Catalog
    queries: tuple[LogicalQuery, ...]


def read_dashboards(path: Path = DEFAULT_WORKLOAD) -> Dashboards:
    """Read a workload file and bind its queries."""
    if not path.is_file():
        raise SourceError(f"no workload file {path}; name one with --workload")
    statements = parse(path.read_text(encoding="utf-8"))
    catalog = Catalog(
        streams=tuple(stream.definition for stream in statements if isinstance(stream, CreateStream)),
        tables=tuple(table.definition for table in statements if isinstance(table, CreateTable)),
    )
    queries = tuple(bind(query, catalog) for query in statements if isinstance(query, CreateQuery))
    return Dashboards(catalog=catalog, queries=queries)


def computes(query: LogicalQuery) -> bool:
    """Say whether a query has HAVING, or arithmetic on what is known after aggregation."""
    return query.having is not None or any(
        not isinstance(output.expression, Slot) for output in query.outputs
    )


def sample(queries: Sequence[LogicalQuery], size: int) -> list[LogicalQuery]:
    """Return some of the queries that ordinary Spark can run, evenly spread.

    Spark has no windows with gaps between them.
    """
    possible = [query for query in queries if query.window.slide_ms <= query.window.range_ms]
    return spread_over(possible, size)


def plain_text(query: LogicalQuery) -> str:
    """Return the text of the query without HAVING, its outputs just its keys and aggregates.

    It is cut from the query's own text, so that both read the same.

    Keys must be in SELECT as they are.
    """
    expressions = [output.expression for output in query.outputs]
    expressions += [] if query.having is None else [query.having]
    slots = [node for expression in expressions for node in walk(expression) if isinstance(node, Slot)]
    spans = {slot.index: slot.span for slot in slots if slot.kind is SlotKind.AGGREGATE}
    items = [
        f"{_cut(query, output.expression.span)} AS {output.name}"
        for output in query.outputs
        if isinstance(output.expression, Slot) and output.expression.kind is SlotKind.KEY
    ]
    items += [f"{_cut(query, spans[index])} AS aggregate{index}" for index in sorted(spans)]
    rest = _FROM_TO_HAVING.search(query.text)
    assert rest is not None
    return f"SELECT {', '.join(items)} {rest[1]}"


def keeping_text(query: LogicalQuery) -> str:
    """Return the query with a HAVING that is evaluated and keeps every row: as many as `plain_text`."""
    return _HAVING.sub(r"HAVING (\1) OR count(*) > 0", query.text)


def _cut(query: LogicalQuery, span: Span | None) -> str:
    assert span is not None
    return query.text[slice(*span)]
