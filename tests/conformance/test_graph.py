"""Which operator needs which, and which device ops are its own."""

import pytest

torch = pytest.importorskip("torch", reason="devices are reached through torch")

import perfmagic  # noqa: E402 - after the skip

pytestmark = pytest.mark.slow


def _pairs(found: perfmagic.rows.GraphResult) -> set[tuple[str, str]]:
    return {(edge.needs_name, edge.of_name) for edge in found.edges()}


def test_a_sum_of_a_product_needs_the_product_and_each_launched_one_kernel(kind, device) -> None:
    def sum_of_product() -> None:
        torch.ones(64, 64, device=device) * torch.zeros(64, 64, device=device) + 2

    sum_of_product()
    found = perfmagic.graph(sum_of_product)
    assert [(node.name, node.n_ops, node.lane) for node in found.nodes()] == [
        ("ones", 1, kind),
        ("zeros", 1, kind),
        ("mul", 1, kind),
        ("add", 1, kind),
    ]
    assert [(edge.needs, edge.of) for edge in found.edges()] == [(0, 2), (1, 2), (2, 3)]


def test_every_device_op_of_a_training_step_belongs_to_an_operator_and_none_begins_before_what_it_needs(device) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(16, 32), torch.randint(0, 10, (16,))

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        loss.item()

    step()
    found = perfmagic.graph(step)
    nodes = found.nodes()
    assert sum(node.n_ops for node in nodes) == len(found.trace.ops)
    assert "came from no operator" not in found.text()
    on_device = [(edge.needs, edge.of) for edge in found.edges() if nodes[edge.needs].n_ops and nodes[edge.of].n_ops]
    assert all(nodes[a].end_ns <= nodes[b].start_ns for a, b in on_device)
    assert {("addmm", "relu"), ("relu", "threshold_backward"), ("threshold_backward", "mm")} <= _pairs(found)
    assert nodes[-1].name == ".item()"


def test_two_streams_are_two_lanes(device_module, device) -> None:
    x = torch.ones(256, 256, device=device)
    side = device_module.Stream()

    def both() -> None:
        side.wait_stream(device_module.current_stream())
        with device_module.stream(side):
            y = x @ x
        z = x + x
        device_module.current_stream().wait_stream(side)
        (y + z).sum()

    both()
    found = perfmagic.graph(both)
    lanes = [node.lane for node in found.nodes()]
    assert len(set(lanes)) == 2
    assert lanes[0] != lanes[1] == lanes[2]
    assert {("mm", "add"), ("add", "add"), ("add", "sum")} == _pairs(found)
