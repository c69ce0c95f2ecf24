"""Ranks from files that an executor reads: the same words as from traces, and nothing that one bad file costs."""

import multiprocessing
import pickle
import shutil
import statistics
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import perfmagic
from perfmagic.analysis.ranks.jobs import stretches
from perfmagic.analysis.ranks.rank_files import FileOfRank, summarize_file
from perfmagic.analysis.ranks.rank_summary import rank_summary
from perfmagic.base.errors import OptionError, TraceError
from perfmagic.base.terminal import Progress
from perfmagic.changes import faster_python
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.trace.kineto.decode import Helper
from tests.analysis.build import US
from tests.analysis.ranks.raw import events
from tests.analysis.ranks.test_ranks import rank
from tests.trace.recorded import eight_ranks

pytestmark = pytest.mark.slow

FOLDER = eight_ranks()


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight ranks of 10,550 instants count as a large job."""
    monkeypatch.setattr("perfmagic.analysis.ranks.job_prediction.MOST_INSTANTS", 1000)


@pytest.fixture(scope="module")
def kept() -> RanksResult:
    return perfmagic.open_traces(FOLDER).ranks


def same(found: RanksResult, kept: RanksResult) -> None:
    """Every word and number."""
    assert found.to_dict() == kept.to_dict()
    assert found.text(details=True) == kept.text(details=True)
    assert list(found.meetings()) == list(kept.meetings())
    assert found.clocks == kept.clocks
    assert list(found.kernels()) == list(kept.kernels())


def test_kernels_of_all_ranks_agree_with_the_files(kept: RanksResult) -> None:
    table = kept.kernels()
    first = table[0]
    kernels = {rank: [e for e in found if e.get("cat") == "kernel"] for rank, found in events().items()}
    totals = {rank: US * sum(e["dur"] for e in of if "SendRecv" in e["name"]) for rank, of in kernels.items()}
    assert "SendRecv" in first.name
    assert (first.n_ranks, first.most_ns, first.least_ns) == (8, max(totals.values()), min(totals.values()))
    assert (totals[first.most_rank], totals[first.least_rank]) == (first.most_ns, first.least_ns)
    assert first.total_ns == statistics.median(totals.values())
    everything = US * sum(e["dur"] for found in kernels.values() for e in found)
    assert first.share_frac == pytest.approx(sum(totals.values()) / everything)
    assert table[-1].name == "all others"
    assert sum(row.share_frac for row in table) == pytest.approx(1)


def test_small_traces_are_kept_and_replayed(kept: RanksResult) -> None:
    found = perfmagic.open_ranks(FOLDER)
    same(found, kept)
    assert len(found.timelines) == 8
    assert "→ 14.7 ms" in found.text().replace("\u00a0", " ")


def test_summaries_say_what_traces_say(large: None) -> None:
    """Where no trace is kept and nothing is replayed in passing; what is asked for is replayed from the files."""
    found, kept = perfmagic.open_ranks(FOLDER), perfmagic.open_traces(FOLDER).ranks
    same(found, kept)
    assert not found.timelines
    assert {answer.rules for answer in found.answers.answers} == {("straggler",)}  # of which summaries say the gain
    assert list(found.critical_path()) == list(kept.critical_path())
    assert found.what_if(faster_python(2)).sentence == kept.what_if(faster_python(2)).sentence


def test_processes_read_the_files(kept: RanksResult) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        same(perfmagic.open_ranks(FOLDER, executor=executor), kept)


def test_a_late_rank_of_synthetic_files_is_found_with_its_cause(tmp_path: Path) -> None:
    for i in range(4):
        TimelineResult(rank(i, compute_us=800 if i == 2 else 300, world_size=4)).save(tmp_path / f"rank{i}.npz")
    found = perfmagic.open_ranks(tmp_path)
    assert found.findings[0].rule == "straggler"
    assert [f.sentence for f in found.findings] == [f.sentence for f in perfmagic.open_traces(tmp_path).ranks.findings]
    assert "takes 2.00 ms more than its peers in gemm" in found.findings[0].sentence.replace("\u00a0", " ")


def test_a_rank_is_read_again_when_it_is_asked_for(kept: RanksResult) -> None:
    found = perfmagic.open_ranks(FOLDER)
    assert found.rank(5).to_json() == kept.rank(5).to_json()
    with pytest.raises(OptionError, match="rank 9 is not here") as error:
        found.rank(9)
    assert "0–7" in str(error.value)


def test_a_bad_file_costs_itself_and_missing_ranks_are_named(tmp_path: Path) -> None:
    for path in FOLDER.glob("*.gz"):
        if path.name[6] not in "236":
            shutil.copy(path, tmp_path)
    (tmp_path / "worker3.json").write_text("no trace at all")
    found = perfmagic.open_ranks(tmp_path)
    assert found.ranks.ranks == [0, 1, 4, 5, 7]
    unread, absent = found.findings[:2]
    assert (unread.rule, absent.rule) == ("unread", "missing_ranks")
    assert unread.cause == "1 of 6 files cannot be read"
    assert "worker3.json" in unread.detail
    assert absent.cause == "3 of 8 ranks have no file"
    assert absent.detail.startswith(": ranks 2–3, 6. ")
    assert "3 of 8 ranks have no file" in found.text().replace("\n            ", " ")


def test_where_none_can_be_read_the_first_problem_is_raised(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("no trace at all")
    with pytest.raises(TraceError, match=r"a\.json"):
        perfmagic.open_ranks(tmp_path)


def test_files_that_are_no_ranks_of_one_job_are_refused(tmp_path: Path) -> None:
    for i in range(2):
        TimelineResult(rank(0, world_size=2)).save(tmp_path / f"run{i}.npz")
    with pytest.raises(OptionError, match="no two of them are ranks of one job") as error:
        perfmagic.open_ranks(tmp_path)
    assert "rank 0 twice" in str(error.value)


def test_an_executor_is_one_and_a_rule_that_matches_nothing_is_an_error() -> None:
    wrong: Any = 4
    with pytest.raises(OptionError, match="no Executor"):
        perfmagic.open_ranks(FOLDER, executor=wrong)
    with pytest.raises(OptionError, match="match no kernel of 8 ranks"):
        perfmagic.open_ranks(FOLDER, comm_names="^nothing$")


def test_no_process_is_started_beside_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[bool] = []
    made = Helper.__init__

    def noted(self: Helper, *, wanted_: bool = True, **given: bool) -> None:
        wanted.append(given["wanted"])
        made(self, **given)

    monkeypatch.setattr(Helper, "__init__", noted)
    path = min(FOLDER.glob("*.gz"))
    file = FileOfRank(str(path), path.name, None, 1 << 30, 128)
    assert [answer.summary is None for answer in summarize_file(file)] == [False]
    assert wanted == [False]
    file.read()
    assert wanted[1:] == [True]


def test_a_summary_is_small_and_stays_so_however_long_the_trace() -> None:
    sizes = {}
    for n in (200, 2200):
        sizes[n] = len(pickle.dumps(rank_summary(rank(0, n=n)), 5))
    assert (sizes[2200] - sizes[200]) / 2000 <= 40
    assert sizes[200] < 12_000


def test_a_pickled_summary_is_the_same() -> None:
    made = rank_summary(rank(1, compute_us=700))
    again = pickle.loads(pickle.dumps(made, 5))
    assert {name: column.tolist() for name, column in again.comm.items()} == {
        name: column.tolist() for name, column in made.comm.items()
    }
    assert (again.totals, again.kinds, again.began, again.meta) == (made.totals, made.kinds, made.began, made.meta)


def test_a_timeline_pickles_with_its_trace_and_a_view_of_its_own() -> None:
    result = TimelineResult(rank(1), comm_names="nccl", title="one")
    again = pickle.loads(pickle.dumps(result))
    assert (again.title, again.comm_names) == ("one", "nccl")
    assert again.to_json() == result.to_json()


def test_ranks_are_listed_as_stretches() -> None:
    assert stretches([3]) == "3"
    assert stretches([0, 1, 2, 5, 7, 8]) == "0–2, 5, 7–8"
    assert stretches(list(range(0, 40, 2))) == "0, 2, 4, 6, 8, 10, …"


def test_progress_is_one_line_that_goes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.5, 1.5, 1.5, 1.6])
    monkeypatch.setattr("perfmagic.base.terminal.time.monotonic", lambda: next(now))
    with Progress("read", 1000, "file", shown=True) as told:
        told.at(5)  # within the first second
        told.at(120)
        told.at(121)  # too soon after that
    written = capsys.readouterr().err
    assert written.startswith("\rread 120 of 1,000 files")
    assert "121" not in written
    assert written.endswith(" \r")


def test_the_picture_of_a_rank_without_trace_keeps_every_column_s_share(kept: RanksResult) -> None:
    rows = perfmagic.open_ranks(FOLDER).doc.rows
    for row, other in zip(rows, kept.doc.rows, strict=True):
        for name, spans in row.bands.items():
            whole = other.bands[name]
            assert int((spans[:, 1] - spans[:, 0]).sum()) == int((whole[:, 1] - whole[:, 0]).sum()), name


@pytest.fixture
def dask_executor() -> Any:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor(pure=False)


def test_a_dask_cluster_reads_the_files(dask_executor: Executor, kept: RanksResult) -> None:
    same(perfmagic.open_ranks(FOLDER, executor=dask_executor), kept)


def test_engines_of_ipyparallel_read_the_files(kept: RanksResult, tmp_path: Path) -> None:
    parallel = pytest.importorskip("ipyparallel", reason="the extra [cluster] is not installed")
    with parallel.Cluster(n=2, log_level=40, profile_dir=str(tmp_path / "profile")) as clients:
        view = clients.load_balanced_view()
        same(perfmagic.open_ranks(FOLDER, executor=view.executor), kept)


def test_loky_reads_the_files(kept: RanksResult) -> None:
    loky = pytest.importorskip("loky", reason="loky is not installed")
    executor = loky.ProcessPoolExecutor(2)
    try:
        same(perfmagic.open_ranks(FOLDER, executor=executor), kept)
    finally:
        executor.shutdown(wait=True)


def test_a_worker_s_own_failure_is_raised_not_taken_for_a_bad_file() -> None:
    class Broken(ThreadPoolExecutor):
        def map(self, *_given: Any, **_options: Any) -> Any:
            raise RuntimeError("the cluster has gone")

    with Broken(1) as executor, pytest.raises(RuntimeError, match="the cluster has gone"):
        perfmagic.open_ranks(FOLDER, executor=executor)
