"""The message about a hang names rank, line and group: on the CPU as on the simulated device."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfmagic.api.ranks.session import PRELOAD
from perfmagic.capture.ranks import peers

from .conftest import USE, Cells, messages

pytestmark = pytest.mark.slow
SETUP = f"""{USE}
from torch.nn.parallel import DistributedDataParallel as DDP
where = "{{device}}"
if where == "sim":
    import perfmagic
    where = perfmagic.device()
t = t.to(where)
a, b = dist.new_group(), dist.new_group(group_desc="second")
pair = dist.new_group([0, 1])
model = DDP(torch.nn.Linear(8, 8).to(where))
def step(): model(torch.ones(4, 8, device=where)).sum().backward()
def done(t): return t.sum().item()
def until_noticed():
    ends_s = time.monotonic() + 60
    while not os.path.exists({{noticed!r}}) and time.monotonic() < ends_s: time.sleep(0.01)
step()"""


@pytest.fixture(scope="module")
def noticed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file for which `until_noticed` waits in a rank."""
    return tmp_path_factory.mktemp("ranks") / "noticed"


@pytest.fixture(scope="module", params=["cpu", "sim"])
def ranks(request: pytest.FixtureRequest, noticed: Path) -> Iterator[Cells]:
    """Three ranks with groups, a model and the device's tensor `t`."""
    pytest.importorskip("torch")
    cells = Cells(3, (*PRELOAD, "torch._dynamo"), device=request.param)  # DDP imports it: seconds of CPU in each rank
    end = cells.run(SETUP.format(device=request.param, noticed=str(noticed)))
    assert messages(end) == [""]
    yield cells
    cells.session.close()


@contextmanager
def released_by(ranks: Cells, noticed: Path, *parts: str) -> Iterator[None]:
    """Ranks in `until_noticed` go on as soon as the notices hold all parts: no sleep has to be long enough."""
    noticed.unlink(missing_ok=True)
    ranks.heard.notices.clear()  # those of the cell before
    stop = threading.Event()

    def watch() -> None:
        while not all(any(part in line for line in ranks.heard.notices) for part in parts) and not stop.wait(0.01):
            pass
        noticed.touch()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


GONE = "rank 1 has finished the cell and will not join"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(
            "if rank == 1:\n    with model.no_sync(): step()\nelse: step()\ndone(model.module.weight.grad)",
            [" waits in all_reduce on line ", "collective of the default group", GONE],  # rank 0, rank 2 or both
            id="no_sync-on-one-rank",
        ),
        pytest.param(
            "for group in ((a, b) if rank else (b, a)): dist.all_reduce(t, group=group); done(t)",
            [
                "rank 0 waits in all_reduce on line 2, the 1st collective of group second (ranks 0–2)",
                "rank 1 waits in all_reduce on line 2, the 1st collective of group ",
                "; each waits for another, and none can continue; all ranks have to use their groups in the same order",
            ],
            id="groups-in-another-order",
        ),
        pytest.param(
            "dist.all_reduce(t)\nif rank != 1: dist.all_reduce(t)\ndone(t)",
            [" waits in all_reduce on line ", " collective of the default group", GONE],  # rank 0, rank 2 or both
            id="one-collective-less",
        ),
        pytest.param(
            "if rank == 0: dist.all_reduce(t, group=pair); done(t)",
            ["rank 0 waits in all_reduce on line 2, the 1st collective of group ", " (ranks 0, 1); ", GONE],
            id="a-subgroup-of-which-one-has-returned-while-none-else-waits",
        ),
        pytest.param(
            "if rank == 0: dist.send(t, 1); done(t)",
            ["rank 0 waits in send to rank 1 on line 2, in the default group; ", GONE],
            id="send-without-recv",
        ),
        pytest.param(
            "if rank == 0: dist.all_reduce(t, group=pair); done(t)\nif rank == 2: time.sleep(4)",
            ["rank 0 waits in all_reduce on line 2", " (ranks 0, 1); ", GONE],
            id="while-a-third-rank-computes-whom-nobody-needs",
        ),
    ],
)
def test_a_hang_is_reported_with_rank_line_and_group(ranks: Cells, body: str, said: list[str]) -> None:
    end = ranks.run(body)
    assert [part for part in said if part not in end.hang] == [], end.hang
    assert "line 0" not in end.hang
    assert GONE not in said or "rank 1 waits" not in end.hang
    assert ranks.works()


AUTOGRADS_THREAD = """def slowly(grad):
    if rank == 1: until_noticed()
x = torch.ones(4, 8, device=where, requires_grad=True)
y = model(x)
y.register_hook(slowly)
y.sum().backward()
done(model.module.weight.grad)"""
# rank 0 waits for rank 1, and has asked rank 2 for something that comes later
MESSAGE_LATER = """if rank == 0:
    work = dist.irecv(u := torch.ones(8), 2)
    dist.all_reduce(t, group=pair)
    done(t)
    dist.send(torch.ones(8), 2)
    work.wait()
elif rank == 1:
    until_noticed()
    dist.all_reduce(t, group=pair)
    done(t)
else:
    dist.recv(u := torch.ones(8), 0)
    dist.send(u, 0)"""


@pytest.mark.parametrize(
    "body",
    ["if rank == 1: until_noticed()\nstep(); done(model.module.weight.grad)", AUTOGRADS_THREAD, MESSAGE_LATER],
    ids=["before-the-step", "in-a-hook", "in-a-group-of-two-beside-a-message-that-comes-later"],
)
def test_a_slow_rank_is_waited_for_and_named(ranks: Cells, body: str, noticed: Path) -> None:
    parts = ("still waiting: rank 0 waits in ", "rank 1 computes on line ")
    with released_by(ranks, noticed, *parts):
        end = ranks.run(body)
    assert messages(end) == [""]
    for part in parts:
        assert any(part in notice for notice in ranks.heard.notices), ranks.heard.notices


THREADS_SEND = """import threading
def later():
    until_noticed()
    dist.send(torch.ones(8), (rank + 1) % 3, tag=5)
thread = threading.Thread(target=later, name="sender")
thread.start()
dist.recv(torch.ones(8), (rank + 2) % 3, tag=5)
thread.join()"""
THREAD_AFTER_THE_CELL = """import threading
def later():
    until_noticed()
    dist.all_reduce(torch.ones(8))
if rank == 1: threading.Thread(target=later, name="sender").start()
else: dist.all_reduce(torch.ones(8))"""


@pytest.mark.parametrize("body", [THREADS_SEND, THREAD_AFTER_THE_CELL], ids=["in-the-cell", "after-the-cell"])
def test_a_rank_whose_thread_still_runs_is_waited_for_and_named(ranks: Cells, body: str, noticed: Path) -> None:
    with released_by(ranks, noticed, "its thread sender"):
        end = ranks.run(body)
    assert messages(end) == [""]
    assert any("its thread sender" in notice for notice in ranks.heard.notices), ranks.heard.notices


STORE_WAITS = """store = dist.distributed_c10d._get_default_store()
if rank == 0: {wait}
elif rank == 1:
    until_noticed()
    store.set({key!r}, "1")
dist.all_reduce(t); done(t)"""


@pytest.mark.parametrize("call", ["store.get({key!r})", "store.wait([{key!r}])"], ids=["get", "wait"])
def test_a_wait_for_a_key_that_nobody_sets_is_named_and_goes_on(ranks: Cells, call: str, noticed: Path) -> None:
    key = f"key of {call[:9]}"
    wait = call.format(key=key)
    with released_by(ranks, noticed, ", and no rank has set it"):  # another notice may name the key before
        end = ranks.run(STORE_WAITS.format(wait=wait, key=key))
    assert messages(end) == [""]
    expected = f"still waiting: rank 0 waits in {call.replace('[', '').replace(']', '').format(key=key)} on line 3"
    assert f"{expected}, and no rank has set it" in ranks.heard.notices, ranks.heard.notices


def test_a_rank_that_does_not_answer_shows_its_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "STACKS_S", 0.5)
    cells = Cells(2)
    try:
        body = "class Slow:\n    def __reduce__(self): time.sleep(5); return (int, ())\nslow = Slow()"
        cells.run(f"{USE}\n{body}")
        cells.session.pull("slow")
        printed = [text for rank, _, text in cells.heard.lines if rank == 0]
        assert "no answer from rank 0 for 0.5 s; stacks of the threads here:" in printed
        assert any("in __reduce__" in text for text in printed), printed
        assert any("in _serve" in text for text in printed), printed
        assert cells.works()
    finally:
        cells.session.close()
