"""The causes of an error of Spark's, Py4J's or Python's, down to the root.

Errors are wrapped: PySpark's exception has one of Java's, that of a job has that of a task, and where the
task's own is gone, Spark has turned it into text.
"""

import builtins
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from weft.spark.session.gateway import chain

_MOST_CHARACTERS = 1_000
"""Maximum length of a message."""


_ALL_ERRORS = frozenset({"BaseException", "Throwable"})
"""Classes of which all errors are, in Python and Java."""
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One error of a chain."""

    kind: str
    """Its class, with the package if it is Java's."""
    message: str
    families: frozenset[str]
    """The names, without packages, of its class and of those above it, as far as they are known."""

    @property
    def short_kind(self) -> str:
        """Its kind in a word, which is no part of a value: Spark's name for it, or its class."""
        name = _short(self.kind)
        # The last line of a text that was taken for a traceback may be anything.
        is_class = not self.families.isdisjoint(_ALL_ERRORS) or name.endswith(("Error", "Exception"))
        return self.condition or (name if is_class else "other")

    @property
    def condition(self) -> str | None:
        """Spark's name for it; None if it is not Spark's, or has none."""
        is_sparks = self.kind.startswith("org.apache.spark.") or "PySparkException" in self.families
        return condition(self.message) if is_sparks else None

    def __str__(self) -> str:
        lines = [line.strip() for line in self.message.splitlines() if line.strip()]
        return f"{self.kind}: {lines[0][:_MOST_CHARACTERS]}" if lines else self.kind


_CAUSED_BY = re.compile(r"^(?:Caused by)?: ((?:[\w$]+\.)+[\w$]+)(?:: (.*))?$", re.MULTILINE)
"""An error in a Java stack trace; Py4J's begins with a colon."""
_ABORTED = re.compile(r"Job aborted due to stage failure: .*? most recent failure: .*?\): (.*)")
"""The message of a failed job, with the error of its task."""
_BY_CLASS = re.compile(r"((?:[\w$]+\.)+[\w$]+)(?:: (.*))?")
_LOST = re.compile(r"(ExecutorLostFailure) (.*)")
_PYTHONS = re.compile(r"((?:\w+\.)*[A-Z]\w*)(?:: (.*))?")
"""The last line of a Python traceback."""


def root(error: BaseException) -> Cause:
    """Return the root cause, be it an exception or text inside another's message."""
    return causes(error)[-1]


def kind_of(error: BaseException) -> str:
    """Return the kind of an error in a word: Spark's name for what was tried, or else the root's kind.

    >>> try:
    ...     int("13 apples")
    ... except ValueError as error:
    ...     print(kind_of(error))
    ValueError
    """
    chain = causes(error)
    return next((cause.condition for cause in chain if cause.condition), chain[-1].short_kind)


def condition(message: str) -> str | None:
    """Return Spark's name for an error, with which its messages begin; None if there is none.

    >>> condition("[CAST_INVALID_INPUT] The value '13' of the type STRING cannot be cast")
    'CAST_INVALID_INPUT'
    """
    match = _CONDITION.match(message)
    return None if match is None else match[1]


def causes(error: BaseException) -> list[Cause]:
    """Return an error and what caused it, outermost first."""
    links, current, seen = list[Cause](), error, set[int]()
    while id(current) not in seen:
        seen.add(id(current))
        links += _links(current)
        # An error that was merely being handled meanwhile (its context) is no cause.
        current = current.__cause__ or current
    return links


def all_before(error: BaseException) -> list[Cause]:
    """Return an error, what caused it, and what was being handled when it was raised."""
    return [link for linked in chain(error) for link in _links(linked)]


def java_causes(error: BaseException) -> list[Any]:
    """Return Java's exceptions, from the outermost to the root."""
    exceptions = list[Any]()
    current = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while current is not None:
        exceptions.append(current)
        current = current.getCause()
    return exceptions


def is_pythons(error: BaseException) -> bool:
    """Say whether Python raised an error itself, rather than a job of Spark's."""
    if isinstance(error, Py4JJavaError | PythonException):
        return False
    return getattr(error, "_origin", None) is None and _inner(error) is None


def _inner(error: BaseException) -> BaseException | None:
    """Return the cause of a stream's error, of which PySpark keeps only the text."""
    inner = getattr(error, "_cause", None)
    return inner if isinstance(inner, BaseException) and getattr(error, "_origin", None) is None else None


def _links(error: BaseException) -> list[Cause]:
    """Return what a Python exception stands for: Java's exceptions, texts of others, or itself."""
    if (inner := _inner(error)) is not None:
        return _links(inner)
    try:
        links = [_of_java(exception) for exception in java_causes(error)]
    except Exception:
        links = []  # Java is gone: only the text is left.
    message = ""
    with suppress(Exception):  # Some get their text from Java.
        message = str(error)
    if not links and isinstance(error, Py4JJavaError):
        links = _in_trace(message)
    families = frozenset(family.__name__ for family in type(error).__mro__)
    links = links or [Cause(kind=type(error).__name__, message=message, families=families)]
    last = links[-1]
    if "PythonException" in last.families:
        # The traceback of a Python worker; the last error in it was raised there.
        for before, line in pairwise(last.message.splitlines()):
            # It follows the indented lines of a traceback.
            if before.startswith("  ") and (match := _PYTHONS.fullmatch(line)) is not None:
                links.append(_named(match[1], match[2]))
    elif "SparkException" in last.families:
        # The message of a job has the error of a task, and its causes.
        aborted = _ABORTED.match(last.message)
        failure = None if aborted is None else _BY_CLASS.match(aborted[1]) or _LOST.match(aborted[1])
        if failure is not None:
            links += [_named(failure[1], failure[2]), *_in_trace(last.message)]
    return links


def _of_java(error: Any) -> Cause:
    family, names = error.getClass(), list[str]()
    while family is not None:
        names.append(str(family.getName()))
        family = family.getSuperclass()
    message = error.getMessage()
    return Cause(
        kind=names[0], message="" if message is None else str(message), families=frozenset(map(_short, names))
    )


def _in_trace(text: str) -> list[Cause]:
    return [_named(match[1], match[2]) for match in _CAUSED_BY.finditer(text)]


def _named(kind: str, message: str | None) -> Cause:
    """Return an error of which only the class name and the message are known."""
    known = getattr(builtins, kind, None)
    above = known.__mro__ if isinstance(known, type) else ()
    families = frozenset((_short(kind), *(family.__name__ for family in above)))
    return Cause(kind=kind, message=message or "", families=families)


def _short(name: str) -> str:
    return re.split(r"[.$]", name)[-1]
