"""Steps of training loops in several processes: marked and begun together, and no start-up is taken for a straggler."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.analysis.ranks.causes import causes_of
from perfmagic.results import RanksResult
from tests.capture.ranks.test_joined_scripts import joined
from tests.many_ranks import run_ranks

pytestmark = pytest.mark.slow

STEPS = """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step(i):
    loss = model(torch.ones(4, 8)).sum()
    if i == 4 and dist.get_rank() == 1: time.sleep(0.6)
    loss.backward()
    optimizer.step()
"""


def straggler(found: RanksResult) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Which rank is late, and in which steps."""
    first = causes_of(found.ranks)[0]
    return first.ranks, first.steps


def test_a_joined_script_is_judged_from_its_first_full_step_on(tmp_path: Path) -> None:
    """Rank 0 begins 600 ms late; rank 1 sleeps for 600 ms in step 4."""
    body = (
        "time.sleep(0.6 * (dist.get_rank() == 0))" + STEPS + "for i in range(8): step(i)\ndist.destroy_process_group()"
    )
    for status, _, err in joined(tmp_path, body, "--save", str(tmp_path / "runs")):
        assert status == 0, err
    found = perfmagic.open_traces(tmp_path / "runs").ranks
    assert [summary.steps for summary in found.ranks.summaries.values()] == [(1, 2, 3, 4, 5, 6, 7)] * 2
    assert straggler(found) == ((1,), (4,))
    apart = next(finding for finding in found.findings if finding.rule == "ranks_start_up")
    assert (apart.ranks, apart.cause.partition(":")[0]) == ((0,), "start-up")


RECORD = """
import time
from perfmagic.capture.recording import training
training.MEET_S = {meet_s}
if rank == 0: time.sleep(0.6)
"""
LOOP = """
with perfmagic.timeline(wait=1, warmup=1, active=5, out={out!r}) as t:
    for i in range(8):
        step(i)
        t.step()
say(notes=[note.kind for note in t.result.trace.meta.notes])
"""


def test_ranks_begin_to_record_together_after_their_last_warm_up_step(tmp_path: Path) -> None:
    loop = "if rank == 1: time.sleep(0.3)\n" + LOOP.format(out=str(tmp_path / "rank{rank}.npz"))
    run_ranks(tmp_path, 2, RECORD.format(meet_s=60) + STEPS + loop, backend="gloo")
    found = perfmagic.open_traces(*sorted(tmp_path.glob("rank*.npz"))).ranks
    assert [summary.steps for summary in found.ranks.summaries.values()] == [(2, 3, 4, 5, 6)] * 2
    assert straggler(found) == ((1,), (4,))


def test_a_rank_that_records_alone_goes_on_and_says_so(tmp_path: Path) -> None:
    loop = "if rank == 1:\n    for i in range(8): step(i)\nelse:" + LOOP.format(out="").replace("\n", "\n    ")
    alone, _ = run_ranks(tmp_path, 2, RECORD.format(meet_s=0.1) + STEPS + loop.replace(", out=''", ""), backend="gloo")
    assert "alone" in alone["notes"]


def test_no_rank_goes_on_before_all_have_come(tmp_path: Path) -> None:
    """Rank 1 comes half a second late."""
    source = RECORD.format(meet_s=60) + "dist.barrier()\ntime.sleep(0.5 * rank)\nbegan = time.perf_counter()\n"
    source += "training.line_up()\nsay(waited=time.perf_counter() - began)"
    first, second = run_ranks(tmp_path, 2, source, backend="gloo")
    assert second["waited"] < first["waited"]
    assert first["waited"] > 0.4
