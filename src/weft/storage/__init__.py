"""Durable files, on this machine or on any file system of Hadoop's."""

from weft.storage.folder import Folder
from weft.storage.local import LocalFolder
from weft.storage.opening import is_local, open_folder

__all__ = ["Folder", "LocalFolder", "is_local", "open_folder"]
