"""Code that was written for CUDA, on a machine without it: the error is torch's own and ends with what works here."""

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch", reason="its errors are what this is about")

import perfmagic  # noqa: E402 - after the skip

from .conftest import Notebook  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there: these calls work"),
]

WORKS = {
    "torch.cuda.synchronize(x.device)": "perfmagic.synchronize(device)",
    "x.cuda()": "device = perfmagic.device(), then .to(device)",
    "torch.nn.Linear(2, 2).cuda()": "device = perfmagic.device(), then .to(device)",
    "torch.randn(2, device='cuda')": "device = perfmagic.device(), then .to(device)",
    "torch.cuda.Stream()": "device = perfmagic.device(), then torch.sim.Stream",
    "torch.cuda.Event(enable_timing=True)": "device = perfmagic.device(), then torch.sim.Event",
    "torch.cuda.current_device()": "device = perfmagic.device(), then torch.sim.current_device",
    "torch.cuda.reset_peak_memory_stats()": "device = perfmagic.device(), then torch.sim.reset_peak_memory_stats",
}


@pytest.fixture
def cells(notebook: Notebook) -> Notebook:
    assert notebook.run("import torch, perfmagic\nx = torch.ones(2, device='cpu')").error is None
    return notebook


@pytest.mark.parametrize("call", WORKS)
def test_a_failed_cuda_call_suggests_the_line_that_works(cells: Notebook, call: str) -> None:
    plain = cells.run(call).error
    ran = cells.run(f"%%timeline\n{call}")
    assert type(ran.error) is type(plain)
    words, _, hint = str(ran.error).partition("\nHint: ")
    assert words == str(plain)
    assert hint.endswith(WORKS[call])
    assert ran.traceback.rstrip().endswith(WORKS[call])


def test_the_suggested_lines_work(cells: Notebook) -> None:
    cells.run("device = perfmagic.device()")
    for line in ("perfmagic.synchronize(device)", "x.to(device)", "torch.sim.Stream()", "torch.sim.Event()"):
        assert cells.run(f"%%timeline\n{line}").error is None


def test_a_benchmark_has_the_hint_and_a_plain_cell_keeps_its_error(cells: Notebook) -> None:
    assert "perfmagic.device()" in str(cells.run("%%bench -r 6 --warmup 0\nx.cuda()").error)
    assert "perfmagic" not in str(cells.run("x.cuda()").error)


def test_the_hint_is_printed_below_a_plain_cells_traceback(cells: Notebook) -> None:
    ran = cells.run("def wait():\n    torch.cuda.synchronize()\nwait()")
    assert type(ran.error) is AssertionError
    assert ran.warned == "Hint: there is no CUDA device here; on any device: perfmagic.synchronize(device)\n"
    assert cells.run("%%timeline\ntorch.cuda.synchronize()").warned == ""  # there the error itself says it
    assert cells.run("1 / 0").warned == ""
    cells.run("%unload_ext perfmagic")
    assert cells.run("torch.cuda.synchronize()").warned == ""


def test_a_measured_cell_without_a_device_names_one_and_only_once(
    cells: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmagic.capture.devices.backends.active_backends", lambda: ())  # others may have loaded sim
    hint = "perfmagic: no device was in use, so torch computed on the CPU"
    assert hint not in cells.run("device = 'cuda' if torch.cuda.is_available() else 'cpu'\nx.to(device)").printed
    assert cells.run("%%timeline\nx + 1").printed.count(hint) == 1
    assert hint not in cells.run("%%timeline\nx + 1").printed


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("torch.cuda.empty_cache()", "torch.get_device_module(device).empty_cache()"),
        ("with torch.autocast('cuda'):\n    x + 1", "torch.autocast(device.type)"),
        ("with torch.amp.autocast(device_type='cuda', dtype=torch.float16): x", "torch.autocast(device.type)"),
        ("scaler = torch.amp.GradScaler('cuda')", "torch.amp.GradScaler(device.type)"),
        ("scaler = torch.amp.GradScaler()", "torch.amp.GradScaler(device.type)"),
    ],
)
@pytest.mark.parametrize("magic", ["%%timeline\n", "%%memory\n", ""])
@pytest.mark.filterwarnings("ignore")  # torch's own of autocast
def test_a_call_without_effect_is_reported_once(cells: Notebook, magic: str, call: str, instead: str) -> None:
    cells.run("device = perfmagic.device()")
    assert instead in cells.run(f"{magic}{call}").printed
    assert instead not in cells.run(f"{magic}{call}").printed
    assert cells.run(instead).error is None


def test_a_hint_is_in_the_language_of_the_session(cells: Notebook) -> None:
    cells.run("device = perfmagic.device()\nperfmagic.set_language('zh')")
    try:
        assert "没有 CUDA 时 torch.cuda.empty_cache() 不起作用" in cells.run("torch.cuda.empty_cache()").printed
    finally:
        cells.run("perfmagic.set_language('en')")


def test_a_plain_cell_is_told_nothing_where_no_device_is_in_use(
    cells: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmagic.capture.devices.backends.active_backends", lambda: ())
    assert "perfmagic:" not in cells.run("torch.cuda.empty_cache()").printed


def test_an_error_of_the_users_own_stays_as_it_is(cells: Notebook) -> None:
    own = "def synchronize(): raise AssertionError('Torch not compiled with CUDA enabled')\nsynchronize()"
    assert str(cells.run(f"%%timeline\n{own}").error) == "Torch not compiled with CUDA enabled"
    assert "Hint" not in str(cells.run("%%timeline\nx @ torch.ones(3)").error)


@pytest.fixture
def _ranks() -> Iterator[None]:
    yield
    perfmagic.ranks().stop()


@pytest.mark.usefixtures("_ranks")
@pytest.mark.parametrize("head", ["%%ranks -n 2 --device cpu --plain", "%%ranks -n 2 --device cpu -q"])
def test_ranks_give_the_hint(cells: Notebook, head: str) -> None:
    ran = cells.run(f"{head}\nimport torch\ntorch.cuda.synchronize()")
    assert "Torch not compiled with CUDA enabled" in ran.traceback
    assert "perfmagic.synchronize(device)" in ran.traceback
