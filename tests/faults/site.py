"""The folders of one trial, and what can be seen of an engine in them."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import sleep
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tests.faults import aside, oracle
from tests.faults.events import DELAY_MS, path_of
from tests.faults.oracle import Sorted, Span, Verdict
from tests.faults.tables import tables_of
from tests.faults.workload import STANDING, STREAM, Asked, write_workload
from weft.errors import DamagedFile
from weft.storage.container import unpack

_COMMIT = re.compile(r"\d{9}")
_ELSEWHERE = "viewfs://weft"
"""A file system of Hadoop's that is not known to be this machine's, though it is."""
_LAST_FILES = 4
_LOOKS = 20
"""How often is looked again where an engine has just removed what was listed."""
T = TypeVar("T")


class Spoilt(StrEnum):
    """What was done to a file after Spark had listed it."""

    VANISHED = "vanished"
    CUT_OFF = "cut off"
    REWRITTEN = "rewritten"


@dataclass(frozen=True, slots=True)
class Site:
    """A workload, its input, its checkpoint and its results, in one folder.

    What is told of an engine may be asked for while it runs.
    """

    root: Path
    input: Path
    """Where events are written to."""
    queries: tuple[Asked, ...] = STANDING
    uri: bool = False
    """Whether the checkpoint is given as a URI, and reached through Hadoop."""
    postgres: str | None = None
    """The database that results go to as well."""
    leased: bool = False
    """Whether the checkpoint is reached through a file system of Hadoop's where its lock is a lease."""
    state: str = "checkpoint"
    """The name of the checkpoint's folder: of two that are copies of one another, each has its own."""
    log_name: str = "engine"

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
        return self.root / self.state

    @property
    def place(self) -> str:
        """The same as the engine is told."""
        if self.leased:
            return f"{_ELSEWHERE}/{self.state}"
        return f"file://{self.checkpoint}" if self.uri else str(self.checkpoint)

    @property
    def log(self) -> Path:
        """What an engine prints."""
        return self.root / f"{self.state}-{self.log_name}.log"

    def hadoop_settings(self) -> Path:
        """Return a folder of settings by which Hadoop finds the checkpoint elsewhere."""
        folder = self.root / "hadoop"
        folder.mkdir(exist_ok=True)
        name = f"fs.viewfs.mounttable.{_ELSEWHERE.rpartition('/')[2]}.link./{self.state}"
        where = f"<name>{name}</name><value>file://{self.checkpoint}</value>"
        unfinished = folder / f".{self.state}.xml"
        unfinished.write_text(f"<configuration><property>{where}</property></configuration>")
        unfinished.replace(folder / "core-site.xml")
        return folder

    @property
    def out(self) -> Path:
        """Where results go."""
        return self.root / "out"

    @property
    def late(self) -> Path:
        """Where late rows go; a copy of a checkpoint has a folder of its own for them."""
        return self.root / ("late" if self.state == "checkpoint" else f"late-{self.state}")

    @property
    def quarantine(self) -> Path:
        """Where rows go that cannot be used."""
        return self.checkpoint / "quarantine"

    def copied(self, root: Path) -> "Site":
        """Return another site that is like this one was when it was copied; both read the same input.

        A database is not copied.
        """
        for name in ("checkpoint", "out", "late"):
            if (self.root / name).exists():
                shutil.copytree(self.root / name, root / name)
        root.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.workload, root)
        return Site(root, self.input, self.queries, self.uri)

    def commits(self) -> list[Path]:
        """Return Weft's commits that are on the disk, oldest first."""
        found = [path for path in self.checkpoint.glob("*/commits/*") if _COMMIT.fullmatch(path.name)]
        return sorted(found, key=lambda path: path.name)

    def newest_batch(self) -> int:
        """Return the last of Spark's batches that is committed, or −1; other commits only change queries."""
        return _steady(self._newest_batch)

    def _newest_batch(self) -> int:
        for path in reversed(self.commits()):
            with suppress(DamagedFile):
                return int(json.loads(bytes(unpack(path.read_bytes(), name=path.name)["commit"]))["batch"])
        return -1

    def spark_commits(self) -> list[Path]:
        """Return Spark's own commit files, oldest first."""
        found = [path for path in self.checkpoint.glob("*/spark/commits/*") if path.name.isdecimal()]
        return sorted(found, key=lambda path: int(path.name))

    def has_read_all(self, files: int) -> bool:
        """Say whether committed batches have read the last of so many files."""
        batch = self.newest_batch()
        last = _steady(lambda: self._last_files(self._log_offset(batch))) if batch >= 0 else []
        return path_of(self.input, files - 1).name in last

    def watermark(self) -> int:
        """Return how far, by the events of committed batches, the watermark has come; 0 if there are none.

        Which files they read is told by Spark's own log of its source, and how far in it a batch came, by
        Spark's notes of the batch: files that a killed engine had listed, but not read, come in a batch with
        others. The newest events are in the last.
        """
        return _steady(self._watermark)

    def _watermark(self) -> int:
        batch = self._newest_batch()
        if batch < 0:
            return 0
        last = self._last_files(self._log_offset(batch))
        newest = pc.max(oracle.read_events(self.input / name for name in last).good["time"])
        return int(newest.cast(pa.int64()).as_py()) - DELAY_MS * 1000

    def _log_offset(self, batch: int) -> int:
        """Return how far in its source's log a batch of Spark's came."""
        notes = (self.checkpoint / STREAM / f"spark/offsets/{batch}").read_text()
        return int(json.loads(notes.splitlines()[-1])["logOffset"])

    def _last_files(self, newest: int) -> list[str]:
        """Return the last files up to one of Spark's lists; every tenth has all files before it, too."""
        lists, found = self.checkpoint / STREAM / "spark/sources/0", set[str]()
        for number in range(newest, -1, -1):
            compact = lists / f"{number}.compact"
            text = (compact if compact.exists() else lists / str(number)).read_text()
            found |= {Path(json.loads(line)["path"]).name for line in text.splitlines()[1:]}
            if len(found) >= _LAST_FILES:
                break
        return sorted(found)[-_LAST_FILES:]

    def listed_ahead(self) -> list[str]:
        """Return the files that Spark has listed for a batch after the last one committed."""
        lists, batch = self.checkpoint / STREAM / "spark/sources/0", self._newest_batch()
        read = self._log_offset(batch) if batch >= 0 else -1
        found = {
            Path(entry["path"]).name
            for path in lists.glob("[0-9]*")
            for entry in map(json.loads, path.read_text().splitlines()[1:])
            if int(path.stem) > read and entry["batchId"] > read
        }
        return sorted(found)

    def spoilt(self) -> dict[str, Spoilt]:
        """Return the files that were spoilt after Spark had listed them, and how."""
        found = json.loads(self._spoilt.read_text()) if self._spoilt.exists() else {}
        return {name: Spoilt(how) for name, how in found.items()}

    def set_spoilt(self, files: Mapping[str, Spoilt]) -> None:
        """Note which files are spoilt: each must be named in the quarantine."""
        self._spoilt.write_text(json.dumps(files))

    @property
    def _spoilt(self) -> Path:
        return self.root / "spoilt.json"

    def read(self) -> Sorted:
        """Return all events so far; nobody can read those of files that were cut off."""
        cut_off = {name for name, how in self.spoilt().items() if how is Spoilt.CUT_OFF}
        paths = sorted(self.input.glob("events-*.parquet"))
        return oracle.read_events(path for path in paths if path.name not in cut_off)

    def events(self) -> pa.Table:
        """Return all events so far that count."""
        return self.read().good

    def judged(self, spans: dict[str, tuple[Span, ...]] | None = None, *more: Asked) -> Verdict:
        """Compare the results with what they must be, in files and in tables, and the rows set aside."""
        queries, read = [*self.queries, *more], self.read()
        verdict = oracle.judge(queries, read.good, self.out, spans)
        if self.postgres is not None:
            verdict.add(oracle.judge(queries, read.good, tables_of(self.postgres), spans))
        verdict.add(aside.judge("late", read.late, self.late))
        verdict.add(aside.judge("quarantine", read.unusable, self.quarantine))
        verdict.add(aside.judge_files(self.spoilt(), self.quarantine))
        return verdict


def _steady(look: Callable[[], T]) -> T:
    """Return what is seen; look again where an engine has just removed a file that was listed."""
    for _ in range(_LOOKS):
        with suppress(FileNotFoundError):
            return look()
        sleep(0.02)
    return look()
