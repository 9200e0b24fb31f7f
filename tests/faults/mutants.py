"""Bugs that can be planted into an engine, each with what brings it to light.

All patches of Weft's code are in this file and in `conditions`: when the code moves, only they follow.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.faults.conditions import CONDITIONS
from tests.faults.events import Events, write_files
from tests.faults.grave_mutants import (
    Run,
    blame_anyone,
    delete_unchecked,
    give_way,
    older_copy,
    strange_folder,
)
from tests.faults.oracle import Verdict
from tests.faults.patches import Undo, wrap
from tests.faults.site import Site
from weft.durability.delivered import Note, Notes
from weft.storage import LocalFolder

_FILES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A planted bug."""

    says: str
    plant: Callable[[], Sequence[Undo]]
    shows: str = ""
    """The count of the oracle that tells of it."""
    refusal: str = ""
    """What an engine says that notices it by itself, for bugs that do not come as far as the oracle."""
    between: Callable[[Site], None] = lambda site: None
    """What happens between two runs: that which a crash would leave."""
    trial: Callable[[Site, Run, str | None], str] | None = None
    """What brings it to light, if two runs do not; returns what a run failed with."""

    def caught(self, failure: str, verdict: Verdict) -> bool:
        """Say whether the bug was seen as what it is: any other failure is no proof."""
        if self.refusal:
            return self.refusal in failure
        return not failure and verdict.counts[self.shows] > 0


def forget_delivery(site: Site) -> None:
    """Have the checkpoint know nothing of the last deliveries, as after a crash before they were noted."""
    at_hand = {int(path.name) for path in site.commits()}
    known = max(at_hand)
    # A commit is removed only after its delivery was noted: the note cannot have been older than that.
    while known in at_hand:
        known -= 1
    for path in site.checkpoint.glob("*/delivered/*"):
        Notes(LocalFolder(path.parent)).write(path.name, Note(commit=known))


def forget_spark_commit(site: Site) -> None:
    """Remove Spark's last commit file, as after a crash before it was written: the batch comes again."""
    for last in site.spark_commits()[-1:]:
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


def shown(name: str | None, site: Site, run: Run) -> tuple[str, Verdict]:
    """Run twice with a bug (None: without); return what a run failed with, and how results differ."""
    trial = None if name is None else MUTANTS[name].trial
    if trial is not None:
        return trial(site, run, name), site.judged()
    events = Events(seed=11)
    write_files(site.input, events, _FILES)
    failure = run(site, name, False)
    (forget_both if name is None else MUTANTS[name].between)(site)
    write_files(site.input, events, _FILES, first=_FILES)
    return failure or run(site, name, True), site.judged()


def forget_both(site: Site) -> None:
    """Do all that is done between the runs of any bug."""
    forget_delivery(site)
    forget_spark_commit(site)


def plant(name: str) -> None:
    """Plant a bug for the rest of this process."""
    _plants()[name]()


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug for as long as the block runs."""
    undo = _plants()[name]()
    try:
        yield
    finally:
        for one in reversed(undo):
            one()


def _plants() -> dict[str, Callable[[], Sequence[Undo]]]:
    return CONDITIONS | {name: mutant.plant for name, mutant in MUTANTS.items()}


def _keep_delivered_files() -> list[Undo]:
    def kept(resume: Callable[..., None], sink: Any, *given: Any, **named: Any) -> None:
        for path in Path(sink._folder.uri).glob("*/weft-*.parquet"):
            path.rename(path.with_name(f"kept-{uuid4().hex}.parquet"))
        resume(sink, *given, **named)

    return [wrap("weft.sinks.parquet", "ParquetSink.resume", kept)]


def _end_one_later() -> list[Undo]:
    def later(panes: Callable[..., Any], due: Any, ask: Any, start: Any) -> Any:
        # A slice that begins where a window ends is in that window.
        return panes(due, ask, start - 1)

    return [wrap("weft.state.repeating", "_panes", later)]


def _watermark_of_the_next_batch() -> list[Undo]:
    def early(after: Callable[..., Any], clock: Any, seen: Any, stream: Any) -> Any:
        reached = after(clock, seen, stream)
        if clock.newest is None:
            return reached
        return replace(reached, watermark=reached.watermark + reached.newest - clock.newest)

    return [wrap("weft.state.clock", "Clock.after", early)]


def _commit_after_spark() -> list[Undo]:
    held: list[tuple[Any, Any]] = []

    def late(write: Callable[..., None], *given: Any, **named: Any) -> None:
        held.append((given, named))
        if len(held) > 1:
            before, by_name = held.pop(0)
            write(*before, **by_name)

    return [wrap("weft.durability.checkpoint", "Checkpoint.write", late)]


def _without_last_block() -> list[Undo]:
    def fewer(blocks: Callable[..., Any], *given: Any, **named: Any) -> Iterator[Any]:
        yield from list(blocks(*given, **named))[:-1]

    return [wrap("weft.durability.checkpoint", "Recovered.blocks", fewer)]


def _replay_as_new() -> list[Undo]:
    def forgetful(begin: Callable[..., None], ledger: Any, **named: Any) -> None:
        begin(ledger, **named)
        ledger.batch -= ledger.batch >= 0

    return [wrap("weft.durability.ledger", "Ledger.__init__", forgetful)]


MUTANTS = {
    "no-dedup": Mutant(
        says="the Parquet sink keeps what an earlier run delivered beyond its note",
        plant=_keep_delivered_files,
        shows="repeated",
        between=forget_delivery,
    ),
    "end-off-by-one": Mutant(says="a window holds its own end", plant=_end_one_later, shows="wrong"),
    "early-watermark": Mutant(
        says="the watermark is one batch early", plant=_watermark_of_the_next_batch, shows="lost"
    ),
    "commit-after-spark": Mutant(
        says="Spark commits a batch before it is written",
        plant=_commit_after_spark,
        refusal="and this checkpoint",
        between=forget_delivery,
    ),
    "dropped-block": Mutant(
        says="a restart forgets the last block", plant=_without_last_block, shows="wrong"
    ),
    "replay-as-new": Mutant(
        says="a batch that comes again is aggregated again",
        plant=_replay_as_new,
        shows="twice",
        between=forget_spark_commit,
    ),
    "blame-anyone": Mutant(says="a query is blamed for a full disk", plant=blame_anyone, shows="missing"),
    "fence-gives-way": Mutant(
        says="a sink takes an older checkpoint's results in place of newer ones",
        plant=give_way,
        shows="missing",
        trial=older_copy,
    ),
    "delete-unchecked": Mutant(
        says="what another checkpoint has made is removed",
        plant=delete_unchecked,
        shows="lost",
        trial=strange_folder,
    ),
}
"""Every bug by name."""
