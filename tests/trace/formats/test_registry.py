"""The table of formats: what it says is what readers, folders and JupyterLab know."""

import re
import shutil
import sqlite3
import sys
import types
from contextlib import closing
from pathlib import Path

import pytest

import perfmagic
from perfmagic.base.errors import TraceError
from perfmagic.trace.formats import sources
from perfmagic.trace.formats.registry import ENDINGS, FORMATS, Format, endings_words, is_trace_name
from perfmagic.trace.formats.sources import format_of, reader_of
from tests.trace.formats.nsight_made import h100
from tests.trace.recorded import as_bytes, launch_and_kernel

ROOT = Path(__file__).resolve().parents[3]


def test_every_format_has_a_reader_and_the_last_one_takes_what_no_other_claims() -> None:
    assert all(callable(reader_of(form).sniff) and callable(reader_of(form).read) for form in FORMATS)
    assert [form.name for form in FORMATS if form.magic == (b"",)] == [FORMATS[-1].name] == ["torch.profiler"]
    assert {format_of(head).name for head in (b"", b"{", b"\x00" * 9, b"PK\x03\x04")} == {"torch.profiler"}


def test_a_folder_knows_the_endings_of_all_formats() -> None:
    assert all(is_trace_name(f"rank0{ending}") for ending in ENDINGS)
    assert not any(is_trace_name(name) for name in ("rank0.json.bak", "npz", "a.jsonx", "notes.md"))
    assert all(ending in endings_words() for ending in ENDINGS)


def test_jupyterlab_opens_the_endings_of_all_formats_by_a_double_click() -> None:
    source = (ROOT / "perfmagic" / "frontend" / "src" / "lab" / "documents.ts").read_text()
    known = re.findall(r'"(\.[\w.-]+)"', source.partition("const ENDINGS = ")[2].partition("]")[0])
    assert {*ENDINGS} - {".json"} <= {*known}, "add the ending to ENDINGS in documents.ts; plain .json opens as text"


def test_a_reader_that_is_added_as_the_page_says_opens_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, module = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "add-a-reader.md").read_text(), re.DOTALL)
    named = "perfmagic.trace.formats.mytool"
    monkeypatch.setitem(sys.modules, named, types.ModuleType(named))
    exec(module, vars(sys.modules[named]))
    monkeypatch.setattr(sources, "FORMATS", (eval(row, {"Format": Format}), *FORMATS))
    path = tmp_path / "run.txt"
    path.write_text("mytool 1\n100 150 gemm\n150 190 gemm\n190 200 relu\n")
    trace = perfmagic.open_trace(path).trace
    assert (trace.ops.start_ns.tolist(), [trace.names[name] for name in trace.ops.name]) == (
        [100, 150, 190],
        ["gemm", "gemm", "relu"],
    )
    path.write_text("mytool 1\n")
    with pytest.raises(TraceError, match=r"run\.txt has no kernels"):
        perfmagic.open_trace(path)


def test_files_of_several_programs_in_one_folder_are_named_and_not_mixed(tmp_path: Path) -> None:
    shutil.copy(h100(), tmp_path / "nsys.sqlite")
    (tmp_path / "torch.json").write_bytes(as_bytes(launch_and_kernel(1, 0, 10)))
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as database, database:
        database.execute("create table experiments (id)")
    with pytest.warns(UserWarning, match=r"other\.sqlite is an SQLite database of another program") as told:
        opened = perfmagic.open_traces(tmp_path)
    assert len(told) == 1
    assert [timeline.title for timeline in opened] == ["nsys.sqlite, rank 0", "nsys.sqlite, rank 1", "torch.json"]
    assert (opened.ranks.ranks.ranks, [timeline.title for timeline in opened.alone]) == ([0, 1], ["torch.json"])
    assert "torch.json" in opened.mixed
