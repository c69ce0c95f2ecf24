"""Files from before a prediction was data have it in words: they say the same."""

import json
from dataclasses import replace

from perfmagic.analysis.bench.result import BenchSummary
from perfmagic.base.kinds import PredictedFor
from perfmagic.trace.model import DeviceInfo, with_models
from tests.view.bench.test_bench import result

MODEL = PredictedFor("H100 SXM", 1.4, "run.json.gz")


def test_a_device_of_an_older_file_is_of_the_model_that_its_pace_names() -> None:
    paces = [f"virtual clock: {MODEL.words}", MODEL.words, "paced: mm ≥ 1 ms", "", f"{MODEL.words}; then unpaced"]
    older = tuple(DeviceInfo(0, "sim", "sim", pace) for pace in paces)
    assert [info.predicted for info in with_models(older)] == [MODEL, MODEL, None, None, None]
    newer = replace(older[2], predicted=MODEL)
    assert with_models((newer,)) == (newer,)


def test_a_benchmark_of_an_older_file_is_of_the_model_that_its_label_names() -> None:
    saved = json.loads(replace(result(), device_label=MODEL.words).to_json())
    del saved["predicted_for"]
    assert BenchSummary.from_json(json.dumps(saved)).predicted_for == MODEL
