"""Whose trouble an error is, and what there is to say of the machine's.

A query can cause a few kinds of errors. Everything else is the machine's, and so is every error that comes
with a machine's: a full disk, memory, a process that is gone, what did not answer in time.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from py4j.protocol import Py4JError

from weft.spark.session.causes import Cause, all_before, causes, is_pythons, root
from weft.spark.session.gateway import java_has_ended


class Trouble(StrEnum):
    """Kinds of the machine's trouble; of several in one chain, the first of these is told."""

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
"""Java's classes, or those above theirs, that a query can cause: analysis, arithmetic, functions."""
_COMPILER = "org.codehaus."
"""Where the classes are of the compiler that Spark gives its generated code to."""
_QUERYS_WORDS = re.compile(r"\s*(?:\[FAILED_EXECUTE_UDF\]|\[INTERNAL_ERROR\] The Spark SQL phase)")
"""What a plain SparkException begins with that a query can cause."""

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
"""Classes, or those above theirs, that only the machine causes."""
_MACHINES_WORDS = {
    Trouble.DISK: re.compile(r"No space left on device|Disk quota exceeded|not enough space on the disk"),
    Trouble.WORKER: re.compile(r"Python worker (?:exited unexpectedly|failed to connect)"),
    Trouble.STOPPED: re.compile(r"SparkContext was shut down|stopped SparkContext|\[SPARK_JOB_CANCELLED\]"),
}
_PLAIN_SPEAKERS = frozenset("SparkException IllegalStateException IOException OSError".split())
"""Classes whose own words tell of the machine; those of others may be values of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    what: str
    remedy: str


JAVA_ENDED = (
    "Spark's Java process has ended (was it killed, or out of memory?); start again: nothing that was "
    "committed to a checkpoint is lost"
)
"""What is said when Java is gone, whoever finds it out."""
_WORDS = {
    Trouble.DISK: _Words(
        what="a disk is full",
        remedy="free space (Spark's scratch folders, SPARK_LOCAL_DIRS, need some too)",
    ),
    Trouble.MEMORY: _Words(
        what="memory ran out",
        remedy="give Spark more of it (--memory), or take smaller batches (maxFilesPerTrigger)",
    ),
    Trouble.WORKER: _Words(
        what="a process that works for Spark was lost",
        remedy="see whether it was killed, or out of memory",
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
    """Say whether an error tells of the machine, or comes from Spark: then it is no bug of Weft's."""
    if not isinstance(error, Exception) or type(error) is Py4JError:  # A call that Java does not know.
        return False
    return bool(_troubles(error)) or not is_pythons(error)


def trouble_of(error: BaseException) -> Trouble:
    """Return which trouble of the machine's an error tells of."""
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
    found = map(_trouble, all_before(error))
    return {trouble for trouble in found if trouble is not None}


def _trouble(cause: Cause) -> Trouble | None:
    """Return what an error tells of the machine; None for nothing."""
    first = cause.message.strip().partition("\n")[0]
    # A job's words are its task's, which is looked at by itself.
    if not cause.families.isdisjoint(_PLAIN_SPEAKERS) and not first.startswith("Job aborted"):
        for trouble, words in _MACHINES_WORDS.items():
            if words.search(first):
                return trouble
    return next((one for one, names in _MACHINES.items() if not cause.families.isdisjoint(names)), None)
