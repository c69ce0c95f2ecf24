"""Ranks agree on an operation before it begins: what that must not change, and what it costs a record."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("torch", reason="the process group needs torch")

import torch

from perfmagic.sim.groups import agreement
from perfmagic.sim.groups.gloo import Gloo, Side
from tests.many_ranks import run_ranks

from .test_headers import header


class _Clock:
    now_ns = 0

    def perf_counter_ns(self) -> int:
        return self.now_ns


class _TwoOfOneMind:
    """A gloo group whose other rank says what this one says, after a time."""

    def __init__(self, clock: _Clock) -> None:
        self.clock, self.waits_ns, self.n = clock, [1_000_000, 300, 200, 400], 0

    def recv(self, received: list[torch.Tensor], _rank: int, _tag: int) -> Any:
        self.received = received[0]
        return SimpleNamespace(wait=lambda: None)

    def send(self, sent: list[torch.Tensor], _rank: int, _tag: int) -> Any:
        self.received.copy_(sent[0])
        wait_ns = self.waits_ns[self.n] if self.n < len(self.waits_ns) else 5_000_000
        self.n += 1
        return SimpleNamespace(wait=lambda: setattr(self.clock, "now_ns", self.clock.now_ns + wait_ns))


def test_the_cost_of_agreement_is_measured_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock()
    monkeypatch.setattr(agreement, "time", clock)
    group = _TwoOfOneMind(clock)
    gloo = cast("Gloo", SimpleNamespace(run=lambda _, call: call(), refuse=lambda words: None))
    side = Side(group)
    check = agreement.Collective(header(), 0, (0, 1))
    came = agreement.Came()
    assert (
        check(gloo, side, came).spent_ns == 200 + 300 + 200 + 400
    )  # 1 ms was waiting; three more exchanges showed that
    assert group.n == 4
    assert check(gloo, side, came).spent_ns == 200  # 5 ms were waiting
    assert group.n == 5


_GOES_ON = """
import time
def t(*values):
    return torch.tensor(values, dtype=torch.float32, device=device)
def meet(name):
    # all ranks are here, by files: without a collective
    open(__file__ + f"{name}{rank}", "w").close()
    while not all(os.path.exists(__file__ + f"{name}{k}") for k in range(world_size)):
        time.sleep(0.002)
# a collective is asked for and its partner comes only after this rank has gone on: nothing blocked
a, b = t(rank + 1.0), t(10.0)
if rank == 0:
    works = [dist.all_reduce(a, async_op=True), dist.all_reduce(b, async_op=True)]
    say(done_early=works[0].is_completed())
meet("asked")
if rank == 1:
    works = [dist.all_reduce(a, async_op=True), dist.all_reduce(b, async_op=True)]
assert all(work.wait() for work in works)
say(reduced=[a.item(), b.item()])
# messages that cross: a receive that nobody waits for yet lets its sender go on
x, y = t(rank), t(0.0)
other = 1 - rank
if rank == 0:
    later = dist.irecv(y, 1)
    dist.send(x, 1)
    later.wait()
else:
    dist.send(x, 0); dist.recv(y, 0)
say(crossed=y.item())
# what differs between ranks and may
out = torch.zeros(3 if rank else 2, device=device)
own, takes, gives = (t(4, 5), [2, 1], [1, 1]) if rank else (t(1, 2, 3), [1, 1], [1, 2])
dist.all_to_all_single(out, own, takes, gives)
say(parted=out.tolist())
lists = [torch.zeros(k + rank, device=device) for k in range(1, 3)]
dist.all_to_all(lists, [torch.full((rank + k + 1,), 1.0 * k, device=device) for k in range(2)])
say(listed=[x.tolist() for x in lists])
out = [torch.zeros(2, device=device) for _ in range(2)]
dist.all_gather(out, t(rank, 1)) if rank else dist.all_gather_into_tensor(torch.zeros(4, device=device), t(rank, 1))
got = torch.zeros(2, device=device)
dist.scatter(got, [t(1, 2), t(3, 4)] if rank == 1 else None, 1)
dist.gather(got, [torch.zeros(2, device=device) for _ in range(2)] if rank == 0 else None, 0)
texts = [None, None]
dist.all_gather_object(texts, "longer" * (5 * rank + 1))
say(scattered=got.tolist(), objects=[len(text) for text in texts])
word = [["a", "b" * 50][rank]]
dist.broadcast_object_list(word, 1)
say(word=len(word[0]))
if device.type == "cpu":  # tags are gloo's own there: a message that is received late holds no other
    sent = [dist.isend(t(k), other, tag=k) for k in range(3)]
    got = [t(0.0) for _ in range(3)]
    for k in (2, 0, 1):
        dist.recv(got[k], other, tag=k)
    say(tags=[x.item() for x in got])
    [work.wait() for work in sent]
    future = dist.all_reduce(t(1), async_op=True).get_future().then(lambda done: done.value())
    say(future=[x.item() for x in future.wait()])
    with torch.inference_mode():
        made = t(2.0); dist.all_reduce(made); say(inference=made.item())
    try:
        dist.send(t(1), other, tag=2**30)
    except ValueError as error:
        say(tag=str(error))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sim", "perfmagic"])
def test_agreement_adds_no_blocking_and_allows_legal_differences(tmp_path: Path, backend: str) -> None:
    reports = run_ranks(tmp_path, 2, _GOES_ON, backend=backend)
    assert reports[0]["done_early"] is False
    for rank, report in enumerate(reports):
        assert report["reduced"] == [3.0, 20.0]
        assert report["crossed"] == 1.0 - rank
        assert report["parted"] == ([2.0, 3.0, 5.0] if rank else [1.0, 4.0])
        assert report["listed"] == ([[1.0] * 2, [1.0] * 3] if rank else [[0.0], [0.0] * 2])
        assert report["scattered"] == ([3.0, 4.0] if rank else [1.0, 2.0])
        assert report["objects"] == [6, 36]
        assert report["word"] == 50
        if backend == "perfmagic":
            assert report["tags"] == [0.0, 1.0, 2.0]
            assert report["future"] == [2.0]
            assert report["inference"] == 4.0
            assert "a message's tag is 0 to" in report["tag"]
