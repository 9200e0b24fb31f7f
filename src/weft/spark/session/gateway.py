"""Classes of the JVM, each of whose methods is asked for once.

PySpark asks the JVM for the class of its functions, and then for the function, each time that one is used:
two round trips before the call itself. A job has two hundred of them, and a new plan waits for its job.
"""

from collections.abc import Iterator
from subprocess import TimeoutExpired
from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JVMView
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext

_PYSPARKS_OWN = {
    "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
    "functions": "org.apache.spark.sql.functions",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
}
"""The classes that columns are made with, as PySpark calls them, and their full names."""
_END_SECONDS = 2.0
"""How long a process takes to be gone after its connections are."""


class _Known(JavaClass):  # type: ignore[misc]
    """A class that remembers its methods."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if isinstance(found, JavaMember):
            self.__dict__[name] = found
        return found


def java_class(name: str) -> JavaClass:
    """Return a class by its full name."""
    return _remembered(name, name)


def remember_functions() -> None:
    """Have PySpark's own functions looked up once, too."""
    for called, name in _PYSPARKS_OWN.items():
        _remembered(called, name)


def _remembered(called: str, name: str) -> JavaClass:
    # Kept with PySpark's view of the JVM, which looks here before it asks, and is gone when the JVM is.
    known = vars(_jvm())
    if called not in known:
        known[called] = _Known(name, gateway()._gateway_client)
    return known[called]


def gateway() -> JavaGateway:
    """Return the way to the JVM of the Spark session in use."""
    found = _context()._gateway
    assert found is not None
    return found


def java_has_ended(error: BaseException) -> bool:
    """Say whether an error is there because the JVM of this process is gone: killed, or out of memory."""
    errors = list(chain(error))
    if not any(isinstance(one, Py4JError | ConnectionError) for one in errors):
        return False
    started = getattr(SparkContext._gateway, "proc", None)
    if started is None:
        # Another's: only the connection tells.
        return any(isinstance(one, Py4JNetworkError) for one in errors)
    try:
        started.wait(_END_SECONDS)
    except TimeoutExpired:
        return False
    return True


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, and those that it came from."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _jvm() -> JVMView:
    jvm = _context()._jvm
    assert jvm is not None
    return jvm


def _context() -> SparkContext:
    context = SparkContext._active_spark_context
    assert context is not None
    return context
