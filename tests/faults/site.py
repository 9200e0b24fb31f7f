"""The folders of one trial, and what can be seen of an engine in them."""

import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.faults import oracle
from tests.faults.events import DELAY_MS
from tests.faults.oracle import Span, Verdict
from tests.faults.tables import tables_of
from tests.faults.workload import STANDING, Asked, write_workload
from weft.errors import DamagedFile
from weft.storage.container import unpack

_COMMIT = re.compile(r"\d{9}")
_LAST_FILES = 4


@dataclass(frozen=True, slots=True)
class Site:
    """A workload, its input, its checkpoint and its results, in one folder."""

    root: Path
    input: Path
    """Where events are written to."""
    queries: tuple[Asked, ...] = STANDING
    uri: bool = False
    """Whether the checkpoint is given as a URI, and reached through Hadoop."""
    postgres: str | None = None
    """The database that results go to as well."""

    @classmethod
    def made(
        cls,
        root: Path,
        *,
        queries: tuple[Asked, ...] = STANDING,
        files_per_batch: int = 4,
        uri: bool = False,
        postgres: str | None = None,
    ) -> "Site":
        """Return a new site."""
        site = cls(root, root / "input", queries, uri, postgres)
        site.input.mkdir(parents=True)
        site.checkpoint.mkdir()
        write_workload(site.workload, queries, input=site.input, files_per_batch=files_per_batch)
        return site

    @property
    def workload(self) -> Path:
        """The workload file."""
        return self.root / "workload.sql"

    @property
    def checkpoint(self) -> Path:
        """Where the engine commits to."""
        return self.root / "checkpoint"

    @property
    def place(self) -> str:
        """The same as the engine is told."""
        return f"file://{self.checkpoint}" if self.uri else str(self.checkpoint)

    @property
    def out(self) -> Path:
        """Where results go."""
        return self.root / "out"

    def copied(self, root: Path) -> "Site":
        """Return another site that is like this one was when it was copied; both read the same input.

        A database is not copied.
        """
        for name in ("checkpoint", "out"):
            if (self.root / name).exists():
                shutil.copytree(self.root / name, root / name)
        root.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.workload, root)
        return Site(root, self.input, self.queries, self.uri)

    def commits(self) -> list[Path]:
        """Return Weft's commits that are on the disk, oldest first."""
        found = [path for path in self.checkpoint.glob("*/commits/*") if _COMMIT.fullmatch(path.name)]
        return sorted(found, key=lambda path: path.name)

    def newest_commit(self) -> int:
        """Return the number of the last commit, or −1."""
        commits = self.commits()
        return int(commits[-1].name) if commits else -1

    def newest_batch(self) -> int:
        """Return the last of Spark's batches that is committed, or −1; other commits only change queries."""
        for path in reversed(self.commits()):
            with suppress(FileNotFoundError, DamagedFile):
                return int(json.loads(bytes(unpack(path.read_bytes(), name=path.name)["commit"]))["batch"])
        return -1

    def spark_commits(self) -> list[Path]:
        """Return Spark's own commit files, oldest first."""
        found = [path for path in self.checkpoint.glob("*/spark/commits/*") if path.name.isdecimal()]
        return sorted(found, key=lambda path: int(path.name))

    def watermark(self) -> int:
        """Return how far, by the events of committed batches, the watermark has come; 0 if there are none.

        Which files they read is told by Spark's own log of its source, and how far in it a batch came, by
        Spark's notes of the batch: files that a killed engine had listed, but not read, come in a batch with
        others. The newest events are in the last.
        """
        newest, read = self._listed(self.newest_batch()), set[str]()
        for path in self.checkpoint.glob("*/spark/sources/0/*"):
            if path.name[0] != ".":
                entries = [json.loads(line) for line in path.read_text().splitlines()[1:]]
                read |= {Path(one["path"]).name for one in entries if one["batchId"] <= newest}
        last = sorted(read)[-_LAST_FILES:]
        times = [pc.max(pq.read_table(self.input / name, columns=["time"])["time"]) for name in last]
        return max((time.cast(pa.int64()).as_py() - DELAY_MS * 1000 for time in times), default=0)

    def _listed(self, batch: int) -> int:
        """Return the last list of files that a batch reads, or −1."""
        (notes,) = [*self.checkpoint.glob(f"*/spark/offsets/{batch}")] or (None,)
        return -1 if notes is None else int(json.loads(notes.read_text().splitlines()[-1])["logOffset"])

    def events(self) -> pa.Table:
        """Return all events so far."""
        return oracle.read_events(self.input)

    def judged(self, spans: dict[str, tuple[Span, ...]] | None = None, *more: Asked) -> Verdict:
        """Compare the results with what they must be, in files and in tables."""
        queries, events = [*self.queries, *more], self.events()
        verdict = oracle.judge(queries, events, self.out, spans)
        if self.postgres is not None:
            verdict.add(oracle.judge(queries, events, tables_of(self.postgres), spans))
        return verdict
