"""What benches measure, as records: they have a JSON, and those of several seeds are pooled into one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from itertools import chain
from statistics import median
from typing import Any, ClassVar, Self

_POOLED_BY = "pooled by"


def pooled_by(pool: Callable[[list[Any]], object], **options: Any) -> Any:
    """Declare a field of a record whose values are pooled by a function."""
    return field(metadata={_POOLED_BY: pool}, **options)


def concatenated(values: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the items of all tuples, in order.

    >>> concatenated([(1, 2), (3,)])
    (1, 2, 3)
    """
    return tuple(chain.from_iterable(values))


class Record:
    """Figures by name: a base of dataclasses."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    computed: ClassVar[str] = ""
    """The properties that JSON has beside the fields."""
    internal: ClassVar[str] = ""
    """The fields that it does not have."""

    def as_json(self) -> dict[str, object]:
        """Return the fields and the computed properties by name."""
        names = dict.fromkeys([*(known.name for known in fields(self)), *self.computed.split()])
        return {name: plain(getattr(self, name)) for name in names if name not in self.internal.split()}

    @classmethod
    def pooled(cls, records: Sequence[Self]) -> Self:
        """Return the records of several seeds as one.

        Records in them are pooled, too; other fields as `pooled_by` says, or else they are the last seed's.
        """
        changes = {}
        for known in fields(cls):
            values = [getattr(record, known.name) for record in records]
            if _POOLED_BY in known.metadata:
                changes[known.name] = known.metadata[_POOLED_BY](values)
            elif isinstance(values[-1], Record):
                changes[known.name] = type(values[-1]).pooled(values)
        return replace(records[-1], **changes)


def plain(value: object) -> object:
    """Return a value as JSON has it: records, in whatever they are, as dictionaries."""
    if isinstance(value, Record):
        return value.as_json()
    if isinstance(value, tuple | list):
        return tuple(map(plain, value))
    return {key: plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class Seconds(Record):
    """All counted runs of one thing."""

    runs: tuple[float, ...] = pooled_by(concatenated)
    warmups: tuple[float, ...] = pooled_by(lambda _: (), default=())
    """The runs before them."""

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.runs)

    @property
    def least(self) -> float:
        """The quickest."""
        return min(self.runs)

    @property
    def most(self) -> float:
        """The slowest."""
        return max(self.runs)

    def over(self, other: "Seconds") -> "Seconds":
        """Return the ratios to the other's runs of the same rounds."""
        return Seconds(tuple(mine / theirs for mine, theirs in zip(self.runs, other.runs, strict=True)))

    @property
    def spread(self) -> str:
        """From the quickest to the slowest, in words."""
        return f"{self.least:,.2f}–{self.most:,.2f}"
