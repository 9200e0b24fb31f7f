"""Figures of runs beside subscribers that sleep and raise."""

import json

from tests.unit.bench_samples import cells, console, printed

from weft.bench.observers import ObserversBench, ObserversResult
from weft.bench.records import Seconds


def test_runs_beside_subscribers_as_table_and_json() -> None:
    result = ObserversResult(
        bench=ObserversBench(console=console()), queries=4, rows=100, batches=8, seeds=(1,),
        alone=Seconds((4.0, 5.0, 6.0)), beside=Seconds((5.0, 10.0, 4.0)), slept=3, raised=24,
    )  # fmt: skip
    shown = console()
    result.show(shown)
    text = printed(shown)
    assert cells(text, "no subscribers") == ["5.00", "4.00–6.00", "20"]
    assert cells(text, "beside them") == ["5.00", "4.00–10.00", "20"]
    assert "throughput_beside_subscribers 1.00; by rounds 0.80 (0.50–1.50)" in text
    told = json.loads(json.dumps(result.as_json()))
    assert (told["throughput"], told["throughput_by_pairs"], told["slept"], told["raised"]) == (1, 0.8, 3, 24)
    assert told["batches"] == 8
    both = ObserversResult.pooled([result, result])
    assert (both.slept, len(both.alone.runs), both.seeds) == (6, 6, (1, 1))
