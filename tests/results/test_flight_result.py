"""Dumps of flight recorders from a folder to an answer; and the same dumps by torch's own analyser."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import perfmagic
from perfmagic.cli import main
from perfmagic.results import FlightResult, Traces
from tests.trace.formats.flight_dumps import Recorder, all_call, job
from tests.trace.recorded import as_bytes, launch_and_kernel

DP = ("7", "dp")
SENTENCE = "Rank 3 never came to all_reduce #3 of group dp: ranks 0–2 wait there"


def stopped() -> list[Recorder]:
    ranks = job(4, {DP: range(4)})
    all_call(ranks, "broadcast", line=5)
    all_call(ranks, "all_reduce", DP, line=88)
    all_call(ranks, "all_reduce", DP, line=88, duration_ms=1.5)
    all_call(ranks[:3], "all_reduce", DP, line=90, state="scheduled")
    return ranks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The dumps of four ranks, of which the last never came."""
    made = tmp_path / "dumps"
    made.mkdir()
    for recorder in stopped():
        recorder.write(made)
    return made


def test_a_folder_of_dumps_is_one_result(folder: Path) -> None:
    traces = perfmagic.open_traces(folder)
    assert (len(traces), isinstance(traces, Traces)) == (0, True)
    flight = traces.flight
    assert flight is not None
    assert flight.text() == (
        f"{SENTENCE}\n"
        "4 dumps · torch's flight recorder 2.10 · 15 calls · nccl 2.27.3\n"
        "\n"
        "  1  The last call of rank 3 was all_reduce #2 of group dp (train.py, line 88)\n"
        "     → Look at what rank 3 runs after train.py, line 88\n"
        "\n"
        "rank            last ended            waits in      state               line\n"
        "0–2     all_reduce #2 · dp  all_reduce #3 · dp  scheduled  train.py, line 90\n"
        "3       all_reduce #2 · dp                                 train.py, line 88\n"
        "\n"
        "  .text(details=True): the last stack of each rank"
    )
    details = flight.text(details=True)
    assert "0–2 · all_reduce #3 · dp" in details
    assert "    /home/me/train.py:90 train_step" in details
    for shown in (flight.html(), flight.markdown().replace("\\", ""), flight.page(), repr(flight)):
        assert SENTENCE in shown
    assert traces._repr_mimebundle_()["text/plain"] == flight.text()
    with pytest.raises(perfmagic.OptionError, match="no two of them") as raised:
        traces.ranks
    assert raised.value.hint == ".flight has what their flight recorders say"
    again = pickle.loads(pickle.dumps(flight))
    assert (isinstance(again, FlightResult), again.text()) == (True, flight.text())
    with pytest.raises(perfmagic.TraceError, match="a dump of torch's flight recorder, and no trace") as refused:
        perfmagic.open_ranks(folder)
    assert refused.value.hint == "perfmagic.open_traces(folder).flight reads dumps"
    with pytest.raises(perfmagic.TraceError, match="folder without") as raised:
        perfmagic.open_trace(folder)
    assert raised.value.hint == "perfmagic.open_traces(folder).flight reads its dumps"


def test_rows_and_json_have_every_number(folder: Path) -> None:
    flight = perfmagic.open_traces(str(folder)).flight
    calls = flight.calls()
    assert (len(calls), calls[2].duration_ns, calls[1].duration_ns, calls[1].size_bytes) == (15, 1_500_000, None, 4096)
    assert {(row.rank, row.state) for row in calls if row.number == 3} == {(rank, "scheduled") for rank in range(3)}
    found = json.loads(flight.to_json())
    assert found["conclusion"]["decides"] == SENTENCE
    assert found["standstills"][0]["absent"] == [3]
    assert [row["line"] for row in found["ranks"]] == [90, 90, 90, 88]


def test_traces_and_dumps_in_one_folder_are_told_apart(folder: Path) -> None:
    (folder / "rank0.json").write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    stopped()[1].write_json(folder)
    (folder / "nccl_trace_rank_1").unlink()
    traces = perfmagic.open_traces(folder)
    assert [timeline.title for timeline in traces] == ["rank0.json"]
    assert traces.flight.conclusion.decides == SENTENCE


def test_a_dump_that_cannot_be_read_costs_only_itself(folder: Path) -> None:
    (folder / "nccl_trace_rank_3").write_bytes(b"")
    with pytest.warns(UserWarning, match="nccl_trace_rank_3 is not a dump of torch's flight recorder: it is empty"):
        flight = perfmagic.open_traces(folder).flight
    assert flight.conclusion.decides == "Ranks 0–2 wait in all_reduce #3 of group dp, and rank 3 left no dump"
    for path in folder.iterdir():
        path.write_bytes(b"")
    with pytest.raises(perfmagic.TraceError, match="nccl_trace_rank_0 is not a dump"):
        perfmagic.open_traces(folder)


def test_two_dumps_of_one_rank_are_refused(folder: Path) -> None:
    stopped()[1].write_json(folder)
    with pytest.raises(perfmagic.TraceError, match=r"nccl_trace_rank_1 and nccl_trace_rank_1\.json are both of rank 1"):
        perfmagic.open_traces(folder)


def test_the_command_line_has_every_form(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == SENTENCE
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == "2.10"
    page = tmp_path / "page.html"
    for command in (["report", str(folder), "--html", "--out", str(page)], ["view", str(folder), "--html", str(page)]):
        assert main(command) == 0
        assert SENTENCE in page.read_text("utf-8")
        page.unlink()
    assert main(["view", str(folder), "--svg", str(page)]) == 1


def test_a_folder_of_dumps_and_traces_gives_both_answers_the_standstill_first(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = folder / "rank0.json"
    trace.write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    assert main(["report", str(trace)]) == 0
    of_trace = capsys.readouterr().out
    for form in ([], ["--details"], ["--markdown"]):
        assert main(["report", str(folder), *form]) == 0
        said = capsys.readouterr().out
        assert SENTENCE in said.replace("\\_", "_")
        assert form or (said.splitlines()[0] == SENTENCE and said.endswith(f"\n\n{of_trace}"))
    page = tmp_path / "page.html"
    for command in (["report", str(folder), "--html", "--out", str(page)], ["view", str(folder), "--html", str(page)]):
        assert main(command) == 0
        assert all(words in page.read_text("utf-8") for words in (SENTENCE, "rank0.json", '"application/json"'))
        page.unlink()
    assert main(["report", str(folder), "--json"]) == 1
    said = capsys.readouterr().err
    assert f"name the dumps ({folder}/nccl_trace_rank_*) or the traces ({trace})" in said
    assert main(["report", *map(str, folder.glob("nccl_trace_rank_*")), "--json"]) == 0


def test_chinese_answers(folder: Path) -> None:
    perfmagic.set_language("zh")
    text = perfmagic.open_traces(folder).flight.text(details=True)
    assert "never" not in text
    assert "waits" not in text


@pytest.mark.slow
def test_torch_is_not_needed(folder: Path) -> None:
    code = (
        "import sys, perfmagic; sys.modules['torch'] = None\n"
        f"print(perfmagic.open_traces({str(folder)!r}).flight.conclusion.decides)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == SENTENCE


class TestTorchsAnalyser:
    """torch.distributed.flight_recorder reads the same dumps."""

    @staticmethod
    def first_fault(folder: Path) -> object:
        builder = pytest.importorskip("torch.distributed.flight_recorder.components.builder")
        from torch.distributed.flight_recorder.components.config_manager import JobConfig
        from torch.distributed.flight_recorder.components.loader import read_dir

        args = JobConfig().parse_args([str(folder), "--allow-incomplete-ranks"])
        details, version = read_dir(args)
        collectives = builder.build_db(details, args, version).collectives
        return next(c for c in collectives if c.missing_ranks or c.mismatch_collectives)

    @pytest.mark.parametrize("absent", [[3], [1, 2], [0]])
    def test_it_names_the_same_absent_ranks(self, absent: list[int], tmp_path: Path) -> None:
        ranks = job(4, {DP: range(4)})
        all_call(ranks, "all_reduce", DP)
        all_call([recorder for recorder in ranks if recorder.rank not in absent], "all_reduce", DP, state="scheduled")
        for recorder in ranks:
            recorder.write(tmp_path)
        theirs, (ours,) = self.first_fault(tmp_path), perfmagic.open_traces(tmp_path).flight.standstills
        assert theirs.missing_ranks == set(ours.absent) == set(absent)
        assert (theirs.collective_seq_id, theirs.group_id, theirs.collective_name) == (2, ours.group, "nccl:all_reduce")
        assert ours.number == 2

    @pytest.mark.parametrize("odd", [{"name": "broadcast"}, {"sizes": [512]}, {"dtype": "Int"}])
    def test_it_names_the_same_mismatch(self, odd: dict[str, object], tmp_path: Path) -> None:
        ranks = job(4, {DP: range(4)})
        all_call(ranks, "all_reduce", DP)
        for recorder in ranks:
            recorder.call(
                **{"name": "all_reduce", "group": DP, "state": "scheduled"} | (odd if recorder.rank == 2 else {})
            )
            recorder.write(tmp_path)
        theirs, ours = self.first_fault(tmp_path), perfmagic.open_traces(tmp_path).flight.standstills[0]
        assert (ours.kind, ours.number, ours.absent) == ("mismatch", theirs.collective_seq_id, (2,))
        assert set(theirs.mismatch_collectives) == {2}


REAL_JOB = """
import os, sys, time
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=3)
def step():
    dist.all_reduce(torch.ones(4))  # line 8
step()
dist.barrier()
if rank != 1:
    dist.all_reduce(torch.ones(7), async_op=True)  # line 12
time.sleep(0.5)  # until gloo has noted what ended
with open(f"{folder}/nccl_trace_rank_{rank}", "wb") as file:
    file.write(_dump_fr_trace())
open(f"{folder}/done{rank}", "w").close()
while sum(name.startswith("done") for name in os.listdir(folder)) < 3:
    time.sleep(0.05)
os._exit(0)
"""


@pytest.mark.slow
def test_what_torch_writes_for_gloo_is_read(tmp_path: Path) -> None:
    """A real recording: three processes, of which rank 1 leaves out an all_reduce. gloo records no states."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace"):
        pytest.skip("this torch records gloo's calls in no flight recorder")
    script = tmp_path / "job.py"
    script.write_text(REAL_JOB)
    env = os.environ | {"TORCH_FR_BUFFER_SIZE": "100"}
    ranks = [subprocess.Popen([sys.executable, str(script), str(rank), str(tmp_path)], env=env) for rank in range(3)]
    assert [rank.wait(timeout=120) for rank in ranks] == [0, 0, 0]
    flight = perfmagic.open_traces(tmp_path).flight
    assert flight.conclusion.decides == "Rank 1 never came to all_reduce #3 of the default group: ranks 0, 2 wait there"
    assert [(row.last_ended, row.waits_in, row.line) for row in flight.ranks] == [
        ("barrier #2", "all_reduce #3", 12), ("barrier #2", "", 10), ("barrier #2", "all_reduce #3", 12)
    ]  # fmt: skip
    assert [(row.call, row.size_bytes) for row in flight.calls()[:3]] == [
        ("all_reduce", 16), ("barrier", None), ("all_reduce", 28)
    ]  # fmt: skip
