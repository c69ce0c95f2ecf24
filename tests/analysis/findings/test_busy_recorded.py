"""What sentences say of recorded traces, beside figures that are counted in the files' JSON."""

import re
from collections import Counter
from functools import lru_cache
from statistics import median

import pytest

from perfmagic.analysis.findings.answers import find_answers
from perfmagic.analysis.findings.catalogue import action, decider_key
from perfmagic.analysis.findings.communication import describe_traffic
from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.analysis.findings.gaps import repeated_gap_queued
from perfmagic.analysis.findings.kernels import claim
from perfmagic.analysis.timeline.trust import incomplete_graphs
from perfmagic.base.units import bandwidth, count, duration, percent, size
from perfmagic.trace.kineto.reader import read_trace
from tests.analysis.findings.build import first_finding
from tests.analysis.findings.raw import Raw, length, span
from tests.trace.recorded import ALL, real, real_trace

pytestmark = pytest.mark.slow

ELEMENTWISE = re.compile(r"elementwise|CatArray|fill", re.IGNORECASE)


@lru_cache(maxsize=4)
def found(name: str) -> tuple[Finding, ...]:
    return findings(real_trace(name))


def said(name: str, rule: str) -> str:
    """The sentences of a rule."""
    return " | ".join(one.sentence for one in found(name) if one.rule == rule)


def us(value: float) -> str:
    return duration(round(value * 1000))


@pytest.mark.parametrize("name", ["h100_qwen_orphans", "mi300_qwen"])
def test_elementwise_kernels_lead_where_they_are_most_of_the_time_with_what_has_no_operator(name: str) -> None:
    raw = Raw.of(name)
    whole = sum(float(op["dur"]) for op in raw.ops)
    mine = sum(float(op["dur"]) for op in raw.ops if ELEMENTWISE.search(op["name"]))
    lone = sum(float(op["dur"]) for op in raw.ops if raw.launch(op) is None)
    sentence = said(name, "device_time")
    assert sentence.startswith(
        f"device time: elementwise kernels took {us(mine)} of {us(whole)} ({percent(mine / whole)}), "
        "the longest operator is aten::mul in 5 shapes, "
    )
    share = f"{us(lone)} ({percent(lone / whole)})"
    assert f"{share} has no recorded operator: the launches are not in the record" in sentence
    assert "the longest operator is kernel" not in sentence
    assert "torch.compile fuses adjacent kernels" in sentence


def test_communication_is_no_operator_and_has_the_bandwidth_of_its_recorded_sizes() -> None:
    raw = Raw.of("mi300_resnet_2streams")
    nccl = [op for op in raw.ops if "nccl" in op["name"]]
    both = sum(float(op["dur"]) for op in nccl)
    sized = [op for op in nccl if op["args"].get("Collective name") == "allreduce"]
    sent = sum(2 * op["args"]["In msg nelems"] for op in sized)  # bfloat16
    took = sum(float(op["dur"]) for op in sized) * 1000
    (ranks,) = {op["args"]["Group size"] for op in sized}
    assert f"device time: communication took {us(both)} of " in said("mi300_resnet_2streams", "device_time")
    assert "nccl" not in said("mi300_resnet_2streams", "device_time")
    on_links = bandwidth(sent * 2 * (ranks - 1) / ranks, took)
    words = said("mi300_resnet_2streams", "exposed_communication")
    assert f"The longest collective, all_reduce ×{len(sized)}, moved {size(sent)} in {duration(took)}: " in words
    assert (
        f"{bandwidth(sent, took)}, {on_links} on the links of this rank, including time spent waiting for other ranks"
        in words
    )


def test_many_short_all_reduces_that_python_launches_late_are_named_with_their_gain() -> None:
    raw = Raw.of("v100_fsdp_memory_events")
    nccl = [op for op in raw.ops if "nccl" in op["name"]]
    steps = [e for e in raw.events if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"]
    sentence = said("v100_fsdp_memory_events", "exposed_communication")
    half = us(median(float(op["dur"]) for op in nccl))
    assert f"{count(len(nccl) / len(steps))} a step, with a median duration of {half}" in sentence
    # Python is late between most of them: their own length says nothing of that
    assert "so their size decides" not in sentence
    assert "Fixing this saves at most" in sentence


def test_compiled_launches_are_not_advised_to_be_compiled() -> None:
    sentence = said("v100_fsdp_memory_events", "one_by_one")
    assert "Compiled code made most of these launches, but no fused kernel is among them" in sentence
    raw = Raw.of("v100_fsdp_memory_events")
    assert not any(op["name"].startswith("triton_") for op in raw.ops)
    compiled = [span(e) for e in raw.named("CompiledFunction", "CompiledFunctionBackward")]
    launches = [float(call["ts"]) for op in raw.ops if (call := raw.launch(op))]
    assert 2 * sum(any(a <= at < b for a, b in compiled) for at in launches) > len(launches)


def test_a_pause_before_a_graph_that_comes_six_times_is_found_where_the_record_is_trusted() -> None:
    raw = Raw.of("a100_6streams_graphs_rank0")
    long = [(before, gap, behind) for before, gap, behind in raw.gaps if gap[1] - gap[0] > 20_000]
    assert {behind["name"] for _, _, behind in long} == {"Memset (Device)"}
    launches = {call["name"] for *_, behind in long if (call := raw.launch(behind))}
    lengths = [b - a for _, (a, b), _ in long]
    assert launches == {"cudaGraphLaunch"}
    facts = Facts(real_trace("a100_6streams_graphs_rank0"))
    sentence = " | ".join(one.sentence for one in repeated_gap_queued(facts, facts.cell_time.not_busy))
    assert f"recurring gap ×{len(long)} between " in sentence
    assert f"waited {us(sum(lengths))} with work queued" in sentence
    assert f"({us(min(lengths))} to {us(max(lengths))}). The next op is the first of a graph launch" in sentence


def test_the_broadcast_of_buffers_before_each_forward_is_named_with_the_option() -> None:
    raw = Raw.of("a100_nccl_rank0of2")
    spans = [span(e) for e in raw.named("aten::unflatten_dense_tensors")]
    inside = [gap for _, gap, _ in raw.gaps if any(min(b, gap[1]) - max(a, gap[0]) > 1000 for a, b in spans)]
    of_nccl = found("a100_nccl_rank0of2")
    (finding,) = (f for f in of_nccl if f.rule == "repeated_gap" and "broadcast_buffers=False" in f.advice)
    assert f"×{len(spans)} before Memcpy DtoD" in finding.sentence
    assert finding.cost_ns == pytest.approx(1000 * sum(b - a for a, b in inside), rel=0.01)
    unflattened = sum(b - a for a, b in spans)
    assert unflattened > 0.5 * finding.cost_ns / 1000


def test_a_custom_operator_is_not_advised_to_be_compiled_and_recorded_stacks_are_a_caveat() -> None:
    raw = Raw.of("b200_pdl_overlaps_python_stacks")
    assert sum(e["cat"] == "python_function" for e in raw.events) > 1000
    assert "Python's stacks were recorded, which slows Python" in said("b200_pdl_overlaps_python_stacks", "verdict")
    assert "stacks were recorded" not in said("a100_nccl_rank0of2", "verdict")
    gap = said("b200_pdl_overlaps_python_stacks", "repeated_gap")
    assert "torch.compile cannot see into the operator vllm::moe_forward" in gap
    assert "torch.compile or CUDA graphs remove" not in gap


def test_a_call_before_the_first_op_is_one_finding_on_start_up() -> None:
    raw = Raw.of("a100_alexnet_cuda_sync")
    first = float(raw.ops[0]["ts"])
    longest = max((e for e in raw.calls.values() if float(e["ts"]) < first), key=lambda e: float(e["dur"]))
    (start_up,) = (one for one in found("a100_alexnet_cuda_sync") if one.rule == "alone")
    assert f"{us(float(longest['dur']))} of it in one {longest['name']}" in start_up.sentence
    assert start_up.cost_ns is None
    assert said("a100_alexnet_cuda_sync", "tensor_cores") == ""  # 5 ms of 43 s
    assert not any(one.cause == "start-up" for one in found("a100_nccl_rank0of2"))


def test_time_outside_of_every_operator_is_said_of_a_record_of_the_host() -> None:
    spans = [span(e) for e in Raw.of("cpu_only_no_device_props").events if e["cat"] == "cpu_op"]
    whole = max(b for _, b in spans) - min(a for a, _ in spans)
    outside = whole - length(spans)
    part = f"{percent(outside / whole)} of the record, {us(outside)} of {us(whole)}"
    sentence = said("cpu_only_no_device_props", "verdict")
    assert f"{part}, passed outside of every recorded operator. The longest annotations: " in sentence
    (backward,) = Raw.of("cpu_only_no_device_props").named("## backward ##")
    start, end = span(backward)
    bare = end - start - length([(max(a, start), min(b, end)) for a, b in spans if a < end and b > start])
    assert f"## backward ## {us(end - start)} ({us(bare)} of it without a recorded operator)" in sentence
    longest = max(float(e["dur"]) for e in Raw.of("cpu_only_no_device_props").named("aten::item"))
    assert f"({us(longest)} in one of " in sentence


def test_a_rate_measured_on_a_hundredth_of_the_products_is_left_out() -> None:
    raw = Raw.of("a100_6streams_graphs_rank0")
    mine = [op for op in raw.ops if re.search(r"align[12](?!\d)", op["name"])]
    launched = [op for op in mine if (call := raw.launch(op)) and "Graph" not in call["name"]]
    assert 0 < sum(float(op["dur"]) for op in launched) < 0.1 * sum(float(op["dur"]) for op in mine)
    sentence = said("a100_6streams_graphs_rank0", "unaligned_gemm")
    assert f"{len(mine)} kernels read one or two elements" in sentence
    assert "FLOP/s" not in sentence


def test_the_first_copy_holds_the_start_of_the_device_and_is_not_counted() -> None:
    raw = Raw.of("v100_2021_old_categories")
    copies = [raw.launch(op) for op in raw.ops if "HtoD" in op["name"] and "Pageable" in op["name"]]
    held = [float(call["dur"]) for call in copies if call]
    sentence = said("v100_2021_old_categories", "pageable")
    assert f"{len(held) - 1} pageable HtoD copies blocked Python for" in sentence
    # by the raw file: 3 calls and the 3 waits behind them, without the first call of 40 ms and its wait of 49 µs
    assert "for 3.21\u00a0ms, 77.0\u00a0µs of that in the wait" in sentence
    assert f"Another copy, the first op of the device, blocked Python for {us(held[0])} and is not counted" in sentence


def test_what_ops_launched_one_by_one_lose_is_every_gap_between_them() -> None:
    raw, whole, run, n = Raw.of("gp100_gpu_user_annotation"), 0.0, 0.0, 0
    for _, (start, end), behind in raw.gaps:
        call = raw.launch(behind)
        if call and float(call["ts"]) >= start and end - start < 200:
            run, n = run + end - start, n + 1
        else:
            whole, run, n = whole + run * (n >= 9), 0.0, 0
    assert len(raw.gaps) == len(raw.ops) - 1  # each op ends a gap, so that a run of gaps is a run of ops
    lost_ns = sum(one.lost_ns for one in Facts(real_trace("gp100_gpu_user_annotation")).one_by_one)
    assert duration(lost_ns) == us(whole + run * (n >= 9))


def test_causal_attention_reached_half_the_rate_of_all_its_products() -> None:
    raw = Raw.of("h100_qwen_orphans")
    calls = raw.named("aten::_scaled_dot_product_flash_attention")
    assert {call["args"]["Concrete Inputs"][4] for call in calls} == {"True"}
    (b, heads, n, d), *_ = calls[0]["args"]["Input Dims"]
    took = sum(float(op["dur"]) for op in raw.ops if "aten::_scaled_dot_product_flash_attention" in raw.around(op))
    rate = len(calls) * 2 * b * heads * 2 * d * n * (n + 1) / 2 / took / 1e6
    assert f"at {rate:.1f} of 990\u00a0TFLOP/s" in said("h100_qwen_orphans", "device_time")


def test_attention_has_the_products_around_each_softmax_and_no_other_answer_has_them() -> None:
    raw = Raw.of("h100_timesformer")
    softmax = [i for i, op in enumerate(raw.ops) if raw.around(op)[-1:] == ["aten::_softmax"]]
    products = [i for i, op in enumerate(raw.ops) if raw.around(op)[-1:] == ["aten::bmm"]]
    spans = [(max(i for i in products if i < at), min(i for i in products if i > at)) for at in softmax]
    rows = sorted({row for first, last in spans for row in range(first, last + 1)})
    sentence = said("h100_timesformer", "eager_attention")
    assert f"separate kernels, {us(sum(float(raw.ops[row]['dur']) for row in rows))} of " in sentence
    n_unaligned = sum("align1" in raw.ops[row]["name"] for row in rows)
    assert f"{n_unaligned} unaligned products took " in sentence
    actions = [answer.action for answer in find_answers(real_trace("h100_timesformer")).answers]
    assert action("sdpa") in actions
    assert action("pad") not in actions
    # preprocess() runs in step 6, nearly all the time before its first op: each step pays it
    assert actions[0] == action("prepare_ahead")
    assert decider_key(find_answers(real_trace("h100_timesformer")).decides) == "start-up, in a step"


def test_a_gpu_under_another_name_takes_tf32_by_its_compute_capability() -> None:
    raw = Raw.of("a100_segment_anything")
    products = sum(float(op["dur"]) for op in raw.ops if "sgemm" in op["name"])
    found = first_finding(real_trace("a100_segment_anything"), "tensor_cores")
    assert found is not None
    assert found.action == action("tf32")
    # some of them are part of attention, which has a finding of its own
    claimed_us = claim(Facts(real_trace("a100_segment_anything"), None), "tensor_cores").ops_ns / 1e3
    assert 0.9 * products < claimed_us <= products


@pytest.mark.parametrize("name", ALL)
def test_what_costs_nothing_names_no_loss(name: str) -> None:
    causes: Counter[str] = Counter()
    for one in findings(read_trace(real(name))):
        if one.cost_ns == 0:
            causes[one.rule] += 1
            assert "then waited" not in one.sentence
            assert "ran nothing" not in one.sentence
            busy = re.search(r"was busy >?<?(\d+)", one.sentence)
            assert busy is None or int(busy[1]) >= 95, one.sentence
    assert "streams" not in causes


def test_a_file_that_names_no_groups_has_no_bandwidth_of_links() -> None:
    raw = Raw.of("a100_6streams_graphs_rank0")
    assert not any("Process Group Name" in op["args"] for op in raw.ops)
    sizes = [e["args"]["Input Dims"][0][0] for e in raw.named("nccl:all_reduce")]
    words = describe_traffic(Facts(real_trace("a100_6streams_graphs_rank0")))
    assert f"the longest collective, all_reduce ×{len(sizes)}, moved {size(4 * sum(sizes))}" in words
    assert "on the links" not in words


@pytest.mark.parametrize("name", ["v100_2021_old_categories", "v100_fsdp_memory_events"])
def test_gradients_that_are_filled_with_zeros_are_named_with_what_fills_them(name: str) -> None:
    raw = Raw.of(name)
    inside = [span(e) for e in raw.events if str(e.get("name")).startswith("Optimizer.zero_grad#") and "dur" in e]
    fills = [
        op
        for op in raw.ops
        if (call := raw.launch(op)) and any(a <= float(call["ts"]) < b for a, b in inside)
    ]  # fmt: skip
    sentence = said(name, "zero_grad")
    assert sentence.startswith(
        f"gradients set to zero: {count(len(fills))} ops of {us(sum(float(op['dur']) for op in fills))} fill them"
    )
    assert "set_to_none=True" in sentence


def test_the_most_exposed_op_is_named_and_not_the_longest() -> None:
    raw = Raw.of("v100_4streams_nccl_step")
    copies = [op for op in raw.ops if op["name"].startswith("Memcpy")]
    compute = [span(op) for op in raw.ops if not op["name"].startswith("Mem") and "nccl" not in op["name"]]
    alone = {i: length([span(op), *compute]) - length(compute) for i, op in enumerate(copies) if op["dur"] > 500}
    most = max(alone, key=alone.__getitem__)
    part = f"{us(alone[most])} of {us(float(copies[most]['dur']))}"
    assert f"ops is a DtoD copy: {part}" in said("v100_4streams_nccl_step", "exposed_copy")
    assert float(copies[most]["dur"]) < max(float(op["dur"]) for op in copies)


def test_one_gap_at_the_beginning_is_separated_from_what_follows() -> None:
    raw = Raw.of("mi300_sglang_hipgraph")
    _, (start, end), _ = max(raw.gaps, key=lambda gap: gap[1][1] - gap[1][0])
    before = [op for op in raw.ops if float(op["ts"]) < end]
    after = [span(op) for op in raw.ops if float(op["ts"]) >= end]
    busy = length(after) / (max(b for _, b in after) - end)
    words = said("mi300_sglang_hipgraph", "verdict")
    assert len(before) == 1
    assert f"{us(end - start)} of the idle time is one gap behind the first op of {count(len(raw.ops))}" in words
    assert f"after it the device was busy {percent(busy)}" in words


def test_pauses_inside_graphs_make_a_record_without_a_verdict() -> None:
    raw = Raw.of("a100_6streams_graphs_rank0")
    inside = [
        (behind["args"]["correlation"], gap[1] - gap[0])
        for before, gap, behind in raw.gaps
        if gap[1] - gap[0] >= 100
        and before["args"].get("correlation") == behind["args"].get("correlation")
        and (call := raw.launch(behind))
        and call["name"] == "cudaGraphLaunch"
    ]
    words = said("a100_6streams_graphs_rank0", "verdict")
    n = len({launch for launch, _ in inside})
    assert (
        f"within at least {n} graph launches nothing is recorded for at least {us(sum(one for _, one in inside))}, "
        in words
    )
    assert {one.rule for one in found("a100_6streams_graphs_rank0")} == {"verdict", "unaligned_gemm", "queue_full"}
    assert incomplete_graphs(real_trace("v100_4streams_nccl_graphs")) is None


def test_copies_of_ddp_s_own_are_left_out_by_its_options_and_not_by_a_compiler() -> None:
    raw = Raw.of("a100_nccl_rank0of2")
    (finding,) = (one for one in found("a100_nccl_rank0of2") if one.rule == "one_by_one")
    around = [raw.around(op)[-1:] for op in raw.ops if "DtoD" in op["name"]]
    assert set(map(tuple, around)) == {("aten::copy_",)}
    said_of = dict(re.findall(r"([\d,]+) of them copy (gradients|buffers)", finding.advice))
    n_ops = re.match(r"([\d,]+) ops", finding.sentence)
    assert n_ops is not None
    assert sum(int(n.replace(",", "")) for n in said_of) == int(n_ops[1].replace(",", ""))
    assert sum(int(n) for n in said_of) <= len(around)
    assert "gradient_as_bucket_view=True" in finding.advice
    assert "broadcast_buffers=False" in finding.advice
    assert "torch.compile" not in finding.advice
