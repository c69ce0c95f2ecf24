"""Lone surrogates, which JSON can hold and UTF-8 cannot: wherever they are in a trace, it is read and written.

Python's own json writes them for names that were no valid text; torch.profiler copies such names.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmagic.base.files import all_printable, printable
from perfmagic.cli import main
from perfmagic.results import TimelineResult
from perfmagic.trace.formats.npz import read_npz
from perfmagic.trace.formats.sources import read_file
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.view.timeline.picture.timeline import timeline_svg
from perfmagic.view.timeline.text import timeline_text
from perfmagic.view.timeline.writers import timeline_html
from tests.trace.recorded import event, launch_and_kernel, repairs

pytestmark = pytest.mark.slow


HIGH, LOW, SHOWN = "a\ud800", "\udc00b", "a\ufffd"
ARGS = ("Collective name", "dtype", "Process Group Name", "Process Group Ranks", "stream", "grid", "call", "Input Dims")
CUT_BYTES = 3


def with_text(place: str, text: str) -> bytes:
    """A launch, its kernel, an operator and a counter; a text somewhere in them, and in a header."""
    launch, kernel = launch_and_kernel(1, 0, 10)
    operator = event("cpu_op", "aten::mm", 0, 5, pid=99, tid=99)
    counter = {"ph": "C", "name": "power", "pid": 0, "ts": 3, "args": {"value": 5}}
    kernel["args"]["Collective name"] = "allreduce"
    if place == "name":
        kernel["name"] = operator["name"] = counter["name"] = text
    elif place == "key":
        counter["args"] = {text: 5}
    elif place == "Input Dims":
        operator["args"][place] = [[text]]
    else:
        for row in (launch, kernel, operator):
            row["args"][place] = text
    header = {"deviceProperties": [{"id": 0, "name": text}]} if place == "header" else {}
    return json.dumps(
        header | {"traceEvents": [counter, launch, kernel, operator, event("cpu_op", "end", 20, 1)]}
    ).encode()


def cut(data: bytes) -> bytes:
    return data[:-CUT_BYTES]


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize("damage", [bytes, cut, packed], ids=["whole", "cut", "gz"])
@pytest.mark.parametrize("text", [HIGH, LOW, LOW + HIGH], ids=["high", "low", "reversed"])
@pytest.mark.parametrize("place", [*ARGS, "name", "key", "header"])
def test_a_half_anywhere_is_replaced_and_counted_and_every_face_can_be_written(
    place: str, text: str, damage: Callable[[bytes], bytes]
) -> None:
    trace = read_trace(damage(with_text(place, text)))
    assert len(trace.ops) == 1
    assert "lone surrogate" in " | ".join(repairs(trace))
    result = TimelineResult(trace)
    for face in (result.to_json(), timeline_text(result.doc), timeline_html(result.doc), timeline_svg(result.doc)):
        face.encode()


def test_the_replaced_text_is_where_the_half_was() -> None:
    trace = read_trace(with_text("Collective name", HIGH))
    assert [collective.name for collective in trace.collectives] == [SHOWN]
    assert SHOWN in read_trace(with_text("name", HIGH)).names
    assert read_trace(with_text("Input Dims", HIGH)).input_shapes == (json.dumps([[SHOWN]]),)


def test_a_whole_pair_is_one_character_and_needs_no_repair() -> None:
    trace = read_trace(with_text("name", "matmul \U0001f600"))
    assert "matmul \U0001f600" in trace.names
    assert trace.meta.repairs == ()
    damaged = read_trace(cut(with_text("name", "matmul \U0001f600")))
    assert "matmul \U0001f600" in damaged.names
    assert "surrogate" not in {remark.kind for remark in damaged.meta.repairs}


@pytest.mark.parametrize("damage", [bytes, cut, packed], ids=["whole", "cut", "gz"])
@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"], ["--html"]], ids=lambda form: "".join(form) or "text")
def test_a_report_on_such_a_file_is_written_in_every_form(
    form: list[str], damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    source, out = tmp_path / "trace.json", tmp_path / "out"
    source.write_bytes(damage(with_text("Collective name", HIGH)))
    assert main(["report", str(source), *form, "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", [".json", ".json.gz", ".npz"])
def test_such_a_trace_is_saved_and_opened_again(ending: str, tmp_path: Path) -> None:
    trace = read_trace(with_text("Collective name", HIGH))
    path = TimelineResult(trace).save(tmp_path / f"again{ending}")
    again = read_file(path)
    assert [collective.name for collective in again.collectives] == [SHOWN]
    assert again.meta.repairs == trace.meta.repairs  # counted once


def test_a_half_in_an_npz_is_replaced(tmp_path: Path) -> None:
    path = TimelineResult(read_trace(with_text("name", "half"))).save(tmp_path / "a.npz")
    arrays: dict[str, Any] = dict(np.load(path))
    about = arrays["about"].tobytes().replace(b'"half"', b'"a\\ud800"')
    np.savez_compressed(path, **(arrays | {"about": np.frombuffer(about, np.uint8)}))
    assert SHOWN in read_npz(path, DEFAULT_LIMIT_BYTES).names


def test_text_without_halves_stays_the_same_object() -> None:
    for text in ("", "plain", "矩阵 \U0001f600"):
        assert printable(text) is text
    assert all_printable({HIGH: [LOW, 1, None, {"x": 2.5}]}) == ({SHOWN: ["\ufffdb", 1, None, {"x": 2.5}]}, 2)
