"""Which findings speak about a predicted run, and which do not."""

import re
from collections.abc import Callable

import pytest
import torch

import perfmagic
from perfmagic.results import TimelineResult
from tests.sim.test_named_gpu import recorded


def rules(t: TimelineResult) -> set[str]:
    return {finding.rule for finding in t.findings}


def ran(body: Callable[[torch.device], object], gpu: str = "A100") -> TimelineResult:
    device = perfmagic.device(gpu)
    return recorded(lambda: body(device))


def products(device: torch.device) -> object:
    x = torch.ones(1024, 1024, device=device)
    return [x @ x for _ in range(10)]


def small_sums(device: torch.device) -> object:
    x = torch.ones(16, device=device)
    return [x + 1 for _ in range(200)]


@pytest.mark.slow
def test_products_of_float32_could_be_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    t = ran(products)
    assert "tensor_cores" in rules(t)
    assert t.answers.answers[0].action.startswith('Call torch.set_float32_matmul_precision("high")')
    (row,) = [row for row in t.device_operators() if row.name == "aten::mm"]
    assert (row.compute, row.peak_flop_per_s) == ("fp32", 19.5e12)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        t = ran(products)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert "tensor_cores" not in rules(t)
    (row,) = [row for row in t.device_operators() if row.name == "aten::mm"]
    assert (row.compute, row.peak_flop_per_s) == ("tf32", 156e12)


def test_no_gpu_without_tensor_cores_is_told_to_use_them() -> None:
    assert "tensor_cores" not in rules(ran(products, "P100"))


@pytest.mark.parametrize(("gpu", "said"), [("T4", True), ("H100", False)])
def test_a_gpu_without_fused_attention_for_bfloat16_is_named(gpu: str, said: bool) -> None:
    def attend(device: torch.device) -> object:
        q = torch.rand(8, 8, 256, 64, device=device, dtype=torch.bfloat16)
        return [torch.nn.functional.scaled_dot_product_attention(q, q, q) for _ in range(4)]

    found = {finding.rule: finding for finding in ran(attend, gpu).findings}
    assert ("eager_attention" in found) == said
    if said:
        finding = found["eager_attention"]
        assert f"{gpu} has no fused attention for bfloat16" in str(finding.advice)
        assert finding.action == "Use torch.autocast to float16"


def test_a_vector_product_is_described_by_the_memory() -> None:
    device = perfmagic.device("H100")
    x, w = torch.ones(1, 4096, device=device), torch.ones(4096, 4096, device=device)
    t = recorded(lambda: [x @ w for _ in range(4)])
    assert "of 3.35\u00a0TB/s" in t.text(details=True)
    assert "tensor_cores" not in rules(t)


def test_tiny_kernels_and_launches_are_found() -> None:
    t = ran(small_sums, "H100")
    assert {"tiny_kernels", "many_gaps"} <= rules(t)
    actions = [answer.action for answer in t.answers.answers]
    assert "Use torch.compile, or capture the step with CUDA graphs" in actions
    assert "the simulated device cannot" not in t.text(details=True)


def test_a_pace_by_hand_says_nothing_about_kernels() -> None:
    device = perfmagic.device(clock="virtual", pace="mm=1ms")
    x = torch.ones(64, 64, device=device)
    t = recorded(lambda: [x @ x for _ in range(10)])
    assert rules(t).isdisjoint({"tiny_kernels", "tensor_cores", "device_time"})


def test_rules_about_names_of_kernels_say_why_they_are_silent() -> None:
    t = ran(products)
    for rule in ("unaligned_gemm", "low_occupancy"):
        assert "a prediction has no names and grids of kernels" in str(perfmagic.explain(t, rule))


def test_nobody_is_sent_to_python_that_takes_no_time() -> None:
    device = perfmagic.device("H100")
    linear = torch.nn.Linear(8, 8, device=device)
    x = torch.ones(8, 8, device=device)
    t = recorded(lambda: [linear(linear(x)).sum().item() for _ in range(20)])
    assert "t.flame()" not in t.text()


def test_eager_attention_is_found() -> None:
    def attention(device: torch.device) -> object:
        q = torch.ones(8, 512, 64, device=device, dtype=torch.float16)
        return [torch.bmm(torch.softmax(torch.bmm(q, q.transpose(1, 2)), -1), q) for _ in range(5)]

    assert "eager_attention" in rules(ran(attention))


def test_a_roofline_has_the_peaks_of_the_table() -> None:
    text = ran(products).roofline().text()
    assert "predicted for A100 SXM4 80 GB, not recorded" in " ".join(text.split())
    assert "A100 data sheet" in text


def test_softmax_and_casts_of_a_model_are_fused_with_their_gain() -> None:
    def body(device: torch.device) -> object:
        x = torch.empty(4096, 4096, device=device)
        return [(x * 2).softmax(-1).to(torch.bfloat16).float() for _ in range(20)]

    answers = ran(body, "H100").answers
    first = answers.answers[0]
    line = answers.text().partition(first.headline)[2].splitlines()[0]
    assert not re.search(r"\d\d\.\d|[1-9]\.\d\d|\d\d[1-9]", line)  # two significant digits, 110 µs among them
    assert (first.headline, first.rules) == ("Elementwise kernels and softmax run one after another", ("device_time",))
    assert first.after_ns is not None
    assert 0 < first.after_ns < first.before_ns


def test_an_open_run_asks_for_no_recording_that_needs_the_gpu() -> None:
    def body(device: torch.device) -> object:
        x = torch.empty(144, 144, 144, device=device)
        return [x.sum(-1) for _ in range(200)]

    t = ran(body, "H100")
    assert t.verdict.kind == "open"
    assert "DeviceModel" not in t.answers.text()
    assert "DeviceModel.fit()" in t.verdict.detail


def kernels_of(program: Callable[[], object]) -> list[str]:
    with perfmagic.timeline() as t:
        program()
    return [t.result.trace.names[name] for name in t.result.trace.ops.name]


def test_rms_norm_is_one_kernel_each_way_with_the_gradients_of_its_parts() -> None:
    x, weight = torch.rand(2, 3, 8), torch.rand(8)
    ours = [t.to(perfmagic.device("H100")).requires_grad_() for t in (x, weight)]
    results: list[torch.Tensor] = []

    def forward() -> None:
        results.append(torch.nn.functional.rms_norm(ours[0], (8,), ours[1], 1e-6))

    assert kernels_of(forward) == ["_fused_rms_norm"]
    grad = torch.rand(2, 3, 8)
    theirs = grad.to(ours[0].device)
    assert kernels_of(lambda: results[0].backward(theirs)) == ["_fused_rms_norm_backward"]
    x.requires_grad_()
    weight.requires_grad_()
    torch.nn.functional.rms_norm(x, (8,), weight, 1e-6).backward(grad)
    for there, here in zip(ours, (x, weight), strict=True):
        assert there.grad is not None
        torch.testing.assert_close(there.grad.cpu(), here.grad)


def test_what_is_written_by_name_is_read_by_no_kernel() -> None:
    x = torch.ones(1 << 24, device=perfmagic.device("H100"))
    out = torch.empty_like(x)

    def time_ns(program: Callable[[], object]) -> int:
        with perfmagic.timeline() as t:
            program()
        return int(t.result.kernels()[0].total_ns)

    assert time_ns(lambda: torch.add(x, x, out=out)) == time_ns(lambda: torch.add(x, x))


def test_a_module_called_by_keyword_takes_as_long_as_another() -> None:
    device = perfmagic.device("H100")
    linear, x = torch.nn.Linear(8, 8, device=device), torch.ones(8, 8, device=device)

    def time_ns(program: Callable[[], object]) -> int:
        with perfmagic.timeline() as t:
            program()
        return t.result.trace.meta.end_ns - t.result.trace.meta.start_ns

    assert time_ns(lambda: linear(input=x)) == time_ns(lambda: linear(x))


def test_a_copy_to_another_type_is_of_pageable_memory_in_that_type() -> None:
    target = torch.empty(1000, device=perfmagic.device("H100"))
    source = torch.ones(1000, dtype=torch.float16).pin_memory()
    with perfmagic.timeline() as t:
        target.copy_(source, non_blocking=True)
    (copy,) = t.result.copies()
    assert (copy.name, copy.size_bytes) == ("Memcpy HtoD (Pageable -> Device)", 4000)
    assert target.cpu().eq(1).all()
