"""%%memory on the simulated device: to the byte what its allocator counted, and a reason that is true of each block."""

import gc
import sys
import textwrap
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfmagic.base import units
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.view.timeline.lines.doc import lines_doc

from .conftest import Notebook
from .memory_cells import CELLS, CLEAN, SETUP, body, measured

torch = pytest.importorskip("torch", reason="a device allocates")
pytestmark = [pytest.mark.slow]


@pytest.fixture
def model(notebook: Notebook) -> Iterator[Notebook]:
    """A notebook with a model on the simulated device, and nothing left of other tests' there."""
    notebook.run(SETUP)
    yield notebook
    notebook.names.clear()
    sys.last_value = sys.last_traceback = sys.last_type = None
    gc.collect()


def _reasons(rows: Any) -> set[tuple[int, str, str]]:
    return {(row.line, row.function, row.reason) for row in rows}


def _line_of(code: str) -> int:
    """The line of the model's cell that begins so; IPython leaves out what is empty above."""
    return next(n for n, line in enumerate(SETUP.strip("\n").splitlines(), 1) if line.strip().startswith(code))


def _kinds(rows: Any) -> dict[str, int]:
    result: dict[str, int] = {}
    for row in rows:
        result[row.reason] = result.get(row.reason, 0) + row.size_bytes
    return result


@pytest.mark.parametrize("name", CELLS)
def test_the_peak_is_the_allocators_own_to_the_byte(model: Notebook, name: str) -> None:
    result = measured(model, CELLS[name])
    assert result.peak_bytes == torch.sim.max_memory_allocated()
    assert sum(row.size_bytes for row in result.at_peak()) == result.peak_bytes
    assert sum(row.size_bytes for row in result.after()) == torch.sim.memory_allocated()


_STATEMENTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "{a} = torch.empty({n}, dtype=torch.uint8, device=device)",
                "{a} = {b} + 1 if {b} is not None else None",
                "held.append({a})",
                "held.clear()",
                "{a} = None",
                "{a}, {b} = {b}, {a}",
                "held.append(make({n}))",
                "torch.sim.empty_cache()",
            ]
        ),
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        st.sampled_from([1, 512, 513, 2**20, 2**20 + 1, 3 * 2**20, 11 * 2**20]),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STATEMENTS, st.integers(1, 3))
def test_the_peak_of_a_random_program_is_the_allocators(model: Notebook, statements: Any, rounds: int) -> None:
    model.run(
        "def make(n):\n    half = torch.empty(n // 2 + 1, dtype=torch.uint8, device=device)\n"
        "    return torch.cat((half, half))"
    )
    lines = [form.format(a=a, b=b, n=n) for form, a, b, n in statements]
    source = "a = b = c = None; held = []\nfor i in range({}):\n{}".format(
        rounds, textwrap.indent("\n".join(lines), "    ")
    )
    result = measured(model, source)
    assert result.peak_bytes == torch.sim.max_memory_allocated()
    assert sum(row.size_bytes for row in result.after()) == torch.sim.memory_allocated()
    for row in result.blocks():
        assert row.before or 1 <= row.line <= source.count("\n") + 2 or row.function == "make"


def test_what_the_backward_pass_needs_is_kept_for_the_line_that_made_it(model: Notebook) -> None:
    result = measured(model, CELLS["a training step"])
    relu = _line_of("h = torch.relu")
    assert (relu, "Blk.forward", f"kept for the backward of line {relu}") in _reasons(result.at_peak())
    whys = {(row.line, row.reason) for row in result.blocks() if not row.before}
    assert (5, f"backward of line {relu} of Blk.forward") in whys
    assert (5, "gradients") in whys
    assert (6, "temporary") in whys


def test_results_that_a_list_keeps_hold_their_graphs(model: Notebook) -> None:
    reasons = {row.reason for row in measured(model, CELLS["losses with graphs"]).at_peak()}
    assert "kept by the graph of `losses`" in reasons
    assert "kept by the graph of `losses`, of an earlier iteration" in reasons


def test_lifetimes_name_the_lines_that_end_them(model: Notebook) -> None:
    result = measured(model, CELLS["temporaries"])
    by_line = {(row.line, row.reason) for row in result.blocks() if not row.before}
    assert (2, "until line 4") in by_line  # `del a`
    assert (3, "temporary") in by_line
    assert (3, "held by `b`") in by_line
    assert (5, "held by `c`") in by_line


def test_a_block_is_released_on_the_line_that_drops_it(model: Notebook) -> None:
    source = "a = torch.zeros(1000, device=device)\nb = 1\ndel a\nb = 2"
    row = next(row for row in measured(model, source).blocks() if not row.before)
    assert (row.line, row.free_line, row.free_ns is None) == (2, 4, False)


def test_a_returning_function_releases_its_blocks(model: Notebook) -> None:
    model.run("def f():\n    held = torch.zeros(1000, device=device)\n    x = 1\n    return x")
    row = next(row for row in measured(model, "f()\nb = 2").blocks() if not row.before)
    assert (row.line, row.function, row.reason) == (2, "f", "until its function returned")


def test_a_block_that_an_error_releases_is_no_longer_there(model: Notebook) -> None:
    source = """
        try:
            a = torch.zeros(2000, device=device)
            raise ValueError("no")
        except ValueError:
            a = None
    """
    result = measured(model, source)
    row = next(row for row in result.blocks() if not row.before)
    assert (row.line, row.free_line) == (3, 6)


def test_the_traceback_of_a_failed_cell_holds_the_variables_of_its_functions(model: Notebook) -> None:
    model.run("def broken():\n    big = torch.zeros(1000, 1000, device=device)\n    raise ValueError('no')")
    ran = model.run("%%memory -o m\nbroken()")
    assert isinstance(ran.error, ValueError)
    reasons = {row.reason for row in model.names["m"].at_peak()}
    assert "held by `big` (broken, line 3; traceback of the last ValueError)" in reasons
    assert "The code failed: ValueError: no" in ran.report


def test_earlier_allocations_are_named(model: Notebook) -> None:
    kinds = _kinds(measured(model, "y = x * 2").at_peak())
    assert kinds["before the cell: parameters"] == sum(
        -(-p.numel() * 4 // 512) * 512 for p in model.names["net"].parameters()
    )
    assert "before the cell: optimizer state" in kinds
    assert kinds["before the cell: held by `x`"] == 1024 * 64 * 4


def test_an_output_that_the_notebook_keeps_is_named(model: Notebook) -> None:
    model.run("torch.ones(3000, device=device)")
    number = max(model.names["Out"])
    assert f"before the cell: held by `Out[{number}]`" in _kinds(measured(model, "y = x * 2").at_peak())


# so large that its gradients weigh more than what the backward pass has under way
_LARGER = """
net = Net(128, 8).to(device)
stack = nn.Sequential(*net.blocks)
opt = torch.optim.Adam(net.parameters())
x = torch.randn(1024, 128, device=device)
(net(x) - x).square().mean().backward()
opt.step()
"""
_LOSSES = CELLS["losses with graphs"]
# 12 MiB: a segment of its own
_ROUNDS = "for i in range(3):\n    a = torch.zeros(3 * 2**20, device=device)\n    b = torch.relu(a)"
_NO_GRAD_STACK = """
    with torch.no_grad():
        for i in range(3):
            out = stack(x)
            err = (out - x).abs().max()
"""
_CHANGES = {
    "no_grad": (
        CELLS["evaluation"],
        "with torch.no_grad(): around lines 3–4",
        "with torch.no_grad():\n" + textwrap.indent(body(CELLS["evaluation"]), "    "),
    ),
    "no_grad on one line": (
        _LOSSES,
        "with torch.no_grad(): around line 4",
        "with torch.no_grad():\n" + textwrap.indent(body(_LOSSES), "    "),
    ),
    "detach": (_LOSSES, "losses.append(loss.detach())", _LOSSES.replace("append(loss)", "append(loss.detach())")),
    "item": (
        _LOSSES,
        "losses.append(loss.item()) and del loss",
        _LOSSES.replace("append(loss)", "append(loss.item()); del loss"),
    ),
    "del": (_ROUNDS, "del b at the end of the iteration", f"{_ROUNDS}\n    del b"),
    "no_grad around modules that torch calls": (
        CELLS["evaluation"].replace("net(x)", "stack(x)"),
        "with torch.no_grad(): around lines 3–4",
        _NO_GRAD_STACK,
    ),
    "zero_grad": (CELLS["gradients late"], "zero_grad() before the forward pass", CELLS["gradients early"]),
}


@pytest.mark.parametrize("name", _CHANGES)
def test_the_predicted_peak_is_that_of_the_changed_cell(model: Notebook, name: str) -> None:
    source, change, changed = _CHANGES[name]
    model.run(_LARGER)
    result = measured(model, source)
    rows = {row.change: row for row in result.what_if()}
    assert change in rows, list(rows)
    assert not rows[change].about
    after = measured(model, changed)
    assert rows[change].peak_bytes - result.start_bytes == after.peak_bytes - after.start_bytes


def test_the_prediction_for_half_a_batch_is_close(model: Notebook) -> None:
    rows = {row.change: row for row in measured(model, CELLS["gradients early"]).what_if()}
    half = rows["gradients accumulated over two half batches"]
    halved = """
        for i in range(3):
            for k in range(2):
                y = x[512 * k : 512 * k + 512]
                out = net(y)
                loss = (out - y).square().mean() / 2
                loss.backward()
            opt.step()
            opt.zero_grad()
    """
    assert half.about
    assert half.peak_bytes == pytest.approx(measured(model, halved).peak_bytes, rel=0.15)


def test_each_rounds_growth_is_listed_by_line(model: Notebook) -> None:
    model.run("losses = []")
    result = measured(model, "y = net(x)\nlosses = globals().get('losses') or []\nlosses.append(y.mean())", "-n 4")
    relu = _line_of("h = torch.relu")
    (row,) = [row for row in result.growth() if row.line == relu]
    assert (row.function, row.n_rounds, row.reason) == ("Blk.forward", 3, "kept by the graph of `losses`")
    assert row.bytes_per_round == 3 * 1024 * 256 * 4  # the result of each block's relu
    assert (
        f"line {relu} of Blk.forward leaves {units.size(row.bytes_per_round)} a round: kept by the graph of `losses`"
        in result.text(details=True)
    )


def test_a_cell_that_keeps_nothing_does_not_grow(model: Notebook) -> None:
    result = measured(model, "y = train_step(x).item()", "-n 3")
    assert len(result.growth()) == 0
    assert "nothing grows over 3 rounds" in result.text(details=True)


def test_the_cell_runs_as_often_as_rounds_are_asked_for(model: Notebook) -> None:
    model.run("ran = 0")
    assert measured(model, "ran += 1", "-n 5") is not None
    assert model.names["ran"] == 5


def test_two_rounds_are_too_few(model: Notebook) -> None:
    assert "3 rounds or more" in model.run("%%memory -n 2\nx = 1").refusal


def test_the_in_place_error_is_the_plain_cells(model: Notebook) -> None:
    source = "a = torch.ones(4, device=device, requires_grad=True)\nb = a.exp()\nb.add_(1)\nb.sum().backward()"
    plain = model.run(source)
    assert "modified by an inplace operation" in str(plain.error)
    result = model.run(f"%%memory\n{source}")
    assert str(result.error) == str(plain.error)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_its_forward_as_often_as_in_the_plain_cell(model: Notebook, reentrant: bool) -> None:
    model.run("calls = []\ndef part(t):\n    calls.append(1)\n    return net(t)")
    source = f"y = cp.checkpoint(part, x.requires_grad_(), use_reentrant={reentrant}).sum()\nheld = [y]"
    model.run(source)
    assert len(model.names["calls"]) == 1
    model.run(f"%%memory\n{source}")
    assert len(model.names["calls"]) == 2  # neither the walk of the graph nor anything else ran it again
    model.run("%%memory\ny.backward()")
    assert len(model.names["calls"]) == 3


def test_gradients_are_those_of_the_plain_cell(model: Notebook) -> None:
    source = "opt.zero_grad()\n(net(x) - x).square().mean().backward()\ng = net.blocks[0].a.weight.grad.cpu()"
    model.run(source)
    plain = model.names["g"]
    model.run(f"%%memory\n{source}")
    assert torch.equal(model.names["g"], plain)


def test_the_result_keeps_no_tensor(model: Notebook) -> None:
    result = measured(model, "a = torch.ones(1000, device=device)\nb = [a * 2]")
    references = [weakref.ref(model.names["a"]), weakref.ref(model.names["b"][0])]
    result.text(), result.what_if(), result.blocks()
    model.run("a = b = None")
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_without_blocks_the_result_says_so() -> None:
    from perfmagic.results import MemoryResult
    from perfmagic.trace.model import TraceMeta, make_trace

    result = MemoryResult(make_trace((), TraceMeta("cell", failed="ValueError: no")))
    assert "no block of memory was recorded" in result.text()
    assert "ValueError: no" in result.html()
    with pytest.raises(TraceError, match="no block of memory"):
        result.at_peak()


def test_another_device_is_refused(model: Notebook) -> None:
    from perfmagic.results import MemoryResult

    result = MemoryResult(measured(model, "y = x + 1").trace, device=7)
    with pytest.raises(OptionError, match="device 7 allocated nothing"):
        result.at_peak()


def test_current_allocations_are_listed_with_their_holders(model: Notebook) -> None:
    model.run(CLEAN)
    model.run("def broken():\n    big = torch.zeros(1000, 1000, device=device)\n    raise ValueError('no')")
    model.run("broken()")
    printed = model.run("%perfmagic memory").printed
    (title,) = [line for line in printed.splitlines() if line.startswith("simulated device")]
    assert title.endswith(f": {units.size(torch.sim.memory_allocated())} allocated")
    assert "held by `big` (broken, line 3; traceback of the last ValueError)" in printed
    assert "parameters" in printed
    model.run("1/0")
    assert "`big`" not in model.run("%perfmagic memory").printed


def test_an_out_of_memory_cell_shows_what_filled_the_device(model: Notebook) -> None:
    try:
        model.run("device = perfmagic.device('sim', memory='40MB')")
        source = "losses = []\nwhile True:\n    losses.append((net(x) - x).square().mean())"
        ran = model.run(f"%%memory -o m\n{source}")
    finally:
        model.run("perfmagic.device('sim', memory=0)")
    assert isinstance(ran.error, torch.OutOfMemoryError)
    assert "The code failed: OutOfMemoryError" in ran.report.replace("\n", " ")
    first = next(row for row in model.names["m"].at_peak() if row.line)
    assert first.reason == "kept by the graph of `losses`, of an earlier iteration"


def test_a_timeline_with_memory_has_the_same_ledger(model: Notebook) -> None:
    model.run("torch.sim.reset_peak_memory_stats()")
    model.run(f"%%timeline --memory -o t\n{body(CELLS['a training step'])}")
    assert model.names["t"].memory.peak_bytes == torch.sim.max_memory_allocated()


def test_blocks_are_saved_and_opened(model: Notebook, tmp_path: Any) -> None:
    from perfmagic.results import MemoryResult, TimelineResult

    result = measured(model, CELLS["a training step"])
    path = TimelineResult(result.trace).save(tmp_path / "run.npz")
    again = model.run(f"import perfmagic\nperfmagic.open_trace({str(path)!r}).trace").value
    assert MemoryResult(again).at_peak().to_dict() == result.at_peak().to_dict()


def test_memory_held_only_by_cycles_is_freed_and_reported(model: Notebook) -> None:
    gc.disable()  # no collection may come before
    try:
        model.run(
            "class Node: pass\none = Node()\none.me, one.data = one, torch.ones(1024, 1024, device=device)\ndel one"
        )
        before = torch.sim.memory_allocated()
        printed = model.run("%perfmagic memory").printed
    finally:
        gc.enable()
    assert "were held by reference cycles alone; gc.collect() has freed them" in printed
    # other tests of this process may have left tensors that no name leads to
    assert before - torch.sim.memory_allocated() >= 4 * 1024 * 1024


def test_what_the_graphs_of_a_failed_function_keep_is_named_by_its_variable(model: Notebook) -> None:
    model.run(
        "def forward(n):\n    losses = []\n    for i in range(n):\n        losses.append(net(x).square().mean())\n"
        "    raise ValueError"
    )
    model.run("%%memory -o m\nforward(3)")
    kept = [row for row in model.names["m"].after() if row.reason.startswith("kept by the graph of `losses`")]
    assert {row.reason for row in kept} == {
        "kept by the graph of `losses` (forward, line 5; traceback of the last ValueError)"
    }
    assert {row.function for row in kept} == {"Blk.forward"}


@pytest.mark.parametrize("name", ["a training step", "losses with graphs", "a function", "gradients early"])
def test_the_host_has_the_blocks_that_a_device_has(model: Notebook, name: str) -> None:
    """The same cell: same lines, same reasons; sizes but for the device's multiples of 512 bytes."""
    cell = body(CELLS[name])
    result = {}
    for device in ("cpu", "sim"):
        model.run(SETUP.replace('device("sim")', f'device("{device}")'))
        model.run("a = b = c = i = out = err = loss = losses = m = None\nopt.zero_grad()\ngc.collect()")
        ran = model.run(f"%%memory --device {device} -o m\n{cell}")
        assert ran.error is None, ran.traceback
        rows = model.names["m"].at_peak()
        result[device] = {
            (row.line, row.function, row.reason): row.size_bytes for row in rows if row.size_bytes > 20_000
        }
        model.names.pop("m")
    assert result["cpu"] == pytest.approx(result["sim"], rel=0.05)


@pytest.mark.parametrize("name", ["a training step", "losses with graphs", "a function", "no_grad"])
def test_the_memory_column_of_lines_adds_up_to_the_peak(model: Notebook, name: str) -> None:
    result = measured(model, CELLS[name])
    doc = lines_doc(result.trace)
    assert doc.memory is not None
    cell = {row.line: row.peak_bytes for row in doc.blocks[0].rows}
    assert sum(cell.values()) + sum(n for _, n in doc.memory.closing()[:-1]) == torch.sim.max_memory_allocated()
    of = {block.name: sum(row.peak_bytes for row in block.rows) for block in doc.blocks[1:]}
    if "train_step" in of:
        assert of["train_step"] == cell[3]  # the only line that calls it
    assert any(of.values()) or not any(row.function for row in result.at_peak())


def test_an_evaluation_in_a_function_shows_the_gain_of_no_grad(model: Notebook) -> None:
    """Its graphs end with it: no variable leads to them afterwards."""
    source = (
        "def evaluate(n):\n    kept = []\n    for i in range(n):\n        kept.append(net(x))\n    return len(kept)"
    )
    model.run(source)
    result = measured(model, "evaluate(3)")
    kept = [row for row in result.at_peak() if row.reason.startswith("kept by a graph or a result, until ")]
    assert {row.function for row in kept} == {"Blk.forward"}
    assert sum(row.size_bytes for row in kept) > result.peak_bytes / 2
    (change,) = [row for row in result.what_if() if "no_grad" in row.change]
    assert change.about
    without = measured(model, "with torch.no_grad():\n    evaluate(3)")
    assert not [row for row in without.at_peak() if "graph" in row.reason]
    assert change.peak_bytes == pytest.approx(without.peak_bytes, rel=0.1)
