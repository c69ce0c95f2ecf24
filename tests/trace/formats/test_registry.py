"""The table of formats: what it says is what readers, folders and JupyterLab know."""

import re
from pathlib import Path

from perfmagic.trace.formats.registry import ENDINGS, FORMATS, endings_words, format_of, is_trace_name

ROOT = Path(__file__).resolve().parents[3]


def test_every_format_has_a_reader_and_the_last_one_takes_what_no_other_claims() -> None:
    assert all(callable(form.reader.sniff) and callable(form.reader.read) for form in FORMATS)
    assert [form.name for form in FORMATS if form.magic == (b"",)] == [FORMATS[-1].name] == ["torch.profiler"]
    assert {format_of(head).name for head in (b"", b"{", b"\x00" * 9, b"PK\x03\x04")} == {"torch.profiler"}


def test_a_folder_knows_the_endings_of_all_formats() -> None:
    assert all(is_trace_name(f"rank0{ending}") for ending in ENDINGS)
    assert not any(is_trace_name(name) for name in ("rank0.json.bak", "npz", "a.jsonx", "notes.md"))
    assert all(ending in endings_words() for ending in ENDINGS)


def test_jupyterlab_opens_the_endings_of_all_formats_by_a_double_click() -> None:
    source = (ROOT / "perfmagic" / "frontend" / "src" / "lab" / "documents.ts").read_text()
    known = re.findall(r'"(\.[\w.-]+)"', source.partition("const ENDINGS = ")[2].partition("]")[0])
    assert {*ENDINGS} - {".json"} <= {*known}, "plain .json opens as text, and by Open With"
