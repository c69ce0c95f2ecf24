"""What JAX itself records on this machine's CPU, in a process without torch: read, and recorded by a block of ours."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")]

PROGRAM = """
import json, sys, tempfile, time
from pathlib import Path
import perfmagic
from IPython.core.interactiveshell import InteractiveShell
from perfmagic.base.errors import CaptureError
from perfmagic.trace.formats.sources import read_file, trace_files

said, folder = {}, Path(sys.argv[1])
with perfmagic.timeline() as t:
    import jax
said["imported inside"] = t.result.text()
x = jax.numpy.ones((256, 256))
step = jax.jit(lambda x: jax.numpy.tanh(x @ x).sum())
step(x).block_until_ready()


def rows(trace):
    table, base_ns = trace.whole_host(), trace.meta.base_unix_ns
    times = zip(table.name.tolist(), table.start_ns.tolist(), table.end_ns.tolist(), strict=True)
    return sorted((start + base_ns, end + base_ns, trace.names[name]) for name, start, end in times)


with jax.profiler.trace(folder):
    for n in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=n):
            step(x).block_until_ready()
(file,) = trace_files(folder)
said["ours"], said["text"] = rows(read_file(file)), perfmagic.open_trace(folder).text()
planes = list(jax.profiler.ProfileData.from_file(str(file)).planes)
(began,) = (stats["profile_start_time"] for plane in planes if "profile_start_time" in (stats := dict(plane.stats)))
events = (event for plane in planes for line in plane.lines for event in line.events if event.duration_ns)
said["theirs"] = sorted((began + int(event.start_ns), began + int(event.end_ns)) for event in events)


def refused(outer):
    try:
        with outer, perfmagic.timeline():
            pass
    except CaptureError as error:
        return error.message


said["refused"] = [refused(perfmagic.timeline()), refused(jax.profiler.trace(folder / "theirs"))]
with perfmagic.timeline(memory=True) as t:
    step(x)
    jax.profiler.stop_trace()
said["ended inside"] = t.result.text()

with perfmagic.timeline() as t:
    before_ns = time.time_ns()
    with jax.profiler.TraceAnnotation("mine"):
        time.sleep(0.01)
    after_ns = time.time_ns()
    y = step(x)
said["block"], said["about"] = rows(t.result.trace), [before_ns, after_ns]
said["window"] = [t.result.trace.meta.base_unix_ns + at for at in (0, t.result.trace.meta.end_ns)]

shell = InteractiveShell.instance()
shell.user_ns.update(step=step, x=x)
shell.run_cell("%load_ext perfmagic")
shell.run_cell("%%timeline -o t\\ny = step(x)\\ny.block_until_ready()\\n")
said["cell"], said["cell's text"] = rows(shell.user_ns["t"].trace), shell.user_ns["t"].text()
said["left"] = [path.name for path in Path(tempfile.gettempdir()).iterdir()]
assert "torch" not in sys.modules
print("said" + json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("jax")
    (folder / "tmp").mkdir()
    env = os.environ | {"JAX_PLATFORMS": "cpu", "TMPDIR": str(folder / "tmp"), "IPYTHONDIR": str(folder / "ipython")}
    command = [sys.executable, "-c", PROGRAM, str(folder / "logs")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.rpartition("\nsaid")[2])
    return answer


def test_a_folder_opens_with_the_times_that_jax_itself_reads_in_it(said: dict[str, Any]) -> None:
    ours, theirs = said["ours"], said["theirs"]
    assert len(ours) == len(theirs) > 40
    ends = zip(sorted(row[:2] for row in ours), theirs, strict=True)
    assert all(abs(a - b) <= 1 for ours, theirs in ends for a, b in zip(ours, theirs, strict=True))
    assert {f"ProfilerStep#{n}" for n in range(3)} < {name for *_, name in ours}
    assert "profiler.py(" in " ".join(name for *_, name in ours)
    assert "times cover all 3 steps" in said["text"]


def test_what_ran_on_the_cpu_is_no_device_and_the_text_says_so(said: dict[str, Any]) -> None:
    for text in (said["text"], said["cell's text"]):
        assert "All work ran on the CPU" in text
        assert "Run it where jax.devices() lists a GPU" in text
        assert "No device was recorded: what XLA computes on the CPU is among host operators" in text


def test_a_block_has_what_jax_did_in_it_on_the_recordings_own_clock(said: dict[str, Any]) -> None:
    (mine,) = (row for row in said["block"] if row[2] == "mine")
    before_ns, after_ns = said["about"]
    assert before_ns <= mine[0] < mine[1] <= after_ns
    assert mine[1] - mine[0] >= 10_000_000
    assert all(said["window"][0] <= start <= end <= said["window"][1] for start, end, _ in said["block"])
    assert any("fusion" in name for *_, name in said["block"]), "the end waits for what is still computed"


def test_a_cell_has_it_too_and_nothing_is_left_behind(said: dict[str, Any]) -> None:
    assert any(name.startswith("PjitFunction") for *_, name in said["cell"])
    assert said["left"] == []


def test_a_second_recording_is_refused_and_one_that_the_cell_ends_keeps_its_part(said: dict[str, Any]) -> None:
    for message in said["refused"]:
        assert message.startswith("jax.profiler records one block at a time, and refuses this one: ")
    assert "The cell ended JAX's profiler: what JAX did after that is not recorded" in said["ended inside"]
    assert " 0 operators" not in said["ended inside"]
    assert "JAX was imported inside the cell and not recorded: run the cell again" in said["imported inside"]
