"""Engines that commit to a URI and deliver to PostgreSQL as well, killed while events come in."""

from pathlib import Path

import pytest

from tests.faults.driver import Producer
from tests.faults.site import Site
from tests.faults.trial import End, finish, live
from weft.faultpoints import Fault, What

ENDS = (
    End(fault=Fault(point="hadoop.rename", nth=6, what=What.KILL)),
    End(fault=Fault(point="snapshot.visible", nth=1, what=What.KILL_JVM)),
    End(fault=Fault(point="deliver.partly", nth=12, what=What.KILL)),
)


@pytest.mark.timeout(600)
def test_kills_lose_and_repeat_nothing_on_a_uri_and_in_postgres(dsn: str, tmp_path: Path) -> None:
    site = Site.made(tmp_path / "site", files_per_batch=2, uri=True, postgres=dsn)
    with Producer(site, seed=32):
        for end in ENDS:
            life = live(site, end)
            assert not life.problem, f"{end}: {life.problem}"
            assert life.reached, f"{end} did not come"
            verdict = site.judged()
            assert verdict.sound, f"after {end}: {verdict}"
    code, said = finish(site)
    assert code == 0, said
    verdict = site.judged()
    assert verdict.exact, verdict
