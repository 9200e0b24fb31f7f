"""A PostgreSQL server of the tests' own, in a temporary folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

USER = "weft"
PASSWORD = "p@ss/w%rd 'x'"
_SETTINGS = "-c listen_addresses='' -c fsync=off -c max_connections=20 -c unix_socket_permissions=0777"


def programs() -> Path:
    """Return the folder of initdb and pg_ctl; install Debian's packages if there is none."""
    found = _found()
    if found is None:
        _install()
        found = _found()
    assert found is not None, "PostgreSQL was installed, but initdb and pg_ctl are nowhere to be found"
    return found


def _found() -> Path | None:
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(installed, key=lambda path: float(path.parent.name), reverse=True)
    on_path = [Path(found).parent for found in (shutil.which("initdb"),) if found is not None]
    for folder in (*newest_first, *on_path):
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    return None


def _install() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise RuntimeError(
            "the tests of the PostgreSQL sink need initdb and pg_ctl, found neither on PATH nor in "
            "/usr/lib/postgresql; install PostgreSQL 15 or newer (Debian: apt-get install postgresql)"
        )
    # At run level 1 the package does not start a server of its own.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "postgresql"]):
        subprocess.run(["apt-get", *command], env=environment, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def running_server() -> Iterator[str]:
    """Run a server; yield the connection string of its owner."""
    folder = Path(tempfile.mkdtemp(prefix="weft-pg-"))
    try:
        bin, data, password = programs(), folder / "data", folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:
            # The server refuses to run as root.
            owner = pwd.getpwnam("postgres")
            for path in (folder, password):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        _run(
            folder, bin / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "-E", "UTF8",
            "--locale=C", "--no-sync", f"--pwfile={password}",
        )  # fmt: skip
        settings = f"{_SETTINGS} -c unix_socket_directories='{folder}'"
        _run(folder, bin / "pg_ctl", "-D", data, "-l", folder / "log", "-o", settings, "-w", "start")
        try:
            host, password_code = quote(str(folder), safe=""), quote(PASSWORD, safe="")
            yield f"postgresql://{USER}:{password_code}@/postgres?host={host}"
        finally:
            _run(folder, bin / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path, *command: str | Path) -> None:
    account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder, capture_output=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        timeout=120, check=False, **account,  # type: ignore[call-overload]
    )  # fmt: skip
    if done.returncode:
        log = folder / "log"
        raise RuntimeError(f"{command[0]} failed: {done.stderr}\n{log.read_text() if log.exists() else ''}")
