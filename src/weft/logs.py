"""Logs: events with fields, as JSON or as short text, without secrets.

Weft logs under the name `weft` and leaves the logging of the program around it alone. An event is a constant
text with variable fields:

    _log.info("request", extra={"do": "add", "ok": True})

Values of rows are never logged: events name streams, queries, files, counts and times. Secrets in options,
addresses and the messages of other software are masked. A program with log handlers of its own adds
`MaskSecrets()` to their filters for the same.
"""

import json as encoding
import logging
import math
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from weft.errors import EngineError, UnknownName, suggestion

MASK = "***"
"""Replaces a secret."""

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_SECRET = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token|credential|authorization|x-amz-signature"
    r"|(?:api|access|account|private|encryption)[\W_]?key|(?<![^\W_])pass(?![^\W_]))"
)
"""A part of the name of an option that makes its value a secret."""
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_QUOTED = r"""(?:"(?:\\.|[^"\\])*(?:"|\Z)|'(?:\\.|''|[^'\\])*(?:'|\Z))"""
"""Text in quotes; in a text that was cut off, the closing quote is missing."""
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [\w ]*PRIVATE KEY-----.*?(?:-----END [\w ]*-----|\Z)", re.DOTALL), MASK),
    # scheme://user:password@host; the password may hold an unescaped "/" or "@", but host:port is not one.
    (re.compile(r"(://)[^\s/?#@:\"']{0,256}:(?!\d{1,5}(?:[/?#,\s]|$))[^\s\"'<>]{0,1024}@"), rf"\1{MASK}@"),
    # https://token@host
    (re.compile(r"(https?://)[^\s/?#@:\"']{1,1024}@", re.IGNORECASE), rf"\1{MASK}@"),
    (
        re.compile(
            # password=x, "fs.s3a.secret.key": "x", ('token', 'x'), OPTIONS (password 'x')
            rf"({_SECRET}[\w.\-]{{0,128}}[\"'`]?(?:\s*(?:=>|[=:])\s*|\s*,\s*(?=[\"'])|\s+(?=[\"'])))"
            # What is masked already stays unchanged, and so does what follows it.
            r"(?!\*{3}(?:[\s&,;)}\]]|$))"
            rf"(?:{_QUOTED}|(?:(?:bearer|basic)\s+)?[^\s&]+)",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(bearer\s+)[\w.~+/=\-]{8,}", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(r"([?&]sig=)[^\s&]+", re.IGNORECASE), rf"\1{MASK}"),
    # Secrets known by their shape: AWS access keys, JSON web tokens.
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\beyJ[\w\-]{8,}\.[\w\-]+\.[\w\-]*"), MASK),
)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every log record; all others are fields of the event."""
_CORE = frozenset({"time", "level", "logger", "event", "error"})
_DEEPEST = 8
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160)) if code not in (9, 10)}


def configure(level: str = "info", *, json: bool = False, stream: TextIO | None = None) -> None:
    """Write Weft's own events to a stream, by default standard error, each as a JSON object or as text.

    A second call replaces the first.
    """
    number = _LEVELS.get(level.casefold())
    if number is None:
        raise UnknownName(f'unknown log level "{level}"{suggestion(level, _LEVELS)}')
    handler = _Handler(stream)
    handler.addFilter(MaskSecrets())
    handler.setFormatter(_Json() if json else _Text())
    restore()
    log = logging.getLogger("weft")
    log.addHandler(handler)
    log.setLevel(number)
    # Otherwise a program that logs at the root would show every event twice.
    log.propagate = False


def restore() -> None:
    """Undo `configure`, before its stream is closed."""
    log = logging.getLogger("weft")
    for handler in [handler for handler in log.handlers if isinstance(handler, _Handler)]:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
        log.propagate = True


def mask(text: str) -> str:
    """Replace what looks like a secret.

    >>> mask("jdbc:postgresql://db:5432/weft?user=ada&password=lovelace")
    'jdbc:postgresql://db:5432/weft?user=ada&password=***'
    >>> mask("s3a://AKEY:ASECRET@bucket/trades")
    's3a://***@bucket/trades'
    """
    for pattern, masked in _PATTERNS:
        text = pattern.sub(masked, text)
    return text


class MaskSecrets(logging.Filter):
    """Mask secrets in the message, the fields and the traceback of every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place and pass it on."""
        try:
            record.msg, record.args = mask(record.getMessage()), ()
            for name, value in _fields(record).items():
                setattr(record, name, _masked(name, value))
            if record.exc_info and not record.exc_text:
                record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_text = record.exc_text and mask(record.exc_text)
            record.stack_info = record.stack_info and mask(record.stack_info)
        except Exception as error:
            # An event that cannot be shown must not make its cause fail.
            for name in _fields(record):
                delattr(record, name)
            problem = f"an event could not be shown: {type(error).__name__}"
            record.msg, record.args = f"{problem} at {record.filename}:{record.lineno}", ()
            record.exc_info = record.exc_text = record.stack_info = None
        return True


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of `configure`; without a stream it writes to `sys.stderr` as it is at the moment."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        self._follows = stream is None

    def emit(self, record: logging.LogRecord) -> None:
        if self._follows:
            self.stream = sys.stderr
        super().emit(record)


class _Json(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {f"{name}_" if name in _CORE else name: value for name, value in _fields(record).items()}
        error = _traceback(record)
        return encoding.dumps(line | {"error": error} if error else line, allow_nan=False, default=str)


class _Text(logging.Formatter):
    """A line for people; further lines of an event are indented."""

    def format(self, record: logging.LogRecord) -> str:
        fields = ""
        for name, value in _fields(record).items():
            is_plain = isinstance(value, str) and re.fullmatch(r"[^\s\"'\\]+", value)
            shown = value if is_plain else encoding.dumps(value, ensure_ascii=False, default=str)
            fields += f"  {name}={shown}"
        head = f"{_time(record):%H:%M:%S}Z {record.levelname.lower():7} {record.getMessage()}{fields}"
        error = _traceback(record)
        text = f"{head}\n{error}" if error else head
        # Messages of other software must not move the cursor or colour the screen.
        return text.translate(_CONTROL).replace("\n", "\n  ")


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _traceback(record: logging.LogRecord) -> str:
    return "\n".join(filter(None, (record.exc_text, record.stack_info)))


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that `extra` has added to a record."""
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _masked(name: str, value: object, depth: int = 0) -> object:
    """Return a field's value as JSON can hold it, with the values of secret names masked."""
    if value is None:
        return None
    if _SECRET_NAME.search(name):
        return MASK
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {mask(str(key)): _masked(str(key), item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _DEEPEST:
        values = list(value)
        if len(values) == 2 and isinstance(values[0], str):
            # An option, as a name and a value.
            return [mask(values[0]), _masked(values[0], values[1], depth + 1)]
        return [_masked("", item, depth + 1) for item in values]
    return mask(str(value))


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
