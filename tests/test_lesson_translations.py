"""The lessons and the README in other languages: complete, current, the same programs, in the glossary's terms."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog

from tests.translations import TRANSLATED
from tests.translations import read as read_messages

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
ROOT = Path(__file__).resolve().parents[1]
DEMOS = ROOT / "demos"
SOURCES = [*sorted(DEMOS.glob("*.ipynb")), ROOT / "README.md"]
KEPT = re.compile(
    r"`[^`\n]+`|\]\([^)]+\)|(?<![\w*])\*(?:\w|\w \* \w)\*(?!\w)|\bt\d\b"
)  # code, links, names in formulas
CODE = re.compile(r"`[^`]*`|\{[^}]*\}|\]\([^)]*\)|[\w.]*[_.(]\w+|--\w+")
OTHERS = {"`not yet`", "`right`", "](README.zh-CN.md)"}  # what a check says; the other way round

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DEMOS.is_dir(), reason="needs the clone's demos"),
    pytest.mark.parametrize("language", TRANSLATED),
]
each_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("demo_translation", DEMOS / "translation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pairs(catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Each text with its translation; of several forms the last."""
    for message in catalog:
        if message.id and message.string:
            is_one = isinstance(message.id, str)
            yield (message.id, message.string) if is_one else (message.id[1], message.string[-1])


@each_source
def test_every_paragraph_is_translated(tool: Any, language: str, path: Path) -> None:
    missing = tool.untranslated(tool.updated(path, language))
    todo = f"run python demos/translation.py {language}, and write msgstr in {tool.po_file(path, language)}"
    assert missing == [], f"{path.name} has paragraphs that are new or changed: {todo}"


@each_source
def test_no_paragraph_is_kept_that_is_gone(tool: Any, language: str, path: Path) -> None:
    stored = tool.po_file(path, language).read_text("utf-8")
    assert stored == tool.written(tool.updated(path, language)), f"run python demos/translation.py {language}"


@each_source
def test_code_and_links_stay_as_they_are(tool: Any, language: str, path: Path) -> None:
    for text, translation in pairs(tool.read(path, language)):
        if text[-1] not in "\"'":
            assert set(KEPT.findall(text)) - OTHERS <= set(KEPT.findall(translation)), text


@each_source
def test_the_translations_have_the_glossary_s_terms(tool: Any, language: str, path: Path) -> None:
    assert wrong_terms(language, tool.read(path, language)) == []


def test_the_messages_have_the_glossary_s_terms(language: str) -> None:
    assert wrong_terms(language, read_messages(language)) == []


def wrong_terms(language: str, catalog: Catalog) -> list[tuple[str, str, str]]:
    """What a text says, its translation, and the term that this should have."""
    glossary = (DEMOS / "locale" / language / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", glossary, re.MULTILINE)[1:]
    assert len(rows) > 30
    found = []
    for words, known in rows:
        said = re.compile(rf"\b(?:{words.replace(', ', '|')})s?\b", re.IGNORECASE)
        for text, translation in pairs(catalog):
            is_known = text == translation or any(term in translation for term in known.split(" / "))
            if not is_known and said.search(CODE.sub("", text)):
                found.append((text, translation, known))
    return found


@pytest.mark.parametrize("path", SOURCES[:-1], ids=lambda path: path.stem)
def test_a_translated_lesson_is_the_same_program(tool: Any, language: str, path: Path) -> None:
    source, lesson = nbformat.read(path, as_version=4), tool.lesson(path, language)
    nbformat.validate(lesson)
    codes = [[cell.source for cell in book.cells if cell.cell_type == "code"] for book in (source, lesson)]
    assert f"{tool.LOAD}%perfmagic language {language}\n" in "".join(codes[1])
    for english, translated in zip(*codes, strict=True):
        assert program(tool, english) == program(tool, translated.replace(f"%perfmagic language {language}\n", ""))
    assert not any(cell.get("outputs") for cell in lesson.cells)
    assert [cell.metadata for cell in lesson.cells] == [cell.metadata for cell in source.cells]


def program(tool: Any, source: str) -> tuple[list[str], str]:
    """The magics of a cell, and its program without its strings."""
    tree = ast.parse(tool.without_magics(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
        elif isinstance(node, ast.JoinedStr):  # its fields may come in another order
            node.values = sorted((v for v in node.values if isinstance(v, ast.FormattedValue)), key=ast.dump)
    return [line[0] for line in tool.MAGIC.finditer(source)], ast.dump(tree)


def test_emphasis_shows_as_such(tool: Any, language: str) -> None:
    markdown_it = pytest.importorskip("markdown_it", reason="markdown-it is not installed")
    for path in SOURCES:
        for _, translation in pairs(tool.read(path, language)):
            if "**" in translation and translation[-1] not in "\"'":
                assert "**" not in re.sub(r"<code>.*?</code>", "", markdown_it.MarkdownIt().render(translation))


def test_the_readme_is_current_and_linked(tool: Any, language: str) -> None:
    stored = tool.README_IN[language]
    assert stored.read_text("utf-8") == tool.readme(language), f"run python demos/translation.py {language}"
    assert f"]({stored.name})" in tool.README.read_text("utf-8")
    assert "](README.md)" in stored.read_text("utf-8")


def test_a_changed_paragraph_is_named(tool: Any, language: str, tmp_path: Path) -> None:
    changed = tmp_path / SOURCES[0].name
    changed.write_text(SOURCES[0].read_text("utf-8").replace("## See the queue", "## See the long queue"), "utf-8")
    catalog = tool.updated(changed, language)
    assert tool.untranslated(catalog) == ["See the long queue"]
    assert catalog.get("See the long queue").string == tool.read(SOURCES[0], language).get("See the queue").string
