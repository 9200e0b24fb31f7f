"""`weft bench` without running anything: what each command asks of its bench."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from weft.bench.bench import Bench
from weft.bench.fragments import Shards
from weft.bench.options import Check, Options
from weft.bench.workloads import Predicates
from weft.cli import bench
from weft.optimizer.slices import Slicing


@dataclass
class Asked:
    """What a bench was asked that only takes note of it."""

    options: Options | None = None
    own: dict[str, object] = field(default_factory=dict)
    rows_equal: bool | None = True

    def run(self, bench: Bench[Any]) -> list[SimpleNamespace]:
        """Note the options that all benches have, and those of its own by what they mean."""
        common = {known.name: getattr(bench, known.name) for known in fields(Options)}
        names = ["workload"] if isinstance(bench, Shards) else {known.name for known in fields(bench)}
        own = {name: getattr(bench, name) for name in names if name not in common}
        self.options = Options(**common)
        self.own = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
        return [SimpleNamespace(passed=self.rows_equal is not False)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(Bench, "run", lambda self: found.run(self))
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
        ("figures", "bench-results/figures.png"),
        ("memory", None),
        ("shards --low --plot here.png", "here.png"),
        ("windows --plot here.png", "here.png"),
        ("slices --no-plot", None),
        ("windows --no-plot", None),
    ],
)
def test_a_picture_is_named_by_its_workload(words: str, picture: str | None, asked: Asked) -> None:
    assert invoke(*words.split()) == 0
    assert asked.options is not None
    assert asked.options.plot == (None if picture is None else Path(picture))


@pytest.mark.parametrize("name", ["slices", "fragments", "shards", "windows", "churn", "figures"])
def test_help_tells_where_the_picture_goes(name: str) -> None:
    shown = CliRunner().invoke(bench.app, [name, "--help"], env={"COLUMNS": "200"}).output
    assert f"bench-results/{name}" in shown
    assert "--no-plot" in shown


def test_a_bench_is_asked_what_the_options_say(asked: Asked) -> None:
    words = (
        "shards --low -n 16 -n 64 --rows 5000 --rows paper --seed 3 --seed 4 --measured 2 --repeats 4 "
        "--warmups 0 --slicing paned --check sample --cores 1"
    )
    assert invoke(*words.split(), "--json", "it.json", "--data", "there") == 0
    assert asked.options is not None
    assert asked.options == Options(
        console=asked.options.console, queries=(16, 64), rows=(5000, 1_138_636), seeds=(3, 4), measured=2,
        repeats=4, warmups=0, slicing=Slicing.PANED, check=Check.SAMPLE, cores=1, json=Path("it.json"),
        data=Path("there"), plot=Path("bench-results/shards-low.png"),
    )  # fmt: skip
    assert asked.own == {"workload": Predicates.LOW}
    assert invoke("shards") == 0
    assert asked.own == {"workload": Predicates.REGULAR}


@pytest.mark.parametrize("name", ["slices", "fragments", "shards"])
def test_the_papers_size_is_measured_beside_ours(name: str, asked: Asked) -> None:
    assert invoke(name) == 0
    assert asked.options is not None
    assert asked.options.rows == (4_000_000, 1_138_636)


def test_options_of_their_own(asked: Asked) -> None:
    assert invoke(*"churn --operations 40 --batches 9 --memory-batches 8".split()) == 0
    assert asked.own == {"operations": 40, "memory_batches": 8}
    assert asked.options is not None
    assert asked.options.batches == 9
    assert invoke(*"figures --figure 16 --figure 13 --patience 5".split()) == 0
    assert asked.own == {"figures": [16, 13], "patience_s": 5}
    assert invoke("figures", "--figure", "12") == 2
    assert invoke("memory", "--repeats", "3") == 2


@pytest.mark.parametrize("name", ["slices", "fragments", "shards", "churn", "figures"])
def test_rows_that_differ_are_a_failure(name: str, asked: Asked) -> None:
    for rows_equal, code in ((True, 0), (None, 0), (False, 1)):
        asked.rows_equal = rows_equal
        assert invoke(name) == code


def test_an_option_of_one_bench_is_not_another_ones(asked: Asked) -> None:
    assert invoke("slices", "--low") == 2
    assert asked.options is None
