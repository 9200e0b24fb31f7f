"""Engines in processes of their own, killed while events come in."""

from pathlib import Path

import pytest

from tests.faults.churn import Churn
from tests.faults.driver import Producer, Victim
from tests.faults.oracle import judge
from tests.faults.site import Site
from tests.faults.trial import End, finish, live
from weft.faultpoints import Fault, What

ENDS = (
    End(fault=Fault(point="request.carried_out", nth=2, what=What.KILL)),
    End(fault=Fault(point="commit.visible", nth=2, what=What.KILL)),
    End(fault=Fault(point="spark.returning", nth=3, what=What.KILL_JVM)),
    End(victim=Victim.ASKED, after_seconds=0.2),
)
BEFORE_EACH = 3
"""How many requests are left before each life; others come in it."""


@pytest.mark.timeout(1200)
def test_kills_at_points_and_at_any_time_lose_and_repeat_nothing(tmp_path: Path) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=2)
    # Beside the sink of all results, one that gets those of some queries.
    chosen, some = tmp_path / "site" / "chosen", site.queries[::2]
    with site.workload.open("a") as workload:
        names = ", ".join(query.name for query in some)
        workload.write(f"CREATE SINK chosen USING parquet OPTIONS (path 'chosen') FOR {names};\n")
    guests = Churn(site, seed=31)
    with Producer(site, seed=31):
        for end in ENDS:
            for _ in range(BEFORE_EACH):
                guests.step()
            life = live(site, end, meanwhile=guests.step)
            assert not life.problem, f"{end}: {life.problem}"
            assert life.reached or end.fault is None, f"{end} did not come"
    assert guests.asked > BEFORE_EACH * len(ENDS), "no request came to a stream that ran"
    code, said = finish(site)
    assert code == 0, said
    guests.take_answers(flushed=True)
    assert (guests.waiting, guests.refused, guests.problems) == (0, [], [])
    asked, spans = guests.promised()
    assert asked
    assert site.read().late.num_rows > 0
    assert site.read().unusable.num_rows > 0
    verdict = site.judged(spans, *asked)
    assert verdict.exact, verdict
    assert {path.name for path in chosen.glob("[!._]*")} == {query.name for query in some}
    verdict = judge(some, site.events(), chosen, spans)
    assert verdict.exact, verdict
