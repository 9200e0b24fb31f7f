"""Commits on disk: what a batch added, made visible by one rename before Spark commits the batch.

    checkpoint/
      spark/              Spark's own offsets
      codebooks/          what the fragments in blocks mean, once for each plan
      commits/000000012/  commit.json   clock, queries, batch id
                          block-*.arrow partials that the batch added, by relation
                          results-*.arrow results that the batch gave
      delivered.json      the last commit whose results the sink has made visible

A replayed batch finds its commit and is not aggregated again. Blocks are read back on restart and their
folders removed when no open window needs them and their results have been delivered.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import EngineError
from weft.optimizer.plan import Grouping
from weft.predicates import Formula
from weft.runtime.blocks import (
    StoredBlock,
    described,
    read_block,
    read_codebook,
    write_block,
    write_codebook,
)
from weft.runtime.clock import Clock, RowCounts
from weft.runtime.files import sync as _sync
from weft.runtime.fragments import Signatures
from weft.runtime.state import Block

_FORMAT = 2
_QUERY = "__weft_query"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery:
    """A query as the checkpoint knows it."""

    name: str
    text: str
    first_start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The state of a stream after a commit."""

    number: int
    batch: int
    """The last of Spark's batches in it."""
    stream: str
    """The stream's columns and time, as declared then."""
    clock: Clock
    queries: tuple[StoredQuery, ...]
    newest_slice: int | None = None
    """The latest slice start among the commit's blocks."""
    codebooks: tuple[str, ...] = ()
    """The codebooks that the commit's blocks refer to."""


def fingerprint(grouping: object) -> str:
    """Return a short name for a relation's grouping that is the same in every run."""
    return sha256(repr(grouping).encode()).hexdigest()[:16]


class Checkpoint:
    """The commits of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._commits = folder / "commits"
        self._commits.mkdir(parents=True, exist_ok=True)
        self._codebooks = folder / "codebooks"
        self._codebooks.mkdir(exist_ok=True)
        self._names: WeakKeyDictionary[Signatures, str] = WeakKeyDictionary()
        self._kept: dict[int, Commit] = {}
        self._delivered: int | None = None
        for unfinished in self._commits.glob(".*"):
            shutil.rmtree(unfinished)

    @property
    def spark_folder(self) -> Path:
        """Where Spark keeps its offsets."""
        return self.folder / "spark"

    def commits(self) -> list[Commit]:
        """Return the commits at hand, oldest first."""
        paths = [path for path in sorted(self._commits.iterdir()) if not path.name.startswith(".")]
        found = [_read_commit(path) for path in paths]
        self._kept = {commit.number: commit for commit in found}
        return found

    def write(
        self,
        commit: Commit,
        blocks: Mapping[tuple[Grouping, int], Block],
        results: Mapping[str, pa.Table],
    ) -> None:
        """Make a commit visible, whole or not at all."""
        filled = {place: block for place, block in blocks.items() if len(block)}
        names = {place: self._codebook(block.signatures) for place, block in filled.items()}
        commit = replace(commit, codebooks=tuple(dict.fromkeys(names.values())))
        final = self._commits / f"{commit.number:09d}"
        unfinished = self._commits / f".{final.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        for (grouping, number), block in filled.items():
            path = unfinished / f"block-{fingerprint(grouping)}-{number}.arrow"
            write_block(path, block, names[grouping, number])
            _sync(path)
        for number, table in enumerate(_by_schema(results)):
            _write_table(unfinished / f"results-{number}.arrow", table)
        record = {"format": _FORMAT, **asdict(commit)}
        _write_bytes(unfinished / "commit.json", json.dumps(record).encode())
        _sync(unfinished)
        unfinished.rename(final)
        _sync(self._commits)
        self._kept[commit.number] = commit

    def _codebook(self, signatures: Signatures) -> str:
        """Return the name of a codebook, written if it is not there yet."""
        if signatures not in self._names:
            names = [described(predicate) for predicate in signatures.predicates]
            content = json.dumps(names).encode() + np.packbits(signatures.bits, axis=1).tobytes()
            name = sha256(content).hexdigest()[:32]
            path = self._codebooks / f"{name}.arrow"
            if not path.exists():
                unfinished = self._codebooks / f".{name}.arrow"
                write_codebook(unfinished, signatures)
                _sync(unfinished)
                unfinished.rename(path)
                _sync(self._codebooks)
            self._names[signatures] = name
        return self._names[signatures]

    def blocks(
        self, groupings: Mapping[str, Grouping], predicates: Iterable[Formula]
    ) -> Iterator[tuple[Grouping, StoredBlock, Signatures]]:
        """Yield the stored blocks of the given groupings (by fingerprint), oldest first.

        Their fragments mean what they meant, as far as the given predicates go.
        """
        known = {described(predicate): predicate for predicate in predicates}
        codebooks: dict[str, Signatures] = {}
        for path in sorted(self._commits.glob("*/block-*.arrow")):
            grouping = groupings.get(path.stem.removeprefix("block-").rpartition("-")[0])
            if grouping is not None:
                stored = read_block(path)
                name = stored.codebook
                if name not in codebooks:
                    codebooks[name] = read_codebook(self._codebooks / f"{name}.arrow", known)
                    self._names[codebooks[name]] = name
                yield grouping, stored, codebooks[name]

    def results(self, number: int) -> dict[str, pa.Table]:
        """Return the results of a commit."""
        found: dict[str, pa.Table] = {}
        for path in sorted((self._commits / f"{number:09d}").glob("results-*.arrow")):
            with pa.OSFile(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all()
            for name in rows[_QUERY].unique().to_pylist():
                found[name] = rows.filter(pc.equal(rows[_QUERY], name)).drop_columns([_QUERY])
        return found

    @property
    def delivered(self) -> int:
        """The last commit whose results are visible, or −1."""
        if self._delivered is None:
            path = self.folder / "delivered.json"
            self._delivered = int(json.loads(path.read_text())["commit"]) if path.exists() else -1
        return self._delivered

    def set_delivered(self, number: int) -> None:
        """Note that all results up to a commit are visible."""
        unfinished = self.folder / ".delivered.json"
        _write_bytes(unfinished, json.dumps({"commit": number}).encode())
        unfinished.rename(self.folder / "delivered.json")
        self._delivered = number

    def prune(self, oldest_needed: int) -> None:
        """Remove commits that nothing needs any more; the last one always stays."""
        delivered = self.delivered
        gone: set[str] = set()
        for number, commit in list(self._kept.items())[:-1]:
            newest = commit.newest_slice
            if number <= delivered and (newest is None or newest < oldest_needed):
                shutil.rmtree(self._commits / f"{number:09d}")
                gone.update(self._kept.pop(number).codebooks)
        for name in gone - {name for commit in self._kept.values() for name in commit.codebooks}:
            (self._codebooks / f"{name}.arrow").unlink(missing_ok=True)
            self._names = WeakKeyDictionary({one: kept for one, kept in self._names.items() if kept != name})


def _by_schema(results: Mapping[str, pa.Table]) -> list[pa.Table]:
    """Return results in as few tables as there are different columns, each row with its query's name."""
    grouped: dict[pa.Schema, list[pa.Table]] = {}
    for name, table in results.items():
        names = pa.DictionaryArray.from_arrays(pa.array([0] * table.num_rows, pa.int32()), pa.array([name]))
        grouped.setdefault(table.schema, []).append(table.append_column(_QUERY, names.cast(pa.string())))
    return [pa.concat_tables(tables) for tables in grouped.values()]


def _read_commit(path: Path) -> Commit:
    record = json.loads((path / "commit.json").read_text())
    if record.pop("format") != _FORMAT:
        raise EngineError(
            f"checkpoint {path.parent.parent} was written by another version of Weft; start a new one"
        )
    clock = record.pop("clock")
    counts = RowCounts(**clock.pop("counts"))
    queries = tuple(StoredQuery(**query) for query in record.pop("queries"))
    record["codebooks"] = tuple(record["codebooks"])
    return Commit(**record, clock=Clock(**clock, counts=counts), queries=queries)


def _write_table(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    _sync(path)


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _sync(path)
