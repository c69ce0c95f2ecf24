"""%%timeline --on H100,A100,T4: a cell written for CUDA runs once, unmodified, on GPUs that are not there."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the cells use it")

import perfmagic  # noqa: E402 - after the skip
from perfmagic import sim  # noqa: E402
from perfmagic.base.clock import virtual_clock  # noqa: E402
from perfmagic.base.errors import OptionError  # noqa: E402
from perfmagic.base.units import NBSP  # noqa: E402
from perfmagic.results.on_gpus import OnGpusResult  # noqa: E402

from .conftest import Notebook  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="what is checked is how it looks without CUDA"),
]

STEP = """
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
net = torch.nn.Linear(256, 256).to(device)
x = torch.randn(64, 256, device=device)
loss = net(x).square().mean()
loss.backward()
print("ran on", x.device, loss.item() > 0)
"""


@pytest.fixture
def cells(notebook: Notebook) -> Iterator[Notebook]:
    assert notebook.run("import torch, perfmagic\nkept = torch.ones(4, 4)").error is None
    yield notebook
    perfmagic.device("sim", clock="real", memory=0)
    sim.set_pace(None)


def result(cells: Notebook, body: str, head: str = "%%timeline --on H100,A100,T4 -o t") -> Any:
    ran = cells.run(f"{head}\n{body}")
    assert ran.error is None, ran.traceback
    return cells.shell.user_ns["t"]


def test_the_cell_runs_once_and_each_gpu_has_a_row(cells: Notebook) -> None:
    ran = cells.run(f"%%timeline --on H100,A100,T4 -o t{STEP}")
    assert ran.printed.count("ran on cuda:0 True") == 1
    t = cells.shell.user_ns["t"]
    assert isinstance(t, OnGpusResult)
    assert [row.gpu for row in t.table] == ["H100 SXM", "A100 SXM4 80 GB", "T4"]
    assert t.on("t4") is t.timelines[2]
    assert all(row.low_ns < row.time_ns < row.high_ns for row in t.table)
    for words in ("H100 SXM", "T4", "not recorded", "of 16 GB"):
        assert all(words in text.replace(NBSP, " ") for text in (ran.report, ran.outputs[0]["text/html"], t.markdown()))
    assert t.to_dict()["gpus"][2]["time_ns"] == t.timelines[2].trace.meta.end_ns


def test_one_gpu_is_its_device_under_the_plain_magic(cells: Notebook) -> None:
    on = result(cells, STEP, "%%timeline --on A100 -o t")
    cells.run('there = perfmagic.device("A100")')
    plain = result(cells, STEP.replace('"cuda" if torch.cuda.is_available() else "cpu"', "there"), "%%timeline -o t")
    assert on.trace.ops.start_ns.tolist() == plain.trace.ops.start_ns.tolist()
    assert on.trace.ops.end_ns.tolist() == plain.trace.ops.end_ns.tolist()
    assert on.trace.meta.devices == plain.trace.meta.devices


MEANS_THE_DEVICE = """
model = torch.nn.Linear(4, 4).cuda()
assert next(model.parameters()).is_cuda and model.weight.device.type == "cuda"
assert kept.cuda(0).device == torch.device("cuda", 0) == kept.to("cuda:0").device == torch.ones(1, device=0).device
assert torch.zeros_like(kept.cuda()).new_ones(2).is_cuda and not kept.is_cuda
stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
with torch.cuda.stream(stream):
    event.record()
    y = model(kept.pin_memory().cuda(non_blocking=True))
torch.cuda.current_stream().wait_stream(stream)
torch.cuda.synchronize()
assert event.query() and isinstance(stream, torch.cuda.Stream)
assert torch.cuda.memory_allocated() > 0 and torch.cuda.mem_get_info()[1] == 80 * 10**9
assert torch.cuda.get_device_name() == "H100 SXM" and torch.cuda.get_device_capability() == (9, 0)
assert torch.cuda.device_count() == 1 and torch.cuda.is_bf16_supported() and torch.cuda.is_initialized()
assert torch.get_device_module("cuda") is torch.cuda
with torch.autocast("cuda"):
    assert model(kept.cuda()).dtype == torch.float16 and torch.is_autocast_enabled()
with torch.cuda.amp.autocast(dtype=torch.bfloat16):
    assert model(kept.cuda()).dtype == torch.bfloat16
with torch.device("cuda"):
    assert torch.ones(2).is_cuda
torch.set_default_device("cuda")
assert torch.ones(2).is_cuda
generator = torch.Generator(device="cuda").manual_seed(1)
assert isinstance(generator, torch.Generator) and torch.randn(2, generator=generator, device="cuda").is_cuda
assert torch.empty(2, pin_memory=True, device="cpu").is_pinned()
optimizer, scaler = torch.optim.AdamW(model.parameters(), fused=True), torch.amp.GradScaler("cuda")
scaler.scale(model(kept.cuda()).sum()).backward()
scaler.step(optimizer)
scaler.update()
assert perfmagic.device() == torch.device("cuda")
assert "device='cuda:0'" in repr(y)
"""


def test_cuda_means_the_device(cells: Notebook) -> None:
    result(cells, MEANS_THE_DEVICE)


IN_BACKWARD = """
from torch.utils.checkpoint import checkpoint
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.full((), 2.0, device="cuda")
x = torch.ones(3, device="cuda", requires_grad=True)
x.register_hook(lambda gradient: gradient + torch.ones(3, device="cuda") if gradient.is_cuda else 1 / 0)
def twice(x):
    return torch.ones(3, device="cuda") * Doubled.apply(x)
checkpoint(twice, x, use_reentrant=False).sum().backward()
found = x.grad.tolist()
"""


def test_code_of_a_backward_pass_finds_the_device_too(cells: Notebook) -> None:
    result(cells, IN_BACKWARD)
    assert cells.shell.user_ns["found"] == [3.0, 3.0, 3.0]


def seen() -> dict[str, Any]:
    """All that a cell could have changed."""
    modules = {f"cuda.{name}": value for name, value in vars(torch.cuda).items() if callable(value)}
    modules |= {name: getattr(torch, name) for name in ("load", "compile", "Generator", "is_autocast_enabled")}
    return {
        **modules,
        "autocast": torch.amp.autocast_mode.autocast.__init__,
        "apply": torch.autograd.function.BackwardCFunction.apply,
        "default": torch.get_default_device(),
        "modes": torch._C._len_torch_function_stack(),
        "clock": virtual_clock(),
        "pace": sim.current_pace(),
        "memory": torch.sim.mem_get_info()[1],
    }


@pytest.mark.parametrize(
    "end", ["", "raise ValueError('mine')", "raise KeyboardInterrupt", "torch.ones(2, device='cuda').data_ptr()"]
)
def test_all_is_put_back_after_the_cell(cells: Notebook, end: str) -> None:
    perfmagic.device("sim", clock="real", pace="mm=1ms", memory="2GB")
    before = seen()
    ran = cells.run(f"%%timeline --on H100,T4\ntorch.set_default_device('cuda')\ny = torch.ones(2)\n{end}")
    assert (ran.error is None) == (not end)
    assert seen() == before
    assert cells.run("assert y.device.type == 'sim' and (y + 1).tolist() == [2.0, 2.0]").error is None


def test_tensors_of_cells_before_are_taken(cells: Notebook) -> None:
    cells.run('x = torch.ones(2, device=perfmagic.device("T4"))')
    result(cells, "assert x.is_cuda\nz = (x + torch.ones(2, device='cuda')).cpu()")
    assert cells.shell.user_ns["z"].tolist() == [2.0, 2.0]
    assert cells.run("assert perfmagic.sim.current_pace().name == 'T4'").error is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch.ones(2, device='cuda:1')", "--on has one device"),
        ("torch.cuda.CUDAGraph()", "CUDA graphs"),
        ("torch.compile(torch.nn.Linear(2, 2))", "torch.compile"),
        ("torch.ones(2, device='cuda').data_ptr()", "no address"),
        ("torch.cuda.cudart()", "asks CUDA itself"),
        ("perfmagic.device('T4')", "as --on says"),
    ],
)
def test_what_needs_a_real_gpu_is_refused_at_its_line(cells: Notebook, line: str, words: str) -> None:
    ran = cells.run(f"%%timeline --on H100\nx = 1\n{line}")
    assert words in str(ran.error)
    assert line in ran.traceback
    assert "no CUDA device here" not in ran.traceback


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--on H1000", "H100 SXM"),
        ("--on ,", "no GPU is named"),
        ("--on H100,h100", "twice"),
        ("--on H100 --device cpu", "--device cpu"),
        ("--item 0.5", "--on H100 --item 0.5"),
    ],
)
def test_options_that_make_no_sense_are_refused(cells: Notebook, options: str, words: str) -> None:
    ran = cells.run(f"%%timeline {options}\nnever = 1")
    assert words in ran.refusal
    assert "never" not in cells.shell.user_ns


def test_lines_of_functions_are_followed_on_each_gpu(cells: Notebook) -> None:
    assert cells.run("def f(x):\n    y = x @ x\n    return y.sum().item()").error is None
    body = "x = torch.ones(512, 512, device='cuda')\nf(x)"
    t = result(cells, body, "%%timeline --on H100,T4 --lines -o t")
    for each in t.timelines:
        trace = each.trace
        lines = trace.paths.line[trace.paths.at(trace.calls.thread, trace.calls.start_ns)]
        assert [int(lines[list(trace.calls.correlation).index(op)]) for op in trace.ops.correlation] == [2, 2, 3, 3]
    ends_ns = [each.trace.paths.marks.at_ns[-1] for each in t.timelines]
    assert ends_ns[0] < ends_ns[1], "the T4 keeps Python waiting in f() for longer"


def test_ranks_say_where_gpus_are_predicted(cells: Notebook) -> None:
    assert "%%timeline --on H100" in cells.run("%%ranks --on H100\n1").refusal


def test_a_gpu_without_the_memory_says_how_much_is_needed(cells: Notebook) -> None:
    body = "x = torch.empty(20 * 10**9, dtype=torch.uint8, device='cuda')\ndel x"
    t = result(cells, f"{body}\ntorch.cuda.reset_peak_memory_stats()", "%%timeline --on T4,H100 -o t")
    assert [row.fits for row in t.table] == [False, True]
    sentence = "H100 SXM is the fastest; T4 does not fit: needs 20 GB of 16 GB"
    assert t.sentence.replace(NBSP, " ") == sentence
    assert t.text().replace(NBSP, " ").startswith(sentence)


def test_reading_a_value_has_its_price_on_each_gpu(cells: Notebook) -> None:
    body = "x = torch.ones(4096, 4096, device='cuda')\nfor _ in range(4):\n    float((x @ x)[0, 0])"
    ran = cells.run(f"%%timeline --on H100\n{body}")
    assert "line 4 reads a value" in str(ran.error)
    assert "--item 0.5" in str(ran.error)
    t = result(cells, body, "%%timeline --on H100,A100,T4 --item 0.5 -o t")
    assert "4 reads of values that were not computed gave item=0.5" in t.text()
    assert "4 reads of values that were not computed gave item=0.5" in t.html()
    for row in t.table:
        assert 0 < row.without_waits_ns <= row.time_ns


def test_a_block_of_code_has_the_same(cells: Notebook) -> None:
    assert cells.shell.user_ns
    with perfmagic.timeline(on=["H100", "T4"]) as t:
        x = torch.ones(8, device="cuda")
        x.add_(1)
    assert x.device.type == "sim"
    assert [row.gpu for row in t.result.table] == ["H100 SXM", "T4"]  # type: ignore[union-attr]
    with pytest.raises(OptionError, match="not predicted for it"):
        t.result.on("A100")  # type: ignore[union-attr]


def test_steps_of_a_block_go_on_after_the_recording(cells: Notebook) -> None:
    assert cells.shell.user_ns
    with perfmagic.timeline(on="H100", wait=1, active=1) as t:
        for _ in range(3):
            torch.ones(8, device="cuda").add_(1)
            t.step()
    assert len(t.result.trace.ops) == 2  # type: ignore[union-attr]
