"""Classes of the JVM, each of whose methods is asked for once.

PySpark asks the JVM for the class of its functions, and then for the function, each time that one is used:
two round trips before the call itself. A job has two hundred of them, and a new plan waits for its job.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, JavaMember, JVMView
from pyspark import SparkContext

_PYSPARKS_OWN = {
    "org.apache.spark.sql.functions": "org.apache.spark.sql.functions",
    "functions": "org.apache.spark.sql.functions",
    "PythonUtils": "org.apache.spark.api.python.PythonUtils",
}
"""The classes that columns are made with, as PySpark calls them, and their full names."""


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


def _jvm() -> JVMView:
    jvm = _context()._jvm
    assert jvm is not None
    return jvm


def _context() -> SparkContext:
    context = SparkContext._active_spark_context
    assert context is not None
    return context
