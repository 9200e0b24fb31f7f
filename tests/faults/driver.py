"""An engine in a process group of its own, and the ways to end it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType

from tests.faults.site import Site
from weft.faultpoints import VARIABLE, java_below

ROOT = Path(__file__).parent.parent.parent
_LAUNCH = Path(__file__).with_name("launch.py")
_POLL_SECONDS = 0.03
_POSTGRES = "WEFT_POSTGRES"


class Victim(StrEnum):
    """What is ended, and how."""

    PYTHON = "python"
    JVM = "jvm"
    BOTH = "both"
    ASKED = "asked"
    """SIGTERM: the engine is to finish and exit with 0."""


class EngineProcess:
    """`weft run` over a site."""

    def __init__(
        self,
        site: Site,
        *options: str,
        fault: str | None = None,
        plants: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        cores: int = 2,
        memory: str = "1g",
    ) -> None:
        """Start it, with planted bugs and conditions, and in a changed environment if told."""
        self._site = site
        self._before = site.newest_batch()
        self._log = site.log
        planted = [part for name in plants for part in ("--plant", name)]
        command = [
            *(sys.executable, str(_LAUNCH), *planted, "run"),
            *(str(site.workload), "--checkpoint", site.place, "--out", str(site.out)),
            *("--cores", str(cores), "--memory", memory, *options),
        ]
        self.began = monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=site.root,
                env=_environment(site, fault) | dict(environment or {}), start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> "EngineProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def said(self) -> str:
        """What the engine has printed so far."""
        return self._log.read_text(errors="replace")

    def await_batch(self, *, seconds: float) -> float | None:
        """Wait until a new batch is committed; return how long after the start that was, or None."""
        deadline = monotonic() + seconds
        while self._site.newest_batch() <= self._before:
            if self._process.poll() is not None or monotonic() > deadline:
                return None
            sleep(_POLL_SECONDS)
        return monotonic() - self.began

    def await_quiet(self, seconds: float) -> int | None:
        """Wait for the engine's own end and return its exit code; None once no batch came for so long."""
        newest, since = self._site.newest_batch(), monotonic()
        while (code := self._process.poll()) is None and monotonic() - since < seconds:
            sleep(_POLL_SECONDS)
            if (now := self._site.newest_batch()) != newest:
                newest, since = now, monotonic()
        return code

    @property
    def peak_mebibytes(self) -> float:
        """The most memory that the engine's Python has had so far; Java's has a limit of its own."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        kibibytes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return float(kibibytes[0]) / 1024 if kibibytes else 0.0

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the engine, and to its Java."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self, victim: Victim) -> None:
        """End the engine, or ask it to."""
        with suppress(ProcessLookupError):
            if victim is Victim.BOTH:
                os.killpg(self._process.pid, signal.SIGKILL)
            elif victim is Victim.JVM:
                for pid in java_below(self._process.pid):
                    os.kill(pid, signal.SIGKILL)
            else:
                self._process.send_signal(signal.SIGTERM if victim is Victim.ASKED else signal.SIGKILL)

    def wait(self, seconds: float) -> int | None:
        """Wait for the engine's own end; return its exit code, or None if it goes on."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Leave nothing running, and wait until it is so."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _environment(site: Site, fault: str | None) -> dict[str, str]:
    """Return the environment of an engine over a site."""
    environment = {name: value for name, value in os.environ.items() if name not in (VARIABLE, _POSTGRES)}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    if site.postgres is not None:
        environment[_POSTGRES] = site.postgres
    if site.leased:
        environment["HADOOP_CONF_DIR"] = str(site.hadoop_settings())
    if fault is not None:
        environment[VARIABLE] = fault
    return environment


class Producer:
    """The process that writes events."""

    def __init__(
        self, site: Site, *, seed: int, every: float = 0.2, late: float = 0.01, unusable: float = 0.005
    ) -> None:
        command = [sys.executable, "-m", "tests.faults.events", str(site.input), "--seed", str(seed)]
        shares = ["--late", str(late), "--unusable", str(unusable)]
        self._process = subprocess.Popen(
            [*command, "--every", str(every), *shares], cwd=ROOT, start_new_session=True
        )

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Have it finish its file and end."""
        self._process.terminate()
        self._process.wait(60)
