"""Commits that last: what a batch added appears by one rename, before Spark commits the batch.

    spark/               Spark's own offsets
    commits/000000012    one file: clock, changes of queries, partials, and results (the outbox)
    snapshots/000000010  one file: all that the commits up to it amount to
    delivered/<sink>     the last commit whose results a sink has made visible

A replayed batch finds its commit and is not aggregated again. A restart reads the newest whole snapshot and
the commits after it. The snapshot before the newest and the commits since it are kept too, should the newest
be damaged; older ones are removed once every sink has their results. Every file has checksums.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from weft.durability.commits import (
    OLDEST,
    Commit,
    commit_bytes,
    read_commit,
    read_format,
    read_results,
    results_bytes,
)
from weft.durability.delivered import Note, notes_of
from weft.durability.encoding import (
    NAMES,
    NAMES_OF_4,
    StoredBlock,
    block_bytes,
    check_block,
    check_codebook,
    codebook_bytes,
    read_codebook,
)
from weft.durability.position import mend, position
from weft.durability.registry import Registry
from weft.durability.stored_names import Unknown, predicate_name
from weft.errors import DamagedFile, EngineError
from weft.faultpoints import reach
from weft.optimizer.plan import Grouping
from weft.predicates import Formula
from weft.predicates.signatures import Signatures
from weft.state.clock import Clock
from weft.state.running_query import Derivation
from weft.state.store import Block
from weft.storage import Folder
from weft.storage.container import pack, unpack
from weft.threads import side_by_side

_COMMIT, _BLOCK, _CODEBOOK, _RESULTS = "commit", "block/", "codebook/", "results/"
_SNAPSHOT_COMMITS = 100
"""Number of commits after which a snapshot is taken…"""
_SNAPSHOT_BYTES = 32 << 20
"""…or once they are larger than this and than the snapshot before."""
_WORTH_THREADS = 20_000
"""Number of rows from which on parts of a commit are made in parallel."""
_log = logging.getLogger("weft.checkpoint")

Placed = tuple[Grouping, int]
"""A relation: its grouping, and its number in the plan."""
Sections = Mapping[str, bytes | memoryview]


@dataclass(slots=True, kw_only=True)
class Recovered:
    """What a checkpoint holds."""

    last: Commit
    registry: Registry
    files: list[Sections] = field(default_factory=list)
    """The snapshot's sections and those of the commits after it, oldest first."""
    formats: set[int] = field(default_factory=set)
    """The formats of these files."""

    def blocks(
        self,
        predicates: Mapping[Grouping, Iterable[Formula]],
        derivations: Sequence[Derivation] = (),
    ) -> Iterator[tuple[Grouping, StoredBlock, Signatures]]:
        """Yield the stored blocks of groupings, oldest first.

        Their fragments keep their meaning for the given predicates of the grouping, and for those that follow
        from others.
        """
        # A derivation has the names of the format in which the partials that it is about were written.
        known = {
            names.grouping(grouping): (grouping, {names.predicate(predicate): predicate for predicate in own})
            for names in ((NAMES, NAMES_OF_4) if OLDEST in self.formats else (NAMES,))
            for grouping, own in predicates.items()
        }
        books: dict[str, bytes | memoryview] = {}
        read: dict[tuple[str, str], Signatures] = {}
        for sections in self.files:
            for name, stored in sections.items():
                if name.startswith(_CODEBOOK):
                    books.setdefault(name.removeprefix(_CODEBOOK), stored)
            for name, stored in sections.items():
                if not name.startswith(_BLOCK):
                    continue
                block = StoredBlock(name, stored)
                if block.grouping in known:
                    grouping, asked = known[block.grouping]
                    key = block.grouping, block.codebook
                    if key not in read:
                        read[key] = read_codebook(books[block.codebook], asked, derivations)
                    yield grouping, block, read[key]


class Checkpoint:
    """The commits of one stream.

    If the lock can be lost, `held` raises an error once it was; it is called before a commit becomes visible.
    """

    def __init__(self, folder: Folder, *, held: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self._held = held
        self._commits, self._snapshots = folder.folder("commits"), folder.folder("snapshots")
        self._notes = notes_of(folder)
        self._damaged: set[str] = set()
        """Snapshots that were found damaged."""
        self._names: WeakKeyDictionary[Signatures, str] = WeakKeyDictionary()
        self._stored: set[str] = set()
        """The codebooks that commits need not contain: reachable from each of the last two snapshots."""
        self._since_snapshot = self._since_bytes = self._snapshot_bytes = 0

    def tidy(self) -> None:
        """Remove what a crash left unfinished; call it with the lock."""
        for folder in (self._commits, self._snapshots, self._notes):
            folder.tidy()

    @property
    def spark(self) -> Folder:
        """Where Spark keeps its notes."""
        return self.folder.folder("spark")

    def position(self, batch: int, *, settled: bool = False) -> str:
        """Return what one of Spark's batches consists of; `settled` waits until notes are on the disk."""
        return position(self.spark, batch, settled=settled)

    def mend_notes(self, committed: int) -> None:
        """Repair Spark's notes so that it continues after the last commit; raise DamagedFile if it cannot."""
        planned = mend(self.spark, committed)
        if 0 <= planned < committed:
            raise self.replanned(planned + 1, committed)

    def recover(self) -> Recovered | None:
        """Return what was committed, or None if nothing was; raise DamagedFile if it cannot be read."""
        commits = self._commits.names()
        recovered = self._newest_snapshot()
        if recovered is None and not commits:
            return None
        begin = -1 if recovered is None else recovered.last.number
        for number, name in enumerate((name for name in commits if int(name) > begin), begin + 1):
            if int(name) != number:
                raise self.missing(number)
            size, sections = _read(self._commits, name)
            recovered = self._took_in(sections, recovered, f"commit {name}")
            self._since_snapshot += 1
            self._since_bytes += size
            self._stored |= _codebooks(sections)
        return recovered

    def _took_in(self, sections: Sections, recovered: Recovered | None, file: str) -> Recovered:
        """Return what a snapshot is, or a commit adds; raise EngineError if it has anything unknown."""
        head = bytes(sections[_COMMIT])
        format = read_format(head, self.folder.uri)
        try:
            commit, changes = read_commit(head)
            recovered = recovered or Recovered(last=commit, registry=Registry())
            recovered.last = commit
            recovered.registry.apply(changes)
            if format > OLDEST:
                _check_sections(sections)
        except Unknown as unknown:
            raise EngineError(
                f"checkpoint {self.folder.uri}: {file} has a name that this version of Weft does not know: "
                f"{unknown}; use the version that wrote it, or start a new checkpoint"
            ) from unknown
        recovered.files.append(sections)
        recovered.formats.add(format)
        return recovered

    def missing(self, number: int, *, also: str = "") -> DamagedFile:
        """Return the error for a commit that was made and is missing."""
        return DamagedFile(
            f"checkpoint {self.folder.uri}: commit {_named(number)} is missing{also}; restore it, "
            "or start a new checkpoint"
        )

    def replanned(self, offered: int, last: int) -> DamagedFile:
        """Return the error for a batch that is not the one that was committed under its number."""
        return DamagedFile(
            f"checkpoint {self.folder.uri}: batches up to {last} are committed, but Spark's notes in "
            f"{self.spark.uri} are not those of then: it would make up a new batch {offered}, whose rows "
            "would be lost; restore that folder as it was, or start a new checkpoint"
        )

    def _newest_snapshot(self) -> Recovered | None:
        damaged: DamagedFile | None = None
        for name in reversed(self._snapshots.names()):
            try:
                self._snapshot_bytes, sections = _read(self._snapshots, name)
            except DamagedFile as error:
                _log.warning("snapshot is damaged", extra={"file": name, "problem": str(error)})
                damaged = damaged or error
                self._damaged.add(name)
                continue
            return self._took_in(sections, None, f"snapshot {name}")
        if damaged is not None and "000000000" not in self._commits.names():
            raise damaged
        return None

    def has(self, number: int) -> bool:
        """Say whether a commit is visible."""
        return _named(number) in self._commits.names()

    def write(
        self,
        commit: Commit,
        changes: Iterable[Mapping[str, Any]],
        blocks: Mapping[Placed, Block],
        results: Mapping[str, pa.Table],
    ) -> None:
        """Make a commit visible, whole or not at all."""
        sections = {_COMMIT: commit_bytes(commit, changes), **self._block_sections(blocks)}
        for number, stored in enumerate(results_bytes(results)):
            sections[f"{_RESULTS}{number}"] = stored
        data = pack(sections)
        reach("commit.written")
        self._refuse_if_lost(commit.number)
        self._commits.write(_named(commit.number), data)
        reach("commit.visible")
        self._stored |= _codebooks(sections)
        self._since_snapshot += 1
        self._since_bytes += len(data)

    def _refuse_if_lost(self, number: int) -> None:
        """Raise EngineError if another engine may run on the checkpoint."""
        if self._held is None:
            return
        # If another engine made this commit and removed it again, it had removed the commit before it first.
        # If that is missing, only a list shows it: the newest commit is never removed.
        alone = number > 0 and self._commits.has(_named(number - 1)) and not self._commits.has(_named(number))
        newest = "" if alone else max(self._commits.names(), default="")
        if newest and int(newest) >= number:
            raise EngineError(
                f"the engine stops: checkpoint {self.folder.uri} has been taken over, for commit {newest} is "
                "another engine's; start it again if no other runs"
            )
        self._held()

    @property
    def wants_snapshot(self) -> bool:
        """Whether enough was committed since the last snapshot to take another."""
        large = max(_SNAPSHOT_BYTES, self._snapshot_bytes)
        return self._since_snapshot >= _SNAPSHOT_COMMITS or self._since_bytes >= large

    def snapshot(self, commit: Commit, registry: Registry, blocks: Mapping[Placed, Block]) -> None:
        """Write what all commits so far add up to, without results."""
        reach("snapshot.before")
        former, self._stored = self._stored, set()
        sections = {_COMMIT: commit_bytes(commit, registry.records()), **self._block_sections(blocks)}
        data = pack(sections)
        self._snapshots.write(_named(commit.number), data, replace=True)
        self._damaged.discard(_named(commit.number))
        reach("snapshot.visible")
        # If this snapshot is found damaged, later commits are read without it.
        self._stored = former & _codebooks(sections)
        self._since_snapshot, self._since_bytes, self._snapshot_bytes = 0, 0, len(data)

    def _block_sections(self, blocks: Mapping[Placed, Block]) -> dict[str, bytes]:
        sections: dict[str, bytes] = {}
        held = {placed: block for placed, block in blocks.items() if len(block)}
        names = [self._codebook_name(block.signatures) for block in held.values()]
        for name, block in zip(names, held.values(), strict=True):
            if name not in self._stored:
                sections.setdefault(f"{_CODEBOOK}{name}", codebook_bytes(block.signatures))
        many = sum(map(len, held.values())) > _WORTH_THREADS
        stored = side_by_side(
            lambda given: block_bytes(given[0][0], given[1], given[2]),
            zip(held, held.values(), names, strict=True),
            worth=many,
        )
        return sections | {f"{_BLOCK}{number}": data for number, data in enumerate(stored)}

    def _codebook_name(self, signatures: Signatures) -> str:
        if signatures not in self._names:
            names = list(map(predicate_name, signatures.predicates))
            content = json.dumps(names).encode() + signatures.packed.tobytes()
            self._names[signatures] = sha256(content).hexdigest()[:32]
        return self._names[signatures]

    def results(self, number: int) -> dict[str, pa.Table]:
        """Return the results of a commit; raise DamagedFile if they can no longer be read."""
        results: dict[str, pa.Table] = {}
        try:
            _, sections = _read(self._commits, _named(number))
        except FileNotFoundError:
            raise self.missing(number, also=", and its results are not delivered") from None
        except DamagedFile as error:
            raise DamagedFile(f"{error}; its results are not delivered until it is restored") from None
        for name, stored in sections.items():
            if name.startswith(_RESULTS):
                results |= read_results(stored)
        return results

    def delivered(self, sink: str) -> int:
        """Return the last commit whose results a sink is known to have, or −1.

        What is no longer in the outbox was delivered to every sink of then: that is known without the note.
        Raise DamagedFile if results that the sink lacks are missing.
        """
        commits, snapshots = self._numbers()
        gone = commits[0] - 1 if commits else snapshots[-1] if snapshots else -1
        note = self._notes.read(sink)
        done = gone if note is None else note.commit
        if note is not None and note.away and done < gone:
            fields = {"sink": sink, "first": done + 1, "last": gone}
            _log.warning("sink %s was left out for a while: it lacks results of then", sink, extra=fields)
            done = gone
        self.check_outbox(sink, after=done)
        return done

    def check_outbox(self, sink: str, *, after: int) -> None:
        """Raise DamagedFile if results of any commit after one are missing."""
        commits, snapshots = self._numbers()
        last = max((*commits[-1:], *snapshots[-1:]), default=-1)
        lacking = sorted({*range(after + 1, last + 1)}.difference(commits))
        if lacking:
            more = f" (and {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
            raise self.missing(lacking[0], also=f'{more}, and sink "{sink}" does not have its results')

    def _numbers(self) -> tuple[list[int], list[int]]:
        """Return the numbers of commits, and those of snapshots."""
        commits, snapshots = ([int(name) for name in of.names()] for of in (self._commits, self._snapshots))
        return commits, snapshots

    def deliver_again(self, sink: str, *, after: int) -> None:
        """Note that a sink has no results of the commits after one."""
        note = self._notes.read(sink)
        if note is not None and note.commit > after:
            self._notes.write(sink, Note(commit=after))

    def clock_of(self, number: int) -> Clock:
        """Return the clock of a commit; raise FileNotFoundError if it was removed."""
        _, sections = _read(self._commits, _named(number))
        return read_commit(bytes(sections[_COMMIT]))[0].clock

    def set_delivered(self, sink: str, number: int) -> None:
        """Note that a sink has made all results up to a commit visible."""
        self._notes.write(sink, Note(commit=number))
        reach("delivered.noted")

    def deliver_to(self, sinks: Mapping[str, int]) -> None:
        """Note which sinks are delivered to from now on, each after a commit, and that others are not."""
        for name, done in sinks.items():
            self._notes.write(name, Note(commit=done))
        self._notes.set_away(but=sinks)

    def prune(self, delivered: int) -> None:
        """Remove what neither a restart nor a sink needs, given the last commit that all sinks have."""
        names = self._snapshots.names()
        whole = [name for name in names if name not in self._damaged]
        if len(whole) < 2:
            return
        reach("prune.before")
        # The snapshot before the newest stays, and so do the commits since it.
        for name in set(names).difference(whole[-2:]):
            self._snapshots.delete(name)
        self._damaged.clear()
        for name in self._commits.names():
            if int(name) <= min(delivered, int(whole[-2])):
                self._commits.delete(name)
        reach("prune.after")


def _read(folder: Folder, name: str) -> tuple[int, Sections]:
    """Return the size and the sections of a file."""
    data = folder.read(name)
    return len(data), unpack(data, name=f"{folder.uri}/{name}")


def _check_sections(sections: Sections) -> None:
    """Raise Unknown if a file has sections, or names in them, that this version does not know."""
    for name, stored in sections.items():
        if name.startswith(_CODEBOOK):
            check_codebook(stored)
        elif name.startswith(_BLOCK):
            check_block(name, stored)
        elif name != _COMMIT and not name.startswith(_RESULTS):
            raise Unknown(f'section "{name}"')


def _codebooks(sections: Iterable[str]) -> set[str]:
    return {name.removeprefix(_CODEBOOK) for name in sections if name.startswith(_CODEBOOK)}


def _named(number: int) -> str:
    return f"{number:09d}"
