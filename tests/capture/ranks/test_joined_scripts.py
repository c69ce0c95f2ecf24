"""python -m perfmagic join: two processes as torchrun starts them, without a notebook."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.capture.ranks.settings import Launched, launched
from tests.forked import Forked, started

pytestmark = pytest.mark.slow
HEAD = (
    "import os, sys, time, torch, torch.distributed as dist\ndist.init_process_group({backend!r})\n"
    "t = torch.ones(8); dist.barrier()\n"  # a rank that ends while another connects would break its connection
)
SIM = "import torch, torch.distributed as dist\ndist.init_process_group({backend!r})\n"
FIRST = 4  # the line on which a test's own code begins
SECONDS = 120
BY_TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500", "LOCAL_RANK": "0"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def start_rank(rank: int, port: int, *arguments: str, **how: bool) -> Forked | subprocess.Popen[str]:
    """One of two ranks, as somebody starts it by hand.  how: of started()."""
    names = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    names |= {"PERFMAGIC_RANKS_GRACE_S": "0.4", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    return started(["-m", "perfmagic", "join", *arguments], {**os.environ, **names}, **how)


def prints(rank: Forked | subprocess.Popen[str], wanted: str) -> bool:
    """Whether a rank prints a line, while it runs."""
    limit = threading.Timer(SECONDS, rank.kill)
    limit.start()
    assert rank.stderr is not None
    printed = any(line.strip() == wanted for line in rank.stderr)
    limit.cancel()
    return printed


def joined(
    folder: Path, body: str, *options: str, backend: str = "gloo", head: str = HEAD, missing: int | None = None,
    **how: bool,
) -> list[tuple[int, str, str]]:  # fmt: skip
    """The status, stdout and stderr of both ranks.  missing: a rank that does not find the script."""
    script = folder / "train.py"
    script.write_text(head.format(backend=backend) + body)
    paths = [f"{script}.gone" if rank == missing else str(script) for rank in (0, 1)]
    port = free_port()
    running = [start_rank(rank, port, *options, paths[rank], "--lr", "1", **how) for rank in (0, 1)]
    said = [process.communicate(timeout=SECONDS) for process in running]
    return [(process.returncode, *output) for process, output in zip(running, said, strict=True)]


def test_a_script_runs_as_by_itself_and_its_ranks_are_saved_on_one_axis(tmp_path: Path) -> None:
    body = "for _ in range(3): dist.all_reduce(t)\nprint(sys.argv[1:], t[0].item(), __name__)\n"
    body += "dist.destroy_process_group()"
    runs = tmp_path / "runs"
    for status, out, err in joined(tmp_path, body, "--save", str(runs), fork=False):
        assert (status, out) == (0, "['--lr', '1'] 8.0 __main__\n"), err
    job = perfmagic.open_traces(runs).ranks
    assert (job.ranks.ranks, len(job.meetings())) == ([0, 1], 4)  # the barrier first
    assert (job.clocks.how, job.clocks.bound_ns) == ("one host", 0)
    assert {ping[5] for ping in job.ranks.traces[1].meta.pings} == {0, 1}  # what tells the clocks of two hosts


def test_a_script_on_a_gpu_that_is_not_there_takes_the_same_virtual_time_on_each_run(tmp_path: Path) -> None:
    body = 'x = torch.ones(512, 512, device=__import__("perfmagic").device("H100"))\nfor _ in range(3):\n'
    body += "    dist.all_reduce(x @ x)\ndist.destroy_process_group()"
    runs = [tmp_path / name for name in ("first", "second")]
    for folder in runs:
        for status, _, err in joined(
            tmp_path, body, "--clock", "virtual", "--save", str(folder), backend="sim", head=SIM
        ):
            assert status == 0, err
    jobs = [perfmagic.open_traces(folder).ranks for folder in runs]
    first, second = ([trace.ops.end_ns.tolist() for trace in job.ranks.traces.values()] for job in jobs)
    assert first == second
    assert all("H100" in job.text() and "not recorded" in job.text() for job in jobs)


@pytest.mark.parametrize("option", [("--device", "cpu", "--clock", "virtual"), ("--clock", "fast")])
def test_a_clock_that_a_device_lacks_is_refused(tmp_path: Path, option: tuple[str, ...]) -> None:
    for status, _, err in joined(tmp_path, "", *option):
        assert status != 0
        assert "no virtual clock" in err or "invalid choice" in err


@pytest.mark.parametrize("backend", ["gloo", "sim"])
def test_a_rank_that_waits_for_a_failed_one_is_freed_and_says_why(tmp_path: Path, backend: str) -> None:
    body = "dist.all_reduce(t)\nif dist.get_rank() == 1: raise ValueError('boom')\ndist.all_reduce(t)"
    options = ("--device", "sim") if backend == "sim" else ()
    (exit_0, _, freed), (exit_1, _, raised) = joined(tmp_path, body, *options, backend=backend)
    assert (exit_0, exit_1) == (1, 1)
    assert raised.splitlines()[-1] == "ValueError: boom"
    assert "runpy" not in raised
    assert freed.splitlines()[-1] == (
        f"perfmagic: rank 0 was freed on line {FIRST + 2} while it waited in all_reduce: "
        f"rank 1 failed on line {FIRST + 1} with ValueError"
    )


def test_a_rank_that_waits_for_one_that_is_through_is_freed(tmp_path: Path) -> None:
    (exit_0, _, _), (exit_1, _, freed) = joined(tmp_path, "if dist.get_rank() == 1: dist.all_reduce(t)")
    assert (exit_0, exit_1) == (0, 1)
    assert "rank 0 has finished the script and will not join" in freed.splitlines()[-1]


NO_SYNC = """
where = __import__("perfmagic").device() if {backend!r} == "sim" else "cpu"
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).to(where))
def step(): model(torch.ones(4, 8, device=where)).sum().backward()
step()
if dist.get_rank() == 1:
    with model.no_sync(): step()
else:
    step()
print(model.module.weight.grad.sum().item())
"""
ORDER = """
a, b = dist.new_group(), dist.new_group()
for group in (a, b) if dist.get_rank() else (b, a):
    dist.all_reduce(t, group=group)
"""


@pytest.mark.parametrize("backend", ["gloo", "sim"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            NO_SYNC,
            ("waits in all_reduce on line ", "collective of the default group", "rank 1 has finished the script"),
        ),
        (ORDER, ("collective of group 2 (ranks 0, 1)", "each waits for another", "their groups in the same order")),
        (
            "if dist.get_rank() == 0: dist.send(t, 1)",
            (f"waits in send to rank 1 on line {FIRST}, in the default group", "rank 1 has finished the script"),
        ),
        (
            "if dist.get_rank() == 0: dist.new_group()",
            (f"waits in new_group on line {FIRST}", "rank 1 has finished the script"),
        ),
    ],
    ids=["no_sync-on-one-rank", "groups-in-another-order", "send-without-recv", "a-group-that-one-makes"],
)
def test_a_script_that_would_hang_ends_with_rank_line_and_group(
    tmp_path: Path, body: str, said: tuple[str, ...], backend: str
) -> None:
    options = ("--device", "sim") if backend == "sim" else ()
    (exit_0, _, freed), _ = joined(tmp_path, body.replace("{backend!r}", repr(backend)), *options, backend=backend)
    assert exit_0 == 1
    last = freed.splitlines()[-1]
    assert [part for part in ("rank 0 ", *said) if part not in last] == [], last


THREAD_SENDS = """
import threading
rank = dist.get_rank()
def later():
    time.sleep(3)
    dist.send(t, 1 - rank, tag=5)
thread = threading.Thread(target=later, daemon={daemon})
thread.start()
dist.recv(t, 1 - rank, tag=5)
thread.join()
"""
THREAD_AFTER_THE_END = """
import threading
def later():
    time.sleep(3)
    dist.all_reduce(t)
if dist.get_rank(): threading.Thread(target=later).start()
else: dist.all_reduce(t)
"""
POOL_AFTER_THE_END = """
from concurrent.futures import ThreadPoolExecutor
def later():
    time.sleep(3)
    dist.all_reduce(t)
pool = ThreadPoolExecutor(1)
pool.submit(int).result()
if dist.get_rank(): pool.submit(later)
else: dist.all_reduce(t)
"""


@pytest.mark.parametrize(
    "body",
    [
        THREAD_SENDS.format(daemon=False),
        THREAD_SENDS.format(daemon=True),
        THREAD_AFTER_THE_END,
        f"{THREAD_AFTER_THE_END}sys.exit(0)",
        POOL_AFTER_THE_END,
    ],
    ids=["sends", "sends-as-a-daemon", "after-the-end", "after-an-exit", "of-a-pool-after-the-end"],
)
def test_what_another_thread_still_does_is_waited_for(tmp_path: Path, body: str) -> None:
    for status, _, err in joined(tmp_path, body):  # it sleeps for seven times the grace
        assert status == 0, err


THREADS_WAIT = """
import threading
thread = threading.Thread(target=lambda: dist.recv(torch.ones(8), 1 - dist.get_rank(), tag=1), daemon=True)
thread.start()
dist.recv(t, 1 - dist.get_rank(), tag=2)
"""
POOL_IDLES = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
pool.submit(int).result()
dist.recv(t, 1 - dist.get_rank())
"""


@pytest.mark.parametrize("body", [THREADS_WAIT, POOL_IDLES], ids=["that-wait-too", "without-work"])
def test_threads_that_cannot_act_hide_no_hang(tmp_path: Path, body: str) -> None:
    (exit_0, _, freed), _ = joined(tmp_path, body)
    assert exit_0 == 1
    assert "each waits for another, and none can continue" in freed


@pytest.mark.parametrize("early", ["before", "in", "unknown"])
def test_a_rank_that_fails_before_the_groups_are_made_frees_the_others(tmp_path: Path, early: str) -> None:
    code = {
        "before": "if os.environ['RANK'] == '1': raise ValueError('boom')",
        "in": "if os.environ['RANK'] == '1': dist.init_process_group('gloo', init_method='what://')",
        "unknown": "if os.environ['RANK'] == '1': __import__('perfmagic').device('what')",
    }[early]
    head = "import os, torch.distributed as dist\n"
    (exit_0, _, freed), (exit_1, _, _) = joined(tmp_path, "dist.init_process_group('gloo')", head=f"{head}{code}\n")
    assert (exit_0, exit_1) == (1, 1)
    assert "rank 0 was freed on line 3 while it waited in init_process_group: rank 1 failed on line 2" in freed


@pytest.mark.parametrize("backend", ["gloo", "sim"])
@pytest.mark.parametrize("absence", ["has finished the script", "has not joined"])
def test_a_rank_whose_partner_never_arrives_says_so_and_waits_on(tmp_path: Path, backend: str, absence: str) -> None:
    script = tmp_path / "train.py"
    started_again = tmp_path / "again"
    head = f"import os, sys, torch, torch.distributed as dist\nagain = os.path.exists({str(started_again)!r})\n"
    body = "if os.environ['RANK'] == '1' and not again: sys.exit()\n"
    make = f"dist.init_process_group({backend!r})\nt = torch.ones(1)\ndist.all_reduce(t)\nprint(t.item())\n"
    script.write_text(head + body + make + "dist.destroy_process_group()")
    arguments = (*(("--device", "sim") if backend == "sim" else ()), str(script))
    port = free_port()
    running = [start_rank(0, port, *arguments)]
    try:
        if absence == "has finished the script":
            running.append(start_rank(1, port, *arguments))
        waits = "perfmagic: still waiting: rank 0 waits in init_process_group on line 4"
        assert prints(running[0], f"{waits}: 1 of 2 ranks has arrived, rank 1 {absence}")
        assert running[0].poll() is None
        started_again.touch()
        running.append(start_rank(1, port, *arguments))
        assert running[0].communicate(timeout=SECONDS)[0] == "2.0\n"
        assert [rank.wait(SECONDS) for rank in running] == [0] * len(running)
    finally:
        for rank in running:
            rank.kill()
            rank.communicate()


def test_a_rank_that_cannot_reach_rank_0_says_so_and_waits_on(tmp_path: Path) -> None:
    port = free_port()
    alone = start_rank(1, port, str(tmp_path / "train.py"))
    try:
        assert prints(alone, f"perfmagic: still waiting: rank 1 waits for rank 0 at 127.0.0.1:{port}")
        assert alone.poll() is None
    finally:
        alone.kill()
        alone.communicate()


def test_a_script_that_is_missing_on_one_host_frees_the_others(tmp_path: Path) -> None:
    (exit_0, _, freed), (exit_1, _, missing) = joined(tmp_path, "dist.all_reduce(t)", missing=1)
    assert (exit_0, exit_1) == (1, 1)
    assert "there is no script" in missing
    assert "while it waited in init_process_group: rank 1 failed with OptionError" in freed


def test_groups_go_by_the_name_that_was_asked_for(tmp_path: Path) -> None:
    body = "group = dist.new_group()\nprint(dist.get_backend(), dist.get_backend(group))\n"
    body += (
        "dist.monitored_barrier()\nfound = [None, None]\ndist.all_gather_object(found, dist.get_rank())\nprint(found)"
    )
    for status, out, err in joined(tmp_path, body):
        assert (status, out) == (0, "gloo gloo\n[0, 1]\n"), err


def test_a_rank_that_is_killed_frees_the_others(tmp_path: Path) -> None:
    body = "if dist.get_rank() == 1: os.kill(os.getpid(), 9)\ndist.all_reduce(t)"
    (exit_0, _, freed), (exit_1, _, _) = joined(tmp_path, body)
    assert (exit_0, exit_1) == (1, -9)
    assert freed.splitlines()[-1].endswith("rank 1 ended")


def test_what_was_recorded_of_a_failed_script_is_saved(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    joined(tmp_path, "dist.all_reduce(t)\nif dist.get_rank() == 1: sys.exit(3)\n", "--save", str(runs))
    timelines = perfmagic.open_traces(runs)
    assert [timeline.trace.meta.failed for timeline in timelines] == ["", "SystemExit: 3"]


class TestTheLauncher:
    def test_torchruns_variables_are_read(self) -> None:
        assert launched(dict(BY_TORCHRUN)) == Launched(1, 2, 0, "a", 29500)
        assert launched(BY_TORCHRUN | {"TORCHELASTIC_USE_AGENT_STORE": "True"}).agent

    @pytest.mark.parametrize(
        "theirs",
        [
            {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"},
            {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
            {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"},
        ],
    )
    def test_other_launchers_are_understood_and_torchruns_variables_set(self, theirs: dict[str, str]) -> None:
        environ = theirs | {"MASTER_ADDR": "a", "MASTER_PORT": "29500"}
        assert launched(environ) == Launched(1, 2, 0, "a", 29500)
        assert (environ["RANK"], environ["WORLD_SIZE"], environ["LOCAL_RANK"]) == ("1", "2", "0")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"RANK": ""}, "RANK is not set"),
            ({"RANK": "", "WORLD_SIZE": ""}, "RANK, WORLD_SIZE are not set"),
            ({"MASTER_PORT": "x"}, "MASTER_PORT='x' is not an integer"),
            ({"RANK": "2"}, "RANK=2 is not a rank of WORLD_SIZE=2"),
        ],
    )
    def test_what_is_missing_or_wrong_is_named_with_a_command(self, change: dict[str, str], words: str) -> None:
        with pytest.raises(perfmagic.OptionError, match=words) as refused:
            launched(BY_TORCHRUN | change)
        assert "torchrun --nproc-per-node 2 -m perfmagic join" in str(refused.value)

    def test_a_process_that_nobody_launched_is_refused_by_the_command(self, tmp_path: Path) -> None:
        clean = {name: value for name, value in os.environ.items() if name not in BY_TORCHRUN}
        done = subprocess.run(
            [sys.executable, "-m", "perfmagic", "join", "train.py"], capture_output=True, text=True, env=clean
        )
        assert done.returncode == 1
        assert "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set" in done.stderr
        assert "Traceback" not in done.stderr
