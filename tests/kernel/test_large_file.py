"""A file so large that a second process takes part is read in a real kernel, and that process never stays."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfmagic.trace.kineto.decode import ALONE_BYTES

from .session import Session

MAKER = Path(__file__).resolve().parents[2] / "benchmarks" / "repeat_trace.py"
# Notes each helper's process; one core is enough for these tests.
PREPARE = """
import os, time
import perfmagic
from perfmagic.trace.kineto import reader as kineto
from perfmagic.trace.kineto import decode as kineto_decode
kineto_decode._has_cores = lambda: True
begun, shares = [], []
def noted(self, start=kineto_decode.Helper._start):
    began = start(self)
    begun.append(self._process)
    print("helper started", flush=True)
    return began
def counted(self, gathered=kineto_decode.Helper.gathered):
    found = gathered(self)
    shares.append(len(found.parts) if found else 0)
    return found
kineto_decode.Helper._start, kineto_decode.Helper.gathered = noted, counted
def gone(process):
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return process.returncode is not None
    return False
"""
SLOWER = """
def slowly(text, decoded=kineto.decoded, **how):
    time.sleep(0.5)
    return decoded(text, **how)
fast, kineto.decoded = kineto.decoded, slowly
"""


def _made(path: Path, rounds: int) -> int:
    command = [sys.executable, str(MAKER), str(path), "--rounds", str(rounds)]
    made = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return int(json.loads(made.stdout)["bytes"])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording repeated until it is three times as large as what is read alone."""
    path = tmp_path_factory.mktemp("large") / "large.json"
    _made(path, 3 * ALONE_BYTES // _made(path, rounds=1) + 1)
    assert path.stat().st_size > 3 * ALONE_BYTES
    return path


@pytest.fixture
def opening(kernel: Session, file: Path) -> Iterator[str]:
    """A line that opens the file; the kernel is as before afterwards."""
    prepared = kernel.run(PREPARE)
    assert (prepared.status, prepared.traceback) == ("ok", "")
    yield f"t = perfmagic.open_trace({str(file)!r})"
    kernel.run(
        "kineto_decode.Helper._start, kineto_decode.Helper.gathered = noted.__defaults__[0], counted.__defaults__[0]\n"
        "os.environ.pop('PERFMAGIC_HELPER', None)"
    )


def test_two_processes_read_what_one_reads_and_one_is_left(kernel: Session, opening: str) -> None:
    done = kernel.run(f"{opening}\nwith_two = t.to_dict()\nlen(begun), gone(begun[0]), shares[0] > 0")
    assert (done.value, done.warned) == ("(1, True, True)", "")
    alone = kernel.run(f"%env PERFMAGIC_HELPER=0\n{opening}\nt.to_dict() == with_two, len(begun), shares[1:]")
    assert alone.value == "(True, 1, [0])"
    assert "helper started" not in alone.printed


def test_an_interrupt_while_reading_leaves_no_process(kernel: Session, opening: str) -> None:
    kernel.run(SLOWER)
    stopped, skipped = kernel.run_all([opening, "reached = True"], interrupt_after="helper started")
    assert (stopped.status, stopped.error, skipped.status) == ("error", "KeyboardInterrupt", "aborted")
    left = kernel.run(
        "import threading\n"
        "kineto.decoded = fast\n"
        "len(begun), gone(begun[0]), [t.name for t in threading.enumerate() if t.name.startswith('perfmagic')]"
    )
    assert left.value == "(1, True, [])"
    assert kernel.run(f"{opening}\nlen(begun), gone(begun[1])").value == "(2, True)"
