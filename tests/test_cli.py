"""The command line: what is printed, where it goes, and what happens to files that cannot be read."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import perfmagic
from perfmagic.analysis.findings.find import RULES
from perfmagic.cli import main
from perfmagic.results import TimelineResult
from tests.analysis.ranks.test_ranks import rank as rank_of
from tests.trace.formats.nsight_made import h100
from tests.trace.recorded import FOLDER, as_bytes, event, launch_and_kernel, real

pytestmark = pytest.mark.slow

STEP = str(FOLDER / "v100_4streams_nccl_step.json.gz")
SMALL = str(FOLDER / "a100_event_sync_3streams.json.gz")


def test_json_has_the_totals_of_every_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", STEP, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (device,) = found["devices"].values()
    assert device["n_ops"] > 100
    assert sum(device["partition"].values()) == device["extent_ns"]


def test_explain_prints_one_rule_or_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", SMALL, "--rule", "pageable"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pageable: silent"
    assert lines[-1] == "docs/findings.md#pageable"
    assert main(["explain", SMALL, "--rule", "longest_gap", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "longest_gap"
    assert main(["explain", SMALL]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(RULES)


def test_one_rank_of_a_file_is_explained_and_a_file_of_several_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    export = str(h100())
    assert main(["explain", export]) == 1
    assert "or --rank N selects one" in capsys.readouterr().err
    assert main(["explain", export, "--rule", "verdict", "--rank", "1"]) == 0
    assert "copy-bound" in capsys.readouterr().out
    assert main(["flame", export, "--rank", "0"]) == 0
    assert "aten::" in capsys.readouterr().out
    assert main(["flame", export, "--rank", "7"]) == 1
    assert "rank 7 is not here" in capsys.readouterr().err


def test_flame_prints_a_tree_or_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flame", STEP]) == 0
    assert "main thread" in capsys.readouterr().out
    assert main(["flame", STEP, "--step", "1011"]) == 0
    assert "in step 1011;" in capsys.readouterr().out
    assert (
        main(["flame", str(real("b200_pdl_overlaps_python_stacks")), "--idle", "--out", str(tmp_path / "out.folded")])
        == 0
    )
    assert capsys.readouterr().out.strip() == str(tmp_path / "out.folded")
    assert (tmp_path / "out.folded").read_text("utf-8").startswith("main thread")
    assert main(["flame", STEP, "--step", "1"]) == 1
    assert "there is no step 1\nHint: steps: 1011" in capsys.readouterr().err


def test_a_mistyped_rule_fails_before_a_file_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "no/such/file.json", "--rule", "pagable"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("perfmagic: explain: there is no rule 'pagable'\nHint: did you mean pageable?")


def test_several_files_are_a_list_and_a_folder_is_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("rank10.json.gz", "rank2.json.gz"):
        (tmp_path / name).write_bytes(Path(SMALL).read_bytes())
    (tmp_path / "notes.txt").write_text("not a trace")
    assert main(["report", str(tmp_path), SMALL, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [report["meta"]["origin"] for report in found] == ["rank2.json.gz", "rank10.json.gz", Path(SMALL).name]


def test_a_bad_file_gives_an_error_and_the_others_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "empty.json"
    bad.touch()
    assert main(["report", str(bad), SMALL]) == 1
    out, err = capsys.readouterr()
    assert "6 device ops" in out
    assert err.startswith("perfmagic: empty.json is empty (0 bytes)\nHint: ")


def test_each_foreign_file_of_a_folder_gives_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "step.json.gz").write_bytes(Path(SMALL).read_bytes())
    (tmp_path / "config.json").write_text('{"lr": 0.1, "layers": 4}')
    (tmp_path / "zeros.json").touch()
    assert main(["report", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "6 device ops" in out
    assert err.splitlines() == [
        "perfmagic: config.json has no traceEvents; it holds lr, layers",
        "perfmagic: zeros.json is empty (0 bytes)",
    ]


def test_a_device_of_the_system_is_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "/dev/null"]) == 1
    assert capsys.readouterr().err == (
        "perfmagic: /dev/null is a device of the operating system, not a trace file\n"
        "Hint: name a file that torch.profiler wrote (.pt.trace.json, .json.gz), or a folder with such files\n"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_dangling_link_named_like_a_trace_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    os.mkfifo(tmp_path / "f.json")
    (tmp_path / "g.json").symlink_to("nowhere.json")
    (tmp_path / "h.json").mkdir()
    assert main(["report", str(tmp_path)]) == 1
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        f"perfmagic: {tmp_path / 'f.json'} is a named pipe, not a trace file",
        f"perfmagic: there is no file {tmp_path / 'g.json'}",
    ]


@pytest.mark.parametrize("given", ["nan", "inf", "-1", "0", "1e999", "x"])
def test_an_invalid_limit_is_a_usage_error(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["report", "x.json", f"--max-gb={given}"])
    assert left.value.code == 2
    printed = capsys.readouterr().err.splitlines()[-1]
    assert printed.endswith(f"argument --max-gb: '{given}' is not a number of gigabytes above 0")


def test_markdown_has_tables_and_escapes_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", STEP, "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "## v100\\_4streams\\_nccl\\_step.json.gz"
    rows = [line for line in lines if line.startswith("|")]
    assert rows
    assert all(row.count(" | ") >= 2 for row in rows)
    assert not any("<" in line for line in lines)


def test_a_page_holds_the_timeline_and_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", STEP, "--html", "--out", str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    text = page.read_text("utf-8")
    assert "data-perfmagic-timeline" in text
    assert ">Kernels<" in text


def test_a_picture_is_of_one_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", STEP, SMALL, "--svg", str(tmp_path / "x.svg")]) == 1
    assert "--svg draws one trace or the ranks of one job, 2 files of several were given" in capsys.readouterr().err
    assert main(["view", SMALL, "--svg", str(tmp_path / "x.svg")]) == 0
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_a_report_starts_no_threads_of_numpy_unless_they_are_asked_for(given: dict[str, str], threads: str) -> None:
    code = (
        "import os, sys; from perfmagic.cli import main; main(sys.argv[1:]); print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"} | given
    command = [sys.executable, "-c", code, "report", SMALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[-1] == threads


def test_a_closed_pipe_leaves_no_traceback() -> None:
    command = f"{sys.executable} -m perfmagic report {STEP} --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_missing_file_prints_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "nowhere/x.json"]) == 1
    assert capsys.readouterr().err == (
        "perfmagic: there is no file nowhere/x.json\nHint: check the name and the folder\n"
    )


def test_several_ranks_are_one_table_with_the_last_rank_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = []
    for rank, comm_us in ((0, 400), (1, 100)):
        events = [
            *(launch_and_kernel(1, 0, 10)),
            event("cuda_runtime", "cudaLaunchKernel", 30, 2, pid=99, tid=99, correlation=2),
            event("kernel", "ncclKernel_AllReduce", 500 - comm_us, comm_us, stream=9, device=0, correlation=2),
        ]
        path = tmp_path / f"rank{rank}.json"
        path.write_bytes(as_bytes(events, distributedInfo={"rank": rank, "world_size": 2}))
        rows.append(path)
    assert main(["report", str(tmp_path)]) == 0
    out = capsys.readouterr().out.replace("\u00a0", " ")
    assert out.startswith("500 µs   Rank 1 is late: that costs 300 µs of 500 µs\n")
    assert "rank0.json" not in out
    assert main(["report", str(tmp_path), "--details"]) == 0
    details = capsys.readouterr().out.replace("\u00a0", " ")
    assert details.startswith(out.rpartition("  --details:")[0])
    assert "300 µs  rank 1 takes 300 µs more than its peers in Python" in details
    assert any(line.split()[:4] == ["rank0.json", "0", "84", "%"] for line in details.splitlines())
    assert main(["report", str(tmp_path), "--html"]) == 0
    page = capsys.readouterr().out
    assert "<summary>rank 1: rank1.json</summary>" in page
    assert "<b>rank 1 takes " in page
    assert page.count('<div data-perfmagic-timeline="more">') == 1  # one view of both, on one axis
    assert "All numbers of the ranks" in page
    assert main(["report", str(tmp_path), "--markdown"]) == 0
    shown = capsys.readouterr().out.replace("\u00a0", " ")
    assert shown.startswith("## Ranks\n\n**500 µs · Rank 1 is late: that costs 300 µs of 500 µs**\n\n2 ranks")
    assert main(["report", str(tmp_path), "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [report["rank_findings"][0]["ranks"] for report in reports] == [[1], [1]]
    assert [len(report["rank_answers"]) for report in reports] == [1, 1]
    assert all(row["transfer_ns"] for report in reports for row in report["rank_collectives"])
    assert [report["rank_pipelines"] for report in reports] == [[], []]


def test_more_than_eight_ranks_are_one_page_and_a_bad_file_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(9):
        TimelineResult(rank_of(number, compute_us=800 if number == 4 else 300, world_size=9)).save(
            tmp_path / f"rank{number}.npz"
        )
    (tmp_path / "rank9.json").write_text("no trace")
    assert main(["report", str(tmp_path), "--html", "--workers", "2", "--out", str(tmp_path / "page.html")]) == 1
    assert "1 of 10 files cannot be read: rank9.json" in capsys.readouterr().err
    page = (tmp_path / "page.html").read_text()
    assert "<b>rank 4 takes " in page
    assert page.index("<summary>rank 4: rank4.npz</summary>") < page.index("<summary>rank 0: rank0.npz</summary>")
    header = json.loads(page.partition('<script type="application/json">')[2].partition("</script>")[0])
    assert [one["rank"] for one in header["ranks"]] == list(range(9))
    parts = [one["part"] for one in header["ranks"]]
    assert all(parts)
    without = [i for i, part in enumerate(parts) if any("not worked out here" in w for w in part["header"]["trust"])]
    assert without == [8]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"perfmagic {perfmagic.__version__}\n"


@pytest.mark.parametrize(("given", "meant"), [
    (["reprot", "a.json"], "report"),
    (["veiw"], "view"),
    (["report", "--markdwon", "a.json"], "--markdown"),
    (["join", "--device", "simm", "a.py"], "sim"),
])  # fmt: skip
def test_a_mistyped_command_or_option_gets_the_nearest_name(
    given: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["view A --html A", "view A --svg A", "report A --out A", "report . --html --out A", "compare A B --out B"],
)
def test_no_output_replaces_a_trace_that_is_read(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("A.json.gz", "B.json.gz"):
        shutil.copyfile(SMALL, name)
    before = Path("A.json.gz").read_bytes()
    assert main(re.sub(r"\b[AB]\b", r"\g<0>.json.gz", command).split()) == 1
    assert "would replace a file that is read" in capsys.readouterr().err
    assert Path("A.json.gz").read_bytes() == Path("B.json.gz").read_bytes() == before


def test_a_page_is_not_written_to_a_name_of_another_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = shutil.copyfile(SMALL, tmp_path / "A.json.gz")
    assert main(["view", "--html", str(trace), SMALL]) == 1
    assert f"--html writes .html, and {trace} has another ending" in capsys.readouterr().err
    assert trace.read_bytes() == Path(SMALL).read_bytes()
