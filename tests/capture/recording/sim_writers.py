"""Programs on the simulated device, and what its own log knows of who wrote what they read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from perfmagic.results import GraphResult
from perfmagic.sim import copies, dispatch

Writers = dict[int, set[int]]  # by the correlation of an op those of the ops that wrote last what it reads


def mlp(optimizer: str) -> Callable[[], None]:
    """A training step."""
    net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to("sim")
    step = getattr(torch.optim, optimizer)(net.parameters(), lr=0.1)
    x, y = torch.randn(16, 32), torch.randint(0, 10, (16,))

    def train() -> None:
        step.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x.to("sim")), y.to("sim"))
        loss.backward()
        step.step()
        loss.item()

    return train


def two_devices() -> Callable[[], None]:
    """Copies between devices."""
    x = torch.randn(16, 16, device="sim:0")

    def there_and_back() -> None:
        y = x.to("sim:1")
        ((y @ y).to("sim:0") + x).cpu()

    return there_and_back


def convolution() -> Callable[[], None]:
    """Batch norm writes its statistics in place."""
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).to("sim")
    image = torch.randn(2, 3, 8, 8, device="sim")
    return lambda: net(image).mean().backward()


def attention() -> Callable[[], None]:
    """A layer of a transformer, forward and backward."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True).to("sim")
    x = torch.randn(2, 5, 16, device="sim")
    return lambda: layer(x).sum().backward()


PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "SGD step": lambda: mlp("SGD"),
    "Adam step": lambda: mlp("Adam"),
    "two devices": two_devices,
    "convolution": convolution,
    "attention": attention,
}


@contextmanager
def noted_writers() -> Iterator[Writers]:
    """The last writers of what each op reads, for as long as the block runs. A shape-only read is one there, too."""
    writers: Writers = {}
    queue_op = dispatch.queue_op

    def noting(lane: Any, name: str, kind: Any, body: Any, reads: Any, writes: Any, **more: Any) -> Any:
        reads = list(reads)
        known = {buffer.writer.correlation for buffer in reads if buffer.writer is not None}
        job = queue_op(lane, name, kind, body, reads, writes, **more)
        writers[job.correlation] = known - {job.correlation}
        return job

    dispatch.queue_op = copies.queue_op = noting
    try:
        yield writers
    finally:
        dispatch.queue_op = copies.queue_op = queue_op


def known_pairs(graph: GraphResult, writers: Writers) -> set[tuple[int, int]]:
    """Writer and reader by the number of their operator."""
    placed, ops = graph._graph.placed, graph.trace.ops
    node_of = {int(ops.correlation[row]): i for i, node in enumerate(placed) for row in node.rows}
    pairs = {(node_of[w], node) for of, node in node_of.items() for w in writers.get(of, ()) if w in node_of}
    return {(w, r) for w, r in pairs if w != r}


def shape_only(graph: GraphResult, reader: int) -> bool:
    """Whether an operator reads shapes alone of what it is given."""
    return graph.nodes()[reader].operator.endswith("_like")
