"""Where logs of a run go: a file, or the terminal above the live view."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TextIO, cast

from weft.errors import EngineError
from weft.logs import configure


class Level(StrEnum):
    """From which weight on something is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Stderr:
    """Standard error as it is at the moment: while the live view is drawn, lines go above it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


@contextmanager
def logs(level: Level | None, *, file: Path | None, as_json: bool) -> Iterator[None]:
    """Log while this lasts: to a file from INFO on, or to standard error from WARNING on, unless told."""
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    root.addFilter(_is_not_py4js)
    # What fails there is raised, too, and told then; the text may hold values of rows.
    propagates, py4j.propagate = py4j.propagate, False
    try:
        with _opened(file) as stream:
            configure(level or (Level.INFO if file else Level.WARNING), json=as_json, stream=stream)
            yield
    finally:
        configure(Level.WARNING, stream=_stderr())
    # After an error they stay: threads of Py4J's may still be telling of it while the process ends.
    root.removeFilter(_is_not_py4js)
    py4j.propagate = propagates


@contextmanager
def _opened(file: Path | None) -> Iterator[TextIO]:
    if file is None:
        yield _stderr()
        return
    try:
        opened = file.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise EngineError(
            f"cannot write logs to {file}: {error.strerror}; choose another --log-file"
        ) from None
    with opened:
        yield opened


def _is_not_py4js(record: logging.LogRecord) -> bool:
    """Keep Py4J from showing where a Ctrl-C or the end of Java met it, as it does through the root logger."""
    return not str(record.msg).startswith(("KeyboardInterrupt", "Exception while sending command"))


def _stderr() -> TextIO:
    return cast(TextIO, _Stderr())
