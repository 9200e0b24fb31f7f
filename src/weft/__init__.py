"""Weft runs hundreds of sliding-window aggregate queries over one stream as one Spark pipeline."""

from typing import TYPE_CHECKING, Any

from weft.errors import (
    EngineError,
    InternalError,
    NotInstalled,
    QueryError,
    SourceError,
    UserError,
    WeftError,
)
from weft.limits import Limits
from weft.optimizer.slices import Slicing
from weft.window import Window

if TYPE_CHECKING:
    from weft.engine import Engine
    from weft.service.queries import Query

__version__ = "0.1.0"

__all__ = [
    "Engine",
    "EngineError",
    "InternalError",
    "Limits",
    "Query",
    "QueryError",
    "Slicing",
    "SourceError",
    "UserError",
    "WeftError",
    "Window",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load the engine when first asked for, so that planning works without Spark."""
    if name not in ("Engine", "Query"):
        raise AttributeError(f"module 'weft' has no attribute '{name}'")
    try:
        from weft import engine
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("pyspark"):
            raise
        raise NotInstalled("pyspark", "running queries") from error
    return getattr(engine, name)
