"""Who kept whom waiting in real ranks: in cells, under join, and in files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.analysis.ranks.causes import LINK, causes_of
from perfmagic.api.ranks.session import Ranks
from perfmagic.results import RanksResult
from tests.analysis.findings.build import plain
from tests.capture.ranks.test_joined_scripts import joined

pytestmark = pytest.mark.slow

SUBGROUPS = """
x = torch.ones(1000)
left, right = dist.new_group([0, 1]), dist.new_group([2, 3])
for step in range(4):
    y = x * 2
    if rank == 3 and step == 2:
        time.sleep(0.4)
    dist.all_reduce(y, group=left if rank < 2 else right)
    dist.all_reduce(y)
"""
PIPELINE = """
def stage(t, times):
    for _ in range(times * (4 if rank == 2 else 1)):
        t = t @ w
    return t
for batch in range(4):
    if rank: dist.recv(y, rank - 1)
    z = stage(x, 2)
    if rank < 3: dist.send(x, rank + 1)
for batch in range(4):
    if rank < 3: dist.recv(y, rank + 1)
    z = stage(x, 4)
    if rank: dist.send(x, rank - 1)
z.sum().item()
"""
BY_PYTHON = """
def stage(t, times):
    for _ in range(times):
        time.sleep({python_s})
        t = t @ w
    return t
for step in range(2):
    for batch in range(4):
        if rank: dist.recv(y, rank - 1)
        z = stage(x, 4)
        if rank < 3: dist.send(x, rank + 1)
    for batch in range(4):
        if rank < 3: dist.recv(y, rank + 1)
        z = stage(x, 8)
        if rank: dist.send(x, rank - 1)
z.sum().item()
"""
EXPERTS = """
tokens = [torch.ones(32, 128, device=dev) for _ in range(4)]
back = [torch.empty(32, 128, device=dev) for _ in range(4)]
for step in range(3):
    dist.all_to_all(back, tokens)
    for _ in range(7 if rank == 1 else 1): z = w @ w
    dist.all_to_all(back, tokens)
z.sum().item()
"""
ROWS = """
rows = torch.ones(384 if rank == 0 else 128, 128, device=dev)
for step in range(4):
    z = ((rows @ w) @ w).sum(0)
    dist.all_reduce(z)
z.sum().item()
"""
LINKS = """
near, far = dist.new_group([0, 1]), dist.new_group([2, 3])
cross, rest = dist.new_group([0, 2]), dist.new_group([1, 3])
big = torch.ones(25_000, device=dev)
for step in range(4):
    z = w @ w
    dist.all_reduce(big, group=near if rank < 2 else far)
    dist.all_reduce(big, group=cross if rank % 2 == 0 else rest)
z.sum().item()
"""

LOADS = """def load(i):
    y = torch.ones(1000) * 2
    if i == 2 and dist.get_rank() == 1:
        time.sleep(0.4)
    return y
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step(i):
    y = load(i)
    dist.all_reduce(y)
    model(y[:8]).sum().backward()
    optimizer.step()
for i in range(6): step(i)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def virtual() -> Iterator[Ranks]:
    with perfmagic.ranks(4, device="sim", clock="virtual") as ranks:
        ranks.run(
            "import torch, torch.distributed as dist, perfmagic\n"
            "dev = perfmagic.device(pace='matmul=1GFLOP/s, link=1GB/s, latency=20us')\n"
            "x, y, w = (torch.ones(128, 128, device=dev) for _ in range(3))"
        )
        yield ranks


def recorded(ranks: Ranks, code: str) -> RanksResult:
    result = ranks.run(code, record=True)
    assert result is not None
    return result


def test_a_sleep_within_groups_is_named_in_a_cell_and_in_its_files(tmp_path: Path) -> None:
    with perfmagic.ranks(4, device="cpu") as ranks:
        ranks.run("import torch, time, torch.distributed as dist\ntorch.set_num_threads(1)")
        result = recorded(ranks, SUBGROUPS)
    result.save(tmp_path / "runs")
    for found in (result, perfmagic.open_ranks(tmp_path / "runs"), perfmagic.open_traces(tmp_path / "runs").ranks):
        first = next(finding for finding in found.findings if finding.rule == "straggler")
        assert (first.ranks, first.line) == ((3,), 8)
        assert first.action == "Look at line 8 on rank 3: time.sleep(0.4)"
        assert 300e6 < causes_of(found.ranks)[0].gain_ns < 450e6


def test_a_heavy_stage_of_a_pipeline_is_named_with_its_lines(virtual: Ranks) -> None:
    causes = causes_of(recorded(virtual, PIPELINE).ranks)
    assert [(cause.ranks, cause.name) for cause in causes] == [((2,), "z = stage(x, 4)"), ((2,), "z = stage(x, 2)")]
    matmul_ns = 2 * 128**3
    # GPipe: 4 micro-batches of 3 times as much more on the path, of two matmuls forward and four backward
    assert [cause.excess_ns for cause in causes] == pytest.approx([4 * 12 * matmul_ns, 4 * 6 * matmul_ns], rel=0.01)
    assert [cause.gain_ns for cause in causes] == pytest.approx([4 * 12 * matmul_ns, 4 * 6 * matmul_ns], rel=0.01)


@pytest.mark.parametrize(("python_s", "waits"), [(0.01, True), (0, False)])
def test_a_pipeline_whose_launches_set_the_pace_names_no_stage(virtual: Ranks, python_s: float, waits: bool) -> None:
    """A matmul takes 4 ms, and Python before it 10 ms or nothing."""
    virtual.run("import time")
    result = recorded(virtual, BY_PYTHON.format(python_s=python_s))
    (found,) = (finding for finding in result.findings if finding.rule == "pipeline")
    assert found.cost_ns is None
    assert plain(found.headline).startswith("Every stage of 4 stages waits for Python") is waits


def test_a_hot_expert_is_named(virtual: Ranks) -> None:
    (cause,) = causes_of(recorded(virtual, EXPERTS).ranks)
    assert (cause.ranks, cause.name) == ((1,), "for _ in range(7 if rank == 1 else 1): z = w @ w")
    assert cause.gain_ns == pytest.approx(3 * 6 * 2 * 128**3, rel=0.01)


def test_more_rows_are_called_so(virtual: Ranks) -> None:
    result = recorded(virtual, ROWS)
    (cause,) = causes_of(result.ranks)
    assert (cause.ranks, cause.rows) == ((0,), 3.0)
    late = next(finding for finding in result.findings if finding.rule == "straggler")
    assert "It has 3 × the rows in the same operators" in late.sentence
    assert "slower device" not in result.text(details=True)


def test_all_ranks_leave_a_collective_together_and_its_slow_link_is_named(
    virtual: Ranks,
) -> None:
    virtual.run("if rank == 2: dev = perfmagic.device(pace='matmul=1GFLOP/s, link=100MB/s, latency=20us')")
    result = recorded(virtual, LINKS)
    virtual.run("if rank == 2: dev = perfmagic.device(pace='matmul=1GFLOP/s, link=1GB/s, latency=20us')")
    assert all(len({*meeting.end_ns}) == 1 for meeting in result.meetings())
    (cause,) = causes_of(result.ranks)
    assert (cause.phase, cause.ranks) == (LINK, (2,))
    assert "with rank 2 takes" in plain(result.answers.answers[0].headline)


def test_a_sleep_in_a_joined_script_is_named_by_its_rank(tmp_path: Path) -> None:
    body = (
        "x = torch.ones(1000)\nfor step in range(4):\n    y = x * 2\n"
        "    if step == 2 and dist.get_rank() == 1: time.sleep(0.4)\n    dist.all_reduce(y)\n"
        "dist.destroy_process_group()"
    )
    for status, _, err in joined(tmp_path, body, "--save", str(tmp_path / "runs")):
        assert status == 0, err
    first = causes_of(perfmagic.open_traces(tmp_path / "runs").ranks.ranks)[0]
    assert (first.ranks, first.n_times) == ((1,), 1)
    assert 300e6 < first.gain_ns < 450e6


def test_lines_of_a_joined_script_are_named_in_its_functions(tmp_path: Path) -> None:
    for status, _, err in joined(tmp_path, LOADS, "--lines", "--save", str(tmp_path / "runs")):
        assert status == 0, err
    found = perfmagic.open_traces(tmp_path / "runs").ranks
    first = next(finding for finding in found.findings if finding.rule == "straggler")
    assert plain(first.headline).startswith("train.py line 7 takes 4")
    assert plain(first.headline).endswith("ms more on rank 1 in step 2")
    assert plain(first.action) == "Look at train.py line 7 on rank 1: time.sleep(0.4)"
    assert "Steps count from 0" in first.sentence
    assert 300e6 < causes_of(found.ranks)[0].gain_ns < 450e6


def test_a_line_in_a_function_of_the_cell_is_named_where_lines_are_followed() -> None:
    with perfmagic.ranks(2, device="cpu") as ranks:
        ranks.run("import torch, time, torch.distributed as dist\ntorch.set_num_threads(1)")
        code = "def load():\n    y = torch.ones(9)\n    time.sleep(0.3 * rank)\n    return y\n"
        code += "for step in range(2): dist.all_reduce(load())"
        called = ranks.run(code, record=True, lines=False)
        inside = ranks.run(code, record=True, lines=True)
    for found, line in ((called, 6), (inside, 4)):
        assert found is not None
        first = next(finding for finding in found.findings if finding.rule == "straggler")
        assert (first.ranks, first.line) == ((1,), line)


def test_on_the_real_clock_the_slowest_link_holds_up_all_ranks() -> None:
    with perfmagic.ranks(2, device="sim", clock="real") as ranks:
        ranks.run(
            "import torch, torch.distributed as dist, perfmagic\n"
            "dev = perfmagic.device(pace='link=10MB/s' if rank else 'link=1GB/s')\nx = torch.ones(250_000, device=dev)"
        )
        (meeting,) = recorded(ranks, "dist.all_reduce(x)\nx.sum().item()").meetings()
    assert min(meeting.transfer_ns) > 90e6  # of 1 MB at 10 MB/s; at 1 GB/s it took 1 ms
