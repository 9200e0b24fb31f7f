"""Reads a workload file into an engine."""

from pathlib import Path

from weft.engine import Engine
from weft.errors import SourceError
from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.spark.session.local import local_session


def load(
    path: Path,
    *,
    slicing: Slicing,
    sharing: Sharing,
    limits: Limits,
    cores: int | None = None,
    memory: str | None = None,
) -> Engine:
    """Return an engine with the streams, tables and queries of a workload file."""
    text = read_text(path)
    engine = Engine(
        slicing=slicing,
        sharing=sharing,
        limits=limits,
        start_spark=lambda: local_session(cores=cores, memory=memory),
    )
    engine.load(text, base=path.parent)
    return engine


def read_text(path: Path) -> str:
    """Return the text of a file of statements."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SourceError(f"no workload file {path}") from None
    except IsADirectoryError:
        raise SourceError(
            f"{path} is a folder; name a workload file, such as {path / 'workload.sql'}"
        ) from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 text (byte {error.start})") from None
