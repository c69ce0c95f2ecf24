"""The documents say what the code does."""

import ast
import re
from pathlib import Path

import pytest

import perfmagic
from perfmagic.magics.running.runtime import CELL_MAGICS, LINE_MAGICS, SENT_MAGICS, cell_magic, line_magic, sent_magic

ROOT = Path(__file__).resolve().parents[1]
MOST_DOCS_WORDS = 20_000  # as `wc -w` counts, marks of tables included, directives of the reference not
MOST_README_WORDS = 720  # pictures and tables included
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), ROOT / "perfmagic" / "README.md"]
)


def section_of(page: str, magic: str) -> str:
    """The part of docs/magics.md about a magic."""
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return next(part for part in parts[1:] if magic in part.splitlines()[0].split())


PARSERS = {
    **{f"%%{name}": cell_magic(name).parser for name in CELL_MAGICS},
    **{f"%%{name}": sent_magic(name).parser for name in SENT_MAGICS},
    **{f"%{name}": line_magic(name).parser for name in LINE_MAGICS},
}


@pytest.mark.parametrize("name", PARSERS)
def test_the_page_of_magics_has_each_option_as_the_code_describes_it(name: str) -> None:
    described = PARSERS[name]().described
    table = [option.table_row(action.option_strings) for action, option in described]
    page = (ROOT / "docs" / "magics.md").read_text()
    section = section_of(page, name)
    above = [row for row in page[: page.index(section)].splitlines() if row in table]  # no row stands twice
    documented = [row for row in section.splitlines() if row.startswith("| `-")]
    assert documented == [row for row in table if row not in above], "docs/magics.md should have\n" + "\n".join(table)
    repeated = re.search(r"^Also, as above: (.*)\.$", section, flags=re.MULTILINE)
    flags = [row.split("`")[1].split()[0] for row in table if row in above]
    assert re.findall("`(.+?)`", repeated[1] if repeated else "") == flags


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text()
    found = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    assert [link for link in found if "://" not in link and not (page.parent / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= MOST_README_WORDS


def test_the_documents_are_short() -> None:
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    assert sum(len(line.split()) for line in lines if not line.startswith((".. auto", "   :"))) <= MOST_DOCS_WORDS


def test_every_document_that_the_source_cites_is_there() -> None:
    cited = {
        name
        for file in (ROOT / "perfmagic").rglob("*.py")
        for name in re.findall(r"docs/[a-z-]+\.md", file.read_text("utf-8"))
    }
    assert {name for name in cited if not (ROOT / name).is_file()} == set()
    assert len(cited) >= 4


def test_every_word_that_the_source_cites_is_defined() -> None:
    words = (ROOT / "docs" / "words.md").read_text().lower()
    cited = {
        term.lower()
        for file in (ROOT / "perfmagic").rglob("*.py")
        for terms in re.findall(r"docs/words\.md((?:,? \"[^\"]+\")+)", file.read_text("utf-8"))
        for term in re.findall(r"\"([^\"]+)\"", terms)
    }
    assert {term for term in cited if term not in words} == set()
    assert cited


def test_every_public_name_is_in_the_reference() -> None:
    page = "".join(page.read_text() for page in PAGES if page.parent.name != "api")
    assert [name for name in (*perfmagic.__all__, *perfmagic.rows.__all__) if name not in page] == []


def test_the_docstring_of_every_public_name_has_its_place_in_the_reference() -> None:
    pages = "".join(page.read_text() for page in sorted((ROOT / "docs" / "api").glob("*.md")))
    placed = re.findall(r"^\.\. auto(?:class|function|module):: (?:perfmagic\.)?(\w+)$", pages, flags=re.MULTILINE)
    extension = ["load_ipython_extension", "unload_ipython_extension", "testing", "lessons"]
    assert sorted(placed) == sorted([*perfmagic.__all__, *perfmagic.rows.__all__, *extension])
    checks = re.search(r":members: (faster.*)", pages)
    assert checks[1].split(", ") == perfmagic.testing.__all__


def test_the_page_on_findings_has_every_rule_and_table() -> None:
    page = (ROOT / "docs" / "findings.md").read_text("utf-8")
    rules = rules_in_source()
    assert len(rules) >= 40
    assert sorted(rule for rule in rules if f"`{rule}`" not in page) == []
    named = set(re.findall(r"`([a-z_]+)`", page))
    assert {"race", "straggler"} <= named & rules
    titles = set(
        re.findall(r'(?:Table|named_table)\(\s*(?:translate_term\()?f?"([A-Z][a-z]+(?: [a-z]+)*)', report_source())
    )
    assert len(titles) > 10
    assert sorted(title for title in titles if title.removesuffix(" the") not in page) == []


def rules_in_source() -> set[str]:
    """The rules of findings, read from the source: `rule=`, or the first argument of what makes one."""
    found = set()
    for path in (ROOT / "perfmagic" / "analysis").rglob("*.py"):
        if path.parent.name not in ("findings", "ranks"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            given = [keyword.value for keyword in node.keywords if keyword.arg == "rule"]
            called = getattr(node.func, "id", "")
            place = {"RankFinding": 0, "Total": 0, "about_the_record": 1, "waiting": 2, "_exposed": 2}.get(called)
            given += [node.args[place]] if place is not None and len(node.args) > place else []
            found |= {one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found


def report_source() -> str:
    folder = ROOT / "perfmagic" / "view" / "report"
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.py")))
