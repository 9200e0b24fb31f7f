"""What came of a soak: its counts, a table of them, and the same as plain data."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from rich.table import Table

from tests.faults.damage import Damaged, Outcome
from tests.faults.deck import KILLS
from tests.faults.mishap import Came
from tests.faults.oracle import Verdict
from tests.faults.trial import Life
from weft.faultpoints import What

_RATIO = 2.0
"""How much longer than a clean start a recovery may take."""


@dataclass
class Soak:
    """What came of it all."""

    kills: int = 0
    points: tuple[str, ...] = ()
    """Where an engine can be killed in this soak."""
    lives: list[Life] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    replays: int = 0
    looks: int = 0
    problems: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    damaged: list[Damaged] = field(default_factory=list)
    mishaps: list[Came] = field(default_factory=list)
    """What befell engines that nobody killed."""
    caught: dict[str, bool] = field(default_factory=dict)
    set_aside: int = 0
    """How many events were late or unusable."""
    requests: int = 0
    refused: list[str] = field(default_factory=list)
    cut_into: int = 0
    """How many batches an input was cut into, to be compared with the same as one."""
    unlike: list[str] = field(default_factory=list)
    """How the rows differed."""

    @property
    def recoveries(self) -> list[float]:
        """Seconds from a start after a kill to the first batch committed."""
        lives = [life for before, life in pairwise(self.lives) if before.killed]
        return [life.seconds for life in lives if life.seconds is not None]

    @property
    def ratio(self) -> float | None:
        """Recoveries against clean starts; None if no engine that recovered lived to its first batch."""
        return median(self.recoveries) / median(self.clean) if self.recoveries else None

    @property
    def killed_at(self) -> Counter[str]:
        """How often an engine died at each point."""
        faults = [life.end.fault for life in self.lives if life.reached]
        return Counter(fault.point for fault in faults if fault is not None and fault.what in KILLS)

    @property
    def befallen(self) -> dict[str, Counter[str]]:
        """How often each kind of mishap had each outcome."""
        found: dict[str, Counter[str]] = {}
        for came in self.mishaps:
            found.setdefault(came.kind, Counter())[str(came.outcome)] += 1
        return dict(sorted(found.items()))

    @property
    def passed(self) -> bool:
        """Whether all is as it must be."""
        well = self.verdict.exact and not self.problems and all(self.caught.values()) and not self.refused
        mended = all(one.outcome is not Outcome.BAD for one in self.damaged)
        return well and mended and not self.unlike and (self.ratio is None or self.ratio <= _RATIO)


def note_missed(found: Soak) -> None:
    """Have it be a problem if there were kills enough and yet a point without one."""
    missed = [point for point in found.points if not found.killed_at[point]]
    if missed and found.kills >= len(found.points) * len(KILLS):
        found.problems.append(f"nothing was ever killed at {', '.join(missed)}")


def report(found: Soak) -> Table:
    """Draw what came of it all."""
    table = Table("what", "count", title="soak", title_justify="left")
    outcomes = Counter(str(one.outcome) for one in found.damaged)
    rows: dict[str, object] = {
        "kills": found.kills,
        "points they came at": f"{len(found.killed_at)} of {len(found.points)}, and any time",
        "recoveries": len(found.recoveries),
        "batches offered again": found.replays,
        "late or unusable events": found.set_aside,
        "requests": f"{found.requests}, refused {len(found.refused)}",
        **{f"  {name}": count for name, count in found.verdict.counts.items()},
        "looks at results meanwhile": found.looks,
        "mishaps": len(found.mishaps),
        **{f"  {kind}": _in_words(outcomes) for kind, outcomes in found.befallen.items()},
        "damaged files": _in_words(outcomes),
        "mutants caught": f"{sum(found.caught.values())} of {len(found.caught)} planted",
        f"1 batch, {found.cut_into:,}, shuffled": f"{len(found.unlike)} differences",
    }
    if found.clean:
        rows["clean start, median"] = f"{median(found.clean):.2f} s"
    if found.ratio is not None:
        rows |= {
            "recovery, median": f"{median(found.recoveries):.2f} s",
            "recovery, slowest": f"{max(found.recoveries):.2f} s",
            "recovery ratio": f"{found.ratio:.2f} (at most {_RATIO})",
        }
    for what, count in rows.items():
        table.add_row(what, str(count))
    return table


def _in_words(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def figures(found: Soak, *, seed: int) -> dict[str, Any]:
    """Return what came of it all as plain data."""
    faults = [life.end.fault for life in found.lives if life.end.fault is not None and life.reached]
    victims = [life.end.victim for life in found.lives if life.end.fault is None and life.killed]
    return {
        "seed": seed,
        "passed": found.passed,
        "kills": found.kills,
        "killed_at": {point: found.killed_at[point] for point in found.points},
        "killed_any_time": dict(Counter(map(str, victims))),
        "errors_at": dict(Counter(fault.point for fault in faults if fault.what is What.ERROR)),
        "replays": found.replays,
        "set_aside": found.set_aside,
        "requests": found.requests,
        "refused": found.refused,
        **found.verdict.counts,
        "looks": found.looks,
        "mishaps": {kind: dict(outcomes) for kind, outcomes in found.befallen.items()},
        "damaged": dict(Counter(str(one.outcome) for one in found.damaged)),
        "mutants_caught": found.caught,
        "cut_into": found.cut_into,
        "unlike": found.unlike,
        "clean_start_s": found.clean,
        "recovery_s": found.recoveries,
        "recovery_ratio": found.ratio,
        "problems": [*found.problems, *found.verdict.examples],
    }
