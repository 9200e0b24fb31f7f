"""Weft runs hundreds of sliding-window aggregate queries over one stream as one Spark pipeline."""

from weft.engine import Engine, Query
from weft.errors import (
    EngineError,
    InternalError,
    QueryError,
    SourceError,
    UserError,
    WeftError,
)
from weft.optimizer.slices import Slicing
from weft.window import Window

__version__ = "0.1.0"

__all__ = [
    "Engine",
    "EngineError",
    "InternalError",
    "Query",
    "QueryError",
    "Slicing",
    "SourceError",
    "UserError",
    "WeftError",
    "Window",
    "__version__",
]
