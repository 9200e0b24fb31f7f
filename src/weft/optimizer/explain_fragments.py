"""Say in words how the predicates of a relation share rows, and why relations of one grouping are apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.optimizer.cost import Fragmentation
from weft.optimizer.fragments import Root, roots_of, together
from weft.optimizer.plan import Relation, SharedPlan
from weft.optimizer.rules import Sharing
from weft.optimizer.statistics import Statistics, assumed

_ONCE = "a row is aggregated once, into its fragment"
_COPIED = "a row is aggregated once for each predicate that it satisfies"
_COMPARED = 3
"""How many other relations a relation is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a plan is explained by."""

    roots: Sequence[Root]
    """The relations of the plan, with what is expected of them."""
    statistics: Statistics
    seen: bool
    """Whether the statistics are those of the stream, or merely assumed."""
    sharing: Sharing
    """How predicates were asked to share."""
    measured: Mapping[Relation, Fragmentation]
    """How relations split the last batch, where that could be counted."""
    rows_per_second: float | None

    def others(self, number: int) -> list[int]:
        """Return the other relations that one could share rows with."""
        grouping = self.roots[number].relation.grouping
        return [
            other
            for other, root in enumerate(self.roots)
            if other != number and root.relation.grouping == grouping
        ]

    def tells_times(self) -> bool:
        """Return whether anything is said of expected times."""
        return any(len(root.relation.predicates) > 1 for root in self.roots) or (
            self.sharing is not Sharing.SEPARATE and any(map(self.others, range(len(self.roots))))
        )


def known(
    plan: SharedPlan,
    statistics: Statistics | None,
    measured: Iterable[tuple[Relation, Fragmentation]],
    sharing: Sharing,
    rows_per_second: float | None,
) -> Known:
    """Gather what a plan is explained by; without statistics, rows are spread evenly."""
    several = ((one.joins, predicate) for one in plan.relations for predicate in one.predicates)
    found = assumed(several) if statistics is None else statistics
    return Known(
        roots=roots_of(plan, found),
        statistics=found,
        seen=statistics is not None,
        sharing=sharing,
        measured=dict(measured),
        rows_per_second=rows_per_second,
    )


def batch(known: Known) -> str:
    """Tell what batch the expected times are for."""
    rows, seconds = known.statistics.rows, known.statistics.span_ms / 1000
    origin = "as measured" if known.seen else "assumed"
    return f"times are for a batch of {rows:,.0f} rows over {seconds:,.4g} s ({origin})"


def splits(number: int, known: Known) -> list[str]:
    """Tell k, α and β, the two costs of Table 5 beside the expected times, and what follows from them."""
    root = known.roots[number]
    found, rows = _fragmentation(root, known)
    count = len(root.relation.predicates)
    return [
        f"k = {found.fragments:,.0f} fragments in {found.rows:,.0f} {rows}",
        f"a row satisfies α = {found.alpha:,.1f} of {count:,} predicates, a fragment β = {found.beta:,.1f}",
        f"shared   |T| + kβ = {found.shared.total:,.0f} operations, "
        f"about {_milliseconds(root.shared.microseconds)} a batch",
        f"unshared α|T| = {found.unshared.total:,.0f}, about {_milliseconds(root.unshared.microseconds)}",
        _verdict(root, found, known.sharing),
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


def _verdict(root: Root, found: Fragmentation, sharing: Sharing) -> str:
    """Tell how rows are aggregated, and by which of the two costs."""
    shared = root.relation.shared
    way = _ONCE if shared else f"not shared: {_COPIED}"
    if sharing is not Sharing.AUTO:
        return f"{way}, as asked"
    by_time = root.shared.microseconds <= root.unshared.microseconds
    by_operations = found.shared.total <= found.unshared.total
    if by_time is not shared:
        return f"{way}, as first chosen; by what is known now {_cheaper(by_time)} costs less time"
    if by_operations is not by_time:
        return f"{way}: by operations {_cheaper(by_operations)} is cheaper, by time {_cheaper(by_time)} is"
    return f"{way}, which costs less"


def _cheaper(shared: bool) -> str:
    return "sharing" if shared else "not sharing"


def apart(number: int, known: Known) -> list[str]:
    """Tell why a relation is apart from others of its grouping."""
    others = known.others(number)
    if not others:
        return []
    if known.sharing is Sharing.SEPARATE:
        return [f"from {_relations(others)}: as asked"]
    lines = [f"from relation {other + 1}: {_reason(number, other, known)}" for other in others[:_COMPARED]]
    if len(others) > _COMPARED:
        lines.append(f"and from {_relations(others[_COMPARED:])}")
    return lines


def _relations(numbers: Sequence[int]) -> str:
    return f"relation {numbers[0] + 1}" if len(numbers) == 1 else f"{len(numbers):,} relations"


def _reason(number: int, other: int, known: Known) -> str:
    one, two = known.roots[number], known.roots[other]
    both = together(one, two)
    now = one.expected.microseconds + two.expected.microseconds
    times = f"together about {_milliseconds(both.microseconds)} a batch, apart {_milliseconds(now)}"
    return times if both.microseconds > now else f"{times}; apart as first chosen"


def _milliseconds(microseconds: float) -> str:
    found = microseconds / 1000
    return f"{found:,.0f} ms" if found >= 10 else f"{found:.1f} ms"
