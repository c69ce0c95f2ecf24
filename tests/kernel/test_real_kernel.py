"""The six behaviours of a plain cell, in a real kernel, for every magic, on the newest IPython and on the floor."""

import re
from pathlib import Path

from perfmagic.results.briefs.form import MIME

from .session import Session, run_notebook


def test_the_kernel_has_the_versions_it_should(kernel: Session, python: str) -> None:
    found = kernel.run("import IPython, ipykernel\nIPython.__version__, ipykernel.__version__").value
    if "floor" in python:
        assert found == "('7.34.0', '6.17.0')"
    else:
        assert not found.startswith("('7.")


def test_variables_and_the_last_value(kernel: Session, head: str) -> None:
    measured, after = kernel.run_all([f"{head}\nx = 41\nx + 1", "x, _"])
    assert measured.value == "42"
    assert len(measured.displayed) == 1
    assert after.value == "(41, 42)"
    assert after.displayed == []


def test_an_exception_stops_run_all_at_the_users_line(kernel: Session, head: str) -> None:
    kernel.run("reached = False")
    failed, skipped = kernel.run_all([f"{head}\ndef f():\n    raise ValueError('boom')\nf()", "reached = True"])
    assert (failed.status, failed.error, skipped.status) == ("error", "ValueError", "aborted")
    assert "raise ValueError('boom')" in failed.traceback
    assert "perfmagic" not in failed.traceback
    assert "ValueError" in failed.report
    assert kernel.run("reached").value == "False"


def test_an_interrupt_stops_run_all_at_the_users_line(kernel: Session, head: str) -> None:
    body = "import time\nprint('begun')\nfor i in range(600):\n    time.sleep(0.1)"
    stopped, skipped = kernel.run_all([f"{head}\n{body}", "reached = True"], interrupt_after="begun")
    assert (stopped.status, stopped.error, skipped.status) == ("error", "KeyboardInterrupt", "aborted")
    assert "time.sleep(0.1)" in stopped.traceback
    assert "perfmagic" not in stopped.traceback
    assert re.search("KeyboardInterrupt|interrupted", stopped.report)
    assert kernel.run("1 + 1").value == "2"


def test_an_interrupt_between_samples_keeps_those_taken(kernel: Session) -> None:
    kernel.run("n = 0")
    body = "import os, time\nn += 1\ntime.sleep(0.01)\nif n == 12:\n    os.kill(os.getpid(), 2)"
    stopped = kernel.run(f"%%bench -r 100000 --time 60 -o kept\n{body}")
    assert stopped.error == "KeyboardInterrupt"
    assert re.search("KeyboardInterrupt|interrupted", stopped.report)
    assert len(stopped.displayed) == 1
    assert kernel.run("n, 'interrupted' in repr(kept)").value == "(12, True)"


def test_top_level_await_works(kernel: Session, head: str) -> None:
    done = kernel.run(f"{head}\nimport asyncio\nx = await asyncio.sleep(0.001, 41)\nx + 1")
    assert done.value == "42"


def test_an_interrupt_inside_an_await_stops_the_cell(kernel: Session) -> None:
    body = "import asyncio\nprint('begun', flush=True)\nfor i in range(600):\n    await asyncio.sleep(0.1)"
    stopped = kernel.run_all([f"%%timeline\n{body}"], interrupt_after="begun")[0]
    assert stopped.status == "error"
    assert kernel.run("1 + 1").value == "2"


def test_a_wrong_option_is_one_line_and_stops_run_all(kernel: Session, head: str) -> None:
    refused, skipped = kernel.run_all([f"{head} --nonsense\nx = 1", "reached = True"])
    assert refused.status == "error"
    assert "--nonsense" in refused.warned + refused.traceback
    assert len((refused.warned + refused.traceback).strip().splitlines()) <= 2
    assert skipped.status == "aborted"


def test_capture_around_takes_everything(kernel: Session, head: str) -> None:
    done, told = kernel.run_all([f"%%capture got\n{head}\nprint('inside')\n5", "got.stdout, len(got.outputs)"])
    assert (done.displayed, done.printed) == ([], "")
    assert told.value == "('inside\\n', 2)"


def test_sys_exit_is_that_of_the_plain_cell(kernel: Session, head: str) -> None:
    plain = kernel.run("import sys\nsys.exit(3)")
    measured = kernel.run(f"{head}\nimport sys\nsys.exit(3)")
    assert (measured.status, measured.error) == (plain.status, plain.error)
    assert kernel.run("1 + 1").value == "2"


def test_a_notebook_run_by_a_pipeline_stops_at_the_failing_cell(python: str, tmp_path: Path) -> None:
    cells = ["%load_ext perfmagic", "%%timeline\nx = 1", "%%bench -r 6 --warmup 0\n1 / 0", "reached = True"]
    notebook, error = run_notebook(cells, python, tmp_path)
    assert error == "ZeroDivisionError"
    assert [cell.execution_count is not None for cell in notebook.cells] == [True, True, True, False]
    kinds = [output.output_type for output in notebook.cells[2].outputs]
    assert sorted(kinds) == ["display_data", "error"]


def test_a_pipeline_that_wants_only_pictures_gets_small_outputs_and_no_widget(python: str, tmp_path: Path) -> None:
    sim = "import torch, perfmagic\ndevice = perfmagic.device('sim')\nx = torch.randn(8, 8, device=device)"
    many = "%%timeline\nfor _ in range(3000):\n    x = torch.tanh(x)\nx.sum().item()"
    notebook, error = run_notebook(["%load_ext perfmagic", sim, many], python, tmp_path)  # PERFMAGIC_DISPLAY=static
    assert error == ""
    assert "widgets" not in notebook.metadata
    faces, value = (output.data for output in notebook.cells[2].outputs)
    brief = faces.pop(MIME)
    assert (sorted(faces), list(value)) == (["text/html", "text/plain"], ["text/plain"])
    assert brief["kind"] == "timeline"
    assert "3002 device ops" in faces["text/html"].replace(",", "")
    assert all(len(text.encode()) <= 80_000 for text in faces.values())


def test_output_caught_by_a_widget_costs_nothing(kernel: Session, head: str) -> None:
    assert kernel.run("import ipywidgets as w").status == "ok"
    inside = kernel.run(f"{head}\nwith w.Output():\n    print('in')\nfound = 5\nfound")
    assert (inside.status, inside.value) == ("ok", "5")
    name, _, options = head.removeprefix("%%").partition(" ")
    around = kernel.run(f"with w.Output():\n    get_ipython().run_cell_magic('{name}', '{options}', 'kept = 7')")
    assert around.status == "ok"
    assert kernel.run("kept").value == "7"
