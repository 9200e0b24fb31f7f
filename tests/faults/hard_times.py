"""A machine that is short of memory, and clocks that jump."""

import random

from tests.faults.conditions import CLOCKS, SHORT_OF_MEMORY
from tests.faults.driver import Victim
from tests.faults.events import wanted
from tests.faults.ground import START_SECONDS, Ground, ended_as_asked
from tests.faults.mishap import Befall, Came, Outcome, bad, stopped
from weft.storage import LocalFolder
from weft.storage.mailbox import Mailbox

_SHORT_SECONDS = 40.0
"""How long an engine may struggle for memory without a batch."""
_ANSWER_SECONDS = 30.0
_QUIET_SECONDS = 4.0


def short_of_memory(ground: Ground, chance: random.Random) -> Came:
    """Have Java's heap be taken from some batch on: the engine stops with a sentence, or gets by."""
    kind = "short of memory"
    with ground.start(plants=[SHORT_OF_MEMORY], memory=chance.choice(["512m", "768m", "1g"])) as engine:
        if engine.await_batch(seconds=START_SECONDS) is None:
            return bad(kind, "no batch is committed before memory is short", engine.said)
        code = engine.await_quiet(_SHORT_SECONDS)
        if code is not None:
            return stopped(kind, code, engine.said)
        if not ground.site.has_read_all(wanted(ground.site.input)):
            return bad(kind, "it neither ends nor goes on", engine.said)
        engine.kill(Victim.BOTH)
        return Came(kind=kind, outcome=Outcome.UNHARMED)


def clock(name: str) -> Befall:
    """Return the mishap of a clock that jumps while an engine runs: nothing may come of it."""

    def befall(ground: Ground, chance: random.Random) -> Came:
        kind = _CLOCK_KINDS[name]
        with ground.start(plants=[name]) as engine:
            if engine.await_batch(seconds=START_SECONDS) is None:
                return bad(kind, "no batch is committed", engine.said)
            ground.more_events()
            code = engine.await_quiet(_QUIET_SECONDS)
            if code is not None:
                return bad(kind, f"it ended with {code}", engine.said)
            if problem := _unanswered(ground) or ended_as_asked(engine):
                return bad(kind, problem)
        return Came(kind=kind, outcome=Outcome.UNHARMED)

    return befall


def _unanswered(ground: Ground) -> str:
    """Say so if an engine does not answer another terminal, whose clock is right."""
    mailbox = Mailbox(LocalFolder(ground.site.checkpoint))
    reply = mailbox.fetch(mailbox.ask("list"), seconds=_ANSWER_SECONDS)
    return "" if reply is not None and reply.ok else f"a request is answered with {reply}"


_CLOCK_KINDS = {name: f"clock: {name.removeprefix('clock-').replace('-', ' ')}" for name in CLOCKS}
HARD_TIMES: dict[str, Befall] = {
    "short of memory": short_of_memory,
    **{kind: clock(name) for name, kind in _CLOCK_KINDS.items()},
}
"""Every mishap of memory and time."""
