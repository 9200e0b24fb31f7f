"""A disk that is full when it is told to be."""

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft import faultpoints


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
def full_for_parquet(folder: Path, *, mounted: bool, but_bytes: int = 0) -> Iterator[None]:
    """Have Parquet results find no room as long as the block runs; errors stand in for a missing mount."""
    if mounted:
        with filled(folder, but_bytes=but_bytes):
            yield
        return
    faultpoints.arm(",".join(f"deliver.partly:{nth}:error" for nth in range(1, 1000)))
    try:
        yield
    finally:
        faultpoints.arm(None)


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
