"""Say in words what a plan shares, with whom, and what that costs and saves."""

from collections.abc import Iterable, Sequence

from weft.evaluation import can_evaluate
from weft.optimizer.cost import Fragmentation, Operations, break_even_rate, edge_rate, shared, unshared
from weft.optimizer.explain_fragments import Known, apart, batch, known, name, splits
from weft.optimizer.plan import Answer, Relation, SharedPlan
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing, common_grid
from weft.optimizer.statistics import Statistics
from weft.predicates import TRUE, attributes
from weft.query.logical import LogicalQuery, StreamDef
from weft.window import duration

_HOUR_MS = 3_600_000
_DUST = 1e-9
_LISTED = 8
"""How many queries of a relation are listed by name."""


def explain(
    stream: StreamDef,
    plan: SharedPlan,
    *,
    rows_per_second: float | None = None,
    measured: Iterable[tuple[Relation, Fragmentation]] = (),
    statistics: Statistics | None = None,
    sharing: Sharing = Sharing.AUTO,
) -> str:
    """Return the plan of one stream as text; operations are per hour at the given rate of rows.

    Without a rate, only the rate above which sharing slices pays is given. How predicates split rows is shown
    as it was measured in the last batch; else as the statistics have it, or as it would be if values fell
    evenly between all constants. `sharing` is how predicates were asked to share.
    """
    facts = known(plan, statistics, measured, sharing, rows_per_second)
    lines = [_headline(stream, plan), *([batch(facts)] if facts.has_times else [])]
    answers = plan.answers_by_relation()
    for relation in plan.relations:
        lines += ["", *_relation(relation, plan.slicing, answers[relation.id], facts)]
    return "\n".join(lines)


def _headline(stream: StreamDef, plan: SharedPlan) -> str:
    return (
        f"stream {stream.name}: event time {stream.time}, delay {duration(stream.delay_ms)}\n"
        f"{_count(len(plan.answers), 'query', 'queries')} over "
        f"{_count(len(plan.relations), 'relation', 'relations')}, read once, {_jobs(plan)}"
    )


def _jobs(plan: SharedPlan) -> str:
    """Return how many jobs Spark runs for a batch, and why there is more than one."""
    by_spark = [answer.query.name for answer in plan.answers if not _is_evaluated_here(answer.query)]
    jobs = "2 Spark jobs a batch" if by_spark else "one Spark job a batch"
    predicates = {(answer.grouping, answer.predicate) for answer in plan.answers}
    if len(predicates) > len({answer.grouping for answer in plan.answers}):
        jobs += ", one more when it is planned anew: a sample of its rows"
    jobs += "\nlate and quarantined rows, where there are any, are written by another job"
    tables = sorted({join.table for relation in plan.relations for join in relation.joins})
    if tables:
        jobs += (
            f"\na joined table ({', '.join(tables)}) takes another job if it is large, has a key twice, or "
            "is joined by more than columns of the stream"
        )
    if by_spark:
        listed = ", ".join(by_spark[:_LISTED]) + (", …" if len(by_spark) > _LISTED else "")
        jobs += f"\nthe second job evaluates what only Spark can in SELECT or HAVING of {listed}"
    if plan.by_value:
        jobs += (
            f"\npredicates on {', '.join(plan.by_value)} are evaluated once a value: "
            "another Spark job where a batch shows new values, or queries ask for more"
        )
    return jobs


def _is_evaluated_here(query: LogicalQuery) -> bool:
    """Say whether SELECT and HAVING need no Spark: whether they call no registered function, above all."""
    having = () if query.having is None else (query.having,)
    return all(map(can_evaluate, (*(output.expression for output in query.outputs), *having)))


def _relation(relation: Relation, slicing: Slicing, answers: Sequence[Answer], known: Known) -> Iterable[str]:
    keys = f" by {', '.join(map(str, relation.keys))}" if relation.keys else ""
    joins = "".join(f", joined with {join.table}" for join in relation.joins)
    yield f"{name(relation.id)}: {_rows(relation)}{joins}{keys}"
    if relation.source is not None:
        yield from _labelled("source", [name(relation.source)])
    yield from _labelled("answers", _queries(answers))
    edges_per_ms = edge_rate(tuple(relation.windows), slicing)
    panes = _HOUR_MS / common_grid(relation.edges(Slicing.PAIRED)).modulus
    edges = f"{edges_per_ms * _HOUR_MS:,.0f} {slicing} slices an hour (common panes: {panes:,.0f})"
    yield from _labelled("edges", [edges])
    yield from _labelled("keeps", [", ".join(map(str, relation.primitives)) or "rows"])
    reasons = apart(relation.id, known)
    if len(answers) > 1:
        slices = _slices(relation, answers, slicing, edges_per_ms, known.rows_per_second)
        yield from _labelled("slices", slices)
    elif not reasons:
        yield from _labelled("cost", ["one query: nothing to share yet"])
    if len(relation.predicates) > 1 and relation.id in known.roots:
        yield from _labelled("splits", splits(known.roots[relation.id], known))
    yield from _labelled("apart", reasons)


def _rows(relation: Relation) -> str:
    if relation.predicates == (TRUE,):
        return "all rows"
    if len(relation.predicates) == 1:
        return f"rows where {', '.join(map(str, relation.predicates))}"
    tested = [f"{each.expression} ({each.kind})" for each in attributes(relation.predicates).values()]
    return f"rows split by {len(relation.predicates):,} predicates on {', '.join(tested)}"


def _queries(answers: Sequence[Answer]) -> list[str]:
    width = max((len(answer.query.name) for answer in answers[:_LISTED]), default=0)
    lines = []
    for answer in answers[:_LISTED]:
        notes = "".join(f"   ({note})" for note in answer.query.notes)
        lines.append(f"{answer.query.name:<{width}}  {answer.query.window}{notes}")
    if len(answers) > _LISTED:
        windows = _count(len({answer.query.window for answer in answers}), "window", "windows")
        lines.append(f"and {len(answers) - _LISTED:,} more, {windows} in all")
    return lines


def _slices(
    relation: Relation, answers: Sequence[Answer], slicing: Slicing, edges_per_ms: float, rate: float | None
) -> list[str]:
    """Return the two costs of Table 3, and inequality 1."""
    windows = [answer.query.window for answer in answers]
    even = break_even_rate(windows, edges_per_ms=edges_per_ms, slicing=slicing) * 1000
    # Table 3 knows no predicates.
    alike = "as if every row satisfied every predicate" if len(relation.predicates) > 1 else ""
    # Where slices of different windows coincide, what is left is the dust of rounding.
    pays = f"above {even:,.4g} rows/s" if even > _DUST else "at any rate"
    if rate is None:
        return [f"sharing pays {pays}{alike and f', {alike}'}"]
    rows = rate * 3600
    together = shared(windows, rows=rows, edges=edges_per_ms * _HOUR_MS)
    separate = unshared(windows, rows=rows, period_ms=_HOUR_MS, slicing=slicing)
    verdict = f"sharing pays: it does {pays}"
    if rate <= even and even > _DUST:
        verdict = f"by operations sharing pays {pays} only; slices are shared at any rate"
    return [
        *([f"{alike}:"] if alike else []),
        f"shared   {_operations(together)} operations an hour at {rate:,.4g} rows/s",
        f"unshared {_operations(separate)}, {separate.total / max(together.total, 1):,.1f} times as many",
        verdict,
    ]


def _operations(cost: Operations) -> str:
    return f"{cost.partial:>15,.0f} partial + {cost.final:>11,.0f} final"


def _labelled(label: str, lines: Sequence[str]) -> list[str]:
    return [f"  {'' if number else label:<8} {line}" for number, line in enumerate(lines)]


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"
