"""What lies at the root of an error of Spark's, Py4J's or Python's.

An error comes wrapped: PySpark's exception holds one of Java's, that of a job holds that of a task, and where
the task's own is gone, Spark has made text of it.
"""

import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from weft.spark.session.gateway import chain

_MOST_CHARACTERS = 1_000
"""How much of a message is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One error of a chain."""

    kind: str
    """Its class, with the package if it is Java's."""
    message: str
    families: frozenset[str]
    """The names, without packages, of its class and of those above it, as far as they are known."""

    def __str__(self) -> str:
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        return f"{self.kind}: {lines[0][:_MOST_CHARACTERS]}" if lines else self.kind


_CAUSED_BY = re.compile(r"^(?:Caused by)?: ((?:[\w$]+\.)+[\w$]+)(?:: (.*))?$", re.MULTILINE)
"""How Java's trace tells of an error; Py4J's begins with a colon."""
_ABORTED = re.compile(r"Job aborted due to stage failure: .*? most recent failure: .*?\): (.*)")
"""How Spark tells what a task failed with."""
_BY_CLASS = re.compile(r"((?:[\w$]+\.)+[\w$]+)(?:: (.*))?")
_LOST = re.compile(r"(ExecutorLostFailure) (.*)")
_PYTHONS = re.compile(r"((?:\w+\.)*[A-Z]\w*)(?:: (.*))?")
"""What ends a trace of Python's."""


def root(error: BaseException) -> Cause:
    """Return the error that began it, be it an object or a text inside another's message."""
    return causes(error)[-1]


def causes(error: BaseException) -> list[Cause]:
    """Return an error and what caused it, outermost first."""
    found, one, seen = list[Cause](), error, set[int]()
    while id(one) not in seen:
        seen.add(id(one))
        found += _links(one)
        # What was merely being handled meanwhile is no cause.
        one = one.__cause__ or one
    return found


def all_before(error: BaseException) -> list[Cause]:
    """Return an error, what caused it, and what was being handled when it came."""
    return [link for one in chain(error) for link in _links(one)]


def java_causes(error: BaseException) -> list[Any]:
    """Return Java's exceptions, from the outermost to the one that began it."""
    found = list[Any]()
    one = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while one is not None:
        found.append(one)
        one = one.getCause()
    return found


def is_pythons(error: BaseException) -> bool:
    """Say whether Python raised an error itself, and no job of Spark's."""
    if isinstance(error, Py4JJavaError | PythonException):
        return False
    return getattr(error, "_origin", None) is None and _inner(error) is None


def _inner(error: BaseException) -> BaseException | None:
    """Return what a stream's error, of which PySpark keeps only the text, was caused by."""
    inner = getattr(error, "_cause", None)
    return inner if isinstance(inner, BaseException) and getattr(error, "_origin", None) is None else None


def _links(error: BaseException) -> list[Cause]:
    """Return one of Python's exceptions as what it stands for: Java's, texts of others, or itself."""
    if (inner := _inner(error)) is not None:
        return _links(inner)
    try:
        links = [_of_java(one) for one in java_causes(error)]
    except Exception:
        links = []  # Java is gone: only the text is left.
    if not links and isinstance(error, Py4JJavaError):
        links = list(_in_trace(_said(error)))
    links = links or [_of_python(error)]
    last = links[-1]
    if "PythonException" in last.families:
        links += _in_traceback(last.message)
    elif "SparkException" in last.families:
        links += _in_task(last.message)
    return links


def _of_java(error: Any) -> Cause:
    one, names = error.getClass(), list[str]()
    while one is not None:
        names.append(str(one.getName()))
        one = one.getSuperclass()
    message = error.getMessage()
    return Cause(
        kind=names[0], message="" if message is None else str(message), families=frozenset(map(_short, names))
    )


def _of_python(error: BaseException) -> Cause:
    families = frozenset(one.__name__ for one in type(error).__mro__)
    return Cause(kind=type(error).__name__, message=_said(error), families=families)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""  # Some ask Java for their text.


def _in_trace(text: str) -> Iterator[Cause]:
    for match in _CAUSED_BY.finditer(text):
        yield _named(match[1], match[2])


def _in_task(message: str) -> Iterator[Cause]:
    """Give what a job's message tells of its task, and of what caused that."""
    aborted = _ABORTED.match(message)
    told = None if aborted is None else _BY_CLASS.match(aborted[1]) or _LOST.match(aborted[1])
    if told is not None:
        yield _named(told[1], told[2])
        yield from _in_trace(message)


def _in_traceback(message: str) -> Iterator[Cause]:
    """Give the errors that a message repeats from a Python worker, the last of which was raised there."""
    lines = message.splitlines()
    for before, line in pairwise(lines):
        # It stands where the indented lines of a trace end.
        if before.startswith("  ") and (found := _PYTHONS.fullmatch(line)) is not None:
            yield _named(found[1], found[2])


def _named(kind: str, message: str | None) -> Cause:
    """Return an error of which only the name and the text are known."""
    known = getattr(builtins, kind, None)
    above = known.__mro__ if isinstance(known, type) else ()
    families = frozenset((_short(kind), *(one.__name__ for one in above)))
    return Cause(kind=kind, message=message or "", families=families)


def _short(name: str) -> str:
    return re.split(r"[.$]", name)[-1]
