"""Queries that come, go, rest and are replaced while an engine runs, as another terminal would ask for it.

An answer tells the first window of a query that was added or resumed: that is what the oracle holds it to.
One that is to go owes all windows that were due when it was asked to, and gives none after it went. A request
outlives the engine that was asked; whichever engine carries it out answers it.

Engines may run meanwhile, and the watermark moves. So where it was is read before a request is left, which is
how far it had come at least when that was carried out; and after its answer was fetched, which is how far at
most:

    watermark read        asked        carried out        answered        fetched        watermark read
         owed  ≤                 where the query went                            ≤          allowed
"""

import random
from dataclasses import dataclass, field

from tests.faults.events import DELAY_MS
from tests.faults.oracle import Span
from tests.faults.site import Site
from tests.faults.workload import Asked, random_query
from weft.storage import LocalFolder
from weft.storage.mailbox import Mailbox, Reply, Request

_MOST = 12
"""How many queries there are at once, beside the standing ones."""
_NAMES = 40
"""How many names they have over all; then those come again that were dropped."""
_UNANSWERED = 10
"""How many requests wait for an answer at once."""


@dataclass
class Guest:
    """A query that was added."""

    asked: Asked
    spans: list[Span] = field(default_factory=list)
    state: str = "running"
    request: Request | None = None
    """What was asked last and is not answered yet."""
    due: int = 0
    """Where the watermark was then."""
    replaced: int = 0
    """How often it was replaced."""


class Churn:
    """Random requests, and what their answers promise."""

    def __init__(self, site: Site, *, seed: int) -> None:
        self._site = site
        self._mailbox = Mailbox(LocalFolder(site.checkpoint))
        self._chance = random.Random(seed)
        self.guests: dict[str, Guest] = {}
        self.refused: list[str] = []
        """Answers that said no."""
        self.problems: list[str] = []
        """Answers that cannot be right."""
        self.asked = 0
        self._reached = 0

    def step(self) -> None:
        """Take in answers, and leave one more request."""
        self.take_answers()
        if self.waiting >= _UNANSWERED:
            return
        settled = [one for one in self.guests.values() if one.request is None and one.state != "dropped"]
        comer = self._comer() if not settled or self._chance.random() < 0.5 else None
        if comer is not None:
            self._ask(comer, "add", name=comer.asked.name, text=comer.asked.select)
        elif settled:
            guest = self._chance.choice(settled)
            do = "resume" if guest.state == "paused" else self._chance.choice(["drop", "pause", "replace"])
            if do == "replace":
                # By one with the same results: it ends long after all.
                guest.replaced += 1
                text = f"{guest.asked.select} LIFETIME '{40_000 + guest.replaced} hours'"
                self._ask(guest, "add", name=guest.asked.name, text=text, replace=True)
            else:
                self._ask(guest, do, name=guest.asked.name)

    def _comer(self) -> Guest | None:
        """Return a new guest, or one that was dropped and comes again under its name; None if all are in."""
        gone = [one for one in self.guests.values() if one.request is None and one.state == "dropped"]
        if len(self.guests) - len(gone) >= _MOST:
            return None
        if gone and (len(self.guests) >= _NAMES or self._chance.random() < 0.4):
            return self._chance.choice(gone)
        name = f"guest_{len(self.guests)}"
        self.guests[name] = Guest(random_query(name, self._chance))
        return self.guests[name]

    def take_answers(self, *, flushed: bool = False) -> None:
        """Note what came of requests so far; `flushed` if windows were closed ahead of the watermark."""
        waiting = [(guest, guest.request) for guest in self.guests.values() if guest.request is not None]
        fetched = [(guest, asked, self._mailbox.fetch(asked, seconds=0.0)) for guest, asked in waiting]
        reached = self._watermark() if any(reply is not None for *_, reply in fetched) else 0
        for guest, asked, reply in fetched:
            if reply is not None:
                do = "replace" if asked.given.get("replace") else asked.do
                self._note(guest, do, reply, reached, flushed=flushed)
                guest.request = None

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return sum(guest.request is not None for guest in self.guests.values())

    def promised(self) -> tuple[list[Asked], dict[str, tuple[Span, ...]]]:
        """Return the queries that were added and wait for no answer, and which windows each owes."""
        there = [guest for guest in self.guests.values() if guest.spans and guest.request is None]
        return [guest.asked for guest in there], {guest.asked.name: tuple(guest.spans) for guest in there}

    def _ask(self, guest: Guest, do: str, **given: str | bool) -> None:
        guest.due = self._watermark()
        guest.request = self._mailbox.ask(do, **given)
        self.asked += 1

    def _watermark(self) -> int:
        """Return how far the watermark has come; it never goes back."""
        self._reached = max(self._reached, self._site.watermark())
        return self._reached

    def _note(self, guest: Guest, do: str, reply: Reply, reached: int, *, flushed: bool) -> None:
        if not reply.ok:
            # A disk that is said to be full is a reason, if nothing was changed by what could not be written.
            if "(fault " not in reply.said or not reply.said.endswith("nothing has changed"):
                self.refused.append(f"{do} {guest.asked.name}: {reply.said}")
            if do == "add":
                guest.state = "dropped"
        elif do in ("add", "resume", "replace"):
            if do == "replace":
                self._end(guest, reached, flushed=flushed)
            window = reply.found["query"]["first_window"]
            self._check_first(guest, do, window, reached)
            guest.spans.append(Span(first=None if window is None else int(window[0])))
            guest.state = "running"
        else:
            self._end(guest, reached, flushed=flushed)
            guest.state = "dropped" if do == "drop" else "paused"

    @staticmethod
    def _end(guest: Guest, reached: int, *, flushed: bool) -> None:
        """Note that a stay of a query has ended."""
        first, allowed = guest.spans[-1].first, None if flushed else reached
        guest.spans[-1] = Span(first=first, ended=True, owed=guest.due, allowed=allowed)

    def _check_first(self, guest: Guest, do: str, window: list[int] | None, reached: int) -> None:
        """See that a first window is not put off: it begins after all events so far, and no slide later."""
        latest = reached + (DELAY_MS + guest.asked.slide_ms) * 1000
        if window is not None and window[0] > latest:
            said = f"its first window begins at {window[0]}, and {latest} is the latest that it may"
            self.problems.append(f"{do} {guest.asked.name}: {said}")
