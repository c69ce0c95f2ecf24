import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from perfmagic.analysis.timeline.phases import phase_headline, phases, serving_step
from perfmagic.trace.columns import HostKind
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.build import US, Builder
from tests.trace.recorded import MORE, real

pytestmark = pytest.mark.slow

SGLANG_DECODE = "step[DECODE bs=32]"
SGLANG_PREFILL = "step[EXTEND bs=15 toks=15360]"
VLLM_MIXED = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
VLLM_PREFILL = "execute_context_1(888_788544)_generation_0(0)"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


@pytest.mark.parametrize(
    ("name", "phase", "batch_size", "n_tokens"),
    [
        (VLLM_PREFILL, "prefill", 1, 888),
        ("execute_context_2(6144)_generation_3(3)", "mixed", 5, 6147),
        ("execute_context_0(0)_generation_64(256)", "decode", 64, 256),
        ("execute_context_0(0)_generation_0(0)", "other", 0, 0),
        (VLLM_MIXED, "mixed", 46, 8192),
        ("execute_new_3_cached_0", "prefill", 3, None),
        ("execute_new_0_cached_7", "decode", 7, None),
        (SGLANG_PREFILL, "prefill", 15, 15360),
        (SGLANG_DECODE, "decode", 32, 32),
        ("step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]", "decode", 64, 128),
        ("step[MIXED bs=2]", "mixed", 2, None),
        ("step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 g_sq=1 g_sk=12 g_sqsq=1]", "mixed", 2, 6),
        ("step[TARGET_VERIFY bs=4]", "other", 4, None),
        ("prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]", "prefill", 6, 17408),
        ("decode[bs=117/128 tok=117 d=117]", "decode", 117, 117),
        ("decode[bs=128 tok=384 p=2 d=126 sqsq=132612 sqsk=1114112 sk=258048 tbo=1]", "mixed", 128, 384),
        ("eager_decode[bs=3 tok=3 ctx=[5, 6, 7]]", "decode", 3, 3),
    ],
)
def test_an_annotation_says_phase_batch_and_tokens(name: str, phase: str, batch_size: int, n_tokens: int) -> None:
    assert serving_step(name) == (phase, batch_size, n_tokens)


@pytest.mark.parametrize(
    "name",
    [
        *("ProfilerStep#3", "capture_128_decode", "execute_diffusion_1_256x256", "dummy_decode[bs=8 tok=8 d=8]"),
        *("my step[DECODE bs=32]", "execute_context_1(8)", f"execute_context_1({'9' * 5000})_generation_0(0)"),
    ],
)
def test_other_annotations_mark_no_step_of_a_server(name: str) -> None:
    assert serving_step(name) is None


@pytest.mark.parametrize(
    ("file", "mark", "phase", "batch_size", "n_tokens"),
    [
        ("mi300_sglang_hipgraph", SGLANG_DECODE, "decode", 32, 32),
        ("serving/mi300_sglang_prefill_step", SGLANG_PREFILL, "prefill", 15, 15360),
        ("serving/mi300_vllm_mixed_step", VLLM_MIXED, "mixed", 46, 8192),
        ("serving/b200_vllm_prefill_step", VLLM_PREFILL, "prefill", 1, 888),
        ("mi300_sglang_prefilldecode", SGLANG_PREFILL, "prefill", 15, 15360),
        ("mi300_vllm_piecewise", VLLM_MIXED, "mixed", 46, 8192),
    ],
)
def test_the_figures_are_those_worked_out_from_the_file_alone(
    file: str, mark: str, phase: str, batch_size: int, n_tokens: int
) -> None:
    path = real(file)
    took_ns, busy_ns = swept(path, mark)
    found = phases(read_trace(path))
    (row,) = found
    assert (row.phase, row.n_steps, row.batch_size, row.n_tokens) == (phase, 1, batch_size, n_tokens)
    assert (row.step_ns, row.total_ns, found.note) == (took_ns, took_ns, "")
    assert row.window_busy_frac == pytest.approx(busy_ns / took_ns)
    assert row.tokens_per_s == pytest.approx(n_tokens * 1e9 / took_ns)


def events_of(path: Path) -> list[dict[str, Any]]:
    """The events that last, with start and end in whole ns."""
    events = [e for e in json.loads(gzip.decompress(path.read_bytes()), parse_float=str)["traceEvents"] if "dur" in e]
    for e in events:
        e["start"], e["end"] = (round(at * 1000) for at in (Decimal(e["ts"]), Decimal(e["ts"]) + Decimal(e["dur"])))
    return events


def launched_inside(events: list[dict[str, Any]], mark: dict[str, Any]) -> list[dict[str, Any]]:
    """The device ops whose launch call began inside an annotation, on its thread."""
    calls = {e["args"].get("correlation"): e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")}
    ops = [(e, calls[e["args"]["correlation"]]) for e in events if e.get("cat") in DEVICE]
    return [e for e, call in ops if call["tid"] == mark["tid"] and mark["start"] <= call["start"] < mark["end"]]


def swept(path: Path, name: str) -> tuple[int, int]:
    """From the first start to the last end of what one annotation launched, and how long any op ran meanwhile."""
    events = events_of(path)
    (mark,) = (e for e in events if e["name"] == name and e["cat"] == "user_annotation")
    ops = launched_inside(events, mark)
    start, end = min(e["start"] for e in ops), max(e["end"] for e in ops)
    busy_ns, reached = 0, start
    for e in sorted((e for e in events if e.get("cat") in DEVICE), key=lambda e: int(e["start"])):
        busy_ns += max(0, min(e["end"], end) - max(e["start"], reached))
        reached = max(reached, e["end"])
    return end - start, busy_ns


def test_the_span_is_that_of_torch_profiler_and_what_further_annotations_launched() -> None:
    path = MORE / "b200_pdl_overlaps_python_stacks.json.gz"
    if not path.exists():
        pytest.skip("shared/traces is absent: the whole of this trace is not part of this repository")
    events = events_of(path)
    on_host, on_device = (e for e in events if e["name"] == VLLM_PREFILL)
    assert (on_host["cat"], on_device["cat"]) == ("user_annotation", "gpu_user_annotation")
    ops = launched_inside(events, on_host)
    within = [e for e in events if e.get("cat") == "user_annotation" and on_host["start"] < e["start"] < on_host["end"]]
    nested = [op["start"] for mark in within for op in launched_inside(events, mark)]
    last_of_its_own = max(e["end"] for e in ops if e["start"] not in nested)
    assert on_device["start"] == pytest.approx(min(e["start"] for e in ops), abs=2)
    assert on_device["end"] == pytest.approx(last_of_its_own, abs=2)
    (row,) = phases(read_trace(path))
    assert row.total_ns == max(e["end"] for e in ops) - min(e["start"] for e in ops)
    assert row.total_ns > on_device["end"] - on_device["start"] + 400 * US


def served(b: Builder, name: str, at: float, start: float, end: float) -> None:
    """A step that the host begins at an instant and that launches one op."""
    b.host_op(at, at + 10, name, kind=HostKind.ANNOTATION)
    b.op(start, end, launch=at + 1)


def run() -> Trace:
    """One prefill of 100 µs, three decodes of 20, 30 and 22 µs, launched ahead, with 4 µs between the last two."""
    b = Builder()
    served(b, "step[EXTEND bs=2 toks=50]", 0, 5, 105)
    served(b, "step[DECODE bs=2]", 20, 105, 125)
    served(b, "step[DECODE bs=3]", 40, 125, 155)
    served(b, "step[DECODE bs=3]", 60, 159, 181)
    return b.trace()


def test_the_steps_of_a_phase_are_counted_and_their_median_and_rate_are_given() -> None:
    prefill, decode = phases(run())
    assert (prefill.phase, prefill.n_steps, prefill.step_ns, prefill.n_tokens) == ("prefill", 1, 100 * US, 50)
    assert (decode.phase, decode.n_steps, decode.step_ns, decode.total_ns) == ("decode", 3, 22 * US, 72 * US)
    assert (decode.batch_size, decode.n_tokens, decode.window_busy_frac) == (3, 8, 1.0)
    assert decode.tokens_per_s == pytest.approx(8 / 72e-6)


def test_one_sentence_has_the_phases_the_longest_first() -> None:
    assert phase_headline(phases(run())).replace("\u00a0", " ") == (
        "Prefill: 1 step of 100 µs, batch 2: 500,000 tokens/s; decode: 3 steps of 22.0 µs, batch 3: 111,000 tokens/s."
    )
    assert phase_headline(phases(Builder().trace())) == ""


def test_an_op_that_starts_before_the_step_before_has_ended_does_not_lengthen_a_step() -> None:
    b = Builder()
    served(b, "step[DECODE bs=1]", 0, 5, 105)
    served(b, "step[DECODE bs=1]", 20, 105, 125)
    b.op(30, 32, launch=23, name="Memcpy HtoD (Pinned -> Device)", stream=8)
    (row,) = phases(b.trace())
    assert (row.total_ns, row.step_ns) == (120 * US, 60 * US)


def test_of_annotations_inside_each_other_the_innermost_counts() -> None:
    b = Builder()
    b.host_op(0, 100, VLLM_MIXED, kind=HostKind.ANNOTATION)
    b.op(5, 8, launch=2)
    served(b, "step[MIXED bs=46]", 50, 60, 90)
    (row,) = phases(b.trace())
    assert (row.n_steps, row.total_ns, row.n_tokens) == (1, 30 * US, None)


def test_without_device_ops_the_times_are_the_hosts_and_a_note_says_so() -> None:
    b = Builder()
    b.host_op(0, 40, SGLANG_DECODE, kind=HostKind.ANNOTATION)
    b.op(100, 110)
    found = phases(b.trace())
    assert found[0].total_ns == 40 * US
    assert found.note == "Times are the host's: no op was launched inside the annotations"


def test_a_note_says_why_a_figure_is_missing() -> None:
    b = Builder()
    served(b, "execute_new_1_cached_0", 0, 5, 20)
    served(b, "execute_new_0_cached_1", 20, 25, 30)
    b.host_op(40, 50, "execute_new_0_cached_1", kind=HostKind.ANNOTATION)
    found = phases(b.trace())
    assert [(row.phase, row.n_steps, row.n_tokens, row.tokens_per_s) for row in found] == [
        ("prefill", 1, None, None),
        ("decode", 2, None, None),
    ]
    assert found.note == (
        "Not timed: 1 step that launched no op. Not known from the annotations: the tokens of prefill and decode steps"
    )


def test_a_step_that_the_record_holds_in_part_is_counted_and_not_timed() -> None:
    found = phases(read_trace(real("b200_pdl_overlaps_python_stacks")))  # the first 40 of 87 ms
    (row,) = found
    assert (row.n_steps, row.step_ns, row.window_busy_frac, row.tokens_per_s) == (1, None, None, None)
    assert found.note == "Not timed: 1 step that the record holds in part"
    assert phase_headline(found) == "Prefill: 1 step, batch 1."


def test_idle_steps_are_of_no_phase_that_a_sentence_names() -> None:
    b = Builder()
    served(b, "step[IDLE bs=0]", 0, 5, 20)
    found = phases(b.trace())
    assert [(row.phase, row.n_tokens) for row in found] == [("other", None)]
    assert (found.note, phase_headline(found)) == ("", "")
