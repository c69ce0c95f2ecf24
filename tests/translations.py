"""Write perfmagic/locale: .po files get the templates of the code, .mo files are what gettext reads.

    python -m tests.translations

A new template has no translation: write it into the .po file, and run this again. A template that the code has no more
goes.
"""

import io
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from perfmagic.analysis.findings.catalogue import ACTIONS, COUNTED, DECIDES, HEADLINES, WITHOUT_TIME
from perfmagic.analysis.timeline.trust import COUNTS
from perfmagic.base.language import DOMAIN, LANGUAGES, LOCALE

CALLS = {"phrase": None, "say": None, "counted": (2, 3)}  # which argument is a template, None for the first
DOOR = "from perfmagic.base.language import"  # a file without it has no such call
TRANSLATED = LANGUAGES[1:]
Id = str | tuple[str, str]


@cache
def templates() -> tuple[Id, ...]:
    """All that can be shown in another language: texts, and pairs of one and many."""
    sources = [path for path in sorted(LOCALE.parent.rglob("*.py")) if DOOR in path.read_text("utf-8")]
    called = [message for path in sources for _, message, *_ in extract_from_file("python", path, keywords=CALLS)]
    return (
        *(
            *DECIDES.values(),
            *HEADLINES.values(),
            *WITHOUT_TIME.values(),
            *ACTIONS.values(),
            *COUNTED.values(),
            *COUNTS.values(),
        ),
        *filter(None, called),
    )


def po_file(language: str) -> Path:
    """The source of a language."""
    return LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(language: str) -> Catalog:
    """The translations into a language."""
    with po_file(language).open("rb") as file:
        return read_po(file, locale=language, domain=DOMAIN)


def updated(language: str) -> Catalog:
    """The translations of the templates that the code has now."""
    catalog = read(language)
    now = Catalog(creation_date=catalog.creation_date)
    for template in templates():
        now.add(template)
    catalog.update(now, no_fuzzy_matching=True)
    catalog.obsolete.clear()
    return catalog


def written(catalog: Catalog) -> tuple[bytes, bytes]:
    """A .po file and its .mo file."""
    source, compiled = io.BytesIO(), io.BytesIO()
    write_po(source, catalog, width=120)
    write_mo(compiled, catalog)
    return source.getvalue(), compiled.getvalue()


def main() -> None:
    """Write all of them."""
    for language in TRANSLATED:
        source, compiled = written(updated(language))
        po_file(language).write_bytes(source)
        po_file(language).with_suffix(".mo").write_bytes(compiled)


if __name__ == "__main__":
    main()
