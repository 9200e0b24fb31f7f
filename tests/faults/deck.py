"""The order of kills and mishaps: every point, and every kind, gets its turn before any comes again."""

import random
from dataclasses import replace

from tests.faults.driver import Victim
from tests.faults.mishaps import MISHAPS
from tests.faults.trial import End
from weft.faultpoints import POINTS, Fault, What

KILLS = (What.KILL, What.KILL_JVM)
"""What can be killed at a point."""
_ERRORS = 2
"""In a round."""
_ANY_TIME = 8
"""In a round."""
_LATEST = 10
"""A point that comes by often comes so often before the kill at most: requests pass by some of them, too."""
_ORDINARY = ("batch.", "commit.", "deliver", "hadoop.", "spark.")
"""Points that every few batches come by, requests or not."""
_ASKED_FOR = ("request.", "registry.")
"""Points that come by requests only; an error at them is told to whoever asked, and mended by nobody."""

_ON_URIS = ("hadoop.",)
"""Points that come only if the checkpoint is a URI."""


class Deck:
    """Ends in random order, round by round.

    A round kills once at every point, by turns Python and Java, and has some errors and some ends at any
    time. A point that did not come by is put back, and comes first in the next round. Mishaps have rounds of
    their own.
    """

    def __init__(self, chance: random.Random, *, requests: bool, uri: bool = False) -> None:
        out_of_reach = (() if requests else _ASKED_FOR) + (() if uri else _ON_URIS)
        self.points = tuple(point for point in POINTS if not point.startswith(out_of_reach))
        """The points that can be reached."""
        self.round = len(self.points) + _ERRORS + _ANY_TIME
        """How many ends a round has, beside those that come again."""
        self._chance = chance
        self._turns = {point: chance.randrange(len(KILLS)) for point in self.points}
        self._cards: list[End] = []
        self._again: list[End] = []
        self._mishaps: list[str] = []

    def draw_mishap(self) -> str:
        """Return the next kind of mishap."""
        if not self._mishaps:
            self._mishaps = self._chance.sample(list(MISHAPS), len(MISHAPS))
        return self._mishaps.pop()

    def draw(self) -> End:
        """Return the next end."""
        if not self._cards:
            self._cards, self._again = self._again + self._round(), []
        return self._cards.pop(0)

    def put_back(self, end: End) -> None:
        """Have an end whose point did not come by come again, the first time that it can."""
        assert end.fault is not None
        self._again.append(replace(end, fault=replace(end.fault, nth=1)))

    def _round(self) -> list[End]:
        ends = [End(fault=self._fault(point, self._turn(point))) for point in self.points]
        mended = [point for point in self.points if not point.startswith(_ASKED_FOR)]
        ends += [End(fault=self._fault(self._chance.choice(mended), What.ERROR)) for _ in range(_ERRORS)]
        ends += [self._any_time() for _ in range(_ANY_TIME)]
        self._chance.shuffle(ends)
        return ends

    def _turn(self, point: str) -> What:
        self._turns[point] += 1
        return KILLS[self._turns[point] % len(KILLS)]

    def _fault(self, point: str, what: What) -> Fault:
        nth = self._chance.randint(1, _LATEST) if point.startswith(_ORDINARY) else 1
        return Fault(point=point, nth=nth, what=what)

    def _any_time(self) -> End:
        victim = self._chance.choices(list(Victim), weights=[3, 2, 3, 1])[0]
        return End(victim=victim, after_seconds=self._chance.expovariate(0.5))
