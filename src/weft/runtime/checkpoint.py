"""Commits on disk: what a batch added, made visible by one rename before Spark commits the batch.

    checkpoint/
      spark/              Spark's own offsets
      commits/000000012/  commit.json   clock, queries, batch id
                          block-*.arrow partials that the batch added, by relation
                          results-*.arrow results that the batch gave
      delivered.json      the last commit whose results the sink has made visible

A replayed batch finds its commit and is not aggregated again. Blocks are read back on restart and their
folders removed when no open window needs them and their results have been delivered.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import EngineError
from weft.runtime.blocks import StoredBlock, read_block, write_block
from weft.runtime.clock import Clock, RowCounts
from weft.runtime.files import sync as _sync
from weft.runtime.state import Block

_FORMAT = 1
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


def fingerprint(grouping: object) -> str:
    """Return a short name for a relation's grouping that is the same in every run."""
    return sha256(repr(grouping).encode()).hexdigest()[:16]


class Checkpoint:
    """The commits of one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._commits = folder / "commits"
        self._commits.mkdir(parents=True, exist_ok=True)
        self._newest_slices: dict[int, int | None] = {}
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
        self._newest_slices = {commit.number: commit.newest_slice for commit in found}
        return found

    def write(self, commit: Commit, blocks: Mapping[object, Block], results: Mapping[str, pa.Table]) -> None:
        """Make a commit visible, whole or not at all."""
        final = self._commits / f"{commit.number:09d}"
        unfinished = self._commits / f".{final.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        for grouping, block in blocks.items():
            if not len(block):
                continue
            path = unfinished / f"block-{fingerprint(grouping)}.arrow"
            write_block(path, block)
            _sync(path)
        for number, table in enumerate(_by_schema(results)):
            _write_table(unfinished / f"results-{number}.arrow", table)
        record = {"format": _FORMAT, **asdict(commit)}
        _write_bytes(unfinished / "commit.json", json.dumps(record).encode())
        _sync(unfinished)
        unfinished.rename(final)
        _sync(self._commits)
        self._newest_slices[commit.number] = commit.newest_slice

    def blocks(self, groupings: Mapping[str, object]) -> Iterator[tuple[object, StoredBlock]]:
        """Yield the stored blocks of the given relations (fingerprint to grouping), oldest first."""
        for path in sorted(self._commits.glob("*/block-*.arrow")):
            grouping = groupings.get(path.stem.removeprefix("block-"))
            if grouping is not None:
                yield grouping, read_block(path)

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
        for number, newest in list(self._newest_slices.items())[:-1]:
            if number <= delivered and (newest is None or newest < oldest_needed):
                shutil.rmtree(self._commits / f"{number:09d}")
                del self._newest_slices[number]


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
    return Commit(**record, clock=Clock(**clock, counts=counts), queries=queries)


def _write_table(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    _sync(path)


def _write_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _sync(path)
