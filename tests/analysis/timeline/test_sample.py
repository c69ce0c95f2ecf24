"""Files that are samples of recordings are told from whole ones, and nothing is concluded from what they lack."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import perfmagic
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.ranks.findings import rank_findings
from perfmagic.analysis.timeline.trust import sample, trust
from perfmagic.trace.columns import CallKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import Builder
from tests.analysis.findings.build import plain
from tests.trace.recorded import ALL, real, real_trace

pytestmark = pytest.mark.slow

SAMPLED = ("sampled_rank0of128", "sampled_rank1of128")


def launches(n: int, *, apart: int, syncs: bool = False) -> Trace:
    """n launches of an op each, every `apart`-th number of a call kept; with as many synchronisations or none."""
    b = Builder()
    for i in range(n):
        b.launch(10 * i, correlation=apart * i + 1)
        b.op(10 * i + 5, 10 * i + 8, of=apart * i + 1)
        if syncs:
            b.launch(10 * i + 2, correlation=apart * i + 2, name="cudaEventQuery", kind=CallKind.OTHER)
    return b.trace()


@pytest.mark.parametrize("name", SAMPLED)
def test_a_sample_is_recognised_by_the_numbers_of_its_calls_as_the_file_has_them(name: str) -> None:
    events = json.loads(gzip.decompress(real(name).read_bytes()))["traceEvents"]
    ids = {e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"}
    launched = ids & {e["args"]["correlation"] for e in events if str(e.get("cat")).startswith(("kernel", "gpu_mem"))}
    trace = real_trace(name)
    found = sample(trace)
    numbers = {"n_calls": len(ids), "n_call_numbers": max(ids) - min(ids) + 1, "n_calls_with_op": len(launched)}
    assert found.numbers == numbers
    assert trust(trace).sentences[0] == found.words
    first = findings(trace)[0]
    assert (first.rule, first.cost_ns) == ("verdict", None)
    assert plain(first.sentence).startswith("no verdict: the file looks like a sample of a recording")
    assert {finding.rule for finding in findings(trace)} <= {"verdict", "race", "queue_full", "clocks", "incomplete"}


def test_whole_recordings_are_no_samples() -> None:
    names = [name for name in ALL if name not in SAMPLED]
    assert len(names) > 20
    assert [name for name in names if sample(read_trace(real(name)))] == []


def test_few_calls_near_numbers_or_calls_that_execute_nothing_are_no_sample() -> None:
    assert sample(launches(300, apart=100)) is not None
    assert sample(launches(150, apart=100)) is None
    assert sample(launches(300, apart=40)) is None
    assert sample(launches(300, apart=200, syncs=True)) is None


def test_samples_are_compared_by_the_mean_of_a_run_and_what_they_lack_is_no_change() -> None:
    a, b = (perfmagic.open_trace(real(name)) for name in SAMPLED)
    found = perfmagic.compare(a, b)
    assert found.no_verdict.startswith("A and B lack parts of their recordings")
    assert "sample" in found.notes[0]
    assert len(found.replaced) == 0
    assert [part.name for part in found.idle] == ["unexplained"]
    text = plain(found.text(details=True))
    for word in ("new:", "gone:", "other shape", "Replaced"):
        assert word not in text
    files = [json.loads(gzip.decompress(real(name).read_bytes()))["traceEvents"] for name in SAMPLED]
    means = [
        np.mean([e["dur"] for e in events if e.get("cat") == "kernel" and "SendRecv" in e["name"]]) for events in files
    ]
    assert f"{means[0] / 1000:.1f} ms  {means[1] / 1000:.1f} ms" in text
    assert all(len(line) <= 100 for line in found.text().splitlines())


def test_a_whole_recording_is_not_judged_against_a_sample() -> None:
    whole, part = launches(300, apart=2), launches(300, apart=100)
    found = perfmagic.compare(perfmagic.TimelineResult(whole), perfmagic.TimelineResult(part))
    assert found.no_verdict.startswith("B lacks a part of its recording")


def test_ranks_that_are_samples_are_not_compared() -> None:
    whole = launches(300, apart=2)
    ranks = [
        replace(trace, meta=replace(trace.meta, rank=i, world_size=2))
        for i, trace in enumerate((whole, launches(300, apart=100)))
    ]
    (finding,) = rank_findings(ranks)
    assert (finding.rule, finding.ranks, finding.cost_ns) == ("sample", (1,), None)


def test_a_cut_file_has_no_verdict_alone_and_none_beside_the_whole_one(tmp_path: Path) -> None:
    whole = real("a100_nccl_rank0of2")
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(Path(whole).read_bytes()[:400_000])
    first, second = (perfmagic.open_trace(each) for each in (whole, cut))
    assert second.answers.decides == "Open: the file is cut, and the rest of the recording is missing"
    assert "Copy or export the file again" in second.text()
    found = perfmagic.compare(first, second)
    assert found.no_verdict.startswith("B lacks a part of its recording")


def test_a_file_cut_before_its_device_ops_is_not_one_without_a_device(tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(gzip.decompress(Path(real("a100_nccl_rank0of2")).read_bytes())[:100_000])
    found = perfmagic.open_trace(cut)
    assert not len(found.trace.ops)
    assert "the file is cut" in found.text()
    assert "ProfilerActivity" not in found.text()
