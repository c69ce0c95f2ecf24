"""Translations: each text of the code has one, with the same values, and none is of a text that is gone."""

import re
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo

from perfmagic.analysis.findings.catalogue import ACTION_CHARS, ACTIONS, DECIDES, HEADLINE_CHARS, HEADLINES
from perfmagic.base.language import LOCALE, VARIABLE
from perfmagic.base.terminal import columns
from perfmagic.view.timeline.answers import words_wire
from tests.translations import (
    CODE,
    LIVE,
    TERMS,
    TRANSLATED,
    live_templates,
    live_words,
    po_file,
    read,
    templates,
    updated,
    written,
)

# names that engineers do not translate; code is known by its marks
NAMES = {
    *("Python", "CUDA", "DDP", "CPU", "GPU", "DataLoader", "rank", "autocast", "autograd", "pace", "float16", "del"),
    *("bfloat16", "torch", "memset", "softmax", "MoE", "token", "prefill", "decode", "HtoD", "DtoH", "DtoD", "PtoP"),
    *("FLOP", "TFLOP", "ABBA", "NaN", "ping", "t1", "t2", "t3", "n", "k", "s", "NUMA", "PCIe", "cuDNN", "inductor"),
    *("GPipe", "F1B", "F2", "NVTX", "Nsight", "Systems", "await"),
    *("JSON", "pickle", "dmesg", "JAX", "XLA"),
    *(
        "DistributedDataParallel",
        "PyTorch",
        "perfmagic",
        "KeyboardInterrupt",
        "CUPTI",
        "UTF",
        "gzip",
        "nan",
        "inf",
        "timeline",
        "PNG",
        "Enter",
        "Esc",
        "F",
        "N",
    ),
}

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("language", TRANSLATED)]


def texts(catalog: Catalog) -> dict[Any, tuple[str, ...]]:
    """The translations by what they translate, without the header; one form or several."""
    return {m.id: (m.string,) if isinstance(m.string, str) else tuple(m.string) for m in catalog if m.id}


def test_every_text_of_the_code_is_translated_and_nothing_else_is(language: str) -> None:
    known = texts(read(language))
    assert sorted(map(str, known.keys() ^ set(templates()))) == [], "python -m tests.translations"
    assert [key for key, forms in known.items() if not all(forms)] == []
    assert [message.id for message in read(language) if message.fuzzy and message.id] == []


def test_every_term_stands_in_the_code(language: str) -> None:
    code = "".join(path.read_text("utf-8") for path in LOCALE.parent.rglob("*.py"))
    assert [term for term in TERMS if f'"{term[:60]}' not in code] == [], language


def test_a_translation_has_the_values_of_its_text(language: str) -> None:
    for key, forms in texts(read(language)).items():
        wanted = set(re.findall(r"\{\w+\}", key if isinstance(key, str) else key[1]))
        assert all(set(re.findall(r"\{\w+\}", form)) == wanted for form in forms), key


def test_what_gettext_reads_is_compiled_from_the_source(language: str) -> None:
    with po_file(language).with_suffix(".mo").open("rb") as file:
        compiled = {m.id if isinstance(m.id, str) else tuple(m.id): m.string for m in read_mo(file) if m.id}
    assert {key: (form,) if isinstance(form, str) else tuple(form) for key, form in compiled.items()} == texts(
        read(language)
    )


def test_writing_them_again_changes_nothing(language: str) -> None:
    now = po_file(language).read_text("utf-8")
    again = written(updated(language))[0].decode()
    assert re.sub(r'"Generated-By.*\n', "", again) == re.sub(r'"Generated-By.*\n', "", now)


def test_no_english_word_stands_in_a_translation_but_names_and_code(language: str) -> None:
    for key, forms in texts(read(language)).items():
        for form in forms:
            words = re.findall(r"[A-Za-z]\w*", CODE.sub("", re.sub(r"\{\w+\}", "", form)))
            assert set(words) <= NAMES, (key, form)


def test_headlines_and_actions_are_as_short_as_in_english(language: str) -> None:
    known = texts(read(language))
    for table, most in ((HEADLINES, HEADLINE_CHARS), (DECIDES, HEADLINE_CHARS), (ACTIONS, ACTION_CHARS)):
        for template in table.values():
            (form,) = known[template]
            longest = re.sub(r"\{(?:time|total|n|share|host|device)\}", "999,999 ms", form)
            longest = re.sub(r"\{(?:name|call|what)\}", "x" * 16, longest)
            assert columns(longest) <= most, form


def test_the_live_view_gets_each_of_its_labels(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LIVE.read_text("utf-8") == live_words(), "python -m tests.translations"
    known = texts(read(language))
    monkeypatch.setenv(VARIABLE, language)
    sent = words_wire()["words"]
    for template in live_templates():
        keys = (template,) if isinstance(template, str) else template
        assert {sent[key] for key in keys} == {known[template][0]}
    assert sent["device idle"] != "device idle"
    assert sent["{n} ops"] != "{n} ops"
    monkeypatch.setenv(VARIABLE, "en")
    assert words_wire() == {}
