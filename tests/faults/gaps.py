"""A silence of the stream that EMIT EMPTY fills with windows, about as many as are allowed."""

import random
import shutil
from pathlib import Path

from tests.faults import oracle
from tests.faults.driver import EngineProcess
from tests.faults.events import Events, write_files
from tests.faults.ground import Ground
from tests.faults.mishap import Befall, Came, Outcome, bad
from tests.faults.site import Site
from tests.faults.trial import keeping_late
from tests.faults.workload import STANDING, Asked

LIMIT = 200_000
"""How many windows a query may answer in one batch."""
_NEAR = 20
"""A gap has so many windows fewer than that, or more."""
_FILES = 6
"""How many files come before the gap, and after it."""
_BYTES_A_ROW = 400
_MEBIBYTES = 350
"""What an engine's Python takes without a gap, at most."""
_SECONDS = 600.0
_POLL_SECONDS = 0.1
_FAILED = 3
"""The exit code of a run in which a query failed."""
EMPTIES = Asked(name="empties", range_ms=2_000, slide_ms=1_000, outputs=("n", "total"), empty=True)
"""The query that answers windows without rows, too."""


def gap(*, above: bool) -> Befall:
    """Return the mishap of a stream that was silent for long."""

    def befall(ground: Ground, chance: random.Random) -> Came:
        kind, root = _kind(above=above), ground.site.root / "gap"
        try:
            site = silent(root, seed=chance.randrange(1 << 20), limit=LIMIT, above=above)
            code, said, peak = _whole(site, limit=LIMIT)
            return outcome(kind, site, code, said, peak, above=above)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    return befall


def silent(root: Path, *, seed: int, limit: int, above: bool) -> Site:
    """Return a site whose events have a gap of nearly as many windows as are allowed, or of a few more."""
    site = Site.made(root, queries=(*STANDING, EMPTIES), files_per_batch=2)
    events, seconds = Events(seed=seed), limit + (_NEAR if above else -_NEAR)
    write_files(site.input, events, _FILES)
    events.skip(seconds)
    write_files(site.input, events, _FILES, first=_FILES + seconds)
    return site


def _whole(site: Site, *, limit: int) -> tuple[int | None, str, float]:
    """Use up the input; return exit code, output, and the most memory that Python had."""
    peak, waited = 0.0, 0.0
    with EngineProcess(site, "--flush", *keeping_late(site), "--limit", f"result_rows={limit}") as engine:
        while (code := engine.wait(_POLL_SECONDS)) is None and waited < _SECONDS:
            peak, waited = max(peak, engine.peak_mebibytes), waited + _POLL_SECONDS
        return code, engine.said, peak


def outcome(kind: str, site: Site, code: int | None, said: str, peak: float, *, above: bool) -> Came:
    """Judge a run over a gap: all is exact, or the one query with too many windows failed alone."""
    if code != (_FAILED if above else 0):
        return bad(kind, f"exit code {code}, not {_FAILED if above else 0}", said)
    if peak > _MEBIBYTES + LIMIT * _BYTES_A_ROW / (1 << 20):
        return bad(kind, f"Python had {peak:.0f} MB")
    events = site.events()
    verdict = oracle.judge(STANDING, events, site.out)
    empties = oracle.judge((EMPTIES,), events, site.out)
    if not verdict.exact or not (empties.sound if above else empties.exact):
        return bad(kind, f"{verdict}\n{empties}", said)
    return Came(kind=kind, outcome=Outcome.ONE_FAILED if above else Outcome.UNHARMED)


def _kind(*, above: bool) -> str:
    return f"gap {'above' if above else 'below'} the limit"


GAPS: dict[str, Befall] = {_kind(above=above): gap(above=above) for above in (False, True)}
"""Every mishap of a stream that was silent."""
