"""Say in words what a plan shares, with whom and why not with others, and what that costs and saves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.evaluation import can_evaluate
from weft.optimizer.cost import Fragmentation, Operations, break_even_rate, edge_rate, shared, unshared
from weft.optimizer.plan import Answer, Relation, RelationId, SharedPlan
from weft.optimizer.roots import Root, merged, roots_of
from weft.optimizer.rules import Sharing
from weft.optimizer.sketching import proposals
from weft.optimizer.slices import Slicing, common_grid
from weft.optimizer.statistics import Statistics, assumed
from weft.predicates import TRUE, attributes
from weft.query.logical import StreamDef
from weft.window import duration

_HOUR_MS = 3_600_000
_DUST = 1e-9
_LISTED = 8
"""How many queries of a relation are listed by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a plan is explained by."""

    roots: Mapping[RelationId, Root]
    """The relations that are computed from the stream, with what is expected of them."""
    seen: bool
    """Whether the statistics are those of the stream, or merely assumed."""
    sharing: Sharing
    """How predicates were asked to share."""
    measured: Mapping[Relation, Fragmentation]
    """How relations split the last batch, where that could be counted."""
    rows_per_second: float | None
    expected_rate: float
    """Rows per second: those given, or those of the statistics."""

    def others(self, id: RelationId) -> list[RelationId]:
        """Return the other relations that one could share rows with."""
        if id not in self.roots:
            return []
        grouping = self.roots[id].relation.grouping
        return [
            other for other, root in self.roots.items() if other != id and root.relation.grouping == grouping
        ]


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
    # Without statistics, rows are spread evenly.
    used = statistics or assumed((joins, predicate) for (joins, _), predicate in plan.selections)
    known = Known(
        roots={root.relation.id: root for root in roots_of(plan, used)},
        seen=statistics is not None,
        sharing=sharing,
        measured=dict(measured),
        rows_per_second=rows_per_second,
        expected_rate=used.rows / used.span_ms * 1000 if rows_per_second is None else rows_per_second,
    )
    lines = [
        f"stream {stream.name}: event time {stream.time}, delay {duration(stream.delay_ms)}",
        f"{counted(len(plan.answers), 'query', 'queries')} over "
        f"{counted(len(plan.relations), 'relation', 'relations')}, read once, {_jobs(plan)}",
    ]
    splits_rows = any(len(root.relation.predicates) > 1 for root in known.roots.values())
    if splits_rows or (sharing is not Sharing.SEPARATE and any(map(known.others, known.roots))):
        rows, seconds = used.rows, used.span_ms / 1000
        origin = "as measured" if known.seen else "assumed"
        lines.append(f"times are for a batch of {rows:,.0f} rows over {seconds:,.4g} s ({origin})")
    answers = plan.answers_by_relation()
    for relation in plan.relations:
        lines += ["", *_relation(relation, plan.slicing, answers[relation.id], known)]
    return "\n".join(lines)


def _jobs(plan: SharedPlan) -> str:
    """Return how many jobs Spark runs for a batch, and why there is more than one."""
    by_spark = []
    for query in (answer.query for answer in plan.answers):
        # Those that call registered functions, above all.
        having = () if query.having is None else (query.having,)
        if not all(map(can_evaluate, (*(output.expression for output in query.outputs), *having))):
            by_spark.append(query.name)
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
    yield from _labelled("sketch", proposals(answers, known.expected_rate))
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
        windows = counted(len({answer.query.window for answer in answers}), "window", "windows")
        lines.append(f"and {len(answers) - _LISTED:,} more, {windows} in all")
    return lines


def _slices(
    relation: Relation, answers: Sequence[Answer], slicing: Slicing, edges_per_ms: float, rate: float | None
) -> list[str]:
    """Return the two costs of Table 3, and inequality 1."""
    windows = [part for answer in answers for part in answer.query.window.parts]
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


def counted(number: int, singular: str, plural: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {singular if number == 1 else plural}"


_ONCE = "a row is aggregated once, into its fragment"
_COPIED = "a row is aggregated once for each predicate that it satisfies"
_COMPARED = 3
"""How many other relations a relation is compared with."""


def splits(root: Root, known: Known) -> list[str]:
    """Return k, α and β, the two costs of Table 5 beside the expected times, and what follows from them."""
    counted, rows = _fragmentation(root, known)
    count = len(root.relation.predicates)
    return [
        f"k = {counted.fragments:,.0f} fragments in {counted.rows:,.0f} {rows}",
        f"a row satisfies α = {counted.alpha:,.1f} of {count:,} predicates, "
        f"a fragment β = {counted.beta:,.1f}",
        f"shared   |T| + kβ = {counted.shared.total:,.0f} operations, "
        f"about {_milliseconds(root.shared.microseconds)} a batch",
        f"unshared α|T| = {counted.unshared.total:,.0f}, about {_milliseconds(root.unshared.microseconds)}",
        _verdict(root, counted, known.sharing),
    ]


def _fragmentation(root: Root, known: Known) -> tuple[Fragmentation, str]:
    """Return k, α and β, and of which rows: the last batch's, those of a window, or the sample's."""
    counted = known.measured.get(root.relation)
    if counted is not None:
        return counted, "rows of the last batch"
    like = "rows like those sampled" if known.seen else "rows spread evenly"
    if not known.rows_per_second:
        return root.fragmentation(), like
    seconds = root.range_ms / 1000
    window = f"a mean window of {seconds:,.4g} s at {known.rows_per_second:,.4g} rows/s"
    return root.fragmentation(known.rows_per_second * seconds), f"{like}, {window}"


def _verdict(root: Root, counted: Fragmentation, sharing: Sharing) -> str:
    """Return how rows are aggregated, and by which of the two costs."""
    shared = root.relation.shared
    way = _ONCE if shared else f"not shared: {_COPIED}"
    if sharing is not Sharing.AUTO:
        return f"{way}, as asked"
    by_time = root.shared.microseconds <= root.unshared.microseconds
    by_operations = counted.shared.total <= counted.unshared.total
    cheaper = {True: "sharing", False: "not sharing"}
    if by_time is not shared:
        return f"{way}, as first chosen; by what is known now {cheaper[by_time]} costs less time"
    if by_operations is not by_time:
        return f"{way}: by operations {cheaper[by_operations]} is cheaper, by time {cheaper[by_time]} is"
    return f"{way}, which costs less"


def apart(id: RelationId, known: Known) -> list[str]:
    """Return why a relation is apart from others of its grouping."""
    others = known.others(id)
    if not others:
        return []
    if known.sharing is Sharing.SEPARATE:
        return [f"from {_relations(others)}: as asked"]
    lines = [
        f"from {name(other)}: {_reason(known.roots[id], known.roots[other])}" for other in others[:_COMPARED]
    ]
    return lines + [f"and from {_relations(rest)}" for rest in (others[_COMPARED:],) if rest]


def name(id: RelationId) -> str:
    """Return what a relation is called."""
    return f"relation {id + 1}"


def _relations(ids: Sequence[RelationId]) -> str:
    return name(ids[0]) if len(ids) == 1 else f"{len(ids):,} relations"


def _reason(root: Root, other: Root) -> str:
    together = merged((root, other)).expected.microseconds
    now = root.expected.microseconds + other.expected.microseconds
    times = f"together about {_milliseconds(together)} a batch, apart {_milliseconds(now)}"
    return times if together > now else f"{times}; apart as first chosen"


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:,.{0 if microseconds >= 10_000 else 1}f} ms"
