"""The command line."""

from weft.cli.app import main

__all__ = ["main"]
