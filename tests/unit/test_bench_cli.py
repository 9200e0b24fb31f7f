"""`weft bench` without running anything: what each command asks of its bench."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from weft.bench.equality import Check
from weft.bench.workloads import Predicates
from weft.cli import bench


@dataclass
class Asked:
    """A bench that only takes note of what it is asked."""

    options: dict[str, object] = field(default_factory=dict)
    rows_equal: bool | None = True

    def __call__(self, **options: object) -> list[SimpleNamespace]:
        self.options = options
        return [SimpleNamespace(figures=SimpleNamespace(rows_equal=self.rows_equal))]

    def churn(self, **options: object) -> SimpleNamespace:
        """Take note likewise, of a bench that has one result."""
        self.options = options
        return SimpleNamespace(passed=self.rows_equal is not False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    for name in ("run_slices", "run_fragments", "run_windows"):
        monkeypatch.setattr(bench, name, found)
    monkeypatch.setattr(bench, "run_churn", found.churn)
    return found


def invoke(*words: str) -> int:
    return CliRunner().invoke(bench.app, list(words)).exit_code


@pytest.mark.parametrize(
    ("words", "picture"),
    [
        ("slices", "bench-results/slices.png"),
        ("fragments", "bench-results/fragments.png"),
        ("shards", "bench-results/shards-regular.png"),
        ("shards --regular", "bench-results/shards-regular.png"),
        ("shards --low", "bench-results/shards-low.png"),
        ("windows", "bench-results/windows.png"),
        ("churn", "bench-results/churn.png"),
        ("shards --low --plot here.png", "here.png"),
        ("windows --plot here.png", "here.png"),
        ("slices --no-plot", None),
        ("windows --no-plot", None),
    ],
)
def test_a_picture_is_named_by_its_workload(words: str, picture: str | None, asked: Asked) -> None:
    assert invoke(*words.split()) == 0
    assert asked.options["plot"] == (None if picture is None else Path(picture))


@pytest.mark.parametrize("name", ["slices", "fragments", "shards", "windows", "churn"])
def test_help_tells_where_the_picture_goes(name: str) -> None:
    shown = CliRunner().invoke(bench.app, [name, "--help"], env={"COLUMNS": "200"}).output
    assert f"bench-results/{name}" in shown
    assert "--no-plot" in shown


def test_a_bench_is_asked_what_the_options_say(asked: Asked) -> None:
    words = "shards --low -n 16 -n 64 --rows 5000 --measured 2 --repeats 4 --check sample --cores 1"
    assert invoke(*words.split(), "--json", "it.json", "--data", "there") == 0
    del asked.options["console"], asked.options["plot"]
    assert asked.options == {
        "workload": Predicates.LOW, "queries": [16, 64], "rows": 5000, "measured": 2, "repeats": 4,
        "check": Check.SAMPLE, "cores": 1, "json": Path("it.json"), "data": Path("there"),
    }  # fmt: skip
    assert invoke("shards") == 0
    assert asked.options["workload"] is Predicates.REGULAR


@pytest.mark.parametrize("name", ["slices", "fragments", "shards", "churn"])
def test_rows_that_differ_are_a_failure(name: str, asked: Asked) -> None:
    for rows_equal, code in ((True, 0), (None, 0), (False, 1)):
        asked.rows_equal = rows_equal
        assert invoke(name) == code


def test_an_option_of_one_bench_is_not_another_ones(asked: Asked) -> None:
    assert invoke("slices", "--low") == 2
    assert asked.options == {}
