"""%%memory says what the peak is made of and what would lower it: each answer is true of its cell."""

import pytest

from perfmagic.base import units
from perfmagic.results import MemoryResult

from .conftest import Notebook
from .memory_cells import SETUP, measured

torch = pytest.importorskip("torch", reason="a device allocates")
pytestmark = [pytest.mark.slow]


@pytest.fixture
def model(notebook: Notebook) -> Notebook:
    """A notebook with a model on the simulated device."""
    notebook.run(SETUP)
    return notebook


def said(result: MemoryResult) -> dict[str, str]:
    """The action of each answer by its headline."""
    assert len(result.text().splitlines()) <= 14
    assert result.text().splitlines()[0] == result.sentence
    return {answer.headline.replace("\xa0", " "): answer.action for answer in result.conclusion.proposals}


def test_a_training_step_is_told_what_the_backward_pass_keeps(model: Notebook) -> None:
    result = measured(model, "loss = (net(x) - x).square().mean()\nopt.zero_grad()\nloss.backward()\nopt.step()")
    assert "is kept for backward" in result.sentence
    actions = said(result)
    assert any("most in Blk.forward" in fact and do.startswith("Recompute it") for fact, do in actions.items())


def test_half_batches_say_which_gradients_stay_and_are_instead_of_what_gains_as_much(model: Notebook) -> None:
    model.run("wide = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).to(device)")
    model.run("rows = torch.randn(256, 64, device=device)")
    proposals = measured(model, "(wide(rows) - rows).square().mean().backward()").conclusion.proposals
    kept, half = [(units.size(a.after_bytes), a.headline.replace("\xa0", " "), a.action) for a in proposals]
    assert kept[0] == half[0]
    assert half[1] == "786 kB grows with the batch; half goes, 133 kB of gradients stay"
    assert half[2] == "Accumulate gradients over two half batches instead"


def test_a_variable_that_the_cell_does_not_use_is_to_be_deleted_and_the_gain_is_exact(model: Notebook) -> None:
    source = "y = x * 2"
    model.run("forgotten = torch.zeros(4000, 256, device=device)")
    with_it = measured(model, source)
    [answer] = [a for a in with_it.conclusion.proposals if a.action.startswith("Run `del forgotten`")]
    model.run("del forgotten")
    assert measured(model, source).peak_bytes == answer.after_bytes
    model.run("x2 = torch.zeros(4000, 256, device=device)")
    assert not [a for a in measured(model, "y = x2 + 1").conclusion.proposals if "x2" in a.action]


def test_losses_in_a_list_ask_for_item_and_inference_for_no_grad(model: Notebook) -> None:
    source = "losses = []\nfor _ in range(3):\n    loss = (net(x) - x).square().mean()\n    losses.append(loss)"
    actions = said(measured(model, source))
    assert actions["`losses` keeps the graph of every iteration"] == (
        "Store `loss.item()` in `losses`, and `del loss` after it"
    )
    assert any(do.startswith("Put line 4 under `torch.no_grad()`") for do in actions.values())


def test_gradients_of_an_earlier_step_are_named_only_where_the_cell_has_no_use_of_them(model: Notebook) -> None:
    model.run("(net(x) - x).square().mean().backward()")
    fact = "Gradients of an earlier step hold"
    model.run("%%memory -o m\nwith torch.no_grad():\n    o = net(x)")
    assert any(known.startswith(fact) for known in said(model.names["m"]))
    model.run("%%memory -o m\nopt.step()")
    assert not any(known.startswith(fact) for known in said(model.names["m"]))


def test_temporaries_of_a_step_for_all_parameters_at_once_are_named(model: Notebook) -> None:
    model.run("many = torch.optim.Adam(net.parameters(), foreach=True)\n(net(x) - x).square().mean().backward()")
    model.run("many.step()")
    model.run("%%memory -o m\nmany.step()")
    assert "Set foreach=False in the optimizer" in said(model.names["m"]).values(), model.names["m"].text(details=True)
