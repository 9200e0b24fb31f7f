"""From a path or URI to a folder."""

import re
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from weft.storage.folder import Folder
from weft.storage.hadoop import HadoopFolder
from weft.storage.local import LocalFolder

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|[A-Za-z][A-Za-z0-9+.-]+:/")


def is_local(place: str | Path) -> bool:
    """Say whether a place is a path of this machine, and not a URI of a Hadoop file system.

    >>> is_local("results/"), is_local("hdfs://name/results"), is_local("file:/tmp/results")
    (True, False, False)
    """
    return isinstance(place, Path) or _SCHEME.match(place) is None


def open_folder(place: str | Path, spark: Callable[[], SparkSession]) -> Folder:
    """Return a folder; Spark is asked for only where it is needed."""
    return LocalFolder(Path(place)) if is_local(place) else HadoopFolder(spark(), str(place))
