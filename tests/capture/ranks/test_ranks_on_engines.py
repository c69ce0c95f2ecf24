"""%%ranks --cluster: the same cells beside two engines of a real ipyparallel cluster, which outlive them."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="ranks need torch")
pytest.importorskip("ipyparallel", reason="pip install 'perfmagic[cluster]'")

import ipyparallel

import perfmagic
from perfmagic.api.ranks.session import Ranks
from perfmagic.capture.ranks.cluster import Cluster, connection_file
from perfmagic.results import RanksResult

pytestmark = pytest.mark.slow
SETUP = "import os, time, torch, torch.distributed as dist\nt = torch.ones(8)"
GONE_S = 20


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two engines, and the client of whoever started them."""
    home = tmp_path_factory.mktemp("ipython")
    before = {name: os.environ.get(name) for name in ("IPYTHONDIR", "PERFMAGIC_RANKS_GRACE_S")}
    os.environ.update(IPYTHONDIR=str(home), PERFMAGIC_RANKS_GRACE_S="0.4")
    cluster = ipyparallel.Cluster(n=2, profile_dir=str(home / "profile_default"), cluster_id="tested", log_level=40)
    client = cluster.start_and_connect_sync(activate=False)
    yield client
    perfmagic.api.ranks.session.end_all()
    client.close()
    cluster.stop_cluster_sync()
    for name, value in before.items():
        os.environ.pop(name, None)
        os.environ.update({} if value is None else {name: value})


@pytest.fixture
def ranks(engines: Any) -> Ranks:
    """A rank beside each engine."""
    job = perfmagic.ranks(2, cluster="tested", device="cpu")
    job.run(SETUP)
    return job


def pids_of(engines: Any) -> list[int]:
    return list(engines[:].apply_sync(os.getpid))


def gone(pid: int) -> bool:
    until = time.monotonic() + GONE_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()


def test_there_is_a_rank_for_each_engine_and_variables_stay(ranks: Ranks, engines: Any) -> None:
    ranks.run("x = rank + 40")
    ranks.push(more=1)
    assert (len(ranks), ranks["x + more"]) == (2, [41, 42])
    assert perfmagic.ranks() is ranks
    parents = ranks["os.getppid()"]
    assert parents == pids_of(engines)
    assert "rank 1" in ranks.status()
    assert "engine 1 on " in ranks.status()


def test_what_a_rank_prints_comes_with_its_number(ranks: Ranks, capsys: pytest.CaptureFixture[str]) -> None:
    ranks.run("print('from', rank)\nos.write(1, b'by C %d\\n' % rank);")
    ranks.run("world_size")
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()) == ["[0, 1] 2", "[0] from 0", "[1] from 1"]
    assert {"[0] by C 0", "[1] by C 1"} <= set(said.err.splitlines())


def test_a_rank_that_waits_for_a_failed_one_is_freed_and_the_next_cell_works(ranks: Ranks) -> None:
    with pytest.raises(perfmagic.RanksError) as failed:
        ranks.run("if rank == 1: raise ValueError('boom')\ndist.all_reduce(t)")
    lines = str(failed.value).splitlines()
    assert lines[0] == "ValueError on rank 1, line 2: boom"
    assert lines[-1] == (
        "rank 0 was freed on line 3 while it waited in all_reduce: rank 1 failed on line 2 with ValueError"
    )
    ranks.run("t.fill_(1.0)\ndist.all_reduce(t)")
    assert ranks["t[0].item()"] == [2.0, 2.0]


def test_an_absent_partner_is_reasoned(ranks: Ranks) -> None:
    with pytest.raises(perfmagic.RanksError, match="rank 1 has finished the cell and will not join"):
        ranks.run("if rank == 0: dist.all_reduce(t)")


def test_an_interrupt_reaches_the_ranks(ranks: Ranks) -> None:
    strike = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    strike.start()
    with pytest.raises(KeyboardInterrupt, match=r"rank 0 was interrupted on line 2"):
        ranks.run("if rank == 0: time.sleep(600)\ndist.barrier()")
    ranks.run("dist.barrier()")


def test_a_recorded_cell_gives_the_ranks_on_one_axis(ranks: Ranks) -> None:
    result = ranks.run("for _ in range(3): dist.all_reduce(t)", record=True)
    assert isinstance(result, RanksResult)
    assert (result.ranks.ranks, len(result.meetings())) == ([0, 1], 3)
    assert (result.clocks.how, result.clocks.bound_ns) == ("one host", 0)


def test_a_large_variable_comes_whole(ranks: Ranks) -> None:
    ranks.run("big = torch.arange(3_000_000)")
    assert [int(tensor.sum()) for tensor in ranks["big"]] == [4_499_998_500_000] * 2


def test_a_rank_that_dies_is_named_and_its_engine_lives(ranks: Ranks, engines: Any) -> None:
    before = pids_of(engines)
    with pytest.raises(perfmagic.RanksError, match=r"rank 1 was killed \(SIGKILL\)"):
        ranks.run("import signal\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()")
    ranks.restart()
    ranks.run(f"{SETUP}\ndist.barrier()")
    assert pids_of(engines) == before


def test_stop_ends_the_ranks_and_leaves_the_engines(ranks: Ranks, engines: Any) -> None:
    before, own_pids = pids_of(engines), ranks["os.getpid()"]
    ranks.stop()
    assert all(map(gone, own_pids))
    assert pids_of(engines) == before


def test_more_ranks_than_engines_are_refused_with_both_numbers_and_end_none(ranks: Ranks) -> None:
    ranks.run("kept = rank + 7")
    for cluster in ("tested", ""):
        with pytest.raises(perfmagic.OptionError, match="3 ranks need as many engines; the cluster tested has 2"):
            perfmagic.ranks(3, cluster=cluster)
    assert perfmagic.ranks() is ranks
    assert ranks["kept"] == [7, 8]


def test_fewer_ranks_start_beside_those_that_they_replace(ranks: Ranks) -> None:
    before = ranks["os.getpid()"]
    fewer = perfmagic.ranks(1, cluster="tested")
    assert fewer["world_size"] == [1]
    assert all(map(gone, before))


def test_ranks_of_one_host_with_other_gpus_in_sight_are_each_the_first_there(
    engines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster("tested")
    hosts = [("a", "0"), ("a", "1"), ("b", ""), ("b", "")]
    monkeypatch.setattr(
        cluster, "_hosts", [{"host": h, "boot": h, "visible": v, "address": "10.0.0.1"} for h, v in hosts]
    )
    variables = [cluster._variables(rank, 4) for rank in range(4)]
    assert [environment["LOCAL_RANK"] for environment in variables] == ["0", "0", "0", "1"]
    assert [environment["LOCAL_WORLD_SIZE"] for environment in variables] == ["1", "1", "2", "2"]
    assert (cluster.apart, variables[0]["MASTER_ADDR"]) == (True, "10.0.0.1")
    cluster.close()


def test_an_engine_that_ends_ends_the_cell(ranks: Ranks, engines: Any) -> None:
    """The last test here: one engine is left."""
    victim = pids_of(engines)[1]
    threading.Timer(0.5, os.kill, (victim, signal.SIGKILL)).start()
    with pytest.raises(perfmagic.RanksError, match="rank 1 ended, or its engine 1 on"):
        ranks.run("if rank == 1: time.sleep(600)\ndist.barrier()")
    ranks.stop()


class TestWithoutACluster:
    def test_a_name_of_no_cluster_says_where_it_was_looked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
        with pytest.raises(perfmagic.OptionError, match=r"no cluster 'nothing'.*profile_nothing"):
            perfmagic.ranks(cluster="nothing")

    def test_a_cluster_is_found_by_file_profile_and_id(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
        folder = tmp_path / "profile_slurm" / "security"
        folder.mkdir(parents=True)
        client_file = folder / "ipcontroller-one-client.json"
        client_file.touch()
        assert [connection_file(name) for name in (str(client_file), "slurm", "slurm/one")] == [client_file] * 3
        (folder / "ipcontroller-two-client.json").touch()
        with pytest.raises(perfmagic.OptionError, match="the profile slurm has 2 clusters") as refused:
            connection_file("slurm")
        assert "--cluster slurm/one, --cluster slurm/two" in str(refused.value)

    def test_without_ipyparallel_the_command_that_installs_it_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "ipcontroller-client.json"
        file.touch()
        monkeypatch.setitem(sys.modules, "ipyparallel", None)
        with pytest.raises(perfmagic.CaptureError, match=r"pip install 'perfmagic\[cluster\]'"):
            perfmagic.ranks(cluster=str(file))
