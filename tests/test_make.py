"""`make test` runs all its parts, and says at the end which of them failed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(
    shutil.which("make") is None or not (ROOT / "Makefile").is_file(), reason="needs make and the clone's Makefile"
)


def run_parts(
    folder: Path, *options: str, single: tuple[str, ...] = (), **commands: str
) -> subprocess.CompletedProcess[str]:
    """`make test` with parts that run one command each; nothing is installed.  single: those that need one core."""
    made = [folder / "dev.stamp", folder / "floor.stamp", folder / "nbval-sanitize.cfg"]
    after = [name for name in commands if name not in single]
    given = [f"VENV={folder}", f"FLOOR={folder}", f"SANITIZE={made[2]}", f"FAILED={folder / 'failed'}"]
    given += [f"SINGLE={' '.join(single)}", f"PARTS={' '.join(after)}"]
    rules = [f"--eval={name}: ; @{command}" for name, command in commands.items()]
    # as from a shell: `make quick`, which may run this test, hands its own state down
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        ["make", *options, *(word for one in made for word in ("-o", str(one))), *given, *rules, "test"],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("options", [(), ("-j2", "--output-sync=target")])
def test_a_part_that_fails_lets_the_others_run_and_is_named_at_the_end(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = run_parts(tmp_path, *options, first="echo one; exit 3", second="echo two", third="echo three; exit 1")
    assert done.stdout.split() == ["one", "two", "three"]
    assert done.returncode != 0
    assert done.stderr.splitlines()[-2] == "make test: failed in first third"


def test_it_succeeds_where_every_part_does(tmp_path: Path) -> None:
    done = run_parts(tmp_path, first="echo one", second="echo two")
    assert (done.returncode, done.stdout.split()) == (0, ["one", "two"])


@pytest.mark.parametrize("options", [(), ("-j2", "--output-sync=target")])
def test_parts_that_need_one_core_run_two_at_a_time_before_the_others(tmp_path: Path, options: tuple[str, ...]) -> None:
    meeting = tmp_path / "meeting"
    os.mkfifo(meeting)  # each end waits for the other
    done = run_parts(
        tmp_path, *options, single=("first", "second"),
        first=f"echo word > {meeting}; exit 1", second=f"read word < {meeting} && echo $$word", third="echo three",
    )  # fmt: skip
    assert done.stdout.split() == ["word", "three"]
    assert done.returncode != 0
    assert done.stderr.splitlines()[-2] == "make test: failed in first"


@pytest.mark.slow
def test_the_tests_of_a_file_run_in_one_process_as_they_share_fixtures() -> None:
    files = ["tests/base/test_terminal.py", "tests/base/test_units.py"]
    command = [sys.executable, "-m", "pytest", "-v", "-n2", "--dist=loadgroup", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    ran = set(re.findall(r"^\[(gw\d)\] .*?(tests/\w+/\w+\.py)::", done.stdout, re.MULTILINE))
    assert sorted(file for _, file in ran) == files, done.stdout


def test_make_lab_opens_the_tour() -> None:
    command = ["make", "-n", "-o", ".venv/lab.stamp", "lab"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folder, page = re.findall(r"jupyter lab (\S+) --LabApp.default_url=/lab/tree/(\S+)", told)[0]
    assert (ROOT / folder / page).is_file()
