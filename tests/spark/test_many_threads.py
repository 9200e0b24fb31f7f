"""Many threads change and watch one engine while its stream runs: no change is lost, and all rows are exact.

WEFT_THREADS_OPERATIONS makes it longer than CI has time for.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import monotonic

from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, Row, counted, seconds, stream
from weft.errors import WeftError
from weft.service.queries import Query

THREADS = 8
OPERATIONS = int(os.environ.get("WEFT_THREADS_OPERATIONS", "1000"))
KINDS = ((10, 10, 1), (20, 5, 1), (15, 5, 2), (30, 10, 3), (8, 12, 2))
"""Range and slide in seconds, and the least volume that counts."""
ALL_ENDS = float("inf")


def text(range: int, slide: int, volume: int) -> str:
    return f"SELECT count(*) AS n FROM trades [RANGE '{range} s' SLIDE '{slide} s'] WHERE vol >= {volume}"


@dataclass
class Stay:
    """A time during which a query ran."""

    since: float
    """When the first window begins that it has to answer, as promised when it joined."""
    through: float = ALL_ENDS
    """It has to answer windows that end by then: the watermark before it was asked to leave."""
    at_most: float = ALL_ENDS
    """It may answer windows that end by then: the watermark when it had left."""


@dataclass
class Known:
    """A query that one thread alone changes, as it has to be."""

    query: Query
    kind: tuple[int, int, int]
    state: str = "running"
    stays: list[Stay] = field(default_factory=list)


def stay(query: Query) -> Stay:
    """Return what a query promises as it joins."""
    return Stay(since=seconds(query.first_window)[0])


class Worker:
    """A thread that changes queries of its own, and those that others change too, and looks at all."""

    def __init__(self, engine: weft.Engine, number: int, operations: int) -> None:
        self.engine, self.number, self.left = engine, number, operations
        self.random = Random(number)
        self.known: dict[str, Known] = {}
        self.past: list[Known] = []
        self.done: Counter[str] = Counter()

    def work(self) -> None:
        """Do all operations."""
        acts: tuple[Callable[[], None], ...] = (self.own, self.own, self.own, self.shared, self.look)
        for _ in range(self.left):
            self.random.choice(acts)()

    def watermark(self) -> float:
        """Return the watermark in seconds after the start of the day."""
        return (self.engine.clock("trades").watermark or 0) / 1e6 - 1_767_225_600

    def leave(self, known: Known, act: Callable[[str], object]) -> None:
        before = self.watermark()
        act(known.query.name)
        known.stays[-1].through, known.stays[-1].at_most = before, self.watermark()

    def own(self) -> None:
        """Change a query that no other thread changes: what becomes of it is known."""
        name = f"own_{self.number}_{self.random.randrange(3)}"
        known = self.known.get(name)
        if known is None:
            kind = self.random.choice(KINDS)
            query = self.engine.add(text(*kind), name=name)
            self.known[name] = Known(query, kind, stays=[stay(query)])
            self.done["add"] += 1
        elif self.random.random() < 0.4:
            if known.state == "running":
                self.leave(known, self.engine.remove)
            else:
                self.engine.remove(name)
            known.state = "dropped"
            assert known.query.state == "dropped"
            self.past.append(self.known.pop(name))
            self.done["remove"] += 1
            return
        elif known.state == "running":
            self.leave(known, self.engine.pause)
            known.state = "paused"
            self.done["pause"] += 1
        else:
            self.engine.resume(name)
            known.state = "running"
            known.stays.append(stay(known.query))
            self.done["resume"] += 1
        known = self.known[name]
        assert known.query.state == known.state
        assert self.engine.queries[name] is known.query

    def shared(self) -> None:
        """Change a query that others change too: whoever comes second is refused."""
        name = f"shared_{self.random.randrange(3)}"
        kind = self.random.choice(KINDS)
        act = self.random.choice(
            [
                lambda: self.engine.add(text(*kind), name=name),
                lambda: self.engine.remove(name),
                lambda: self.engine.pause(name),
                lambda: self.engine.resume(name),
            ]
        )
        try:
            act()
            self.done["shared"] += 1
        except WeftError:
            self.done["refused"] += 1

    def look(self) -> None:
        """Look at everything: nobody sees half of a change."""
        with self.engine.visible:
            queries, status = self.engine.queries, self.engine.status().streams["trades"].queries
            states = Counter(str(query.state) for query in queries.values())
            assert states == Counter(status)
        assert set(states) <= {"running", "paused"}
        query = queries[self.random.choice(sorted(queries))]
        assert query.info.name == query.name
        counted(query.results())
        if self.random.random() < 0.1:
            assert "always_" in self.engine.explain()
        self.done["look"] += 1


def expected(rows: list[Row], kind: tuple[int, int, int]) -> dict[float, int]:
    """Return the rows of each window that has any, counted one by one."""
    range, slide, volume = kind
    found: Counter[float] = Counter()
    for moment, _, _, vol in rows:
        end = (moment // slide + 1) * slide
        while end - range <= moment:
            if (vol or 0) >= volume and end - range <= moment < end:
                found[end] += 1
            end += slide
    return dict(found)


def check(known: Known, rows: list[Row], last: float) -> None:
    """Compare what a query gave with what it had to give, and with what it might."""
    range, _, _ = known.kind
    given, exact = counted(known.query.results()), expected(rows, known.kind)
    assert given.items() <= exact.items(), known
    for end in exact:
        own = [stay for stay in known.stays if end - range >= stay.since]
        if any(end <= min(stay.through, last) for stay in own):
            assert end in given, (known, end)
        if not any(end <= min(stay.at_most, last) for stay in own):
            assert end not in given, (known, end)


def test_many_threads_change_queries_while_the_stream_runs(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    random, rows = Random(7), list[Row]()
    moment = 0.0

    def more() -> None:
        nonlocal moment
        new: list[Row] = []
        for _ in range(random.randrange(1, 8)):
            moment += random.choice((0.25, 1.0, 3.5))
            new.append((moment, random.choice("ab"), 1.0, random.randrange(1, 4)))
        rows.extend(new)
        feed(*new)

    for _ in range(2):
        more()
    engine = weft.Engine(spark)
    stream(engine, spark, feed.folder)
    for kind in KINDS:
        engine.add(text(*kind), name=f"always_{kind[0]}_{kind[2]}")
    engine.start(checkpoint=tmp_path / "state")
    engine.process_available()
    workers = [Worker(engine, number, OPERATIONS // THREADS) for number in range(THREADS)]
    ending = threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:
        began = monotonic()
        working = [pool.submit(worker.work) for worker in workers]
        while not all(one.done() for one in working):
            more()
            ending.wait(0.25)
            assert monotonic() - began < 60 + OPERATIONS / 10, "a deadlock"
        for one in working:
            one.result()
    more()
    engine.process_available()
    done = sum((worker.done for worker in workers), Counter[str]())
    assert min(done[act] for act in ("add", "remove", "pause", "resume", "shared", "refused", "look")) > 0
    # No change was lost.
    queries = engine.queries
    for worker in workers:
        for name in (f"own_{worker.number}_{n}" for n in range(3)):
            assert (name in queries) is (name in worker.known)
    status = engine.status().streams["trades"]
    assert sum(status.queries.values()) == len(queries)
    last = max(moment for moment, *_ in rows)
    engine.stop()
    for kind in KINDS:
        ends = {end: n for end, n in expected(rows, kind).items() if end <= last}
        assert counted(engine.results(f"always_{kind[0]}_{kind[2]}")) == ends
    for worker in workers:
        for known in (*worker.past, *worker.known.values()):
            check(known, rows, last)
    commits = max(int(path.name) for path in (tmp_path / "state").glob("trades/commits/*"))
    changes = sum(done[act] for act in ("add", "remove", "pause", "resume", "shared"))
    print(f"{changes} changes, {commits} commits, {status.batches} batches")
    assert commits < changes
