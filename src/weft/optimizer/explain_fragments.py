"""Say in words how the predicates of a relation share rows, and why relations of one grouping are apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.optimizer.cost import Fragmentation
from weft.optimizer.plan import Relation, RelationId, SharedPlan
from weft.optimizer.roots import Root, merged, roots_of
from weft.optimizer.rules import Sharing
from weft.optimizer.statistics import Statistics, assumed

_ONCE = "a row is aggregated once, into its fragment"
_COPIED = "a row is aggregated once for each predicate that it satisfies"
_COMPARED = 3
"""How many other relations a relation is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a plan is explained by."""

    roots: Mapping[RelationId, Root]
    """The relations that are computed from the stream, with what is expected of them."""
    statistics: Statistics
    seen: bool
    """Whether the statistics are those of the stream, or merely assumed."""
    sharing: Sharing
    """How predicates were asked to share."""
    measured: Mapping[Relation, Fragmentation]
    """How relations split the last batch, where that could be counted."""
    rows_per_second: float | None

    def others(self, id: RelationId) -> list[RelationId]:
        """Return the other relations that one could share rows with."""
        if id not in self.roots:
            return []
        grouping = self.roots[id].relation.grouping
        return [
            other for other, root in self.roots.items() if other != id and root.relation.grouping == grouping
        ]

    @property
    def has_times(self) -> bool:
        """Whether expected times appear anywhere in the text."""
        return any(len(root.relation.predicates) > 1 for root in self.roots.values()) or (
            self.sharing is not Sharing.SEPARATE and any(map(self.others, self.roots))
        )


def known(
    plan: SharedPlan,
    statistics: Statistics | None,
    measured: Iterable[tuple[Relation, Fragmentation]],
    sharing: Sharing,
    rows_per_second: float | None,
) -> Known:
    """Gather what a plan is explained by; without statistics, rows are spread evenly."""
    used = statistics or assumed((joins, predicate) for (joins, _), predicate in plan.selections)
    return Known(
        roots={root.relation.id: root for root in roots_of(plan, used)},
        statistics=used,
        seen=statistics is not None,
        sharing=sharing,
        measured=dict(measured),
        rows_per_second=rows_per_second,
    )


def batch(known: Known) -> str:
    """Describe the batch that the expected times are for."""
    rows, seconds = known.statistics.rows, known.statistics.span_ms / 1000
    origin = "as measured" if known.seen else "assumed"
    return f"times are for a batch of {rows:,.0f} rows over {seconds:,.4g} s ({origin})"


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
