"""The root of an error, and whose trouble it is: by errors as PySpark raises them."""

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkTypeError, StreamingQueryException
from tests.unit.java_samples import (
    AT,
    TASK,
    Captured,
    FromPy4J,
    GoneJava,
    Java,
    failed_job,
    raised_in_worker,
    text_of_job,
)

from weft.spark.session.causes import root
from weft.spark.session.troubles import JAVA_ENDED, Trouble, is_a_querys, sentence, trouble_of

SPARK = "org.apache.spark."
FULL = "No space left on device"
WORKER_GONE = (
    "Python worker exited unexpectedly (crashed). Consider setting "
    "'spark.sql.execution.pyspark.udf.faulthandler.enabled' to 'true' for the better Python traceback."
)
LOST = (
    "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) "
    "Reason: Executor heartbeat timed out after 125436 ms"
)


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody look at the Java of other tests."""
    monkeypatch.setattr(SparkContext, "_gateway", None)


def caused(error: Exception, cause: BaseException) -> Exception:
    """Return an error raised from another."""
    error.__cause__ = cause
    return error


def while_handling(error: Exception, other: BaseException) -> Exception:
    """Return an error raised while another was handled."""
    error.__context__ = other
    return error


# What a query can cause.

QUERYS = {
    "analysis": (
        Captured(
            Java(f"{SPARK}sql.catalyst.ExtendedAnalysisException", "[UNRESOLVED_COLUMN] A column\n'Pro")
        ),
        f"{SPARK}sql.catalyst.ExtendedAnalysisException: [UNRESOLVED_COLUMN] A column",
    ),
    "parse": (
        Captured(
            Java(f"{SPARK}sql.catalyst.parser.ParseException", "\n[PARSE_SYNTAX_ERROR] Syntax error\n\n=")
        ),
        f"{SPARK}sql.catalyst.parser.ParseException: [PARSE_SYNTAX_ERROR] Syntax error",
    ),
    "deep": (FromPy4J(Java("java.lang.StackOverflowError")), "java.lang.StackOverflowError"),
    "planning": (
        FromPy4J(Java(f"{SPARK}SparkException", "[INTERNAL_ERROR] The Spark SQL phase planning failed …")),
        f"{SPARK}SparkException: [INTERNAL_ERROR] The Spark SQL phase planning failed …",
    ),
    "compiler": (
        FromPy4J(Java("org.codehaus.commons.compiler.CompileException", "too large")),
        "org.codehaus.commons.compiler.CompileException: too large",
    ),
    "cast": (
        Captured(Java(f"{SPARK}SparkNumberFormatException", "[CAST_INVALID_INPUT] The value 'x5' …\n== SQL")),
        f"{SPARK}SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x5' …",
    ),
    "date": (
        Captured(Java(f"{SPARK}SparkDateTimeException", "[D] 13", Java("java.time.DateTimeException", "13"))),
        "java.time.DateTimeException: 13",
    ),
    "pattern": (
        failed_job("java.util.regex.PatternSyntaxException", "Unclosed group near index 2\n(0"),
        "java.util.regex.PatternSyntaxException: Unclosed group near index 2",
    ),
    "text": (
        text_of_job(f"{SPARK}SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero."),
        f"{SPARK}SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.",
    ),
    "worker": (raised_in_worker("ValueError: not", "this one 13"), "ValueError: not"),
    "own class": (raised_in_worker("models.Missing: NYSE"), "models.Missing: NYSE"),
    "java function": (
        failed_job(f"{SPARK}SparkException", "[FAILED_EXECUTE_UDF] …", Java("java.lang.Exception", "no")),
        "java.lang.Exception: no",
    ),
    "columns": (LookupError("no such model"), "LookupError: no such model"),
    "columns in PySpark": (PySparkTypeError("[NOT_COLUMN] …"), "PySparkTypeError: [NOT_COLUMN] …"),
    # Values of rows say nothing of the machine.
    "value": (
        failed_job(f"{SPARK}SparkNumberFormatException", f"The value '{FULL}\nIOException' is malformed"),
        f"{SPARK}SparkNumberFormatException: The value '{FULL}",
    ),
    "value in words": (ValueError(f"Python worker exited unexpectedly, {FULL}"), None),
}


@pytest.mark.parametrize(("error", "said"), QUERYS.values(), ids=QUERYS)
def test_what_a_query_can_cause(error: Exception, said: str | None) -> None:
    assert is_a_querys(error)
    if said is not None:
        assert str(root(error)) == said


# What only the machine can.

MACHINES = {
    "disk": (failed_job("java.io.IOException", FULL), Trouble.DISK, f"java.io.IOException: {FULL}"),
    "disk as text": (
        text_of_job(f"java.io.IOException: {FULL}"), Trouble.DISK, f"java.io.IOException: {FULL}",
    ),
    "disk below another": (
        text_of_job(f"{SPARK}SparkRuntimeException: cannot spill{AT}Caused by: java.io.IOException: {FULL}"),
        Trouble.DISK,
        f"java.io.IOException: {FULL}",
    ),
    "disk of Python": (OSError(28, FULL), Trouble.DISK, f"OSError: [Errno 28] {FULL}"),
    "disk in a worker": (
        raised_in_worker(f"OSError: [Errno 28] {FULL}"), Trouble.DISK, f"OSError: [Errno 28] {FULL}",
    ),
    "disk, then another": (
        raised_in_worker(
            f"OSError: [Errno 28] {FULL}",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
            '  File "functions.py", line 43, in price',
            "ValueError: no cache",
        ),
        Trouble.DISK,
        "ValueError: no cache",
    ),
    "disk of a stream": (
        caused(StreamingQueryException("[STREAM_FAILED] Query …"), failed_job("java.io.IOException", FULL)),
        Trouble.DISK,
        f"java.io.IOException: {FULL}",
    ),
    "heap": (
        FromPy4J(Java("java.lang.OutOfMemoryError", "Java heap space")),
        Trouble.MEMORY,
        "java.lang.OutOfMemoryError: Java heap space",
    ),
    "a task's memory": (
        failed_job(f"{SPARK}memory.SparkOutOfMemoryError", "[UNABLE_TO_ACQUIRE_MEMORY] 64 bytes"),
        Trouble.MEMORY,
        f"{SPARK}memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] 64 bytes",
    ),
    "Python's memory": (MemoryError(), Trouble.MEMORY, "MemoryError"),
    "a worker's memory": (raised_in_worker("MemoryError"), Trouble.MEMORY, "MemoryError"),
    "worker": (
        failed_job(f"{SPARK}SparkException", WORKER_GONE, Java("java.io.EOFException")),
        Trouble.WORKER,
        "java.io.EOFException",
    ),
    "executor": (
        text_of_job(LOST), Trouble.WORKER, LOST.replace("ExecutorLostFailure ", "ExecutorLostFailure: ", 1),
    ),
    "timeout": (
        FromPy4J(Java(f"{SPARK}SparkException", "Not …", Java("java.util.concurrent.TimeoutException"))),
        Trouble.CONNECTION,
        "java.util.concurrent.TimeoutException",
    ),
    "source": (failed_job("java.net.SocketTimeoutException", "Read timed out"), Trouble.CONNECTION, None),
    "shut down": (
        FromPy4J(Java(f"{SPARK}SparkException", "Job 5 cancelled because SparkContext was shut down")),
        Trouble.STOPPED,
        f"{SPARK}SparkException: Job 5 cancelled because SparkContext was shut down",
    ),
    "stopped": (
        FromPy4J(Java("java.lang.IllegalStateException", "Cannot call methods on a stopped SparkContext.\n")),
        Trouble.STOPPED,
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
    ),
    "cancelled": (
        FromPy4J(Java(f"{SPARK}SparkException", "[SPARK_JOB_CANCELLED] Job 1")), Trouble.STOPPED, None,
    ),
    "network": (Py4JNetworkError("Answer from Java side is empty"), Trouble.JAVA, None),
    "call": (Py4JError("An error occurred while calling o63.sessionState"), Trouble.CONNECTION, None),
    "refused": (ConnectionRefusedError(111, "Connection refused"), Trouble.CONNECTION, None),
    "gone file": (
        failed_job("java.io.FileNotFoundException", "File file:/a does not exist"),
        Trouble.OTHER,
        "java.io.FileNotFoundException: File file:/a does not exist",
    ),
    "gone scheduler": (
        while_handling(
            FromPy4J(Java(f"{SPARK}SparkException", "…", Java("java.lang.NullPointerException", "null"))),
            ValueError("Tried reading schema message, was null or length 0"),
        ),
        Trouble.OTHER,
        "java.lang.NullPointerException: null",
    ),
    "unknown": (FromPy4J(Java(f"{SPARK}SparkException", "never seen")), Trouble.OTHER, None),
    "a function after a full disk": (
        while_handling(LookupError("no model"), OSError(28, FULL)), Trouble.DISK, "LookupError: no model",
    ),
    "a query's from a full disk": (
        caused(ValueError("no model"), OSError(28, FULL)), Trouble.DISK, f"OSError: [Errno 28] {FULL}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("error", "trouble", "said"), MACHINES.values(), ids=MACHINES)
def test_what_only_the_machine_can_cause(error: Exception, trouble: Trouble, said: str | None) -> None:
    assert not is_a_querys(error)
    assert trouble_of(error) is trouble
    if said is not None:
        assert str(root(error)) == said


def test_an_interrupt_is_no_querys() -> None:
    assert not is_a_querys(KeyboardInterrupt())


def test_the_text_tells_where_java_is_gone() -> None:
    trace = (
        f": {SPARK}SparkException: Exception thrown in awaitResult: {AT}"
        f"Caused by: {SPARK}SparkException: {TASK}java.io.IOException: {FULL}{AT}"
        f"Caused by: java.io.IOException: {FULL}{AT}\t... 8 more\n"
    )
    error = FromPy4J(GoneJava(f"{SPARK}SparkException"), trace)
    assert str(root(error)) == f"java.io.IOException: {FULL}"
    assert trouble_of(error) is Trouble.DISK


# What is said.


def test_a_full_disk_is_told_with_what_to_do() -> None:
    told = sentence(
        failed_job("java.io.IOException", FULL), fate="nothing of batch 7 is consumed", again="start it again"
    )
    assert told == (
        "a disk is full (java.io.IOException: No space left on device); nothing of batch 7 is consumed: free "
        "space (Spark's scratch folders, SPARK_LOCAL_DIRS, need some too), and start it again"
    )


@pytest.mark.parametrize(("error", "trouble", "said"), MACHINES.values(), ids=MACHINES)
def test_every_trouble_is_told_in_a_line(error: Exception, trouble: Trouble, said: str | None) -> None:
    told = sentence(error)
    assert "\n" not in told
    assert "o123" not in told
    assert "Job aborted" not in told
    if trouble is Trouble.JAVA:
        assert told == JAVA_ENDED
    else:
        assert str(root(error)) in told
        assert told.endswith(", and try again")
