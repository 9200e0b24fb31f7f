"""The documents are true: their Python runs, their plans are real, and all that they name exists."""

import ast
import doctest
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from weft.aggregates import aggregate_functions
from weft.cli.app import app
from weft.engine import Engine, Query
from weft.optimizer.explain import explain
from weft.optimizer.rules import optimize
from weft.query import CreateQuery, CreateStream, bind, parse
from weft.query.logical import Catalog

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "weft"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page that are marked with a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)


def is_session(block: str) -> bool:
    return block.startswith(">>>")


def run_sessions(name: str, known: dict[str, object]) -> None:
    """Run the examples of a page, one after the other, as one session."""
    # The fences stay out: each would be read as the output expected of the line above it.
    text = "\n".join(block for block in blocks(name, "python") if is_session(block))
    assert text, f"{name} has no examples"
    test = doctest.DocTestParser().get_doctest(text, known, name, name, 0)
    failures: list[str] = []
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=options).run(test, out=failures.append)
    assert not failures, "".join(failures)


# README


def readme_plan() -> str:
    """Plan README's workload and explain it, as `weft explain` does, without Spark."""
    [workload] = blocks("README.md", "sql")
    statements = parse(workload)
    [stream] = [statement.definition for statement in statements if isinstance(statement, CreateStream)]
    catalog = Catalog(streams=(stream,))
    queries = [bind(statement, catalog) for statement in statements if isinstance(statement, CreateQuery)]
    return explain(stream, optimize(queries))


def test_readme_shows_the_plan_of_its_workload() -> None:
    assert "The shared plan out (`weft explain workload.sql`):" in page("README.md")
    [shown] = blocks("README.md", "text")
    assert shown.rstrip("\n") == readme_plan()


def test_readme_shows_the_picture_that_explain_draws_of_its_workload(tmp_path: Path) -> None:
    assert "](docs/shared-plan.svg)" in page("README.md")
    [workload] = blocks("README.md", "sql")
    (tmp_path / "workload.sql").write_text(workload, encoding="utf-8")
    drawn = CliRunner().invoke(
        app, ["explain", str(tmp_path / "workload.sql"), "--svg", str(tmp_path / "plan.svg")]
    )
    assert drawn.exit_code == 0
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8") == page("docs/shared-plan.svg")


def test_readmes_queries_share() -> None:
    plan = readme_plan()
    assert "3 queries over 2 relations" in plan
    assert "rows split by 2 predicates on vol" in plan
    assert "a row is aggregated once, into its fragment" in plan


OWNERS: dict[str, type] = {"engine": Engine, "turnover": Query, "largest": Query}
"""What the variables of the examples hold."""


def uses_of_the_api() -> Iterator[ast.Attribute | ast.Call]:
    for block in blocks("README.md", "python") + blocks("docs/python.md", "python"):
        for node in ast.walk(ast.parse(block)):
            target = node.func if isinstance(node, ast.Call) else node
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                assert isinstance(node, ast.Attribute | ast.Call)
                yield node


@pytest.mark.parametrize("node", list(uses_of_the_api()), ids=ast.unparse)
def test_the_examples_call_what_there_is(node: ast.Attribute | ast.Call) -> None:
    target = node.func if isinstance(node, ast.Call) else node
    assert isinstance(target, ast.Attribute)
    assert isinstance(target.value, ast.Name)
    if target.value.id == "weft":
        assert target.attr == "Engine"
        return
    member = getattr(OWNERS[target.value.id], target.attr)
    if isinstance(node, ast.Call):
        named = {keyword.arg: None for keyword in node.keywords if keyword.arg is not None}
        inspect.signature(member).bind(None, *node.args, **named)


# The command line


def parameters() -> dict[str, list[Any]]:
    """Return the parameters of every command, by its words: {"weft run": […], …}."""
    found: dict[str, list[Any]] = {}
    # Typer brings a Click of its own in some versions, so its types have no one name.
    pending: list[tuple[str, Any]] = [("weft", typer.main.get_command(app))]
    while pending:
        words, command = pending.pop()
        found[words] = command.params
        if hasattr(command, "list_commands"):
            # Those of the first level are imported when they are asked for.
            pending += [
                (f"{words} {name}", command.get_command(None, name)) for name in command.list_commands(None)
            ]
    return found


def commands(*, both: bool = False) -> dict[str, set[str]]:
    """Return the options of every command: {"weft run": {"--out", …}, …}; of flags with two names, both."""
    return {
        words: {
            "--help",
            *(
                word
                for parameter in command
                for word in (*parameter.opts, *(parameter.secondary_opts if both else ()))
                if word[0] == "-"
            ),
        }
        for words, command in parameters().items()
    }


def shown_commands() -> list[str]:
    """Return every `weft …` of the pages, in code spans and at the start of a line of a block."""
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    return [
        command
        for text in texts
        for command in re.findall(r"(?:^|`)(weft(?: [^`#\n]+)?)(?:`|#|$)", text, re.M)
    ]


@pytest.mark.parametrize("shown", sorted(set(shown_commands())))
def test_a_command_that_the_docs_show_exists(shown: str) -> None:
    known = commands(both=True)
    words = [word for word in shown.split() if not word.startswith("-")]
    longest = max((name for name in known if words[: len(name.split())] == name.split()), key=len)
    if len(words) > 1:
        assert longest != "weft", f"no command {words[1]}"
    assert set(re.findall(r"(?<!\S)--?[a-z-]+", shown)) <= known[longest]


def section(command: str) -> str:
    """Return the manual's section on a command."""
    manual = page("docs/command-line.md")
    found = re.search(rf"^## `{command}`\n(.*?)(?=^## |\Z)", manual, re.DOTALL | re.MULTILINE)
    assert found, f"docs/command-line.md has no section on {command}"
    return found[1]


@pytest.mark.parametrize("command", ["weft run", "weft explain"])
def test_the_manual_lists_all_options(command: str) -> None:
    listed = re.findall(r"^\| `(--[a-z-]+)` \|", section(command), re.MULTILINE)
    assert {*listed, "--help"} == commands()[command]
    assert max(Counter(listed).values()) == 1


def bench_options() -> dict[str, dict[str, str]]:
    """Return benches' options with their defaults: {"slices": {"--rows": "4000000, paper", …}, …}."""
    manual = page("docs/benchmarks.md")
    common, differing = (
        re.findall(rf"^\| {head} \|.*\n\|.*\n((?:^\|.*\n)+)", manual, re.MULTILINE)[0].splitlines()
        for head in ("option", "options of")
    )
    shared: dict[str, str] = {}
    for line in common:
        words, value, _ = line.strip("| ").split(" | ", maxsplit=2)
        shared |= dict.fromkeys(re.findall(r"`(--?[a-z-]+)`", words), value)
    options = {}
    for line in differing:
        name, differs = line.strip("| ").split(" | ")
        own = dict(shared)
        for item in differs.split("; "):
            words, _, value = item.partition(": ")
            for word in re.findall(r"`(--?[a-z-]+)`", words):
                if item.startswith("without "):
                    del own[word]
                else:
                    own[word] = value
        options[name.strip("`")] = own
    return options


def default(parameter: Any) -> str:
    """Return an option's default as the manual writes it."""
    if parameter.secondary_opts:
        return f"`{parameter.secondary_opts[0]}`"
    shown, value = parameter.show_default, parameter.default
    if isinstance(shown, str):
        alternatives = " or " in shown
        return ("by workload" if alternatives else "by bench") if shown.endswith(".png") else shown
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if value is None:
        return "none"
    return "no" if value is False else str(value)


@pytest.mark.parametrize("bench", bench_options())
def test_the_manual_lists_all_options_of_a_bench_with_their_defaults(bench: str) -> None:
    wanted = {word: default(option) for option in parameters()[f"weft bench {bench}"] for word in option.opts}
    assert bench_options()[bench] == wanted


def test_the_manual_lists_every_bench() -> None:
    benches = {name.removeprefix("weft bench ") for name in commands() if name.startswith("weft bench ")}
    assert set(bench_options()) == benches
    assert (
        set(re.findall(r"^\| `weft bench ([a-z]+)` \|", page("docs/benchmarks.md"), re.MULTILINE)) == benches
    )


def test_the_manual_names_only_options_that_the_demo_has() -> None:
    assert set(re.findall(r"`(--[a-z]+)`", section("weft demo"))) <= commands()["weft demo"]


def test_make_targets_exist_and_say_what_they_do() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", page("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page("README.md"), re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


# The code map


def mapped() -> list[str]:
    """Return the files that ARCHITECTURE.md describes, in its order."""
    return re.findall(r"^- `([\w/]+\.py)`: \S", page("docs/code-map.md"), re.MULTILINE)


def test_the_code_map_has_every_module_once() -> None:
    modules = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    modules = {name for name in modules if not name.endswith("__init__.py")}
    assert Counter(mapped()) == Counter(modules)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    named = re.findall(r"`((?:src|tests|docs)/[\w/.-]+)`", text)
    inside = re.findall(
        r"`((?:query|aggregates|predicates|optimizer|evaluation|spark|state|finals|stream|durability|service|sinks|storage|cli|bench)/[\w/.]*)`",
        text,
    )
    missing = [link for link in links if not (path.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    missing += [name for name in inside if not (PACKAGE / name).exists()]
    assert missing == []


# The glossary


TERMS = re.findall(r"^\*\*(.+?)\*\* \((.+?)\)\. [A-Z]", page("docs/glossary.md"), re.MULTILINE)


def test_a_term_is_defined_once() -> None:
    assert [term for term, times in Counter(term.casefold() for term, _ in TERMS).items() if times > 1] == []


def test_every_entry_of_the_glossary_is_well_formed() -> None:
    assert len(re.findall(r"^\*\*", page("docs/glossary.md"), re.MULTILINE)) == len(TERMS)
    origin = re.compile(r"(?:STS|SDF|SDS|SYNC|ACQ|SMAP|Weft)(?: \d(?:\.\d)*)?(?:, planned)?")
    assert [term for term, named in TERMS if not origin.fullmatch(named)] == []


def test_the_main_terms_are_defined() -> None:
    wanted = "slice edge fragment signature shard relation phantom primitive partial block final".split()
    wanted += "root attribute position cell codebook F0 k α β".split()
    planned = {term for term, origin in TERMS if origin.endswith(", planned")}
    assert set(wanted) <= {term for term, _ in TERMS}
    assert set(wanted) & planned == {"phantom"}


# Pages that run


def test_the_lifecycle_of_a_query_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_sessions("docs/lifecycle.md", {})


def test_the_worked_example_of_an_aggregate_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    [source] = [block for block in blocks("docs/adding-an-aggregate.md", "python") if not is_session(block)]
    written = ModuleType("written")
    vars(written).update(vars(aggregate_functions))
    # The page says that the file imports all that the example uses.
    exec(compile(source, "adding-an-aggregate.md", "exec"), vars(written))
    added: aggregate_functions.Aggregate = vars(written)["RANGE_OF"]
    monkeypatch.setitem(aggregate_functions._BY_NAME, added.name, added)
    run_sessions("docs/adding-an-aggregate.md", {"RANGE_OF": added})


def test_a_page_with_python_is_run_here() -> None:
    run = {"README.md", "python.md", "lifecycle.md", "adding-an-aggregate.md"}
    assert {path.name for path in PAGES if "```python" in path.read_text(encoding="utf-8")} <= run
