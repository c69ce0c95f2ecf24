"""The lessons and the README in another language. demos/locale has each paragraph beside its English text.

    python demos/translation.py zh                  # updates the .po files and README.zh-CN.md, lists what is missing
    python demos/translation.py zh --out build/zh   # writes the lessons in Chinese

Paragraphs, comments and sentences in strings are translated, the rest of the code is not. A text that changed keeps its
translation, marked fuzzy, until somebody has read it again.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

DEMOS = Path(__file__).resolve().parent
README = DEMOS.parent / "README.md"
README_IN = {"zh": README.with_name("README.zh-CN.md")}
LOAD = "%load_ext perfmagic\n"

MARK = re.compile(r"\s*(?:#+ |[-*] |\d+\. |> |\| ?)?")  # what a heading, an item of a list or a row begins with
SILENT = re.compile(
    r"```.*?```|`[^`]*`|\$[^$]*\$|\]\([^)]*\)|<[^>]*>|%%?\w+", re.DOTALL
)  # code, formulas, targets of links
PROSE = re.compile(r"[A-Za-z]{2}")
SENTENCE = re.compile(r"\b[A-Za-z]{2,},? [a-z]{2,}\b(?!=)|, [a-z]{4,} ")  # two words in a string: somebody reads it
MAGIC = re.compile(r"^([ \t]*)(?:[%!]|[\w, ]+= ?[%!]).*$", re.MULTILINE)
FIELD = re.compile(r"\{[^{}]*\}")
LEFT = ("--- ", "noqa", "type: ", "fmt: ", "your code")  # comments that programs read


class Span(NamedTuple):
    """A text to translate, its place in the source, and what parts its lines there."""

    start: int
    end: int
    text: str
    line_end: str = "\n"


def markdown_spans(source: str) -> Iterator[Span]:
    """Paragraphs, headings, items, rows and drawings of Markdown; of blocks of code the comments."""
    block: list[re.Match[str]] = []
    language: str | None = None  # of the fenced block around the line; "" for a drawing
    for line in [*re.finditer(r".*\n|.+\Z", source), None]:
        text = line[0].rstrip() if line else ""
        fence = text.lstrip().startswith("```")
        is_code = language or (language is None and text.startswith("    ") and not block)
        ends = fence if language == "" else not text or fence or text.startswith("<") or MARK.match(text)[0].strip()
        if block and ends:
            yield from _paragraph(block) if language is None else _drawing(block)
            block = []
        if line and is_code and (comment := re.search(r"(?:^|\s)# (.+)", text)):
            yield Span(line.start() + comment.start(1), line.start() + comment.end(1), comment[1])
        elif line and text and not (is_code or fence or text.startswith("<")):
            block.append(line)
        if fence:
            language = text.strip("` ") if language is None else None


def _drawing(lines: list[re.Match[str]]) -> Iterator[Span]:
    text = "".join(line[0] for line in lines).rstrip()
    yield Span(lines[0].start(), lines[0].start() + len(text), text)


def _paragraph(lines: list[re.Match[str]]) -> Iterator[Span]:
    start = lines[0].start() + MARK.match(lines[0][0]).end()
    end = lines[-1].start() + len(lines[-1][0].rstrip())
    text = " ".join(line[0].strip() for line in lines)
    text = text[MARK.match(text).end() :]
    if PROSE.search(SILENT.sub("", text)):
        yield Span(start, end, text)


def code_spans(source: str, keys: frozenset[str] = frozenset()) -> list[Span]:
    """Comments, several lines of them as one text, and strings that are sentences and no keys, with their quotes."""
    plain = without_magics(source)
    starts = [0]
    for line in plain.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return sorted(
        [*_comments(plain, starts), *(span for span in _strings(plain, starts) if span.text[1:-1] not in keys)]
    )


def without_magics(source: str) -> str:
    """A cell as Python reads it, as long as it is."""
    return MAGIC.sub(lambda line: f"{line[1]}pass".ljust(len(line[0])), source)


def _comments(source: str, starts: list[int]) -> Iterator[Span]:
    rows: list[Span] = []  # comments one below the other
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        if token.type != tokenize.COMMENT or text.startswith(LEFT):
            continue
        end, before = starts[token.start[0] - 1] + token.end[1], token.line[: token.start[1]]
        if rows and (before.strip() or source[rows[-1].end : end - len(token.string)] != f"\n{before}"):
            yield _joined(rows)
            rows = []
        rows.append(Span(end - len(text), end, text, f"\n{before}# "))
    if rows:
        yield _joined(rows)


def _joined(rows: list[Span]) -> Span:
    return rows[-1]._replace(start=rows[0].start, text="\n".join(row.text for row in rows))


def _strings(source: str, starts: list[int]) -> Iterator[Span]:
    tree, lines = ast.parse(source), source.splitlines()
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {part for node in formatted for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if node in parts or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        text = ast.get_source_segment(source, node) or ""
        if text[-1:] in {'"', "'"} and SENTENCE.search(FIELD.sub("", text)):
            start = starts[node.lineno - 1] + len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
            yield Span(start, start + len(text), text)


def in_language(source: str, spans: Iterable[Span], catalog: Catalog) -> str:
    """A source in the language of a catalogue; where that has no translation, in English."""
    for span in reversed([*spans]):
        known = catalog.get(span.text)
        text = known.string if known and known.string and not known.fuzzy else span.text
        source = source[: span.start] + text.replace("\n", span.line_end) + source[span.end :]
    return source


def spans(notebook: nbformat.NotebookNode) -> list[list[Span]]:
    """The texts of each cell of a notebook."""
    keys = frozenset(key for cell in notebook.cells if cell.cell_type == "code" for key in _keys(cell.source))
    return [
        [*markdown_spans(cell.source)] if cell.cell_type == "markdown" else code_spans(cell.source, keys)
        for cell in notebook.cells
    ]


def _keys(source: str) -> Iterator[str]:
    """The strings by which a cell looks something up, or to which it compares something."""
    for node in ast.walk(ast.parse(without_magics(source))):
        asked = [node.slice] if isinstance(node, ast.Subscript) else []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        yield from (one.value for one in asked if isinstance(one, ast.Constant) and isinstance(one.value, str))


def lesson(path: Path, language: str) -> nbformat.NotebookNode:
    """A lesson in a language, without outputs."""
    notebook, catalog = nbformat.read(path, as_version=4), read(path, language)
    for cell, known in zip(notebook.cells, spans(notebook), strict=True):
        cell.source = in_language(cell.source, known, catalog).replace(LOAD, f"{LOAD}%perfmagic language {language}\n")
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    return notebook


def readme(language: str) -> str:
    """The README in a language."""
    text = README.read_text("utf-8")
    return in_language(text, markdown_spans(text), read(README, language))


def texts(path: Path) -> list[str]:
    """What is to be translated of a lesson or of the README, in its order."""
    if path == README:
        return [span.text for span in markdown_spans(path.read_text("utf-8"))]
    return [span.text for cell in spans(nbformat.read(path, as_version=4)) for span in cell]


def po_file(path: Path, language: str) -> Path:
    """Where the translations of a lesson or of the README are."""
    return DEMOS / "locale" / language / f"{path.stem}.po"


def read(path: Path, language: str) -> Catalog:
    """The translations of a lesson or of the README."""
    source = po_file(path, language)
    return read_po(io.BytesIO(source.read_bytes() if source.exists() else b""), locale=language)


def updated(path: Path, language: str) -> Catalog:
    """The translations of the texts that are there now; those of changed ones are marked fuzzy."""
    catalog, now = read(path, language), Catalog()
    for text in texts(path):
        now.add(text)
    catalog.update(now)
    catalog.obsolete.clear()
    return catalog


def written(catalog: Catalog) -> str:
    """A .po file."""
    source = io.BytesIO()
    write_po(source, catalog, width=0, omit_header=True, include_previous=True)
    plain = re.sub(r"(#, .*?)(?:, )?python-(?:brace-)?format", r"\1", source.getvalue().decode())
    return plain.replace("#, \n", "").replace("\n\n", "\n")  # an empty line after each entry says nothing


def untranslated(catalog: Catalog) -> list[str]:
    """The texts that have no translation, or one of another text."""
    return [str(message.id) for message in catalog if message.id and (message.fuzzy or not message.string)]


def main() -> int:
    """Write the lessons, or update the translations; 1 where some are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=README_IN)
    parser.add_argument("--out", type=Path, help="write the lessons there")
    options = parser.parse_args()
    lessons = sorted(DEMOS.glob("*.ipynb"))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for path in lessons:
            nbformat.write(lesson(path, options.language), options.out / path.name)
        return 0
    missing = 0
    for path in [*lessons, README]:
        catalog = updated(path, options.language)
        po_file(path, options.language).write_text(written(catalog), "utf-8")
        for text in untranslated(catalog):
            print(f"{path.name}: {text}")
            missing = 1
    README_IN[options.language].write_text(readme(options.language), "utf-8")
    return missing


if __name__ == "__main__":
    sys.exit(main())
