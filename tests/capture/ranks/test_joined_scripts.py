"""python -m perfmagic join: two processes as torchrun starts them, without a notebook."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

import perfmagic
from perfmagic.capture.ranks.launched import Launched, launched

pytestmark = pytest.mark.slow
HEAD = (
    "import os, sys, time, torch, torch.distributed as dist\ndist.init_process_group({backend!r})\nt = torch.ones(8)\n"
)
FIRST = 4  # the line on which a test's own code begins
SECONDS = 120
BY_TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500", "LOCAL_RANK": "0"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def joined(folder: Path, body: str, *options: str, backend: str = "gloo") -> list[tuple[int, str, str]]:
    """The status, stdout and stderr of both ranks."""
    script = folder / "train.py"
    script.write_text(HEAD.format(backend=backend) + body)
    names = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    names |= {"PERFMAGIC_RANKS_GRACE_S": "0.4"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "perfmagic", "join", *options, str(script), "--lr", "1"],
            env={**os.environ, **names, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [one.communicate(timeout=SECONDS) for one in running]
    return [(one.returncode, *words) for one, words in zip(running, said, strict=True)]


def test_a_script_runs_as_by_itself_and_its_ranks_are_saved_on_one_axis(tmp_path: Path) -> None:
    body = "for _ in range(3): dist.all_reduce(t)\nprint(sys.argv[1:], t[0].item(), __name__)\n"
    body += "dist.destroy_process_group()"
    runs = tmp_path / "runs"
    for status, out, err in joined(tmp_path, body, "--save", str(runs)):
        assert (status, out) == (0, "['--lr', '1'] 8.0 __main__\n"), err
    found = perfmagic.open_traces(runs).ranks
    assert (found.ranks.ranks, len(found.meetings())) == ([0, 1], 3)
    assert (found.clocks.how, found.clocks.bound_ns) == ("one host", 0)
    assert {ping[5] for ping in found.ranks.traces[1].meta.pings} == {0, 1}  # what tells the clocks of two hosts


@pytest.mark.parametrize("backend", ["gloo", "sim"])
def test_a_rank_that_waits_for_a_failed_one_is_freed_and_says_why(tmp_path: Path, backend: str) -> None:
    body = "dist.all_reduce(t)\nif dist.get_rank() == 1: raise ValueError('boom')\ndist.all_reduce(t)"
    options = ("--device", "sim") if backend == "sim" else ()
    (zero, _, freed), (one, _, raised) = joined(tmp_path, body, *options, backend=backend)
    assert (zero, one) == (1, 1)
    assert raised.splitlines()[-1] == "ValueError: boom"
    assert "runpy" not in raised
    assert freed.splitlines()[-1] == (
        f"perfmagic: rank 0 was freed on line {FIRST + 2} while it waited in all_reduce: "
        f"rank 1 failed on line {FIRST + 1} with ValueError"
    )


def test_a_rank_that_waits_for_one_that_is_through_is_freed(tmp_path: Path) -> None:
    (zero, _, _), (one, _, freed) = joined(tmp_path, "if dist.get_rank() == 1: dist.all_reduce(t)")
    assert (zero, one) == (0, 1)
    assert "rank 0 has finished the script and will not join" in freed.splitlines()[-1]


def test_a_rank_that_is_killed_frees_the_others(tmp_path: Path) -> None:
    body = "if dist.get_rank() == 1: os.kill(os.getpid(), 9)\ndist.all_reduce(t)"
    (zero, _, freed), (one, _, _) = joined(tmp_path, body)
    assert (zero, one) == (1, -9)
    assert freed.splitlines()[-1].endswith("rank 1 ended")


def test_what_was_recorded_of_a_failed_script_is_saved(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    joined(tmp_path, "dist.all_reduce(t)\nif dist.get_rank() == 1: sys.exit(3)\n", "--save", str(runs))
    found = perfmagic.open_traces(runs)
    assert [one.trace.meta.failed for one in found] == ["", "SystemExit: 3"]


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
            ({"MASTER_PORT": "x"}, "MASTER_PORT='x' is no whole number"),
            ({"RANK": "2"}, "RANK=2 is no rank of WORLD_SIZE=2"),
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
