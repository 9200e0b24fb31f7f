"""Which engine may deliver: each start on a checkpoint is an incarnation, and sinks store the last one seen.

    checkpoint       A from 0 ──────── B from 21 ─────── C from 51      its lineage: who made which commits
    a copy of it          └─────────── B from 21 ── D from 35           restored, or run beside the original
    the sink saw C through commit 61: the checkpoint knows C, and the copy does not

A sink stores the lineage of the engine that delivered last, and through which commit: its claim. An engine
that does not know that incarnation, or not that it made so many commits, is refused for good. A sink that is
to go on with another lineage is first taken back to the last commit that both know.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from weft.errors import DamagedFile, Fenced
from weft.sinks.sink import Sink

_ANY = (1 << 63) - 1
"""Larger than any commit."""
_KEPT = 10_000
"""Number of incarnations that a lineage retains; a sink that saw an older one last refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One start of an engine on a checkpoint."""

    token: str
    number: int
    """Counts the starts, from 1."""
    after: int
    """The last commit when it started, or −1."""
    begun: str
    """When it started, by its own clock."""
    by: str
    """Its process and host."""

    def __str__(self) -> str:
        return f"incarnation {self.number} ({self.by}, begun {self.begun})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The incarnations of a checkpoint, in order; the last is the running one."""

    incarnations: tuple[Incarnation, ...]
    path: str = ""
    """Where it is stored, for messages."""

    @property
    def current(self) -> Incarnation:
        """The running incarnation."""
        return self.incarnations[-1]

    def followed(self, *, after: int, by: str) -> "Lineage":
        """Return the lineage with one more incarnation, which starts after a commit."""
        number = self.incarnations[-1].number + 1 if self.incarnations else 1
        begun = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
        new = Incarnation(token=uuid4().hex, number=number, after=after, begun=begun, by=by)
        return Lineage(incarnations=(*self.incarnations[1 - _KEPT :], new), path=self.path)

    def last_of(self, token: str) -> int | None:
        """Return the last commit that an incarnation can have made; None if the incarnation is unknown.

        There is no bound for the current one.
        """
        for incarnation, following in zip(self.incarnations, self.incarnations[1:], strict=False):
            if incarnation.token == token:
                return following.after
        return _ANY if self.incarnations and self.current.token == token else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a sink has seen: the lineage of the engine that delivered last, and through which commit.

    Claims of versions of Weft before there were lineages have none.
    """

    through: int
    lineage: Lineage | None = None

    def as_json(self) -> str:
        """Return the claim as text, for `read_claim`."""
        return json.dumps({"through": self.through, "incarnations": records_of(self.lineage)})


def read_claim(text: str | bytes, *, name: str) -> Claim:
    """Return a claim from its text; raise DamagedFile, with the claim's name, for any other text."""
    try:
        stored = json.loads(text)
        return Claim(through=int(stored["through"]), lineage=lineage_from(stored["incarnations"]))
    except (ValueError, TypeError, KeyError):
        raise DamagedFile(
            f"{name} is damaged: it says which engine has delivered here last; restore it, or take the sink "
            "back to the checkpoint with weft run --rewind"
        ) from None


def judge(sink: str, lineage: Lineage, claim: Claim | None) -> None:
    """Raise Fenced if a sink has results that a lineage does not know."""
    if claim is None or not is_ahead(lineage, claim):
        return
    # As the commit's file is named: it may be missing.
    seen = f"results through commit {claim.through:09d}"
    if claim.lineage is not None:
        seen += f" of {claim.lineage.current}"
    own = lineage.current
    raise Fenced(
        f"sink {sink} has {seen}, and this checkpoint ({lineage.path}) does not know them: it is an older "
        f"copy, or was run beside the one that made them (this is incarnation {own.number}, begun after "
        f"commit {own.after}). Nothing was changed there. Go on with the checkpoint that delivered there "
        "last, or take the sink back to this one with weft run --rewind, which first shows what it removes"
    )


def is_ahead(lineage: Lineage, claim: Claim) -> bool:
    """Say whether a sink has results that a lineage does not know."""
    return claim.through > known_through(lineage, claim)


def known_through(lineage: Lineage, claim: Claim) -> int:
    """Return the last commit of the claim's incarnation that a lineage knows, −1 if it knows none."""
    if claim.lineage is None:
        return lineage.current.after
    last = lineage.last_of(claim.lineage.current.token)
    return -1 if last is None else last


def common_commit(lineage: Lineage, claim: Claim) -> int:
    """Return the last commit that is the same in a lineage and in a sink, or −1."""
    if claim.lineage is None:
        return min(lineage.current.after, claim.through)
    for incarnation in reversed(claim.lineage.incarnations):
        ours = lineage.last_of(incarnation.token)
        if ours is not None:
            theirs = claim.lineage.last_of(incarnation.token) or 0
            return min(ours, theirs, claim.through)
    return -1


def records_of(lineage: Lineage | None) -> list[dict[str, Any]]:
    """Return a lineage's incarnations as plain values, to be stored."""
    incarnations = () if lineage is None else lineage.incarnations
    return [
        {"token": one.token, "number": one.number, "after": one.after, "begun": one.begun, "by": one.by}
        for one in incarnations
    ]


def lineage_from(records: list[Mapping[str, Any]], *, path: str = "") -> Lineage | None:
    """Return a lineage from plain values, None if there are no incarnations.

    Other values raise ValueError, TypeError or KeyError.
    """
    incarnations = tuple(
        Incarnation(
            token=str(record["token"]),
            number=int(record["number"]),
            after=int(record["after"]),
            begun=str(record["begun"]),
            by=str(record["by"]),
        )
        for record in records
    )
    return Lineage(incarnations=incarnations, path=path) if incarnations else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surplus:
    """Results of one query that a sink would lose if it were taken back to a checkpoint."""

    query: str
    rows: int
    why: str
    """Why the checkpoint does not have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The state to which a sink is taken back."""

    origin: str
    """The history, as in `Sink.resume`."""
    lineage: Lineage
    commit: int
    """The last commit to keep."""
    watermark: int | None
    """The watermark at that commit, in microseconds: later commits answered windows that end after it."""


@runtime_checkable
class Fencing(Sink, Protocol):
    """A sink that knows which engine delivered to it last, and refuses others."""

    def set_lineage(self, lineage: Lineage) -> None:
        """Deliver as the current incarnation of a lineage from now on."""

    def seen(self, origin: str) -> Claim | None:
        """Return what the sink has seen of a history; None if nothing."""

    def surplus(self, target: Target) -> list[Surplus]:
        """Return what would be removed if the sink were taken back; nothing is changed."""

    def rewind(self, target: Target) -> None:
        """Remove what is not the checkpoint's, then claim the sink for the current incarnation."""
