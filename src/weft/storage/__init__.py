"""Durable files, on this machine or on any file system of Hadoop's."""

from weft.storage.folder import Folder
from weft.storage.hadoop import is_local, open_folder
from weft.storage.local import LocalFolder

__all__ = ["Folder", "LocalFolder", "is_local", "open_folder"]
