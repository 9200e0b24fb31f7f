"""Whether a query or the machine causes an error, and sentences about problems of the machine.

A query can cause a few kinds of errors. All others are the machine's, and so is every error in a chain with
one of the machine's: a full disk, memory, a process that is gone, a timeout.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from py4j.protocol import Py4JError

from weft.spark.session.causes import Cause, all_before, causes, is_pythons, root
from weft.spark.session.gateway import java_has_ended


class Trouble(StrEnum):
    """Kinds of problems of the machine; of several in one chain, the first of these is reported."""

    JAVA = "java"
    DISK = "disk"
    MEMORY = "memory"
    WORKER = "worker"
    STOPPED = "stopped"
    CONNECTION = "connection"
    OTHER = "other"


_OF_QUERIES = frozenset(
    "AnalysisException ExtendedAnalysisException ParseException StackOverflowError "
    "ArithmeticException NumberFormatException DateTimeException DateTimeParseException "
    "IllegalArgumentException PatternSyntaxException "
    "SparkArithmeticException SparkNumberFormatException SparkDateTimeException "
    "SparkIllegalArgumentException SparkUnsupportedOperationException SparkArrayIndexOutOfBoundsException "
    "SparkNoSuchElementException SparkRuntimeException SparkUpgradeException PythonException".split()
)
"""Java's exceptions that a query can cause, and superclasses of them: analysis, arithmetic, functions."""
_COMPILER = "org.codehaus."
"""The package of the compiler of Spark's generated code."""
_QUERYS_WORDS = re.compile(r"\s*(?:\[FAILED_EXECUTE_UDF\]|\[INTERNAL_ERROR\] The Spark SQL phase)")
"""The beginning of a plain SparkException that a query can cause."""

_MACHINES = {
    Trouble.MEMORY: frozenset("OutOfMemoryError OutOfMemoryException MemoryError".split()),
    Trouble.WORKER: frozenset("ExecutorLostFailure FetchFailedException".split()),
    Trouble.CONNECTION: frozenset(
        "TimeoutException SocketException SocketTimeoutException ConnectException UnknownHostException "
        "RpcTimeoutException TimeoutError ConnectionError Py4JError".split()
    ),
    Trouble.OTHER: frozenset(
        "IOException UncheckedIOException EOFException FileNotFoundException InterruptedException "
        "OSError EOFError".split()
    ),
}
"""Classes of errors that only the machine causes, or superclasses of them."""
_MACHINES_WORDS = {
    Trouble.DISK: re.compile(r"No space left on device|Disk quota exceeded|not enough space on the disk"),
    Trouble.WORKER: re.compile(r"Python worker (?:exited unexpectedly|failed to connect)"),
    Trouble.STOPPED: re.compile(r"SparkContext was shut down|stopped SparkContext|\[SPARK_JOB_CANCELLED\]"),
}
_PLAIN_SPEAKERS = frozenset("SparkException IllegalStateException IOException OSError".split())
"""Classes whose messages are about the machine; those of others may contain values of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    what: str
    remedy: str


JAVA_ENDED = (
    "Spark's Java process has ended (was it killed, or out of memory?); start again: nothing that was "
    "committed to a checkpoint is lost"
)
"""The message when Java is gone, wherever that is noticed."""
_WORDS = {
    Trouble.DISK: _Words(
        what="a disk is full", remedy="free space (Spark's scratch folders, SPARK_LOCAL_DIRS, need some too)"
    ),
    Trouble.MEMORY: _Words(
        what="memory ran out",
        remedy="give Spark more of it (--memory), or take smaller batches (maxFilesPerTrigger)",
    ),
    Trouble.WORKER: _Words(
        what="a process that works for Spark was lost", remedy="see whether it was killed, or out of memory"
    ),
    Trouble.STOPPED: _Words(what="Spark was stopped, or its job cancelled", remedy="see who did so"),
    Trouble.CONNECTION: _Words(
        what="something did not answer, or not in time", remedy="see that it is there and can be reached"
    ),
    Trouble.OTHER: _Words(
        what="something failed, and no query is shown to be at fault", remedy="mend what is wrong"
    ),
}


def is_a_querys(error: BaseException) -> bool:
    """Say whether an error is of a kind that a query can cause; everything else is the machine's."""
    if not isinstance(error, Exception) or _troubles(error):
        return False
    # A registered function that is given columns may raise anything.
    return is_pythons(error) or any(map(_can_be_a_querys, causes(error)))


def is_machines(error: BaseException) -> bool:
    """Say whether an error is the machine's, or comes from Spark: then it is no bug of Weft's."""
    if not isinstance(error, Exception) or type(error) is Py4JError:  # A call that Java does not know.
        return False
    return bool(_troubles(error)) or not is_pythons(error)


def trouble_of(error: BaseException) -> Trouble:
    """Return the kind of the machine's problem."""
    if java_has_ended(error):
        return Trouble.JAVA
    return min(_troubles(error), key=list(Trouble).index, default=Trouble.OTHER)


def sentence(error: BaseException, *, fate: str = "", again: str = "try again") -> str:
    """Say what is wrong with the machine, with the root of the error, what became of the work, what to do."""
    trouble = trouble_of(error)
    if trouble is Trouble.JAVA:
        return JAVA_ENDED
    words = _WORDS[trouble]
    return f"{words.what} ({root(error)}); {fate and fate + ': '}{words.remedy}, and {again}"


def _can_be_a_querys(cause: Cause) -> bool:
    if not cause.families.isdisjoint(_OF_QUERIES) or cause.kind.startswith(_COMPILER):
        return True
    return "SparkException" in cause.families and _QUERYS_WORDS.match(cause.message) is not None


def _troubles(error: BaseException) -> set[Trouble]:
    troubles = map(_trouble, all_before(error))
    return {trouble for trouble in troubles if trouble is not None}


def _trouble(cause: Cause) -> Trouble | None:
    """Return the problem of the machine that an error is about; None if it is about none."""
    first = cause.message.strip().partition("\n")[0]
    # The message of a job repeats that of its task, which is in the chain, too.
    if not cause.families.isdisjoint(_PLAIN_SPEAKERS) and not first.startswith("Job aborted"):
        for trouble, words in _MACHINES_WORDS.items():
            if words.search(first):
                return trouble
    return next(
        (trouble for trouble, names in _MACHINES.items() if not cause.families.isdisjoint(names)), None
    )
