"""Cells that fork, start processes, close descriptors and print whatever they like."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="ranks need torch")

from tests.capture.ranks.conftest import USE, Cells

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")]


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    cells = Cells(2)
    assert not cells.run(USE).failures
    yield cells
    cells.session.close()


def lines(cells: Cells, rank: int) -> list[str]:
    return [text for who, _, text in cells.heard.lines if who == rank]


def ended(pid: int) -> bool:
    """Whether a process goes within ten seconds; a zombie has gone."""
    for _ in range(1000):
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
                continue
        return True
    return False


def test_a_forked_child_that_comes_to_the_end_of_the_cell_is_no_second_rank(cells: Cells) -> None:
    end = cells.run("pid = os.fork()\nif pid:\n    status = os.waitpid(pid, 0)[1]\npid or 'of the child'")
    assert not end.failures
    assert all(data["text/plain"].isdecimal() for data in end.values.values())
    assert cells.run("status").values[0]["text/plain"] == "0"
    assert cells.works()


def test_a_forked_child_that_fails_fails_alone(cells: Cells) -> None:
    end = cells.run("pid = os.fork()\nif not pid:\n    1 / 0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert not end.failures
    assert end.values[1]["text/plain"] == "1"
    assert any("ZeroDivisionError" in text for text in lines(cells, 0))
    assert cells.works()


def test_what_children_print_does_not_tear_what_the_rank_prints(cells: Cells) -> None:
    body = """children = []
for child in range(3):
    pid = os.fork()
    if not pid:
        for i in range(200):
            print("c" * 50)
        os._exit(0)
    children.append(pid)
for i in range(200):
    print("r" * 250)
for pid in children:
    done = os.waitpid(pid, 0)"""
    assert not cells.run(body).failures
    for rank in (0, 1):
        assert sum(text == "r" * 250 for text in lines(cells, rank)) == 200
    assert cells.works()


def test_a_character_that_is_written_in_two_pieces_is_one(cells: Cells) -> None:
    cells.run("w = os.write(1, 'é'.encode()[:1])\ntime.sleep(0.2)\nw = os.write(1, 'é'.encode()[1:] + b'\\n')")
    assert lines(cells, 0) == ["é"]


def test_a_failing_repr_and_a_failing_script_are_reported(cells: Cells, tmp_path: Path) -> None:
    assert not cells.run("class Bad:\n    def __repr__(self): raise ValueError('no words')\nBad()").failures
    assert any("ValueError: no words" in text for text in lines(cells, 0))
    script = tmp_path / "fails.py"
    script.write_text("raise KeyError('in the script')")
    cells.run(f"%run {script}")
    assert any("in the script" in text for text in lines(cells, 1))


def test_quit_ends_no_rank(cells: Cells) -> None:
    assert not cells.run("quit()").failures
    assert lines(cells, 0) == ["perfmagic: quit() ends no rank; %ranks stop ends all"]
    assert cells.works()


def test_a_line_that_is_overwritten_often_is_shown_as_it_was_last(cells: Cells) -> None:
    cells.run("for i in range(20_000):\n    print(f'\\rstep {i} of 20000', end='')\nprint('!')")
    assert lines(cells, 0) == ["step 19999 of 20000!"]
    cells.run("for i in range(5000):\n    print('.', end='')")
    assert lines(cells, 0) == ["." * 5000]


def test_ranks_take_along_what_they_have_started() -> None:
    own = Cells(2)
    body = "import subprocess, multiprocessing as mp, time\nchild = subprocess.Popen(['sleep', '1000']).pid\n"
    body += "worker = mp.get_context('fork').Process(target=time.sleep, args=(1000,), daemon=True)\nworker.start()"
    assert not own.run(body).failures
    values = own.run("[child, worker.pid]").values
    pids = [pid for data in values.values() for pid in eval(data["text/plain"])]
    assert len(pids) == 4
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    own.session.close()
    assert all(map(ended, pids))


OF_A_FORK = """
import os, sys, perfmagic
found = perfmagic.ranks(2, device="cpu")
if not os.fork():
    sys.exit(0)  # its atexit functions run
os.wait()
if not os.fork():
    found.stop()
    os._exit(0)
os.wait()
found.run("print('still here')")
"""


def test_a_fork_of_the_notebook_that_ends_leaves_the_ranks_alone() -> None:
    ran = subprocess.run([sys.executable, "-c", OF_A_FORK], capture_output=True, text=True, env={**os.environ})
    assert (ran.returncode, sorted(ran.stdout.split("\n"))) == (0, ["", "[0] still here", "[1] still here"]), ran.stderr


@pytest.mark.parametrize("how", [{}, {"device": "sim"}, {"backend": "gloo"}])
def test_a_cell_after_the_groups_were_destroyed_has_new_ones(how: dict[str, str]) -> None:
    own = Cells(2, **how)
    try:
        own.run(USE)
        for body in ("dist.destroy_process_group()", "if rank == 1: dist.destroy_process_group()"):
            assert not own.run(f"use()\n{body}").failures
            assert own.works()
            assert own.run("if rank: raise ValueError").failures
            assert own.works()
    finally:
        own.session.close()


def test_a_subgroup_can_be_destroyed(cells: Cells) -> None:
    assert not cells.run("group = dist.new_group([0, 1])\ndist.destroy_process_group(group)").failures
    assert cells.works()


BREAKS = [
    "sys.stdout = None",
    "sys.stderr = sys.stdout = None",
    "sys.stdout.close()",
    "sys.stdout = open(os.devnull, 'w'); sys.stdout.close()",
    "sys.stdout = sys.stderr = object()",
    "sys.stderr = None\n1 / 0",
]


@pytest.mark.parametrize("body", BREAKS)
def test_a_cell_after_one_that_broke_the_streams_prints(cells: Cells, body: str) -> None:
    cells.run(f"import os, sys\n{body}")
    end = cells.run("print('out')\nprint('err', file=sys.stderr)")
    assert not end.failures
    assert sorted(cells.heard.lines) == [(r, f"std{w}", w) for r in (0, 1) for w in ("err", "out")]


def test_a_stream_that_a_cell_has_put_in_place_stays(cells: Cells) -> None:
    cells.run("import io, sys\nkept, sys.stdout = sys.stdout, io.StringIO()")
    cells.run("print('into it')")
    assert lines(cells, 0) == []
    end = cells.run("text, sys.stdout = sys.stdout.getvalue(), kept\ntext")
    assert end.values[0]["text/plain"] == repr("into it\n")
