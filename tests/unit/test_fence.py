"""Fencing: a sink that has seen what a checkpoint does not know refuses it, and nobody else."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lineages import NONE, after

from weft.errors import DamagedFile, Fenced
from weft.sinks.fence import Claim, Lineage, common_commit, judge, known_through, read_claim

ORIGINAL = after(-1, 20, 50)
COPY = after(34, since=Lineage(incarnations=ORIGINAL.incarnations[:2]))


def claim(lineage: Lineage, through: int) -> Claim:
    return Claim(through=through, lineage=lineage)


def test_each_incarnation_is_known_through_the_commit_before_the_next() -> None:
    first, second, third = (one.token for one in ORIGINAL.incarnations)
    assert [ORIGINAL.last_of(one) for one in (first, second)] == [20, 50]
    assert ORIGINAL.last_of(third) > 10**18
    assert ORIGINAL.last_of("another") is None


def test_a_sink_takes_from_who_delivered_last_and_from_who_follows() -> None:
    judge("parquet", ORIGINAL, None)
    judge("parquet", ORIGINAL, claim(ORIGINAL, 61))
    judge("parquet", after(61, since=ORIGINAL), claim(ORIGINAL, 61))
    # An engine that died after it claimed more than it then delivered.
    judge("parquet", after(61, since=ORIGINAL), claim(ORIGINAL, 60))


@pytest.mark.parametrize(
    ("lineage", "seen"),
    [
        (COPY, claim(ORIGINAL, 61)),  # an older copy is restored
        (ORIGINAL, claim(COPY, 35)),  # a copy ran beside it, and was faster
        (after(34, since=Lineage(incarnations=ORIGINAL.incarnations[:2])), claim(COPY, 35)),  # two copies
        (COPY, claim(Lineage(incarnations=ORIGINAL.incarnations[:2]), 40)),  # it ran on after the copy
        (COPY, claim(ORIGINAL, 20)),  # a newer incarnation, though it gave nothing new
        (after(-1), claim(ORIGINAL, 0)),  # no incarnation in common
        (ORIGINAL, Claim(through=51)),  # from before there were incarnations
    ],
)  # fmt: skip
def test_a_sink_refuses_whoever_does_not_know_what_it_has(lineage: Lineage, seen: Claim) -> None:
    with pytest.raises(Fenced, match=f"sink parquet has results through commit {seen.through:09d}"):
        judge("parquet", lineage, seen)


def test_a_refusal_tells_who_was_there_and_what_to_do() -> None:
    with pytest.raises(Fenced) as refused:
        judge("parquet (results)", COPY, claim(ORIGINAL, 61))
    said = str(refused.value)
    assert "commit 000000061 of incarnation 3 (a test, begun 2" in said
    assert "this is incarnation 3, begun after commit 34" in said
    assert "weft run --rewind" in said


def test_the_common_commit_is_the_last_that_both_have() -> None:
    assert common_commit(COPY, claim(ORIGINAL, 61)) == 34
    assert common_commit(ORIGINAL, claim(COPY, 70)) == 34
    assert common_commit(COPY, claim(Lineage(incarnations=ORIGINAL.incarnations[:2]), 40)) == 34
    assert common_commit(COPY, claim(ORIGINAL, 20)) == 20
    assert common_commit(after(-1), claim(ORIGINAL, 20)) == -1
    assert common_commit(ORIGINAL, Claim(through=60)) == 50


def test_a_claim_is_read_back_and_a_damaged_one_is_named() -> None:
    written = claim(ORIGINAL, 61)
    read = read_claim(written.as_json(), name="claim.json")
    assert read.lineage is not None
    assert (read.through, read.lineage.incarnations) == (61, ORIGINAL.incarnations)
    for text in (b"", b"{}", b"\xff", b"[1]", b'{"through": 1, "incarnations": [{}]}'):
        with pytest.raises(DamagedFile, match=r"claim\.json is damaged"):
            read_claim(text, name="claim.json")


def test_a_lineage_is_bounded() -> None:
    lineage = after(*range(10_050))
    assert len(lineage.incarnations) == 10_000
    assert lineage.current.number == 10_050


@dataclass
class Branch:
    """A checkpoint, or a copy of one, with what each of its commits holds."""

    lineage: Lineage = NONE
    commits: list[int] = field(default_factory=list)


@given(
    st.lists(st.sampled_from(["start", "commit", "deliver", "copy", "rewind"]), max_size=60), st.integers()
)
def test_what_a_sink_holds_is_always_the_beginning_of_one_history(steps: list[str], seed: int) -> None:
    """Whatever is copied and started, in whatever order: what a sink takes follows what it has."""
    chance, branches = random.Random(seed), [Branch()]
    held: list[int] = []
    seen: Claim | None = None
    for number, step in enumerate(["start", *steps]):
        branch = chance.choice(branches)
        if step == "copy":
            # It counts from when it is started; the original may run on meanwhile.
            started = branch.lineage.followed(after=len(branch.commits) - 1, by="a test")
            branches.append(Branch(started, list(branch.commits)))
        elif step == "start" or not branch.lineage.incarnations:
            branch.lineage = branch.lineage.followed(after=len(branch.commits) - 1, by="a test")
        elif step == "commit":
            branch.commits.append(number)
        elif step == "rewind" and seen is not None:
            common = common_commit(branch.lineage, seen)
            assert held[: common + 1] == branch.commits[: common + 1]
            held = held[: common + 1]
            seen = Claim(through=common, lineage=branch.lineage)
        elif seen is None or seen.through <= known_through(branch.lineage, seen):
            # What is not refused continues what is there.
            assert branch.commits[: len(held)] == held
            held = list(branch.commits)
            seen = Claim(through=len(held) - 1, lineage=branch.lineage)
