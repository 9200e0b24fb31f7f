"""Folders on any file system that Hadoop has a client for, through Spark's JVM, and by path or URI."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from weft.errors import DamagedFile
from weft.faultpoints import reach
from weft.spark.session.local import CHECKPOINT_FILES
from weft.storage.folder import Folder, check_made_by, component
from weft.storage.local import LocalFolder

_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.CheckpointFileManager",
)
"""Spark's own writer of checkpoints; it moved in 4.1."""
_KEEPING = "FileSystemBasedCheckpointFileManager"
"""Spark's choice where Hadoop has no FileContext; if renames do not replace, it keeps the old file."""

_UNCHECKED = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""No separate checksum files on this machine.

A checksum file is replaced after its file: a read, or a kill, between the two would find the file damaged.
"""


class HadoopFolder:
    """A folder on a Hadoop file system.

    Files are written by what Spark writes its own checkpoints with, so a store without renames is served as
    `spark.sql.streaming.checkpointFileManagerClass` says.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self.uri = uri.rstrip("/")

    @property
    def spark_uri(self) -> str:
        """The folder's URI."""
        return self.uri

    def folder(self, name: str) -> "HadoopFolder":
        """Return a folder inside."""
        return HadoopFolder(self._spark, f"{self.uri}/{component(name)}")

    def names(self) -> list[str]:
        """Return the sorted names of files and folders inside."""
        return sorted(name for name in self._listed() if not name.startswith("."))

    def has(self, name: str) -> bool:
        """Say whether a file or folder exists."""
        with _translated(f"{self.uri}/{name}"):
            return bool(self._files.exists(self._path(name)))

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        with _translated(f"{self.uri}/{name}"):
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file whole; it is durable if the file system can say so."""
        path = self._path(name)
        with _translated(f"{self.uri}/{name}"):
            if replace and self._manager.getClass().getSimpleName() == _KEEPING:
                unfinished = f".{name}.{uuid4()}.tmp"
                self.write(unfinished, data)
                self.rename(unfinished, name)
                return
            self.make()
            if not replace and self._files.exists(path):
                raise FileExistsError(f"{self.uri}/{name}")
            stream = self._manager.createAtomic(path, replace)
            try:
                stream.write(bytearray(data))
                if stream.hasCapability("hsync"):
                    stream.hsync()
            except Py4JJavaError:
                stream.cancel()
                raise
            reach("hadoop.rename")
            stream.close()
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        """Rename a file or folder."""
        with _translated(f"{self.uri}/{name}"):
            if not self._files.exists(self._path(name)):
                raise FileNotFoundError(f"{self.uri}/{name}")
            # Not every file system replaces a file by a rename.
            self._files.delete(self._path(to), False)
            renamed = self._files.rename(self._path(name), self._path(to))
        if not renamed:
            raise OSError(f"{self.uri}/{name} cannot be renamed to {to}")
        self.sync(to)

    def tidy(self) -> None:
        """Remove unfinished files, whose names begin with a dot for Spark, too."""
        for name in self._listed():
            # Each call is a round trip to Java, so only candidates are asked what they are.
            if name.startswith(".") and name.endswith(".tmp") and self._files.isFile(self._path(name)):
                self.delete(name)

    def delete(self, name: str) -> None:
        """Remove a file."""
        with _translated(f"{self.uri}/{name}"):
            self._files.delete(self._path(name), False)

    def delete_tree(self, name: str, *, made_by: str) -> None:
        """Remove a folder that a checkpoint created, with its contents."""
        if self.local is not None:
            self.local.delete_tree(name, made_by=made_by)
        elif self.has(name):
            check_made_by(self, name, made_by)
            with _translated(f"{self.uri}/{name}"):
                self._files.delete(self._path(name), True)

    def make(self) -> None:
        """Create the folder and its parents."""
        if self.local is not None:
            self.local.make()
        with _translated(self.uri):
            self._files.mkdirs(self._root)

    def prepare(self, names: Iterable[str]) -> None:
        """Create folders inside, if missing, on this machine; elsewhere a write takes no longer without."""
        if self.local is not None:
            self.local.prepare(names)

    def sync(self, name: str) -> None:
        """Wait until what other programs wrote is durable, if it is on this machine."""
        if self.local is not None:
            self.local.sync(name)

    def try_out(self) -> None:
        """Write a file and remove it again; elsewhere than on this machine, the folder stays."""
        if self.local is not None:
            self.local.try_out()
            return
        name = f".weft-trial.{uuid4()}.tmp"
        self.write(name, b"")
        self.delete(name)

    def alone(self) -> AbstractContextManager[None]:
        """Hold a lock on the folder if it is on this machine's disk; elsewhere there is none."""
        return nullcontext() if self.local is None else self.local.alone()

    def _listed(self) -> list[str]:
        try:
            with _translated(self.uri):
                return [str(status.getPath().getName()) for status in self._files.listStatus(self._root)]
        except FileNotFoundError:
            return []

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{component(name)}")

    @property
    def _root(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri)

    @cached_property
    def local(self) -> LocalFolder | None:
        """The same folder without Hadoop, if it is on this machine: Hadoop's client does not sync renames."""
        uri = self._root.toUri()
        return LocalFolder(Path(uri.getPath())) if uri.getScheme() == "file" else None

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    @cached_property
    def _files(self) -> Any:
        return self._root.getFileSystem(self._conf)

    @cached_property
    def _manager(self) -> Any:
        for name in _MANAGERS:
            if self._jvm.org.apache.spark.util.Utils.classIsLoadable(name):
                companion = getattr(self._jvm, f"{name}$")
                return getattr(companion, "MODULE$").create(self._root, self._conf)
        raise AssertionError("no version of Spark is without a checkpoint file manager")

    @cached_property
    def _conf(self) -> Any:
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        for name, value in _UNCHECKED.items():
            conf.set(name, value)
        setting, own = CHECKPOINT_FILES
        if conf.get(setting) == own:
            # Weft's choice for files that are never replaced; files here are, and then in one step.
            conf.unset(setting)
        return conf


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Raise Hadoop's errors about a file, and the end of Java, as Python's errors."""
    try:
        yield
    except Py4JJavaError as error:
        message = str(error.java_exception.getMessage())
        kind = str(error.java_exception.getClass().getSimpleName())
        if kind.endswith("ChecksumException"):
            raise DamagedFile(f"{path} is damaged: it is not as it was written ({message})") from error
        if kind.endswith("FileNotFoundException"):
            raise FileNotFoundError(f"{path}: {message}") from error
        if kind.endswith("FileAlreadyExistsException"):
            raise FileExistsError(path) from error
        raise OSError(f"{path}: {message}") from error
    except Py4JError as error:
        raise ConnectionError(f"{path}: Java, which reaches it, does not answer") from error


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
