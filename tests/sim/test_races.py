"""Which launches race: against all that reach each other in a graph of the program, built without clocks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the simulated device needs torch")

from perfmagic import sim  # noqa: E402 - after the skip
from perfmagic.trace.columns import Hazard  # noqa: E402
from perfmagic.trace.model import Race  # noqa: E402
from tests.sim.test_log import Recorded  # noqa: E402

N_STREAMS, N_BUFFERS = 3, 2
_stream, _buffer = st.integers(0, N_STREAMS - 1), st.integers(0, N_BUFFERS - 1)
_launches = st.tuples(st.sampled_from(["read", "fill", "add_"]), _stream, _buffer)
_waits = st.tuples(st.sampled_from(["wait_stream", "wait_event"]), _stream, _stream)
_host = st.tuples(st.sampled_from(["synchronize", "record_stream"]), _stream, _buffer)
Program = list[tuple[str, int, int]]  # what is done, the stream, the buffer or the other stream
PROGRAMS = st.lists(st.one_of(_launches, _launches, _waits, _host), max_size=14)


@dataclass
class Graph:
    """What comes before what. Nodes are numbered in the order of the program; a stream's last node is what a wait on
    it waits for."""

    before: list[set[int]] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    host: set[int] = field(default_factory=set)

    def add(self, stream: int, *others: int) -> int:
        direct = {self.last[s] for s in (stream, *others) if s in self.last} | self.host
        self.before.append(direct.union(*(self.before[node] for node in direct)))
        self.last[stream] = len(self.before) - 1
        return self.last[stream]

    def synchronize(self, stream: int) -> None:
        if stream in self.last:
            node = self.last[stream]
            self.host |= {node} | self.before[node]


def expected_races(program: Program) -> list[list[tuple[int, Hazard]]]:
    """For each launch what it races with: with the last writer of its buffer, and with readers since, each the number
    of its launch."""
    graph, races = Graph(), []
    launch_of: dict[int, int] = {}
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {b: [] for b in range(N_BUFFERS)}
    for what, stream, other in program:
        if what in ("wait_stream", "wait_event"):
            graph.add(stream, other)
        elif what == "synchronize":
            graph.synchronize(stream)
        elif what != "record_stream":  # which keeps memory, and orders nothing
            node, writes = graph.add(stream), what != "read"
            launch_of[node] = len(races)
            after_write = Hazard.WRITE_AFTER_WRITE if writes else Hazard.READ_AFTER_WRITE
            rivals = [(writer[other], after_write)] if other in writer else []
            rivals += [(reader, Hazard.WRITE_AFTER_READ) for reader in readers[other]] if writes else []
            races.append([(launch_of[rival], kind) for rival, kind in rivals if rival not in graph.before[node]])
            if writes:
                writer[other], readers[other] = node, []
            else:
                readers[other].append(node)
    return races


@cache
def side_streams() -> list[Any]:
    """The same for every program: each stream has a thread."""
    return [torch.sim.Stream() for _ in range(N_STREAMS - 1)]


def run(program: Program) -> tuple[list[int], list[Race], list[list[float]]]:
    """The launches' numbers, the races among them, what was read and what is left."""
    streams = [torch.sim.current_stream(), *side_streams()]
    buffers = [torch.zeros(2, device="sim") for _ in range(N_BUFFERS)]
    read = []
    do = {
        "read": lambda _step, _stream, other: read.append(buffers[other] * 1),
        "fill": lambda step, _stream, other: buffers[other].fill_(step),
        "add_": lambda _step, _stream, other: buffers[other].add_(1),
        "wait_stream": lambda _step, stream, other: streams[stream].wait_stream(streams[other]),
        "wait_event": lambda _step, stream, other: streams[stream].wait_event(streams[other].record_event()),
        "synchronize": lambda _step, stream, _other: streams[stream].synchronize(),
        "record_stream": lambda _step, stream, other: buffers[other].record_stream(streams[stream]),
    }
    with Recorded() as recorded:
        for step, (what, stream, other) in enumerate(program):
            with torch.sim.stream(streams[stream]):
                do[what](step, stream, other)
    records = recorded.records()
    values = [t.tolist() for t in (*read, *buffers)]
    return sorted(records.ops["correlation"].tolist()), records.races, values


def in_order(program: Program) -> list[list[float]]:
    """What is read and left where the steps are done one after the other."""
    buffers, read = [0.0] * N_BUFFERS, []
    for step, (what, _, other) in enumerate(program):
        if what == "read":
            read.append(buffers[other])
        elif what == "fill":
            buffers[other] = step
        elif what == "add_":
            buffers[other] += 1
    return [[value, value] for value in (*read, *buffers)]


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(PROGRAMS)
def test_a_launch_races_with_what_no_wait_orders_it_behind_and_with_nothing_else(program: Program) -> None:
    correlations, races, values = run(program)
    expected = expected_races(program)
    reported = {race.later: (race.earlier, race.kind) for race in races}
    for number, rivals in enumerate(expected):
        race = reported.pop(correlations[number], None)
        if rivals:  # one of them is reported
            assert (correlations.index(race[0]), race[1]) in rivals
        else:
            assert race is None
    assert not reported
    assert values == in_order(program)  # the device keeps the order all the same


def test_waiting_for_a_stream_orders_what_that_stream_waited_for() -> None:
    program = [("read", 2, 1), ("wait_stream", 1, 2), ("synchronize", 1, 0), ("fill", 0, 1)]
    _, races, _ = run(program)
    assert expected_races(program) == [[], []]
    assert races == []


def test_what_another_stream_still_reads_is_overwritten_after_it(hold: Callable[[], Callable[[], None]]) -> None:
    x, side = torch.ones(4, device="sim"), torch.sim.Stream()
    sim.synchronize()
    with torch.sim.stream(side):
        release = hold()
        y = x * 2
    x.zero_()
    assert not torch.sim.current_stream().query()
    release()
    assert (y.tolist(), x.tolist()) == ([2, 2, 2, 2], [0, 0, 0, 0])


@pytest.mark.parametrize("overwrite", ["x.copy_(torch.zeros(4))", "torch.mul(x, 2, out=x)", "x[:2].add_(1)"])
def test_every_way_to_overwrite_what_another_stream_reads_is_a_race(overwrite: str) -> None:
    x, side = torch.ones(4, device="sim"), torch.sim.Stream()
    with Recorded() as recorded:
        with torch.sim.stream(side):
            x + 1
        eval(overwrite, {"torch": torch, "x": x})
    assert [race.kind for race in recorded.records().races] == [Hazard.WRITE_AFTER_READ]


def races_of(step: Callable[[Any, Any, Any], None]) -> list[Race]:
    """The races of a step with an input, a parameter and a stream."""
    x, w = torch.ones(8, 8, device="sim"), torch.ones(8, 8, device="sim", requires_grad=True)
    sim.synchronize()
    with Recorded() as recorded:
        step(x, w, torch.sim.Stream())
    return recorded.records().races


def send(w: Any, side: Any, wait: Callable[[Any], None]) -> None:
    wait(side)
    with torch.sim.stream(side):
        w.grad.to("cpu", non_blocking=True)


def backward_then_send(x: Any, w: Any, side: Any, wait: Callable[[Any], None]) -> None:
    x.mm(w).sum().backward()
    send(w, side, wait)


def forward_on_another_stream(x: Any, w: Any, side: Any, wait: Callable[[Any], None]) -> None:
    other = torch.sim.Stream()
    other.wait_stream(torch.sim.current_stream())
    with torch.sim.stream(other):
        y = x.mm(w).sum()
    y.backward()  # the current stream waits for its end
    w.grad.add_(w.grad)
    send(w, side, wait)


def send_from_a_hook(x: Any, w: Any, side: Any, wait: Callable[[Any], None]) -> None:
    w.register_post_accumulate_grad_hook(lambda p: send(p, side, wait))
    x.mm(w).sum().backward()


def use_a_returned_gradient(x: Any, w: Any, side: Any, wait: Callable[[Any], None]) -> None:
    (grad,) = torch.autograd.grad(x.mm(w).sum(), w)
    wait(side)
    with torch.sim.stream(side):
        grad + 1


WAITS = [lambda side: side.wait_stream(torch.sim.current_stream()), lambda _side: sim.synchronize()]


@pytest.mark.parametrize(
    "step", [backward_then_send, forward_on_another_stream, send_from_a_hook, use_a_returned_gradient]
)
def test_a_gradient_that_another_stream_uses_without_a_wait_is_a_race(step: Callable[..., None]) -> None:
    assert [race.kind for race in races_of(partial(step, wait=lambda _side: None))] == [Hazard.READ_AFTER_WRITE]
    for wait in WAITS:
        assert races_of(partial(step, wait=wait)) == []


def test_what_takes_only_a_shape_races_with_nobody_until_others_use_it() -> None:
    def step(x: Any, _w: Any, side: Any) -> None:
        with torch.sim.stream(side):
            y = x + 1
        like = torch.ones_like(y)
        with torch.sim.stream(side):
            like + 1

    assert [race.kind for race in races_of(step)] == [Hazard.READ_AFTER_WRITE]
