"""Runs in which queries come and go, with all that should come of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from random import Random

import pytest
from tests.unit.pipeline_samples import (
    MS,
    Asked,
    Matches,
    Row,
    asked,
    expected,
    plain_pipeline,
    process,
    results,
)
from tests.unit.window_samples import edges_between

from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.state.report import BatchReport
from weft.state.running_query import RunningQuery
from weft.stream.pipeline import Pipeline
from weft.window import Window

SHAPES = ((10, 10), (20, 10), (30, 10), (25, 10), (40, 20), (7, 10), (15, 15), (60, 30))
NEVER = -(1 << 62)
"""Before all rows."""
EVERYTHING: tuple[str, Matches] = ("TRUE", lambda row: True)


def above(least: int) -> tuple[str, Matches]:
    return f"vol > {least}", lambda row: row.vol is not None and row.vol > least


def between(low: int, high: int) -> tuple[str, Matches]:
    return (
        f"vol > {low} AND vol <= {high}",
        lambda row: row.vol is not None and low < row.vol <= high,
    )


def both(one: tuple[str, Matches], two: tuple[str, Matches]) -> tuple[str, Matches]:
    return f"({one[0]}) AND ({two[0]})", lambda row: one[1](row) and two[1](row)


def either(one: tuple[str, Matches], two: tuple[str, Matches]) -> tuple[str, Matches]:
    return f"({one[0]}) OR ({two[0]})", lambda row: one[1](row) or two[1](row)


def marked(n: int) -> tuple[str, Matches]:
    return f"n = {n}", lambda row: row.n == n


def random_condition(chance: Random) -> tuple[str, Matches]:
    """Return a condition with few constants, so that conditions follow from each other."""
    kind = chance.randrange(8)
    low, high = sorted(chance.sample((1, 3, 5, 7), 2))
    if kind < 3:
        return above(low)
    if kind < 5:
        return between(low, high)
    if kind == 5:
        return EVERYTHING
    if kind == 6:
        return both(above(low), marked(chance.choice((1, 2))))
    return either(between(low, high), marked(chance.choice((1, 2))))


def follows(one: Asked, other: Asked) -> bool:
    """Say whether all that one query needs is kept for another: its rows, its aggregate, its edges."""
    needs = (one.condition, one.keyed, one.aggregate)
    period = lcm(one.slide_ms, other.slide_ms)
    edges, kept = (
        set(edges_between([Window(range_ms=each.range_ms, slide_ms=each.slide_ms)], 0, period))
        for each in (one, other)
    )
    return needs == (other.condition, other.keyed, other.aggregate) and edges <= kept


def open_since(one: Asked, watermark: int) -> int:
    """Return where the first of a query's windows begins that has not ended by a watermark."""
    slide, length = one.slide_ms * MS, one.range_ms * MS
    return watermark - watermark % slide + slide - length


@dataclass(slots=True)
class Script:
    """A pipeline, what was done with it, and what should have come of it."""

    pipeline: Pipeline
    chance: Random
    rows: list[Row] = field(default_factory=list)
    reports: list[BatchReport] = field(default_factory=list)
    asked: dict[str, Asked] = field(default_factory=dict)
    lives: dict[str, RunningQuery] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    """When the windows of each query must begin at the latest."""
    answered_to: dict[str, int | None] = field(default_factory=dict)
    """Of queries that left, the last watermark that they saw; no time at all if they saw none."""
    now: int = 0

    def add(self, one: Asked) -> RunningQuery:
        """Let a query join; when its windows begin is for it to say, within what is promised."""
        latest, newest = self._latest_start(one), max((row.time for row in self.rows), default=None)
        live = self.pipeline.add(one.logical())
        assert live.first_start <= latest, (one.text, live)
        lifetime = live.query.lifetime_ms
        assert live.until == (None if lifetime is None or newest is None else newest + MS * lifetime)
        live = replace(live)  # As it was when it joined.
        self.asked[one.name], self.lives[one.name], self.latest[one.name] = one, live, latest
        return live

    def _latest_start(self, one: Asked) -> int:
        """Return when its windows begin at the latest: after all rows, or where others keep what it needs.

        What a query keeps at the least is what its open windows hold.
        """
        watermark = self.pipeline.clock.watermark
        if watermark is None:
            return NEVER
        kept = [
            max(self.latest[name], open_since(self.asked[name], watermark))
            for name in self.pipeline.queries
            if follows(one, self.asked[name])
        ]
        return min([max(row.time for row in self.rows) + 1, *kept])

    def random_query(self) -> Asked:
        """Return a query that may be much like others."""
        suffix = f"LIFETIME '{self.chance.choice((20, 60))} ms'" if self.chance.random() < 0.15 else ""
        return asked(
            f"q{len(self.asked)}", random_condition(self.chance), self.chance.choice(SHAPES),
            keyed=self.chance.random() < 0.3, suffix=suffix,
            aggregate=self.chance.choice(("sum(vol)", "count(*)", "max(vol)")),
        )  # fmt: skip

    def remove(self, name: str) -> None:
        """Let a query leave."""
        never = name in self.pipeline.behind or self.pipeline.clock.watermark is None
        self.answered_to[name] = NEVER if never else self.pipeline.clock.watermark
        self.pipeline.remove(name)

    def batch(self, rows: Sequence[Row]) -> BatchReport:
        """Process rows."""
        before, first = self.pipeline.clock.watermark, not self.rows
        self.rows += [row for row in rows if before is None or row.time >= before]
        if first and self.rows:
            self._decide(min(row.time for row in self.rows))
        return self.note(process(self.pipeline, rows))

    def _decide(self, oldest: int) -> None:
        """Work out the ends of queries that were there before the first row."""
        for name in self.pipeline.queries:
            lifetime = self.lives[name].query.lifetime_ms
            if lifetime is not None:
                self.lives[name] = replace(self.lives[name], until=oldest + 1000 * lifetime)

    def note(self, report: BatchReport) -> BatchReport:
        """Keep a report."""
        for name, live in self.pipeline.queries.items():
            through = max(self.lives[name].answered_through, self.pipeline.clock.reached)
            assert replace(self.lives[name], answered_through=through) == live
        assert not self.pipeline.queries.keys() & set(report.ended)
        self.reports.append(report)
        return report

    def random_rows(self) -> list[Row]:
        """Return rows around now, some of them late."""
        self.now += self.chance.choice((0, 5_000, 20_000, 45_000))
        return [
            Row(
                self.now + self.chance.randint(-15_000, 10_000), self.chance.choice("ab"),
                self.chance.choice((None, *range(9))), self.chance.choice((None, 0, 1, 2)),
            )
            for _ in range(self.chance.randint(0, 25))
        ]  # fmt: skip

    def check(self) -> None:
        """Compare all results with those expected."""
        for name, one in self.asked.items():
            found = results(self.reports, name)
            assert len(found) == len(dict(found)), f"{name} answered a window twice"
            wanted = expected(one, self.lives[name], self.rows, self.answered_to.get(name))
            assert dict(found) == wanted, (one.text, self.lives[name])


def random_run(seed: int, patch: pytest.MonkeyPatch, *, steps: int) -> Script:
    """Return a run in which queries come and go between batches."""
    chance = Random(seed)
    pipeline = plain_pipeline(
        patch, delay_ms=chance.choice((0, 3, 20)), slicing=chance.choice(list(Slicing)),
        sharing=chance.choice((*Sharing, Sharing.AUTO, Sharing.AUTO)),
    )  # fmt: skip
    script = Script(pipeline, chance)
    for _ in range(steps):
        for _ in range(chance.choice((0, 0, 1, 3))):
            script.add(script.random_query())
        for name in chance.sample(list(pipeline.queries), chance.randint(0, len(pipeline.queries) // 3)):
            script.remove(name)
        kind = chance.random()
        if kind < 0.3:
            script.note(pipeline.answer_warm(None))  # type: ignore[arg-type]
        elif kind < 0.4:
            script.note(pipeline.idle(None))  # type: ignore[arg-type]
        if kind > 0.2:
            script.batch(script.random_rows())
    return script
