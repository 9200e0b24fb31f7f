"""Which engine may deliver: every start on a checkpoint is an incarnation, and sinks know whom they saw last.

    checkpoint       A from 0 ──────── B from 21 ─────── C from 51      its lineage: who made which commits
    a copy of it          └─────────── B from 21 ── D from 35           restored, or run beside the original
    the sink saw C through commit 61: the checkpoint knows C, and the copy does not

A sink keeps the lineage of whom it saw last, and through which commit: its claim. Whoever knows neither that
incarnation nor that it made so many commits is refused for good. The last commit that both know tells how far
a sink has to be taken back before it can go on with another lineage.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from weft.errors import DamagedFile, Fenced

_ANY = (1 << 63) - 1
"""More commits than there can be."""
_KEPT = 10_000
"""How many incarnations a lineage goes back: one that a sink saw before that is not known any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One start of an engine on a checkpoint."""

    token: str
    number: int
    """Counts the starts, from 1."""
    after: int
    """The last commit that there was when it started, or −1."""
    begun: str
    """When it started, by its own clock."""
    by: str
    """Which process it was."""

    def __str__(self) -> str:
        return f"incarnation {self.number} ({self.by}, begun {self.begun})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The incarnations of a checkpoint, in order; the last is the one that runs."""

    incarnations: tuple[Incarnation, ...]
    place: str = ""
    """Where it is kept, as messages name it."""

    @property
    def current(self) -> Incarnation:
        """The incarnation that runs."""
        return self.incarnations[-1]

    def followed(self, *, after: int, by: str) -> "Lineage":
        """Return the lineage with one more incarnation, which starts after a commit."""
        number = self.incarnations[-1].number + 1 if self.incarnations else 1
        begun = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        new = Incarnation(token=uuid4().hex, number=number, after=after, begun=begun, by=by)
        return Lineage(incarnations=(*self.incarnations[1 - _KEPT :], new), place=self.place)

    def last_of(self, token: str) -> int | None:
        """Return the last commit that an incarnation made as far as is known, None if it is not known.

        The current one may have made any.
        """
        for incarnation, following in zip(self.incarnations, self.incarnations[1:], strict=False):
            if incarnation.token == token:
                return following.after
        return _ANY if self.incarnations and self.current.token == token else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a sink has seen: the lineage of who delivered last, and through which commit.

    Without a lineage, it is from a version of Weft that had none.
    """

    through: int
    lineage: Lineage | None = None

    def as_json(self) -> str:
        """Return it as text, which `read_claim` reads."""
        return json.dumps({"through": self.through, "incarnations": records_of(self.lineage)})


def read_claim(text: str | bytes, *, name: str) -> Claim:
    """Return a claim from its text; raise DamagedFile, with the claim's name, if it is none."""
    try:
        read = json.loads(text)
        return Claim(through=int(read["through"]), lineage=lineage_from(read["incarnations"]))
    except (ValueError, TypeError, KeyError):
        raise DamagedFile(
            f"{name} is damaged: it tells which engine has delivered here last; restore it, or take the sink "
            "back to the checkpoint with weft run --rewind"
        ) from None


def judge(sink: str, lineage: Lineage, claim: Claim | None) -> None:
    """Raise Fenced if a sink has seen what a lineage does not know of."""
    if claim is None or not is_ahead(lineage, claim):
        return
    # As the file of a commit is called: it may be missing.
    seen = f"results through commit {claim.through:09d}"
    if claim.lineage is not None:
        seen += f" of {claim.lineage.current}"
    own = lineage.current
    raise Fenced(
        f"sink {sink} has {seen}, and this checkpoint ({lineage.place}) does not know them: it is an older "
        f"copy, or was run beside the one that made them (this is incarnation {own.number}, begun after "
        f"commit {own.after}). Nothing was changed there. Go on with the checkpoint that delivered there "
        "last, or take the sink back to this one with weft run --rewind, which shows first what would go"
    )


def is_ahead(lineage: Lineage, claim: Claim) -> bool:
    """Say whether a sink has seen what a lineage does not know of."""
    return claim.through > known_through(lineage, claim)


def known_through(lineage: Lineage, claim: Claim) -> int:
    """Return the last commit of the claim's incarnation that a lineage knows, −1 if it does not know that."""
    if claim.lineage is None:
        return lineage.current.after
    last = lineage.last_of(claim.lineage.current.token)
    return -1 if last is None else last


def common_commit(lineage: Lineage, claim: Claim) -> int:
    """Return the last commit that is the same in a lineage and in what a sink has seen, or −1."""
    if claim.lineage is None:
        return min(lineage.current.after, claim.through)
    for incarnation in reversed(claim.lineage.incarnations):
        ours = lineage.last_of(incarnation.token)
        if ours is not None:
            theirs = claim.lineage.last_of(incarnation.token) or 0
            return min(ours, theirs, claim.through)
    return -1


def records_of(lineage: Lineage | None) -> list[dict[str, Any]]:
    """Return a lineage's incarnations as plain values."""
    if lineage is None:
        return []
    return [
        {"token": one.token, "number": one.number, "after": one.after, "begun": one.begun, "by": one.by}
        for one in lineage.incarnations
    ]


def lineage_from(records: list[Mapping[str, Any]], *, place: str = "") -> Lineage | None:
    """Return a lineage from plain values, None if there are none; raise what comes of other values."""
    incarnations = tuple(
        Incarnation(
            token=str(one["token"]),
            number=int(one["number"]),
            after=int(one["after"]),
            begun=str(one["begun"]),
            by=str(one["by"]),
        )
        for one in records
    )
    return Lineage(incarnations=incarnations, place=place) if incarnations else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surplus:
    """Results of one query that a sink would lose if it were taken back to a checkpoint."""

    query: str
    rows: int
    why: str
    """Whose they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a sink is taken back to."""

    origin: str
    """The history, as `Sink.resume` has it."""
    lineage: Lineage
    commit: int
    """Later commits are not this checkpoint's."""
    watermark: int | None
    """Where the watermark was then, in microseconds: later commits answered windows that end after it."""


@runtime_checkable
class Fencing(Protocol):
    """A sink that knows who delivered to it last, and refuses others."""

    def stand_as(self, lineage: Lineage) -> None:
        """Deliver as the current incarnation of a lineage from now on."""

    def seen(self, origin: str) -> Claim | None:
        """Return what the sink has seen of a history; None if nothing."""

    def surplus(self, target: Target) -> list[Surplus]:
        """Return what would go if the sink were taken back; nothing is changed."""

    def rewind(self, target: Target) -> None:
        """Remove what is not the checkpoint's, then claim the sink for the current incarnation."""
