"""Where logs of a run go: a file, or the terminal above the live view."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path

from weft.errors import EngineError
from weft.logs import configure


class Level(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@contextmanager
def logs(level: Level | None, *, file: Path | None, as_json: bool) -> Iterator[None]:
    """Log for the duration of the block, by default from INFO to a file or from WARNING to standard error."""
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    root.addFilter(_is_not_py4js)
    # Its errors are also raised, and reported then; their text may hold values of rows.
    propagates, py4j.propagate = py4j.propagate, False
    try:
        try:
            opened = nullcontext() if file is None else file.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise EngineError(
                f"cannot write logs to {file}: {error.strerror}; choose another --log-file"
            ) from None
        with opened as stream:
            configure(level or (Level.INFO if file else Level.WARNING), json=as_json, stream=stream)
            yield
    finally:
        configure(Level.WARNING)
    # After an error they stay: threads of Py4J's may still log it while the process ends.
    root.removeFilter(_is_not_py4js)
    py4j.propagate = propagates


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Drop the tracebacks that Py4J logs by the root logger after a Ctrl-C or the end of Java."""
    return not str(record.msg).startswith(("KeyboardInterrupt", "Exception while sending command"))
