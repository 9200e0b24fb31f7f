"""A site on small disks, which one mishap after another befalls."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from tests.faults.disk import small_disk
from tests.faults.driver import EngineProcess, Producer, Victim
from tests.faults.events import path_of, want, wanted
from tests.faults.site import Site, Spoilt
from tests.faults.trial import FOLLOW, keeping_late

START_SECONDS = 180.0
"""How long a first batch is waited for."""
PATIENCE_SECONDS = 90.0
"""How long an engine may take to end that was asked to, or has to."""
_FILES = 12
"""How many files of events come in a life."""
_KIBIBYTES = 131_072
"""How large a small disk is."""
_COPIES = 4
"""How many copies of the checkpoint are kept."""
_WRITING_SECONDS = 60.0
_JAVA_OPTIONS = os.environ.get("JAVA_TOOL_OPTIONS", "")
"""What whoever runs the trials wants of Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A checkpoint as it was when no engine ran."""

    folder: Path
    batch: int
    """The last batch committed in it."""
    files: int
    """How many files of events there were."""
    spoilt: Mapping[str, Spoilt]


@dataclass(kw_only=True)
class Ground:
    """A site, the small disks below it, and copies of its checkpoint."""

    site: Site
    mounted: bool
    """Whether its folders are disks of their own; where nobody may mount any, other failures stand in."""
    copies: list[Copy] = field(default_factory=list)
    _made: int = 0

    @property
    def scratch(self) -> Path:
        """Where Spark keeps what it sorts and shuffles."""
        return self.site.root / "scratch"

    @property
    def temporary(self) -> Path:
        """Where Python and Java keep temporary files."""
        return self.site.root / "temporary"

    def more_events(self, files: int = _FILES) -> None:
        """Have more events come in, and wait until they are there."""
        count = wanted(self.site.input) + files
        want(self.site.input, count)
        deadline = monotonic() + _WRITING_SECONDS
        while not path_of(self.site.input, count - 1).exists():
            assert monotonic() < deadline, "nobody writes events"
            sleep(0.05)

    def start(
        self,
        *options: str,
        site: Site | None = None,
        fault: str | None = None,
        plants: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        memory: str = "1g",
    ) -> EngineProcess:
        """Start an engine that goes on as events come, on this site or another over the same folders.

        There are events to be read.
        """
        own = site or self.site
        self.more_events()
        return EngineProcess(
            own, *FOLLOW, *keeping_late(own), *options,
            fault=fault, plants=plants, environment={**self._places(), **(environment or {})}, memory=memory,
        )  # fmt: skip

    def live(self) -> str:
        """Have an engine live undisturbed until all events are read; return what went wrong."""
        with self.start() as engine:
            if engine.await_batch(seconds=START_SECONDS) is None:
                return f"no batch is committed\n{engine.said[-2000:]}"
            engine.await_quiet(2.0)
            return ended_as_asked(engine)

    def keep_copy(self, *, beside: Copy | None = None) -> Copy:
        """Copy the checkpoint, while no engine runs; the oldest copies go, but for one that is in use."""
        folder = self.site.root / "copies" / f"{self._made:03d}"
        shutil.copytree(self.site.checkpoint, folder, ignore=shutil.ignore_patterns(".ballast"))
        self._made += 1
        copy = Copy(
            folder=folder,
            batch=self.site.newest_batch(),
            files=wanted(self.site.input),
            spoilt=self.site.spoilt(),
        )
        self.copies.append(copy)
        for old in self.copies[:-_COPIES]:
            if old is not beside:
                shutil.rmtree(old.folder)
        del self.copies[:-_COPIES]
        return copy

    def _places(self) -> dict[str, str]:
        return {
            "SPARK_LOCAL_DIRS": str(self.scratch),
            "TMPDIR": str(self.temporary),
            "JAVA_TOOL_OPTIONS": f"{_JAVA_OPTIONS} -Djava.io.tmpdir={self.temporary}".strip(),
        }


def ended_as_asked(engine: EngineProcess) -> str:
    """Ask an engine to stop; return what went wrong."""
    engine.kill(Victim.ASKED)
    code = engine.wait(PATIENCE_SECONDS)
    return "" if code == 0 else f"exit code {code} though asked to stop\n{engine.said[-2000:]}"


def put_in_place(folder: Path, of: Path) -> None:
    """Have a folder, which may be a disk of its own, hold what another holds, and nothing else."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.copytree(of, folder, dirs_exist_ok=True)


@contextmanager
def broken_ground(
    root: Path, *, seed: int, uri: bool = False, postgres: str | None = None
) -> Iterator[Ground]:
    """Make a site on small disks, with events that come when they are wanted."""
    site = Site.made(root, files_per_batch=2, uri=uri, postgres=postgres)
    ground = Ground(site=site, mounted=True)
    with ExitStack() as stack:
        for folder in (site.checkpoint, site.out, ground.scratch, ground.temporary):
            folder.mkdir(exist_ok=True)
            ground.mounted &= stack.enter_context(small_disk(folder, kibibytes=_KIBIBYTES))
        stack.enter_context(Producer(site, seed=seed, every=0.02))
        yield ground
