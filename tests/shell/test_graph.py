"""%%graph in a notebook: known graphs of lesson cells, lines of the cell, failures, and what is left afterwards."""

import re
import sys
import textwrap

import pytest

from perfmagic.base.errors import TraceError
from perfmagic.results import GraphResult

from .conftest import Notebook

torch = pytest.importorskip("torch", reason="there are no operators without torch")
pytestmark = pytest.mark.slow

MLP = """
n, dev = 16, perfmagic.devices(2, pace="matmul=10ms, kernel=3ms, copy=0.1GB/s")
W1, W2 = torch.randn(n, n), torch.randn(n, n)
X, Y = torch.randn(8, n), torch.randn(8, n)
def half(i):
    x, y = X[4 * i : 4 * i + 4].to(dev[i], non_blocking=True), Y[4 * i : 4 * i + 4].to(dev[i], non_blocking=True)
    w1, w2 = W1.to(dev[i], non_blocking=True), W2.to(dev[i], non_blocking=True)
    a = x @ w1
    h = a.relu()
    e = h @ w2 - y
    g2 = h.t() @ e
    return x.t() @ ((e @ w2.t()) * (a > 0)), g2
"""
SERIAL = """
grads = []
for i in (0, 1):
    g1, g2 = half(i)
    grads.append((g1.cpu(), g2.cpu()))
W1 = W1 - 0.01 * (grads[0][0] + grads[1][0])
W2 = W2 - 0.01 * (grads[0][1] + grads[1][1])
"""
PARALLEL = """
on_devices = [half(i) for i in (0, 1)]
grads = [(g1.cpu(), g2.cpu()) for g1, g2 in on_devices]
W1 = W1 - 0.01 * (grads[0][0] + grads[1][0])
W2 = W2 - 0.01 * (grads[0][1] + grads[1][1])
"""
# of one device: copies of x, y, w1, w2; mm, relu, mm, sub, mm, mm, gt, mul, mm; copies of both gradients
HALF = ["copy"] * 4 + ["mm", "relu", "mm", "sub", "mm", "mm", "gt", "mul", "mm"]
NEEDS_OF_HALF = {(0, 4), (2, 4), (4, 5), (5, 6), (3, 6), (6, 7), (1, 7), (5, 8), (7, 8), (7, 9), (3, 9), (4, 10)} | {
    *((9, 11), (10, 11), (0, 12), (11, 12))
}


@pytest.fixture
def model(notebook: Notebook) -> Notebook:
    """A notebook with a two-layer MLP on the CPU and two simulated devices."""
    ran = notebook.run(f"import torch, perfmagic\n{MLP}")
    assert ran.error is None, ran.traceback
    return notebook


def graph(notebook: Notebook, body: str) -> GraphResult:
    """The graph of a cell."""
    ran = notebook.run(f"%%graph -o g\n{textwrap.dedent(body).strip()}")
    assert ran.error is None, ran.traceback
    result = notebook.names["g"]
    assert isinstance(result, GraphResult)
    return result


@pytest.mark.parametrize("body", [SERIAL, PARALLEL], ids=["serial", "parallel"])
def test_the_needs_of_a_two_layer_mlp_on_two_devices(model: Notebook, body: str) -> None:
    """The same graph, whatever order its cell runs in: two halves that do not need each other, and their sum."""
    result = graph(model, body)
    by_device: dict[str, list[int]] = {"sim:0": [], "sim:1": []}
    for node in result.nodes():
        if not node.lane.endswith("cpu"):
            by_device[node.lane.rpartition("→")[2].strip()].append(node.number)
    edges = {(edge.needs, edge.of) for edge in result.edges()}
    for indices in by_device.values():
        assert [result.nodes()[i].name for i in indices] == HALF
        place = {node: at for at, node in enumerate(indices)}
        assert {(place[a], place[b]) for a, b in edges if a in place and b in place} == NEEDS_OF_HALF
    first, second = map(set, by_device.values())
    assert not {(a, b) for a, b in edges if (a in first and b in second) or (a in second and b in first)}
    host = [(node.name, node.lane) for node in result.nodes() if node.lane.endswith("cpu")]
    assert sorted(host) == sorted(
        [("copy", "sim:0 → cpu")] * 2
        + [("copy", "sim:1 → cpu")] * 2
        + [("add", "cpu"), ("mul", "cpu"), ("sub", "cpu")] * 2
    )


def test_an_early_read_back_is_reported_with_the_line_that_waited(model: Notebook) -> None:
    """Whatever the host's speed: the second device can only be given work when the first has been read back."""
    result = graph(model, SERIAL)
    nodes = result.nodes()
    last_of_first = max(node.end_ns for node in nodes if node.lane == "sim:0 → cpu")
    assert all(node.start_ns >= last_of_first for node in nodes if node.lane == "sim:1")
    late = next(row for row in result.late() if row.lane == "cpu → sim:1")
    assert re.search(r"Python was waiting in `copy` on line 5", late.because)
    assert "independent, but did not run concurrently" in result.svg()


def test_the_result_is_shown_with_picture_and_text(model: Notebook) -> None:
    ran = model.run("%%graph\nz = torch.ones(2) * 2")
    first, about, *_ = ran.report.splitlines()
    assert " decides: " in first
    assert about.startswith("this machine's CPU · 2 operators · ")
    assert "data:image/svg+xml;base64," in ran.outputs[0]["text/html"]


def test_a_cell_that_fails_shows_what_ran_before(model: Notebook) -> None:
    ran = model.run("%%graph -o g\na = torch.ones(2)\nb = a + 1\nb @ torch.ones(3)\nc = 1")
    assert isinstance(ran.error, RuntimeError)
    assert "----> 4 b @ torch.ones(3)" in ran.traceback
    assert "op_log.py" not in ran.traceback
    result = model.names["g"]
    assert [node.name for node in result.nodes()] == ["ones", "add", "ones"]
    assert "The code failed: RuntimeError" in ran.report


def test_a_cell_without_operators_says_so(model: Notebook) -> None:
    ran = model.run("%%graph -o g\nx = sum(range(10))")
    assert ran.error is None
    assert ran.report == "Graph: no operator of torch ran"
    with pytest.raises(TraceError, match="no operator of torch ran"):
        model.names["g"].nodes()


@pytest.mark.parametrize("line", ["%%graph\nx = 1", "%%memory\nx = 1", "%perfmagic memory", "%graph x = 1"])
def test_without_torch_the_error_says_so(notebook: Notebook, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type] - an import of it fails
    ran = notebook.run(line)
    assert "needs torch, which is not installed in this environment" in ran.refusal
    assert "pip install torch" in ran.refusal
    assert "x" not in notebook.names


def test_a_note_says_that_one_run_includes_first_calls(model: Notebook) -> None:
    model.run("%%graph -o g\ny = torch.ones(2) + 1")
    assert "first calls cost more" in " ".join(model.names["g"].text(details=True).split())


def test_a_training_loop_is_grouped_by_line(model: Notebook) -> None:
    result = graph(
        model,
        """
        net = torch.nn.Linear(4, 4)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(40):
            x = torch.ones(2, 4)
            opt.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            opt.step()
            lost = loss.item()
        done = loss + 1
        kept = done * 2
        more = kept - 1
        most = more / 2
        last = most.exp()
        over = last.log()
        """,
    )
    assert len(result.nodes()) > 400
    drawn = result._doc().drawn
    assert drawn.by == "statement of the cell"
    loop = next(unit for unit in drawn.units if unit.name == "line 4")
    assert len(loop.nodes) > 400


def test_nothing_is_noted_when_the_cell_has_ended(model: Notebook) -> None:
    from torch.utils import _python_dispatch as modes

    for body in ("x = torch.ones(2)", "raise ValueError", "torch.ones(2) @ torch.ones(3)"):
        model.run(f"%%graph\n{body}")
        assert modes._get_current_dispatch_mode_stack() == []


def test_functions_of_the_user_have_their_lines(model: Notebook) -> None:
    model.run("def twice(x):\n    y = x + x\n    return y.exp()")
    result = graph(model, "z = twice(torch.ones(2))")
    assert [(node.function, node.line) for node in result.nodes()] == [("", 2), ("twice", 2), ("twice", 3)]


def test_operators_under_autocast_and_inference_mode_are_recorded(model: Notebook) -> None:
    result = graph(
        model,
        """
        with torch.inference_mode():
            a = torch.ones(4, 4)
            b = (a @ a).t().sum()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            c = torch.ones(4, 4) @ torch.ones(4, 4)
        """,
    )
    names = [node.name for node in result.nodes()]
    assert names == ["ones", "matmul", "sum", "ones", "ones", "copy", "copy", "mm"]


def test_the_device_can_be_chosen(model: Notebook) -> None:
    assert model.run("%%graph --device abacus\nx = 1").refusal
    ran = model.run("%%graph --device sim -o g\nx = torch.ones(2, device='sim') + 1")
    assert ran.error is None
    assert [node.lane for node in model.names["g"].nodes()] == ["sim", "sim"]
