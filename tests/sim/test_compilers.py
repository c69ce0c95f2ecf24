"""torch.compile and saved TorchScript do not run on the simulated device, and say so by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

import perfmagic  # noqa: E402 - after the skip
from perfmagic.base.errors import DeviceError  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def _one_op(x: Any) -> Any:
    return x @ x + 1


def _attribute(x: Any) -> Any:
    return torch.ones(3, device=x.device)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.compiler.reset()


COMPILED: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "a function": lambda: (_one_op, {}),
    "a whole graph": lambda: (_one_op, {"fullgraph": True}),
    "another backend": lambda: (_one_op, {"backend": "eager"}),
    "an attribute alone": lambda: (_attribute, {}),
    "a module": lambda: (torch.nn.Linear(3, 3).to("sim"), {}),
}


@pytest.mark.parametrize("what", COMPILED)
def test_compiled_code_is_refused_by_name(what: str) -> None:
    given, options = COMPILED[what]()
    x = torch.ones(3, 3, device="sim")
    message = r"^torch\.compile cannot compile code for the simulated device\nHint: call"
    with pytest.raises(DeviceError, match=message) as raised:
        torch.compile(given, **options)(x)
    files = [frame.path.as_posix() for frame in raised.traceback]
    assert len(files) <= 6, files  # the call, torch's step into the compiler, the error: not the compiler's own
    assert (x + 1).tolist() == [[2.0] * 3] * 3


def test_code_for_the_cpu_compiles_beside_the_device() -> None:
    x = torch.ones(3, 3)
    assert torch.compile(_one_op, backend="eager")(x).tolist() == _one_op(x).tolist()


def test_a_refused_function_runs_without_torch_compile() -> None:
    compiled = torch.compile(_one_op)
    x = torch.ones(2, 2, device="sim")
    with pytest.raises(DeviceError):
        compiled(x)
    assert compiled.__wrapped__(x).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("place", ["sim", "sim:1", torch.device("cpu")])
def test_saved_torchscript_is_placed_on_the_cpu_alone(place: Any, tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 3)
    torch.jit.script(module).save(tmp_path / "saved.pt")
    if str(place) == "cpu":
        assert torch.equal(torch.jit.load(tmp_path / "saved.pt", map_location=place).weight, module.weight)
        return
    for where in (place, torch.device(place)):
        with pytest.raises(DeviceError, match=r'^torch\.jit\.load cannot .*\nHint: load with map_location="cpu"'):
            torch.jit.load(tmp_path / "saved.pt", map_location=where)


def test_the_hint_of_the_error_works(tmp_path: Path) -> None:
    device = perfmagic.device("sim")
    saved, module = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    torch.jit.script(saved).save(tmp_path / "saved.pt")
    module.to(device)
    loaded = torch.jit.load(tmp_path / "saved.pt", map_location="cpu")
    module.load_state_dict(loaded.state_dict())
    x = torch.ones(1, 3)
    assert torch.equal(torch.jit.script(module)(x.to(device)).cpu(), loaded(x))
