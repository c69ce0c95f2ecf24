"""Each op of a backward finds the launch of its forward: operators that differ, so that each can be recognised."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="autograd is torch's")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.capture.recording.recorder import Recorder  # noqa: E402
from perfmagic.trace.columns import NONE  # noqa: E402
from perfmagic.trace.model import Trace  # noqa: E402

FORWARD_OF = {"threshold_backward": "relu", "tanh_backward": "tanh", "sigmoid_backward": "sigmoid"}


@pytest.fixture
def x() -> torch.Tensor:
    sim.load()
    return torch.randn(4, 4, device="sim", requires_grad=True)


def pairs(trace: Trace) -> list[tuple[str, str]]:
    """The name of each op of a backward with its forward's, in the order of launches; "" without one."""
    names = [trace.names[name] for name in trace.ops.name]
    launched = trace.launch_start_ns()
    named = []
    for row in np.argsort(launched, kind="stable").tolist():
        if names[row] in FORWARD_OF:
            at = trace.ops.forward_ns[row]
            named.append((names[row], "" if at == NONE else names[int(np.flatnonzero(launched == at)[0])]))
    return named


def recorded(run: object) -> Trace:
    recorder = Recorder(device="sim")
    recorder.start()
    run()  # type: ignore[operator]
    return recorder.stop()


def test_a_chain_of_operators(x: torch.Tensor) -> None:
    trace = recorded(lambda: x.relu().tanh().sigmoid().sum().backward())
    assert pairs(trace) == [(name, FORWARD_OF[name]) for name in reversed(FORWARD_OF)]
    others = trace.ops.forward_ns[[trace.names[n] not in FORWARD_OF for n in trace.ops.name]]
    assert (others == NONE).any()  # forward ops have none


def test_rounds_are_distinguished(x: torch.Tensor) -> None:
    def run() -> None:
        for _ in range(3):
            x.relu().tanh().sum().backward()

    trace = recorded(run)
    launched, forward = trace.launch_start_ns(), trace.ops.forward_ns
    rows = [r for r in range(len(forward)) if trace.names[trace.ops.name[r]] == "tanh_backward"]
    tanh = sorted(int(launched[r]) for r in range(len(forward)) if trace.names[trace.ops.name[r]] == "tanh")
    assert [int(forward[r]) for r in sorted(rows, key=lambda r: launched[r])] == tanh


def test_a_kept_graph_finds_its_forward_twice(x: torch.Tensor) -> None:
    def run() -> None:
        loss = x.relu().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    assert pairs(recorded(run)) == [("threshold_backward", "relu")] * 2


def test_a_backward_of_a_forward_before_the_recording_has_none(x: torch.Tensor) -> None:
    loss = x.relu().sum()
    assert pairs(recorded(loss.backward)) == [("threshold_backward", "")]


def test_forwards_of_two_threads(x: torch.Tensor) -> None:
    other = torch.randn(4, 4, device="sim", requires_grad=True)

    def run() -> None:
        sums: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: sums.append(other.tanh().sum()))
        thread.start()
        thread.join()
        x.relu().sum().backward()
        sums[0].backward()

    trace = recorded(run)
    assert dict(pairs(trace))["threshold_backward"] == "relu"
    # both threads count their nodes from where they are: a number may be another forward's, and never one that is later
    assert (trace.ops.forward_ns < trace.launch_start_ns()).all()


def test_without_a_backward_nothing_is_kept(x: torch.Tensor) -> None:
    assert (recorded(lambda: x.relu().tanh()).ops.forward_ns == NONE).all()
