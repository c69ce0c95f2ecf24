"""`python -m perfmagic compare A B --fail-if-slower 5%`: the exit status, and the line that comes first."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perfmagic.cli import main
from perfmagic.results import TimelineResult
from perfmagic.trace.samples import Condition
from tests.analysis.bench.test_compare import result, series
from tests.analysis.test_gate import on_gpu
from tests.trace.recorded import FOLDER

pytestmark = pytest.mark.slow
STEP = str(FOLDER / "v100_4streams_nccl_step.json.gz")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two traces and two benchmarks, the second of both slower; a damaged file, and a later one."""
    for name, kernel_us in (("fast", 100), ("slow", 120)):
        TimelineResult(on_gpu(kernel_us)).save(tmp_path / f"{name}.npz")
        result(series(kernel_us * 1e-6), name).save(tmp_path / f"{name}.json")
    for name, checks in (("fast", ()), ("cheat", (Condition("replaced", {"what": "time.sleep"}),))):
        measured = replace(result(series(100e-6), name), round_id="together", checks=checks)
        measured.save(tmp_path / f"{name}.json")
    TimelineResult(on_gpu(100, name="Other GPU")).save(tmp_path / "other.npz")
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "damaged.json").write_text((tmp_path / "fast.json").read_text()[:300])
    (tmp_path / "later.json").write_text('{"format": "perfmagic bench 99"}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second", "status", "line"),
    [
        ("fast.npz", "slow.npz", 1, "slower: a step takes 120 µs in B, 100 µs in A: +20 %"),
        ("slow.npz", "fast.npz", 0, "not slower: a step takes"),
        ("fast.npz", "other.npz", 2, "not comparable: A ran on Test GPU, B on Other GPU"),
        (STEP, STEP, 0, "unclear, which passes: the recording takes"),
        ("fast.json", "slow.json", 1, "slower: a call takes"),
        ("fast.json", "fast.json", 0, "not slower: a call takes"),
        ("fast.json", "cheat.json", 2, "not comparable: cheat replaced time.sleep"),
    ],
)
def test_the_status_is_the_verdict_and_the_first_line_says_it(
    desk: Path, capsys: pytest.CaptureFixture[str], first: str, second: str, status: int, line: str
) -> None:
    assert main(["compare", first, second, "--fail-if-slower", "5%"]) == status
    said = capsys.readouterr()
    assert said.out.replace("\u00a0", " ").startswith(line)
    assert len(said.out.splitlines()) > 2
    assert said.err == ""


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("fast.npz", "nothing.npz", "nothing.npz"),
        ("fast.npz", "damaged.npz", "damaged.npz"),
        ("fast.json", "damaged.json", "damaged.json: this is not JSON"),
        ("fast.json", "later.json", "written by a later perfmagic"),
        ("fast.json", "slow.npz", "slow.npz is a trace, fast.json is not"),
    ],
)
def test_what_cannot_be_read_is_an_error_of_its_own(
    desk: Path, capsys: pytest.CaptureFixture[str], first: str, second: str, why: str
) -> None:
    assert main(["compare", first, second, "--fail-if-slower", "5%"]) == 2
    said = capsys.readouterr()
    assert why in said.err
    assert "slower" not in said.out


def test_a_fault_of_the_gate_is_no_verdict(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfmagic.api.gates.gate", lambda *_: 1 / 0)
    assert main(["compare", "fast.npz", "slow.npz", "--fail-if-slower", "5%"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["many", "5", "-1%", "nan", "100%", ""])
def test_a_limit_that_is_no_percentage_is_refused(desk: Path, capsys: pytest.CaptureFixture[str], limit: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "fast.npz", "slow.npz", f"--fail-if-slower={limit}"])
    assert ended.value.code == 2
    assert "--fail-if-slower" in capsys.readouterr().err


def test_json_on_the_terminal_stays_json(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fast.npz", "slow.npz", "--fail-if-slower", "0.05", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["step_times"]["how"] == "measured"
    assert said.err.startswith("slower: ")


def test_without_the_gate_two_benchmarks_are_compared_as_before(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fast.json", "slow.json"]) == 0
    assert capsys.readouterr().out.startswith("slow is slower than fast")
    assert main(["compare", "fast.json", "slow.json", "--html", "page.html"]) == 0
    assert "slow is slower than fast" in (desk / "page.html").read_text()
    assert main(["compare", "fast.json", "slow.json", "--markdown"]) == 1
