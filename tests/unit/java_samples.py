"""Errors as PySpark raises them, without a Java: classes, causes and texts are those that Spark gave."""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, PythonException

ABOVE = {
    "java.io.EOFException": ("java.io.IOException", "java.lang.Exception"),
    "java.net.SocketTimeoutException": ("java.io.InterruptedIOException", "java.io.IOException"),
    "org.apache.spark.SparkNumberFormatException": (
        "java.lang.NumberFormatException",
        "java.lang.IllegalArgumentException",
        "java.lang.RuntimeException",
    ),
    "org.apache.spark.memory.SparkOutOfMemoryError": ("java.lang.OutOfMemoryError", "java.lang.Error"),
    "java.util.regex.PatternSyntaxException": ("java.lang.IllegalArgumentException",),
}
"""The classes above some of Java's; of others they do not matter."""


class JavaClass:
    """A class of Java's, by the names of itself and of those above it."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def getName(self) -> str:
        return self._names[0]

    def getSuperclass(self) -> "JavaClass | None":
        return JavaClass(*self._names[1:]) if len(self._names) > 1 else None


class Java:
    """An exception of Java's."""

    def __init__(self, kind: str, message: str | None = None, cause: "Java | None" = None) -> None:
        self._kind, self._message, self._cause = kind, message, cause

    def getClass(self) -> JavaClass:
        return JavaClass(self._kind, *ABOVE.get(self._kind, ()))

    def getMessage(self) -> str | None:
        return self._message

    def getCause(self) -> "Java | None":
        return self._cause


class GoneJava(Java):
    """One whose process has ended: it tells nothing any more."""

    def getClass(self) -> JavaClass:
        raise ConnectionRefusedError(111, "Connection refused")


class FromPy4J(Py4JJavaError):  # type: ignore[misc]
    """What Py4J raises for an exception of Java's, with its trace as text."""

    def __init__(self, java: Java, trace: str = "") -> None:
        Exception.__init__(self, trace)
        self.java_exception: Any = java
        self._trace = trace

    def __str__(self) -> str:
        return f"An error occurred while calling o123.getResult.\n{self._trace}"


class Captured(PySparkException):
    """What PySpark makes of an exception of Java's that it knows."""

    def __init__(self, java: Java) -> None:
        super().__init__(str(java.getMessage()))
        self._origin: Any = java


TASK = (
    "Job aborted due to stage failure: Task 0 in stage 6.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 6.0 (TID 12) (192.0.2.2 executor driver): "
)
"""What Spark puts before the error of a task."""
AT = "\n\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"


def failed_job(kind: str, message: str | None = None, cause: Java | None = None) -> FromPy4J:
    """Return the error of a job whose task failed with one of Java's."""
    said = kind if message is None else f"{kind}: {message}"
    task = Java("org.apache.spark.SparkException", TASK + said + AT, Java(kind, message, cause))
    return FromPy4J(Java("org.apache.spark.SparkException", "Exception thrown in awaitResult: ", task))


def text_of_job(said: str) -> FromPy4J:
    """Return the error of a job of whose task only text is left."""
    return FromPy4J(Java("org.apache.spark.SparkException", f"{TASK}{said}{AT}\nDriver stacktrace:"))


def raised_in_worker(*lines: str) -> PythonException:
    """Return what PySpark raises where a function did in a worker; the lines come after its trace."""
    trace = '  File "functions.py", line 42, in price\n    return prices[symbol]\n           ^^^^^^^^^^^^^^\n'
    text = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n" + trace
    return PythonException(text + "\n".join(lines))
