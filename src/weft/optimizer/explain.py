"""Say in words what a plan shares, with whom, and what that costs and saves."""

from collections.abc import Iterable, Sequence

from weft.optimizer.cost import Fragmentation, Operations, break_even_rate, edge_rate, shared, unshared
from weft.optimizer.fragments import roots_of
from weft.optimizer.plan import Answer, Relation, SharedPlan
from weft.optimizer.slices import Slicing, common_grid
from weft.optimizer.statistics import assumed
from weft.predicates import TRUE, tests
from weft.query.logical import StreamDef
from weft.window import duration

_HOUR_MS = 3_600_000
_LISTED = 8
"""How many queries of a relation are listed by name."""


def explain(
    stream: StreamDef,
    plan: SharedPlan,
    *,
    rows_per_second: float | None = None,
    measured: Sequence[Fragmentation] = (),
) -> str:
    """Return the plan of one stream as text; costs are per hour at the given rate of rows.

    Without a rate, only the rate above which sharing pays is told. How predicates split rows is told as it
    was measured in the last batch, or as it would be if values fell evenly between all constants.
    """
    lines = [_headline(stream, plan)]
    found = measured if len(measured) == len(plan.relations) else _assumed(plan)
    for number, relation in enumerate(plan.relations):
        lines += ["", *_relation(number, relation, plan, rows_per_second)]
        if len(relation.predicates) > 1:
            lines += _fragments(relation, found[number], assumed=found is not measured)
    return "\n".join(lines)


def _assumed(plan: SharedPlan) -> list[Fragmentation]:
    several = [(one.joins, predicate) for one in plan.relations for predicate in one.predicates]
    return [root.fragmentation() for root in roots_of(plan, assumed(several))]


def _fragments(relation: Relation, found: Fragmentation, *, assumed: bool) -> list[str]:
    """Tell k, α, β and the two costs of Table 5."""
    rows = "rows spread evenly" if assumed else "rows of the last batch"
    count = len(relation.predicates)
    together, apart = found.shared, found.unshared
    lines = [
        f"k = {found.fragments:,.0f} fragments in {found.rows:,.0f} {rows}",
        f"a row satisfies α = {found.alpha:,.1f} of {count:,} predicates, a fragment β = {found.beta:,.1f}",
        f"shared   |T| + kβ = {together.total:,.0f} operations",
        f"unshared α|T| = {apart.total:,.0f}",
        "a row is aggregated once, into its fragment"
        if relation.shared
        else "not shared: a row is aggregated once for each predicate that it satisfies, which costs less",
    ]
    return _labelled("splits", lines)


def _headline(stream: StreamDef, plan: SharedPlan) -> str:
    return (
        f"stream {stream.name}: event time {stream.time}, delay {duration(stream.delay_ms)}\n"
        f"{_count(len(plan.answers), 'query', 'queries')} over "
        f"{_count(len(plan.relations), 'relation', 'relations')}, read once, one Spark job a batch"
    )


def _relation(number: int, relation: Relation, plan: SharedPlan, rate: float | None) -> Iterable[str]:
    answers = plan.answers_of(number)
    yield f"relation {number + 1}: {_what(relation)}"
    yield from _labelled("answers", _queries(answers))
    yield from _labelled("edges", [_edges(relation, plan.slicing)])
    yield from _labelled("keeps", [", ".join(map(str, relation.primitives)) or "rows"])
    if len(relation.predicates) == 1:
        yield from _labelled("cost", _costs(relation, answers, plan.slicing, rate))


def _what(relation: Relation) -> str:
    rows = _rows(relation)
    keys = f" by {', '.join(map(str, relation.keys))}" if relation.keys else ""
    joins = "".join(f", joined with {join.table}" for join in relation.joins)
    return f"{rows}{joins}{keys}"


def _rows(relation: Relation) -> str:
    if relation.predicates == (TRUE,):
        return "all rows"
    if len(relation.predicates) == 1:
        return f"rows where {relation.predicates[0]}"
    tested = dict.fromkeys(
        str(one.expression) for predicate in relation.predicates for one in tests(predicate)
    )
    return f"rows split by {len(relation.predicates):,} predicates on {', '.join(tested)}"


def _queries(answers: Sequence[Answer]) -> list[str]:
    width = max(len(answer.query.name) for answer in answers[:_LISTED])
    lines = []
    for answer in answers[:_LISTED]:
        notes = "".join(f"   ({note})" for note in answer.query.notes)
        lines.append(f"{answer.query.name:<{width}}  {answer.query.window}{notes}")
    if len(answers) > _LISTED:
        lines.append(
            f"and {len(answers) - _LISTED:,} more, {len({a.query.window for a in answers}):,} windows in all"
        )
    return lines


def _edges(relation: Relation, slicing: Slicing) -> str:
    windows = tuple(relation.windows)
    per_hour = edge_rate(windows, slicing) * _HOUR_MS
    panes = _HOUR_MS / common_grid(relation.edges(Slicing.PAIRED)).modulus
    return f"{per_hour:,.0f} {slicing} slices an hour (common panes: {panes:,.0f})"


def _costs(relation: Relation, answers: Sequence[Answer], slicing: Slicing, rate: float | None) -> list[str]:
    windows = [answer.query.window for answer in answers]
    edges_per_ms = edge_rate(tuple(relation.windows), slicing)
    even = break_even_rate(windows, edges_per_ms=edges_per_ms) * 1000
    if len(answers) == 1:
        return ["one query: nothing to share yet"]
    if rate is None:
        return [f"sharing pays above {even:,.4g} rows/s"]
    rows = rate * 3600
    together = shared(windows, rows=rows, edges=edges_per_ms * _HOUR_MS)
    apart = unshared(windows, rows=rows, period_ms=_HOUR_MS)
    verdict = f"sharing pays: it does above {even:,.4g} rows/s"
    if rate <= even:
        # Slices without rows are not kept, and a final operation costs a small part of what a row does.
        verdict = f"by operations sharing pays above {even:,.4g} rows/s only; by time it does at any rate"
    return [
        f"shared   {_operations(together)} operations an hour at {rate:,.4g} rows/s",
        f"unshared {_operations(apart)}, {apart.total / max(together.total, 1):,.1f} times as many",
        verdict,
    ]


def _operations(cost: Operations) -> str:
    return f"{cost.partial:>15,.0f} partial + {cost.final:>11,.0f} final"


def _labelled(label: str, lines: Sequence[str]) -> list[str]:
    return [f"  {label if not place else '':<8} {line}" for place, line in enumerate(lines)]


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
