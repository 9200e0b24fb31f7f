"""Classes of the JVM, each method of which is looked up once.

PySpark looks up the class of its functions in the JVM, and then the function, each time that one is used: two
round trips before the call itself. A job has two hundred of them, and a new plan waits for its job.
"""

from collections.abc import Iterator
from subprocess import TimeoutExpired
from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

_PYSPARKS_OWN = {
    "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
    "functions": "org.apache.spark.sql.functions",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
}
"""The classes that columns are made with, by their names in PySpark, with their full names."""
_END_SECONDS = 2.0
"""Maximum time from the end of a process's connections to its own."""


class _Known(JavaClass):  # type: ignore[misc]
    """A class that remembers its methods."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def java_class(name: str, *, known_as: str = "") -> JavaClass:
    """Return a class by its full name; it is remembered by its name in PySpark."""
    # Kept in PySpark's view of the JVM, which looks here first, and is gone when the JVM is.
    jvm = _context()._jvm
    assert jvm is not None
    known = vars(jvm)
    if (known_as or name) not in known:
        known[known_as or name] = _Known(name, gateway()._gateway_client)
    return known[known_as or name]


def remember_functions() -> None:
    """Have PySpark's own functions looked up once, too."""
    for short, name in _PYSPARKS_OWN.items():
        java_class(name, known_as=short)


def gateway() -> JavaGateway:
    """Return the gateway to the JVM of the Spark session in use."""
    current = _context()._gateway
    assert current is not None
    return current


def java_has_ended(error: BaseException) -> bool:
    """Say whether an error occurred because the JVM of this process is gone: killed, or out of memory."""
    errors = list(chain(error))
    if not any(isinstance(linked, Py4JError | ConnectionError) for linked in errors):
        return False
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        # Not started here: only the connection shows.
        return any(isinstance(linked, Py4JNetworkError) for linked in errors)
    try:
        process.wait(_END_SECONDS)
    except TimeoutExpired:
        return False
    return True


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its causes and contexts."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _context() -> SparkContext:
    context = SparkContext._active_spark_context
    assert context is not None
    return context
