"""%compare of timelines in a shell: what a learner changed in a cell, on the simulated device and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfmagic
from tests.trace.recorded import FOLDER

from .conftest import Notebook

pytestmark = pytest.mark.slow

SETUP = (
    "import torch, perfmagic\ndevice = perfmagic.device('sim')\n"
    "x = torch.randn(64, 64, device=device)\n(x @ x).sum().item()"
)
STEP = str(FOLDER / "v100_4streams_nccl_step.json.gz")
SMALL = str(FOLDER / "a100_event_sync_3streams.json.gz")


def test_an_item_in_a_loop_that_went_is_seen_where_it_stood(notebook: Notebook) -> None:
    assert notebook.run(SETUP).error is None
    loop = "total = 0\nfor _ in range(5):\n    y = x @ x\n    total += y.sum(){}\nresult = float(total)"
    cell = f"%%timeline -o {{}} --device sim\n{loop}"
    assert notebook.run(cell.format("before", ".item()")).error is None
    assert notebook.run(cell.format("after", "")).error is None
    ran = notebook.run("%compare before after -o found")
    assert ran.error is None
    found = notebook.names["found"]
    assert isinstance(found, perfmagic.TraceComparison)
    assert (found.a.name, found.b.name, found.no_verdict) == ("before", "after", "")
    assert found.b.n_syncs < found.a.n_syncs
    edited = next(row for row in found.lines if row.change == "edited")
    assert (edited.line_a, edited.line_b, edited.text) == (5, 5, "total += y.sum()")
    assert edited.blocked_a_ns > 0
    assert edited.blocked_b_ns == 0
    copies = {row.name: (row.n_a, row.n_b) for row in found.kernels if row.name.startswith("Memcpy DtoH")}
    assert sum(n_a for n_a, _ in copies.values()) - sum(n_b for _, n_b in copies.values()) == 4
    assert sum(part.diff_ns for part in found.parts) == found.whole.diff_ns
    assert found.headline in ran.report.replace("\n  ", " ")
    assert notebook.run("perfmagic.last() is found").value


def test_a_pageable_copy_that_became_a_pinned_one_is_a_replacement(notebook: Notebook) -> None:
    assert notebook.run(f"{SETUP}\npageable = torch.randn(256, 256)\npinned = pageable.pin_memory()").error is None
    assert notebook.run("%%timeline -o before --device sim\ny = pageable.to(device)").error is None
    assert notebook.run("%%timeline -o after --device sim\ny = pinned.to(device, non_blocking=True)").error is None
    assert notebook.run("%compare before after -o found").error is None
    found = notebook.names["found"]
    assert [(one.gone, one.new) for one in found.replaced] == [
        (("Memcpy HtoD (Pageable -> Device)",), ("Memcpy HtoD (Pinned -> Device)",))
    ]
    (line,) = found.lines
    assert (line.change, line.blocked_b_ns) == ("edited", 0)
    assert line.blocked_a_ns > 0


def test_files_and_folders_are_named_by_their_paths(notebook: Notebook, tmp_path: Path) -> None:
    (tmp_path / "one.json.gz").write_bytes(Path(SMALL).read_bytes())
    ran = notebook.run(f"%compare {tmp_path} {STEP} -o found")
    assert ran.error is None
    found = notebook.names["found"]
    assert (found.a.name, found.b.name) == ("A", "B")
    assert (found.a.title, found.b.title) == ("one.json.gz", "v100_4streams_nccl_step.json.gz")
    assert ran.report.startswith("No verdict: ")


def test_what_cannot_stand_beside_a_timeline_is_refused(notebook: Notebook) -> None:
    notebook.run("def f(): pass")
    notebook.run("%%timeline -o t --device cpu\nx = 1")
    assert "compare: 1 timeline and a function" in notebook.run("%compare t f").refusal
    assert "compare: 3 timelines, two are compared" in notebook.run("%compare t t t").refusal
    assert "--time cannot be set any more" in notebook.run("%compare t t --time 3").refusal
    assert "quantity cannot be set any more" in notebook.run("%compare t t --quantity done").refusal


def test_a_prediction_is_compared_with_the_timeline_of_the_changed_cell(notebook: Notebook) -> None:
    notebook.run("import time, torch, perfmagic\nfrom perfmagic.changes import no_item")
    notebook.run("x = torch.randn(64, 64, device=perfmagic.device('sim', pace='matmul=20ms'))")
    step = "total = 0.0\nfor _ in range(4):\n    total = total + (x @ x).sum(){}\n    time.sleep(0.015)"
    try:
        for name, read in (("before", ".item()"), ("after", "")):
            assert notebook.run(f"%%timeline -o {name} --device sim\n{step.format(read)}").error is None
    finally:
        notebook.run("perfmagic.device('sim', pace=perfmagic.Pace())")
    notebook.run("predicted = before.what_if(no_item())")
    assert notebook.names["predicted"].refused == ""
    ran = notebook.run("%compare predicted after -o check")
    check = notebook.names["check"]
    assert check.measured_ns < check.prediction.recorded_ns
    assert check.sentence in ran.report.replace("\n", " ")
    assert "is checked against one timeline, not 2" in str(notebook.run("%compare predicted before after").error)
