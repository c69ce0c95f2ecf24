"""Write perfmagic/locale: .po files get the templates of the code, .mo files are what gettext reads.

    python -m tests.translations

A new template has no translation: write it into the .po file, and run this again. A template that the code has no more
goes.
"""

import ast
import io
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from perfmagic.analysis.bench.same_work import ROWS
from perfmagic.analysis.diff.diff import IDLE_WORDS, without_number
from perfmagic.analysis.findings.catalogue import ACTIONS, COUNTED, DECIDES, HEADLINES, HEADLINES_WITHOUT_TIME
from perfmagic.analysis.findings.record import RACES
from perfmagic.analysis.memory.stack import Kind
from perfmagic.analysis.replay.critical_path import KINDS as PATH_KINDS
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.analysis.timeline.trust import COUNTS
from perfmagic.analysis.verdict import KINDS
from perfmagic.base.language import DOMAIN, LANGUAGES, LOCALE
from perfmagic.trace.families import CATEGORY_WORDS
from perfmagic.trace.kineto.repair import DAMAGE
from perfmagic.trace.model import OF_WHAT, PACES
from perfmagic.view.diff.tables import RANK_WORDS, TOTAL_WORDS
from perfmagic.view.ranks.doc import HEAD, KEY, NOTE, ONE_STAGE, STAGES
from perfmagic.view.ranks.flight import HEAD as FLIGHT_HEAD
from perfmagic.view.ranks.flight import TITLE as FLIGHT_TITLE
from perfmagic.view.ranks.scaling import APART, PARTS, SAME_WORK
from perfmagic.view.ranks.scaling import NOTE as CHANGE_NOTE
from perfmagic.view.timeline.lanes import PARTITION_WORDS
from perfmagic.view.timeline.picture.frame import KEY_NAMES
from perfmagic.view.timeline.picture.gpus import HEAD as GPU_HEAD
from perfmagic.view.timeline.picture.gpus import NOTE as GPU_NOTE
from perfmagic.view.timeline.picture.gpus import TITLE as GPU_TITLE

FRONTEND = LOCALE.parent / "frontend" / "src"
LIVE = LOCALE.parent / "view" / "timeline" / "live_words.py"
_TEXT = r'"((?:[^"\\]|\\.)+)"'
# templates of the live view: alone, and of what is counted as one and as many
SAID = re.compile(rf"\b(?:say|term|row|heading)\(\s*{_TEXT}")
PLURAL = re.compile(rf'\bplural\([^"]*?, {_TEXT}(?:, {_TEXT})?\)')

LIVE_HEAD = """\"\"\"What the live view says: python -m tests.translations lists it from perfmagic/frontend/src.\"\"\"
# ruff: noqa: E501

TEMPLATES: tuple[str | tuple[str, str], ...] = ("""
CALLS = {"phrase": (0,), "say": (0,), "chained": (0,), "counted": (1, 2)}  # which arguments are templates
DOOR = "from perfmagic.base.language import"  # a file without it has no such call
TERMS = (  # headings and labels, which their writers look up
    *(*PATH_KINDS, *KINDS, *CATEGORY_WORDS.values(), *PARTITION_WORDS.values(), *CAUSES.values(), *IDLE_WORDS.values()),
    *(*HEAD, *(words for _, words in KEY), *(words for _, words, _ in PARTS), *SAME_WORK.values(), *APART.values()),
    *(ONE_STAGE, STAGES),
    *(*RANK_WORDS.values(), *TOTAL_WORDS.values(), *(words for words, _ in KEY_NAMES.values())),
    *(*(kind.value for kind in Kind), NOTE, CHANGE_NOTE, *GPU_HEAD, GPU_NOTE, GPU_TITLE, *FLIGHT_HEAD, FLIGHT_TITLE),
    *(row.words for row in ROWS.values()),
    # of reports
    "Steps", "on the host", "busy then", "compute", "communication", "copies", "lap", "ops, all threads",
    "Phases of serving", "exposed", "steps", "a step", "batch", "tokens", "rate", "prefill", "decode", "mixed", "other",
    "Operators on the host", "calls", "host total", "host self", "device total", "device self", "ops", "Annotations",
    "times", "host", "device busy, own thread", "ops, own thread", "Lines of the cell", "blocked", "device", "queued",
    "idle", "Waits for the device", "asked", "Python blocked", "device busy meanwhile", "Device time by operator",
    "self",
    "total", "mean", "of all ops", "achieved", "in and out", "Device time by category", "time", "share", "Streams",
    "busy",
    "of the extent", "queue ≤", "Idle by cause", "of idle", "Collectives", "size", "bus bandwidth", "Kernels",
    "of all kernels", "Copies", "while copying", "At the same time", "of the first", "of the second", "Memory",
    "answer",
    "step", "phase", "operator", "annotation", "line", "wait", "stream", "collective", "kernel", "kind", "pair",
    "Ranks",
    # of benchmarks and rooflines
    "bottleneck unclear", "needs 6 samples", "same each run", "returns", "device span", "done", "per call, queued",
    "span", "samples",
    "times as fast", "verdict", "faster", "slower", "same", "unclear", "not comparable", "variant", "of its roof",
    "of the peak",
    "FLOP/byte", "FLOP per byte of inputs and outputs, each once", "data sheet", "measured", "given",
    # of comparisons
    "difference", "The two recordings", "device ops", "launches", "syncs", "torch", "rank", "recording",
    "Replaced kernels", "under", "Kernels and copies", "runs", "Kernels and copies that both kept, the mean of a run",
    "runs kept", "Steps, on the host", "device busy", "Lines, Python's time", "new", "gone", "other shape",
    "launched before", "changed", "copies host to device", "copies device to host", "copies on the device",
    "copies between devices", "launched before the recording",
    # of ranks
    "Scaling", "ranks", "ideal", "speed-up", "efficiency", "exposed comm.", "waiting for ranks", "waiting for a core",
    "exposed transfer", "rest", "weak", "strong", "All numbers of the ranks",
    "tables",
    # of graphs and memory
    "Python blocked, device busy",
    "as executed", "as the dependencies allow, one op at a time in each lane",
    "this is one run: first calls cost more, so run the cell twice; recording adds 5 to 20 µs of Python per operator",
    "lane", "operators", "work", "share of the time", "at the peak", "bytes", "blocks", "why",
    "what would lower the peak", "peak", "less", "no line of yours", "before the cell", "no line of the cell",
    "the peak", "temporary", "until its function returned", "alive at the end",
    "allocated on", "allocated on; below, why", "cell line", "in functions",
    "each step to the right is an allocation or a release; waiting takes no room",
    # of timelines
    "communication alone",
    "memory", "copy", "GPU", "no time lost", "race", "before the first op", "after the last op", "critical path",
    "Python has queued everything", "the device has finished", "queued, stream idle", "recorded", "unchanged",
    "Python", "waiting",
    "its backward", "Python on this line", "its ops queued", "its ops executing",
    "its backward, queued by another line", "allocated by it, alive at the peak", "your code and libraries", "lines",
    "torch, Python and what is built in", "annotations",
)  # fmt: skip
TRANSLATED = LANGUAGES[1:]
# in a translation, what stays as it is
CODE = re.compile(
    r"[A-Za-z][\w.]*[_.(=\[]\S*|nvidia-smi -\w+|--device cpu|--[\w-]+|\"sim\"|%%\w+|\(no name\)|with (?=torch)"
    r"|\.[a-z]+|</?b>"
)
Id = str | tuple[str, str]


@cache
def templates() -> tuple[Id, ...]:
    """All that can be shown in another language: texts, and pairs of one and many."""
    texts = [path.read_text("utf-8") for path in sorted(LOCALE.parent.rglob("*.py"))]
    called = [template for text in texts if DOOR in text for template in _called(text)]
    tables = (
        *DECIDES.values(),
        *HEADLINES.values(),
        *HEADLINES_WITHOUT_TIME.values(),
        *ACTIONS.values(),
        *COUNTED.values(),
        *COUNTS.values(),
        *DAMAGE.values(),
        *RACES.values(),
        *PACES.values(),
        *OF_WHAT.values(),
        *map(without_number, list(DECIDES.values())[: list(DECIDES).index("failed")]),
    )
    return tuple(dict.fromkeys((*tables, *called, *filter(None, TERMS), *live_templates())))


@cache
def live_templates() -> tuple[Id, ...]:
    """What the live view says."""
    texts = [path.read_text("utf-8") for path in sorted(FRONTEND.rglob("*.ts")) if path.parent.name != "lab"]
    said = [template for text in texts for template in SAID.findall(text)]
    plural = [(one, many or f"{one}s") for text in texts for one, many in PLURAL.findall(text)]
    return (*sorted(set(said)), *sorted({(f"{{n}} {one}", f"{{n}} {many}") for one, many in plural}))


def live_words() -> str:
    """The source of the module that lists them."""
    rows = [
        f"    {json.dumps(one, ensure_ascii=False)},"
        if isinstance(one, str)
        else f"    ({', '.join(json.dumps(form, ensure_ascii=False) for form in one)}),"
        for one in live_templates()
    ]
    return "\n".join((LIVE_HEAD, *rows, ")", ""))


def _called(source: str) -> Iterator[Id]:
    """The templates that calls have as constants, in the order of the source."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        places = CALLS.get(call.func.id, ()) if isinstance(call.func, ast.Name) else ()
        given = [call.args[place] for place in places if place < len(call.args)]
        found = [node.value for node in given if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        if found and found[0]:
            yield (found[0], found[1]) if len(places) > 1 else found[0]


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
    write_po(source, catalog, width=0)
    write_mo(compiled, catalog)
    plain = source.getvalue().replace(b"#, python-brace-format\n", b"")  # of most entries; a test compares the fields
    return plain.replace(b"\n\n", b"\n"), compiled.getvalue()  # an empty line after each entry says nothing


def main() -> None:
    """Write all of them."""
    LIVE.write_text(live_words(), "utf-8")
    for language in TRANSLATED:
        source, compiled = written(updated(language))
        po_file(language).write_bytes(source)
        po_file(language).with_suffix(".mo").write_bytes(compiled)


if __name__ == "__main__":
    main()
