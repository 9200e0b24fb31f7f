"""Folders on any file system that Hadoop has a client for, through Spark's JVM."""

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from weft.errors import DamagedFile
from weft.faultpoints import reach
from weft.spark.session.local import CHECKPOINT_FILES
from weft.storage.folder import component
from weft.storage.local import LocalFolder
from weft.storage.marks import check_made_by

_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.CheckpointFileManager",
)
"""Spark's own writer of checkpoints; it moved in 4.1."""
_KEEPING = "FileSystemBasedCheckpointFileManager"
"""Where Hadoop has no FileContext it is this; if a rename replaces nothing, this keeps the old file."""

_UNCHECKED = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""No checksums in files of their own on this machine.

Such a file is replaced after the one it is of: who looks, or is killed, between the two finds a damaged one.
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
        """Where it is."""
        return self.uri

    def folder(self, name: str) -> "HadoopFolder":
        """Return a folder inside."""
        return HadoopFolder(self._spark, f"{self.uri}/{component(name)}")

    def names(self) -> list[str]:
        """Return the files and folders inside, in order."""
        return sorted(name for name in self._listed() if not name.startswith("."))

    def has(self, name: str) -> bool:
        """Say whether there is such a file or folder."""
        try:
            return bool(self._files.exists(self._path(name)))
        except Py4JError as error:
            raise _told(error, f"{self.uri}/{name}") from error

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        try:
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JError as error:
            raise _told(error, f"{self.uri}/{name}") from error

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file whole; it is on the disk if the file system can say so."""
        path = self._path(name)
        try:
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
        except Py4JError as error:
            raise _told(error, f"{self.uri}/{name}") from error
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        """Give a file or folder another name."""
        try:
            if not self._files.exists(self._path(name)):
                raise FileNotFoundError(f"{self.uri}/{name}")
            # Not every file system replaces a file by a rename.
            self._files.delete(self._path(to), False)
            renamed = self._files.rename(self._path(name), self._path(to))
        except Py4JError as error:
            raise _told(error, f"{self.uri}/{name}") from error
        if not renamed:
            raise OSError(f"{self.uri}/{name} cannot be renamed to {to}")
        self.sync(to)

    def tidy(self) -> None:
        """Remove unfinished files: Spark hides them by a dot too."""
        for name in self._listed():
            # Each call takes a way to Java and back, so only these are asked what they are.
            if name.startswith(".") and name.endswith(".tmp") and self._files.isFile(self._path(name)):
                self.delete(name)

    def delete(self, name: str) -> None:
        """Remove a file."""
        self._delete(name, recursive=False)

    def delete_tree(self, name: str, *, made_by: str) -> None:
        """Remove a folder that a checkpoint made, with all that is in it."""
        if self.local is not None:
            self.local.delete_tree(name, made_by=made_by)
        elif self.has(name):
            check_made_by(self, name, made_by)
            self._delete(name, recursive=True)

    def _delete(self, name: str, *, recursive: bool) -> None:
        try:
            self._files.delete(self._path(name), recursive)
        except Py4JError as error:
            raise _told(error, f"{self.uri}/{name}") from error

    def make(self) -> None:
        """Make the folder, and those above it."""
        if self.local is not None:
            self.local.make()
        try:
            self._files.mkdirs(self._root)
        except Py4JError as error:
            raise _told(error, self.uri) from error

    def sync(self, name: str) -> None:
        """Wait until what others wrote is on the disk, if that is this machine's."""
        if self.local is not None:
            self.local.sync(name)

    def alone(self) -> AbstractContextManager[None]:
        """Hold a lock on the folder if it is on this machine's disk; elsewhere there is none."""
        return nullcontext() if self.local is None else self.local.alone()

    def _listed(self) -> list[str]:
        try:
            return [str(one.getPath().getName()) for one in self._files.listStatus(self._root)]
        except Py4JError as error:
            if _is(error, "FileNotFoundException"):
                return []
            raise _told(error, self.uri) from error

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{component(name)}")

    @property
    def _root(self) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri)

    @cached_property
    def local(self) -> LocalFolder | None:
        """The folder as one of this machine, if it is: Hadoop's client for these does not sync renames."""
        place = self._root.toUri()
        return LocalFolder(Path(place.getPath())) if place.getScheme() == "file" else None

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    @cached_property
    def _files(self) -> Any:
        return self._root.getFileSystem(self._conf)

    @cached_property
    def _manager(self) -> Any:
        for name in _MANAGERS:
            found = self._jvm.org.apache.spark.util.Utils.classIsLoadable(name)
            if found:
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
            # Chosen by Weft for what Spark never replaces; files here are replaced at once, or not at all.
            conf.unset(setting)
        return conf


def _is(error: Py4JError, name: str) -> bool:
    if not isinstance(error, Py4JJavaError):
        return False
    return str(error.java_exception.getClass().getSimpleName()).endswith(name)


def _told(error: Py4JError, path: str) -> OSError | DamagedFile:
    """Return what Hadoop says of a file, or that nothing can be asked any more, as one of Python's errors."""
    if not isinstance(error, Py4JJavaError):
        return ConnectionError(f"{path}: Java, which reaches it, does not answer")
    said = str(error.java_exception.getMessage())
    if _is(error, "ChecksumException"):
        return DamagedFile(f"{path} is damaged: it is not as it was written ({said})")
    if _is(error, "FileNotFoundException"):
        return FileNotFoundError(f"{path}: {said}")
    return FileExistsError(path) if _is(error, "FileAlreadyExistsException") else OSError(f"{path}: {said}")
