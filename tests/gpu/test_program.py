"""The programs for a GPU, tried without one: scenes on the simulated device, reference numbers on recorded traces."""

import gzip
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="scenes are written in torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.analysis.findings.find import findings  # noqa: E402
from perfmagic.analysis.report import report  # noqa: E402
from perfmagic.analysis.timeline.activity import streams  # noqa: E402
from perfmagic.analysis.timeline.overlap import breakdown  # noqa: E402
from perfmagic.trace.columns import NONE, OpKind  # noqa: E402
from perfmagic.trace.kineto.reader import read_trace  # noqa: E402
from tests.gpu import record  # noqa: E402
from tests.gpu.cells import SCENES, play  # noqa: E402
from tests.gpu.record import provenance  # noqa: E402
from tests.gpu.reference import reference  # noqa: E402
from tests.trace.recorded import FOLDER  # noqa: E402

pytestmark = pytest.mark.slow


RECORDED = ("a100_alexnet_cuda_sync", "a100_event_sync_3streams", "gp100_gpu_user_annotation", "mi300_sglang_hipgraph")


@pytest.fixture(autouse=True)
def _device() -> None:
    perfmagic.device("sim", pace="mm=200us")


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.needs == "any"])
def test_every_scene_runs_and_its_ops_have_lines(name: str) -> None:
    trace = play(SCENES[name], "sim")
    assert len(trace.ops) > 5
    assert (trace.ops.line > 0).mean() > 0.9
    assert trace.simulated


def test_the_scenes_show_what_they_say() -> None:
    rules = {name: {f.rule for f in findings(play(SCENES[name], "sim"))} for name in ("sync_bound", "two_streams")}
    assert "sync" in rules["sync_bound"]
    assert "streams" in rules["two_streams"]
    assert len(play(SCENES["waits"], "sim").waits) == 2


@pytest.mark.parametrize("name", RECORDED)
def test_the_reference_is_what_perfmagic_finds_by_other_ways(name: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    raw.write_bytes(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))
    trace = read_trace(raw)
    expected = reference(raw)
    assert sorted(map(int, expected)) == list(trace.device_ids)
    for device in trace.device_ids:
        ops, numbers = trace.ops.select(trace.ops.device == device), expected[str(device)]
        kernels = ops.kind == OpKind.KERNEL
        parts = breakdown(trace, device)
        assert numbers["n_ops"] == len(ops)
        assert numbers["n_with_launch"] == int((ops.launch != NONE).sum())
        assert numbers["kernel_sum_ns"] == int((ops.end_ns - ops.start_ns)[kernels].sum())
        assert numbers["copied_bytes"] == int(ops.size_bytes[ops.kind == OpKind.MEMCPY].sum())
        assert (numbers["extent_ns"], numbers["busy_ns"]) == (parts.extent_ns, parts.busy_ns)
        assert numbers["busy_by_stream_ns"] == {str(s.stream): s.busy_ns for s in streams(trace, device)}


def assert_as_recorded(folder: Path) -> int:
    """Every recording of a folder reads back to the report it was stored with, and to its reference; gives how many."""
    found = sorted(folder.glob("*.json.gz"))
    for path in found:
        stored = json.loads(path.with_name(path.name.replace(".json.gz", ".expected.json")).read_text(encoding="utf-8"))
        trace = read_trace(path)
        again = json.loads(json.dumps(report(trace)))
        assert again["devices"] == stored["report"]["devices"], path.name
        for device, numbers in (stored["reference"] or {}).items():
            parts = breakdown(trace, int(device))
            assert (numbers["n_ops"], numbers["busy_ns"]) == (parts.n_ops, parts.busy_ns), path.name
    return len(found)


def test_what_is_recorded_reads_back_to_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["record", "--device", "sim", "--out", str(tmp_path)])
    monkeypatch.setattr(record, "SCENES", {name: SCENES[name] for name in ("two_streams", "memory", "graph")})
    assert record.main() == 0
    assert assert_as_recorded(tmp_path) == 2  # a graph only CUDA has
    assert "simulated device, no GPU" in (tmp_path / "PROVENANCE.md").read_text(encoding="utf-8")
    stored = tmp_path / "two_streams.expected.json"
    stored.write_text(stored.read_text(encoding="utf-8").replace('"busy_ns": ', '"busy_ns": 1', 1), encoding="utf-8")
    with pytest.raises(AssertionError):
        assert_as_recorded(tmp_path)


def test_the_recordings_of_a_gpu_that_are_kept_here_are_as_they_were_stored() -> None:
    kept = Path(__file__).resolve().parents[1] / "data" / "gpu"
    assert assert_as_recorded(kept) == len(list(kept.glob("*.expected.json")))


def test_what_ran_on_no_gpu_says_so() -> None:
    text = provenance([{"name": "x", "shows": "y", "said": "z"}], "sim")
    assert "simulated device, no GPU" in text
    assert "CUDA" not in text
