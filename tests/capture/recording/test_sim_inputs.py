"""Shapes, types and values of operators' inputs in the simulated device's own record."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.analysis.replay.changes.gpu import scaled_frac  # noqa: E402
from perfmagic.analysis.timeline.origin import Source, origins  # noqa: E402
from perfmagic.base.work import Inputs  # noqa: E402
from perfmagic.predict.gpus import gpu_named  # noqa: E402
from perfmagic.trace.columns import NONE  # noqa: E402
from perfmagic.trace.model import Trace  # noqa: E402


@pytest.fixture
def _virtual() -> Iterator[None]:
    sim.load(clock="virtual")
    yield
    sim.load(clock="real")


def recorded(code: Any, **options: Any) -> Trace:
    with perfmagic.timeline(**options) as timeline:
        code()
    return timeline.result.trace


def inputs_by_name(trace: Trace) -> dict[str, set[tuple[str, str, str]]]:
    """The texts of shapes, types and values that the calls of each operator have."""
    host, found = trace.host_ops, dict[str, set[tuple[str, str, str]]]()
    columns = (host.shape, trace.input_shapes), (host.dtype, trace.input_dtypes), (host.value, trace.input_values)
    for row, name in enumerate(host.name.tolist()):
        texts = ("" if rows[row] == NONE else texts[rows[row]] for rows, texts in columns)
        found.setdefault(trace.names[name], set()).add((*texts,))
    return found


def step(device: str) -> None:
    """What the profiler records under the same names for the CPU: products, a convolution, norms, types, defaults."""
    a = torch.ones(4, 6, device=device, requires_grad=True)
    (a @ a.t()).sum().backward()
    torch.nn.functional.layer_norm(a.detach(), (6,))
    image = torch.ones(1, 2, 5, 5, device=device)
    torch.nn.functional.conv2d(image, torch.ones(3, 2, 3, 3, device=device), stride=2, padding=1)
    a.detach().bfloat16().mul(torch.tensor(2.0, device=device))
    torch.addmm(a.detach()[0, :4], a.detach(), a.detach().t())


@pytest.mark.usefixtures("_virtual")
def test_a_virtual_record_has_the_inputs_that_torchs_profiler_writes() -> None:
    step("sim")
    ours = inputs_by_name(recorded(lambda: step("sim")))
    sim.load(clock="real")
    theirs = inputs_by_name(recorded(lambda: step("cpu"), device="cpu", shapes=True))
    for name in ("mm", "addmm", "convolution", "native_layer_norm", "mul", "sum"):
        assert ours[f"aten::{name}"] <= theirs[f"aten::{name}"], name


@pytest.mark.usefixtures("_virtual")
def test_lists_of_tensors_have_their_shapes_and_the_type_of_their_members() -> None:
    a = torch.ones(2, 3, device="sim", dtype=torch.bfloat16)
    ((shapes, dtypes, values),) = inputs_by_name(recorded(lambda: torch.cat([a, a[:1]])))["aten::cat"]
    read = Inputs.read(shapes, dtypes, values)
    assert read.lists == (((2, 3), (1, 3)), ())
    assert read.dtypes == ("c10::BFloat16", "Scalar")


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.usefixtures("_virtual")
def test_each_op_of_a_block_belongs_to_an_operator_with_inputs(grad: bool) -> None:
    """Without gradients an operator of which others consist takes all of their time, and is none that launches."""
    block = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to("sim")
    x = torch.ones(2, 4, 16, device="sim")

    def run() -> None:
        with torch.inference_mode(not grad):
            out = block(x)
        if grad:
            out.sum().backward()

    trace = recorded(run)
    origin = origins(trace)
    assert set(origin.source.tolist()) == {Source.OPERATOR}
    assert NONE not in trace.host_ops.shape[origin.host_op]
    assert {"aten::native_layer_norm", "aten::native_dropout"} <= set(origin.names)
    assert not {"aten::linear", "aten::layer_norm", "aten::dropout", "aten::_unsafe_view"} & set(origin.names)
    known = replace(trace.meta.devices[0], kind="cuda", name="NVIDIA H100 80GB HBM3")
    trace = replace(trace, meta=replace(trace.meta, devices=(known,)))
    assert scaled_frac(trace, gpu_named("T4")) > 0.8


def test_the_real_clock_has_them_only_where_they_are_asked_for() -> None:
    sim.load(clock="real")
    a = torch.ones(4, 4, device="sim")
    assert recorded(lambda: a @ a).input_shapes == ()
    asked = recorded(lambda: a @ a, shapes=True)
    assert inputs_by_name(asked)["aten::mm"] == {("[[4, 4], [4, 4]]", '["float", "float"]', "")}
