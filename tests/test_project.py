"""Promises about the repository as a whole."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "weft").rglob("*.py"))

# Spelled in parts, so that this file passes its own test.
_HOMES = "|".join(("wo" + "rk", "ro" + "ot", "ho" + r"me/\w+", "Us" + r"ers/\w+"))
MACHINE_PATH = re.compile(rf"(?<![\w.~-])/(?:{_HOMES})(?=[/\s\"'`)]|$)")
_HOSTS = "|".join(
    ("py" + r"pi\.", "python" + r"hosted\.", "(?:index|find)-" + "(?:url|links)", r"ma" + r"ven\.org")
)
REGISTRY = re.compile(_HOSTS, re.IGNORECASE)


_LEFT_BEHIND = {
    ".git", ".venv", ".venv-oldest", "build", "data", "__pycache__", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", ".hypothesis", ".import_linter_cache", "weft.egg-info",
}  # fmt: skip


def our_files() -> Iterator[Path]:
    """Yield the text files of the project: those under version control, or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = filter(None, listed.stdout.split("\0"))
    # Without version control, as in an unpacked archive, everything but what tools leave behind is ours.
    everything = (path for path in ROOT.rglob("*") if not _LEFT_BEHIND & set(path.relative_to(ROOT).parts))
    for path in everything if listed.returncode else (ROOT / name for name in names):
        if path.is_file() and path.suffix not in {".parquet", ".png", ".pdf", ".svg", ".gz"}:
            yield path


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine paths", "registries"])
def test_no_file_names_a_place_that_others_do_not_have(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in our_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


DEFINITION = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_definitions(path: Path) -> Iterator[tuple[str, ast.Module | DEFINITION]]:
    """Yield the module and its public classes, functions and methods."""
    tree = ast.parse(path.read_text())
    yield "module", tree
    bodies: list[tuple[str, list[ast.stmt]]] = [("", tree.body)]
    for prefix, body in bodies:
        for node in body:
            if isinstance(node, DEFINITION) and node.name[0] != "_":
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    bodies.append((f"{node.name}.", node.body))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_every_public_name_says_what_it_is(path: Path) -> None:
    silent = [name for name, node in public_definitions(path) if not ast.get_docstring(node)]
    assert silent == []


def locked(name: str) -> dict[str, str]:
    """Read a lock: exact versions and comments, nothing else."""
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_lock_holds_all_that_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {canonical(re.split(r"[<>=!~;\[ ]", requirement)[0]) for requirement in asked}
    assert names - {canonical(name) for name in locked("requirements.lock")} == set()


def test_the_oldest_lock_holds_only_what_differs() -> None:
    newest, oldest = locked("requirements.lock"), locked("requirements-oldest.lock")
    assert oldest["pyspark"].startswith("4.0.")
    assert {name for name, version in oldest.items() if newest.get(name) in (None, version)} == set()


def test_every_make_target_named_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        commands = re.findall(r"^\s*(?:\$ )?make ([a-z-]+)|`make ([a-z-]+)", page.read_text(), re.M)
        named = {name for pair in commands for name in pair if name}
        assert named <= targets, f"{page.relative_to(ROOT)} names {named - targets}"
