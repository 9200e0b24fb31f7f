"""A disk that is full when it is told to be."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(folder: Path, *, kibibytes: int = 8_192) -> Iterator[bool]:
    """Put a small disk in place of a folder, where this user may mount one; say whether it is there."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder: Path, *, but_bytes: int = 0) -> Iterator[None]:
    """Leave only so much room on a folder's disk for as long as the block runs."""
    ballast = folder / ".ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            file.truncate(max(0, file.tell() - but_bytes))
        yield
    finally:
        ballast.unlink(missing_ok=True)
