"""Opens folders by path or URI."""

import re
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from weft.storage.folder import Folder
from weft.storage.hadoop import HadoopFolder
from weft.storage.local import LocalFolder

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_local(location: str | Path) -> bool:
    """Say whether a location is a path of this machine, and not a URI of a Hadoop file system.

    >>> is_local("results/"), is_local("hdfs://name/results"), is_local("file:/tmp/results")
    (True, False, False)
    """
    return isinstance(location, Path) or _SCHEME.match(location) is None


def open_folder(location: str | Path, spark: Callable[[], SparkSession]) -> Folder:
    """Return a folder; `spark` is called only for a URI."""
    return LocalFolder(Path(location)) if is_local(location) else HadoopFolder(spark(), str(location))
