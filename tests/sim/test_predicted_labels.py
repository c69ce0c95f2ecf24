"""What says that times are those of a GPU's model, wherever a result is shown."""

import json
from pathlib import Path

import pytest
import torch

import perfmagic
from perfmagic.results import TimelineResult
from tests.sim.test_named_gpu import recorded

LABEL = "predicted for H100 SXM, not recorded · ÷ × 1.4"


@pytest.fixture
def products() -> TimelineResult:
    x = torch.ones(256, 256, device=perfmagic.device("H100"))
    return recorded(lambda: [x @ x for _ in range(3)])


def test_every_face_of_a_timeline_says_so(products: TimelineResult) -> None:
    for face in (products.text(), products.html(), products.live().picture_html()):
        assert LABEL in " ".join(face.split())
        assert "simulated" not in face


def test_tables_of_a_device_say_so(products: TimelineResult) -> None:
    for table in (products.kernels(), products.device_operators(), products.streams(0), products.idle_gaps()):
        assert LABEL in repr(table)
        assert LABEL in table._repr_html_()
    again = products.kernels()
    assert repr(again).count(LABEL) == 1


def test_a_benchmark_says_so_also_when_it_was_saved() -> None:
    x = torch.ones(256, 256, device=perfmagic.device("H100"))
    result = perfmagic.syncbench(lambda: x @ x)
    for face in (result.text(), result.html(), repr(result)):
        assert LABEL in " ".join(face.split())
        assert "simulated" not in face
    saved = type(result).from_json(result.to_json())
    assert saved.predicted
    assert LABEL in " ".join(saved.text().split())


def test_json_has_the_spread_as_a_number(products: TimelineResult) -> None:
    (device,) = json.loads(products.to_json())["meta"]["devices"]
    assert (device["predicted"], device["spread"], device["label"]) == (True, 1.4, LABEL)


def test_saved_files_keep_it(products: TimelineResult, tmp_path: Path) -> None:
    for name in ("t.json.gz", "t.npz"):
        products.save(tmp_path / name)
        again = perfmagic.open_trace(tmp_path / name)
        assert again.trace.meta.devices == products.trace.meta.devices
        assert LABEL in again.text().replace("\n         ", " ")


def test_several_devices_say_so_once() -> None:
    perfmagic.device("A100")
    xs = [torch.ones(64, 64, device=f"sim:{i}") for i in range(2)]
    text = recorded(lambda: [x @ x for x in xs]).text()
    assert "2 devices predicted for A100 SXM4 80 GB, not recorded · ÷ × 1.4" in " ".join(text.split())


def test_a_gpu_without_recordings_has_a_wider_spread() -> None:
    x = torch.ones(64, 64, device=perfmagic.device("B200"))
    assert "predicted for B200, not recorded · ÷ × 1.5" in " ".join(recorded(lambda: x @ x).text().split())


def test_the_note_names_the_model_and_both_spreads(products: TimelineResult) -> None:
    (note,) = [note.words for note in products.trace.meta.notes if note.kind == "virtual_clock"]
    assert note.startswith("a model of H100 SXM gives all times, nothing was measured")
    assert "÷ × 1.4" in note
    assert "÷ × 1.7" in note
