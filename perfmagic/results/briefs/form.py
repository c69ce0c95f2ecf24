"""What a result says to a program: a few facts with stable names, as JSON of a few kilobytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from perfmagic.analysis.bench.same_work import Check
from perfmagic.base.errors import OptionError
from perfmagic.base.terminal import printable
from perfmagic.trace.json_form import JsonForm, one_of

SCHEMA = 1  # raised by what changes the meaning of a key, or takes one away
MIME = f"application/vnd.perfmagic.v{SCHEMA}+json"
LIST_BYTES, RESULT_BYTES = 2000, 8000  # of a timeline; of any other result
LEAST_BYTES = 1000  # one finding, and what it is about
CELL_BYTES = 2000  # of what a stored notebook keeps of one result
_INDENT = 7  # of a line of an output's data in a stored notebook

Row = Mapping[str, str | int | float | bool | tuple[int, ...]]


class _Sparse(JsonForm):
    """Keys that may be absent are so where they say nothing."""

    def to_dict(self) -> dict[str, Any]:
        """The keys that say something, ready for JSON."""
        return {key: value for key, value in super().to_dict().items() if value or key not in self.optional}


@dataclass(frozen=True)
class BriefFinding(_Sparse):
    """One thing to do about a result, or a fact without a remedy.

    id: the rule and the place; the same in each run that has the finding.
    rule: the stable name of what found it, see docs/findings.md; empty where no rule did.
    says: what was found.
    do: what to do about it, an order.
    remedy: the stable name of `do`.
    at: the places: "cell:5" is line 5 of the cell, others are "file:line"; the first one is in `id`.
    change: what `t.what_if()` and `--change` take: "no_item(line=5)"; without a line it is made in all of the run,
    which may gain more.
    cost_us: what it costs in the recorded run, in microseconds.
    gain_us: the least and the most that `do` would gain, predicted, in microseconds; where `do` is to look at some
    time, what the run would gain without it.
    gain_bytes: by how much it would lower the peak of memory, predicted, in bytes.
    at_most: whether the gain is a bound.
    window_us: the start and the end of what to look at, from the beginning of the record, in microseconds.
    ranks: the ranks that it is about.
    """

    optional: ClassVar[tuple[str, ...]] = (
        "rule", "do", "remedy", "at", "change", "cost_us", "gain_us", "gain_bytes", "at_most", "window_us", "ranks",
    )  # fmt: skip

    id: str
    says: str
    rule: str = ""
    do: str = ""
    remedy: str = ""
    at: tuple[str, ...] = ()
    change: str = ""
    cost_us: float | None = None
    gain_us: tuple[float, float] | None = None
    gain_bytes: int | None = None
    at_most: bool = False
    window_us: tuple[float, float] | None = None
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Brief(_Sparse):
    """A result for programs: `result.brief()`, `--brief`, and application/vnd.perfmagic.v1+json of a notebook's output.

    schema: raised by what changes the meaning of a key, or takes one away.
    kind: of the result.
    title: its name or file.
    devices: what it ran on; simulated and predicted ones say so.
    times: whether its times were measured on hardware, are of a simulated device, or are predicted; absent where that
    is not known.
    verdict: the verdict in a word or two.
    says: the verdict in a sentence.
    reason: why a comparison has no verdict.
    findings: what to do, the most gain first, then facts without a remedy.
    numbers: by name; the unit ends the name.
    rows: tables by name, the most important rows first; the unit ends a column's name.
    checks: of a comparison, whether both sides did the same work.
    warnings: what is to know of the record itself.
    omitted: how many items were left out of each list, so that this stays small.
    """

    optional: ClassVar[tuple[str, ...]] = (
        "times", "title", "devices", "verdict", "reason", "findings", "numbers", "rows", "checks", "warnings",
        "omitted",
    )  # fmt: skip

    leading: ClassVar[tuple[str, ...]] = ("schema",)

    kind: str
    says: str
    times: Annotated[str, one_of("measured", "simulated", "predicted")] = ""
    title: str = ""
    devices: tuple[str, ...] = ()
    verdict: str = ""
    reason: str = ""
    findings: tuple[BriefFinding, ...] = ()
    numbers: Mapping[str, float] | None = None
    rows: Mapping[str, tuple[Row, ...]] | None = None
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    omitted: Mapping[str, int] | None = None

    @property
    def schema(self) -> Annotated[int, one_of(SCHEMA)]:
        return SCHEMA


# Small enough: what matters least goes first.

# key, and how many of its items stay at least, in the order in which they are dropped
_DROPPED = (
    ("rows", 3), ("checks", 12), ("warnings", 2), ("findings", 3), ("rows", 1), ("warnings", 1), ("rows", 0),
    ("findings", 1), ("checks", 3), ("warnings", 0), ("devices", 1), ("numbers", 0), ("checks", 0), ("findings", 0),
)  # fmt: skip
_TEXT_BYTES = 240  # of a sentence
_NAME_BYTES = 80  # of a title, a place, a name in a row
_NAMES = frozenset({"id", "rule", "remedy", "title", "at", "rows", "devices", "change"})


def within(brief: Brief, max_bytes: int, *, in_cell: bool = False) -> dict[str, Any]:
    """The brief in at most max_bytes of JSON.  in_cell: as a stored notebook indents it."""
    data: dict[str, Any] = _clean(brief.to_dict())
    for key, kept in _DROPPED:
        while size_bytes(data, in_cell=in_cell) > max_bytes and _drop_one(data, key, kept):
            pass
    return data


def limit_bytes(kind: str, asked: int | None) -> int:
    """How large a brief may be. Raises OptionError for less than what always fits."""
    if asked is not None and asked < LEAST_BYTES:
        raise OptionError(f"brief: max_bytes={asked!r} is too little", hint=f"{LEAST_BYTES} bytes or more")
    return asked or (LIST_BYTES if kind == "timeline" else RESULT_BYTES)


def size_bytes(data: Mapping[str, Any], *, in_cell: bool = False) -> int:
    """How many bytes it has as JSON.  in_cell: in a stored notebook, where each item has a line."""
    text = json.dumps(data, ensure_ascii=False, indent=1 if in_cell else None)
    return len(text.encode()) + (_INDENT * (text.count("\n") + 1) if in_cell else 0)


def _drop_one(data: dict[str, Any], key: str, kept: int) -> bool:
    """Drop the last item of a list, or of the longest table, and count it; False where so few are left."""
    table, items = key, data.get(key, [])
    if key == "rows":
        table, items = max(data.get(key, {"": []}).items(), key=lambda named: len(named[1]), default=("", []))
    if len(items) <= kept:
        return False
    if isinstance(items, dict):
        items.popitem()
    else:
        items.pop()
    omitted = data.setdefault("omitted", {})
    omitted[table] = omitted.get(table, 0) + 1
    if not items:
        del (data["rows"] if key == "rows" else data)[table]
    return True


def _clean(value: Any, key: str = "") -> Any:
    """Texts short, on one line and with plain spaces; without what is None."""
    if isinstance(value, str):
        return short(value, _NAME_BYTES if key in _NAMES else _TEXT_BYTES)
    if isinstance(value, list):
        return [_clean(item, key) for item in value]
    if isinstance(value, dict):
        named = {name: "rows" if key == "rows" and name != "says" else name for name in value}
        return {name: _clean(item, named[name]) for name, item in value.items() if item is not None}
    return value


def short(text: str, max_bytes: int) -> str:
    """A text on one line in at most max_bytes of JSON; the end is cut, "…" says so."""
    plain = printable(text).replace("\u00a0", " ")
    if _json_bytes(plain) <= max_bytes:
        return plain
    kept = plain[:max_bytes]
    while _json_bytes(kept) > max_bytes - 3:
        kept = kept[: -max(1, (_json_bytes(kept) - max_bytes) // 6)]
    return f"{kept}…"


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


# Numbers: microseconds with the digits that mean something.

_NS = {"_ns": 1, "_s": 1e9}  # in a unit
DIGITS, ROUGH_DIGITS = 4, 2  # significant ones, of measured and of predicted times


def microseconds(ns: float, *, rough: bool = False) -> float | int:
    """Nanoseconds as microseconds.  rough: of a model."""
    return rounded(ns / 1000, rough=rough)


def rounded(value: float, *, rough: bool = False) -> float | int:
    """A number with the digits that mean something; 0 for what is none."""
    if not math.isfinite(value):
        return 0
    shown = float(f"{value:.{ROUGH_DIGITS if rough else DIGITS}g}")
    return int(shown) if shown.is_integer() else shown


def times_of_label(label: str) -> str:
    """Where times are from by the device's label, which says if it is simulated or predicted."""
    return "predicted" if "predicted" in label else "simulated" if "simulated" in label else "measured"


def table(rows: Sequence[Any], columns: Sequence[str], *, most: int = 12, rough: bool = False) -> tuple[Row, ...]:
    """The first of some rows with a few of their columns; times become microseconds, what is unknown is absent."""
    cells = ({name: _cell(getattr(row, name), name, rough=rough) for name in columns} for row in rows[:most])
    return tuple({_named(name): value for name, value in row.items() if value is not None} for row in cells)


def _named(column: str) -> str:
    ending = _ending(column)
    return f"{column.removesuffix(ending)}_us" if ending else column


def _ending(column: str) -> str:
    """The unit of a time at the end of a name; "" for what is none."""
    if column.endswith("_per_s"):
        return ""
    return next((ending for ending in _NS if column.endswith(ending)), "")


def _cell(value: Any, column: str, *, rough: bool) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if value is None or isinstance(value, (bool, tuple)) else str(value) or None
    if ending := _ending(column):
        return microseconds(value * _NS[ending], rough=rough)
    return rounded(value, rough=rough) if isinstance(value, float) else value
