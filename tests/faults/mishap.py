"""What befalls an engine that nobody kills: the machine fails, or its operator errs.

Each kind has a module of its own and is listed in `mishaps`. It takes place on a `Ground`, with random
choices, and says what came of it: an outcome that the docs allow, and a problem if anything else happened.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tests.faults.ground import Ground

_SHOWN = 2_000
"""How much of what an engine printed is shown, in characters."""


class Outcome(StrEnum):
    """What came of a mishap."""

    UNHARMED = "unharmed"
    """The engine went on as if nothing had happened."""
    WAITED = "waited"
    """A sink took its results once it could."""
    STOPPED = "stopped"
    """The engine ended with exit code 1 and a sentence."""
    REFUSED = "refused"
    """A start ended with exit code 1 and a sentence, and changed nothing."""
    REWOUND = "rewound"
    """The sinks were taken back to the checkpoint, as the operator asked."""
    NAMED = "named"
    """A file that was not read as listed is counted and named."""
    ONE_FAILED = "one failed"
    """One query failed alone, and the exit code said so."""
    BAD = "bad"
    """Something else happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of one mishap."""

    kind: str
    outcome: Outcome
    problem: str = ""
    """What should not have happened, in words."""


Befall = Callable[[Ground, random.Random], Came]
"""Has a mishap take place, and leaves the ground with no engine on it."""


def bad(kind: str, problem: str, said: str = "") -> Came:
    """Return an outcome that must not be, with the end of what an engine printed."""
    return Came(kind=kind, outcome=Outcome.BAD, problem=f"{problem}\n{said[-_SHOWN:]}".strip())


def stopped(kind: str, code: int | None, said: str, *, outcome: Outcome = Outcome.STOPPED) -> Came:
    """Judge an engine that was to end by itself: with exit code 1 and a sentence, blaming no query."""
    if code != 1:
        return bad(kind, f"exit code {code}, not 1", said)
    for sign, meaning in _SIGNS.items():
        if sign.search(said):
            return bad(kind, meaning, said)
    if "error:" not in said:
        return bad(kind, "it ended without a sentence", said)
    return Came(kind=kind, outcome=outcome)


_SIGNS = {
    re.compile(r"Traceback \(most recent call last\)"): "a traceback in place of a sentence",
    re.compile(r"query \S+ failed"): "a query is blamed",
}
"""Texts that no engine may print that ends for a reason of the machine's."""
