"""Make files last."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return when a file's content, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
