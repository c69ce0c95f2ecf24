"""The tables of a comparison of two timelines, as text cells: the same for terminal, Markdown and page.

In a terminal: what changed in all, at most three differences, and the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfmagic.analysis.diff.comparable import ONE_RUN
from perfmagic.analysis.diff.diff import TraceDiff, describe_part
from perfmagic.analysis.diff.times import TimeChange
from perfmagic.analysis.diff.work import BOTH, KernelChange, Replacement
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, say, translate_term, translated
from perfmagic.base.tables import Cell, Table, cell, markdown_table, markdown_text
from perfmagic.base.terminal import columns, cut_to_columns, escaped, width, wrapped
from perfmagic.trace.names import short_names
from perfmagic.view.diff.picture import Drawn, pair_picture, waterfall_picture
from perfmagic.view.html import MAX_OUTPUT_BYTES, framed, headline, html_section, image, paragraphs, table_lines
from perfmagic.view.report.tables import named_table, time_cell
from perfmagic.view.svg.layouts import MAX_BYTES

MOST_ROWS = 15  # of a table of operators, kernels or replacements
MOST_STEPS = 15
NARROW, WIDE = 40, 110  # characters of a name
SIDE = 20  # of an operator, of what went, and of what came
RANK_WORDS = {
    "compute": "compute",
    "exposed_communication": "exposed comm.",
    "exposed_waiting": "waiting",
    "communication": "communication",
    "copy": "copy",
    "idle": "idle",
}
TOTAL_WORDS = {
    "exposed_communication": "exposed communication",
    "exposed_copy": "exposed copies",
    "copy": "copies",
    "memset": "memsets",
}


def comparison_tables(diff: TraceDiff, most: int = MOST_ROWS, *, narrow: bool = False) -> list[Table]:
    """The tables, the most important first; those without rows and note are left out.

    most: rows of long ones.  narrow: without the columns that a terminal has no room for.
    """
    if diff.of_samples:
        return [table for table in (_means(diff, most), _steps(diff), _counts(diff)) if table.rows]
    tables = [
        _parts(diff),
        _ranks(diff, narrow=narrow),
        _replaced(diff, most, narrow=narrow),
        _lines(diff, narrow=narrow),
        _steps(diff),
        _operators(diff, most, narrow=narrow),
        _kernels(diff, most, narrow=narrow),
        _totals(diff),
        _counts(diff),
    ]
    return [table for table in tables if table.rows or table.note]


def _head(diff: TraceDiff, *before: str) -> tuple[str, ...]:
    return ("", *before, *_names(diff), "difference")


def _names(diff: TraceDiff) -> tuple[str, str]:
    """The names that the user gave both, as headings, which nothing translates."""
    return phrase("{name}", name=diff.a.name), phrase("{name}", name=diff.b.name)


def _times(change: Any) -> tuple[str, str, str]:
    return time_cell(change.a_ns), time_cell(change.b_ns), _signed(change.diff_ns)


def _signed(ns: float) -> Cell:
    return cell(units.signed(ns), ns)


def _signed_or_none(ns: float | None) -> Cell | str:
    return "" if ns is None else _signed(ns)


def _parts(diff: TraceDiff) -> Table:
    """What adds up to the whole."""
    if not len(diff.parts):
        return Table("Where the time went", (), ())
    rows = [(translated(describe_part(part)), *_times(part)) for part in diff.parts]
    rows.append((say("together"), *_times(diff.whole)))
    title = phrase("Where the time went, of one step") if diff.per_step else phrase("Where the time went")
    return Table(title, _head(diff), tuple(rows))


def _totals(diff: TraceDiff) -> Table:
    def words(total: TimeChange) -> str:
        return translate_term(TOTAL_WORDS.get(total.name, total.name))

    rows = [(words(total), *_times(total)) for total in diff.totals[1:] if total.a_ns or total.b_ns]
    title = phrase("Totals by class, which may overlap")
    if diff.per_step:
        title = phrase("Totals by class, which may overlap, of one step")
    return Table(title, _head(diff), tuple(rows))


def _counts(diff: TraceDiff) -> Table:
    asked: tuple[tuple[str, Callable[[Any], str]], ...] = (
        ("steps", lambda side: units.count(side.n_steps)),
        ("device ops", lambda side: units.count(side.n_ops)),
        ("launches", lambda side: units.count(side.n_launches)),
        ("syncs", lambda side: units.count(side.n_syncs)),
        ("Python blocked", lambda side: units.duration(side.blocked_ns)),
        ("device", lambda side: side.device_label or "none"),
        ("torch", lambda side: side.torch_version),
        ("rank", lambda side: "" if side.rank is None else str(side.rank)),
        ("recording", lambda side: cut_to_columns(side.title, 36)),
    )
    rows = [(translate_term(words), ask(diff.a), ask(diff.b)) for words, ask in asked]
    return Table("The two recordings", ("", *_names(diff)), tuple(r for r in rows if any(r[1:])))


def _ranks(diff: TraceDiff, *, narrow: bool) -> Table:
    classes: tuple[str, ...] = ("compute", "exposed_communication")
    classes += ("exposed_waiting",) if any(rank.exposed_waiting_diff_ns is not None for rank in diff.ranks) else ()
    classes += () if narrow else ("communication", "copy", "idle")
    rows = [
        (
            say("rank {n}", n=rank.rank)
            + (say(", the median") if rank.median else "")
            + (say(", differently") if rank.otherwise else ""),
            *_times(rank),
            *(_signed_or_none(getattr(rank, f"{name}_diff_ns")) for name in classes),
        )
        for rank in diff.ranks
    ]
    return Table("Ranks", (*_head(diff), *(RANK_WORDS[name] for name in classes)), tuple(rows))


def _replaced(diff: TraceDiff, most: int, *, narrow: bool) -> Table:
    short = short_names(name for swap in diff.replaced for name in (*swap.gone, *swap.new))
    rows = [
        (_swap(swap, short, narrow=narrow), *(() if narrow else (_under(swap.operator, swap.shape),)), *_times(swap))
        for swap in diff.replaced[:most]
    ]
    head = _head(diff, *(() if narrow else ("under",)))
    return Table("Replaced kernels", head, tuple(rows), _more(diff, len(diff.replaced) - most) if rows else "")


def _swap(swap: Replacement, short: Mapping[str, str], *, narrow: bool) -> str:
    """What went → what came; where there is little room with the operator, which has no column of its own then."""
    if not narrow:
        return f"{_sequence(swap.gone, short)} → {_sequence(swap.new, short)}"
    return f"{_cut(swap.operator, SIDE)}: {' → '.join(_brief(names, short) for names in (swap.gone, swap.new))}"


def _brief(names: Sequence[str], short: Mapping[str, str]) -> str:
    """Kernels in little room: the first that computes, and how many more."""
    words = _sequence(names, short)
    if columns(words) <= SIDE or len(names) == 1:
        return _ends(words, SIDE)
    first = next((short[name] for name in names if not name.startswith(("Memset", "Memcpy"))), short[names[0]])
    more = say(" + {n} more", n=len(names) - 1)
    return _ends(first, SIDE - len(more)) + more


def _cut(words: str, length: int) -> str:
    """Cut to its columns; a short name may end in … already."""
    return cut_to_columns(words, length).replace("……", "…")


def _ends(words: str, length: int) -> str:
    """The beginning and the end, since names of one family differ there."""
    half = (length - 1) // 2
    return words if columns(words) <= length else f"{words[: length - 1 - half]}…{words[-half:]}".replace("……", "…")


def _sequence(names: Sequence[str], short: Mapping[str, str]) -> str:
    """Kernels one after the other: "gemm + softmax × 2"."""
    runs: list[tuple[str, int]] = []
    for name in (short[kernel] for kernel in names):
        if runs and runs[-1][0] == name:
            runs[-1] = name, runs[-1][1] + 1
        else:
            runs.append((name, 1))
    return " + ".join(name if n == 1 else f"{name} × {n}" for name, n in runs)


def _under(operator: str | None, shape: str | None, length: int = 36) -> str:
    return cut_to_columns(f"{operator or say('no operator')} {shape or ''}".rstrip(), length)


def _operators(diff: TraceDiff, most: int, *, narrow: bool) -> Table:
    changed = [row for row in diff.operators if row.device_a_ns or row.device_b_ns]
    on_host = not changed
    chosen = changed or list(diff.operators)
    column = "host" if on_host else "device"
    rows = [
        (
            _under(row.name, row.shape, NARROW if narrow else WIDE),
            _change(row.change, row.n_calls_a, row.n_calls_b),
            time_cell(getattr(row, f"{column}_a_ns")),
            time_cell(getattr(row, f"{column}_b_ns")),
            _signed(row.host_b_ns - row.host_a_ns if on_host else row.diff_ns),
        )
        for row in chosen[:most]
    ]
    title = phrase("Operators, on the host") if on_host else phrase("Operators, on the device")
    return Table(title, _head(diff, "calls"), tuple(rows), _more(diff, len(chosen) - most))


def _kernels(diff: TraceDiff, most: int, *, narrow: bool) -> Table:
    short = short_names(row.name for row in diff.kernels)
    shown = diff.kernels[:most]
    twice = max(Counter(row.name for row in shown).values(), default=0) > 1  # else a name says all
    rows = [
        (
            cell(short[row.name], full=row.name),
            *((_under_ends(row) if narrow else _under(row.operator, row.shape),) if twice or not narrow else ()),
            _change(row.change, row.n_a, row.n_b),
            time_cell(row.total_a_ns),
            time_cell(row.total_b_ns),
            _signed(row.diff_ns),
        )
        for row in shown
    ]
    head = _head(diff, *(("under",) if twice or not narrow else ()), "runs")
    made = named_table("Kernels and copies", head, rows, "", _more(diff, len(diff.kernels) - most))
    return replace(made, kernels=True)


def _means(diff: TraceDiff, most: int) -> Table:
    """Of samples: what one run of a kernel takes, of those that both kept; how many each kept says nothing.

    The largest differences first, by that of the means over as many runs as both kept.
    """
    totals: dict[str, list[int]] = {}
    for row in diff.kernels:
        row_totals = totals.setdefault(row.name, [0, 0, 0, 0])
        for i, n in enumerate((row.n_a, row.n_b, row.total_a_ns, row.total_b_ns)):
            row_totals[i] += n
    kept = {name: row for name, row in totals.items() if row[0] and row[1]}

    def weight_ns(name: str) -> float:
        n_a, n_b, a_ns, b_ns = kept[name]
        return abs(b_ns / n_b - a_ns / n_a) * min(n_a, n_b)

    short, order = short_names(kept), sorted(kept, key=weight_ns, reverse=True)
    rows = []
    for name in order[:most]:
        n_a, n_b, a_ns, b_ns = kept[name]
        mean_a, mean_b = a_ns / n_a, b_ns / n_b
        runs = say("{a} and {b}", a=units.count(n_a), b=units.count(n_b))
        rows.append(
            (cell(short[name], full=name), runs, time_cell(mean_a), time_cell(mean_b), _signed(mean_b - mean_a))
        )
    made = named_table(
        "Kernels and copies that both kept, the mean of a run", _head(diff, "runs kept"), rows, "",
        _left_out(len(order) - most),
    )  # fmt: skip
    return replace(made, kernels=True)


def _under_ends(row: KernelChange) -> str:
    """The operator in little room: its name, and the end of its inputs, where these differ."""
    return _ends(f"{row.operator or say('no operator')} {row.shape or ''}".rstrip(), SIDE)


def _change(change: str, n_a: int, n_b: int) -> str:
    """How often in both: "12 → 10", "12", "new: 4"."""
    n = units.count(n_a) if n_a == n_b else f"{units.count(n_a)} → {units.count(n_b)}"
    return n if change == BOTH else say("{a}: {b}", a=phrase(change), b=n)


def _steps(diff: TraceDiff) -> Table:
    rows = [
        (
            say("step {n}", n=row.number_a)
            if row.number_a == row.number_b
            else say("steps {a} and {b}", a=row.number_a, b=row.number_b),
            *_times(row),
            *(
                ()
                if diff.of_samples
                else (
                    f"{units.duration(row.busy_a_ns)} → {units.duration(row.busy_b_ns)}",
                    f"{units.count(row.n_ops_a)} → {units.count(row.n_ops_b)}",
                )
            ),
        )
        for row in diff.steps[:MOST_STEPS]
    ]
    note = chained("{a}; {b}", (diff.steps.note, _left_out(len(diff.steps) - MOST_STEPS)))
    work = () if diff.of_samples else ("device busy", "ops")
    return Table("Steps, on the host", (*_head(diff), *work), tuple(rows), note)


def _lines(diff: TraceDiff, *, narrow: bool) -> Table:
    rows = [
        (
            cut_to_columns(row.text, 36) if narrow else row.text,
            _places(row.line_a, row.line_b) + ("" if row.change == BOTH else f" {translate_term(row.change)}"),
            time_cell(row.host_a_ns),
            time_cell(row.host_b_ns),
            _signed(row.diff_ns),
            *(() if narrow else (f"{units.duration(row.device_a_ns)} → {units.duration(row.device_b_ns)}",)),
        )
        for row in diff.lines
    ]
    head = (*_head(diff, "line"), *(() if narrow else ("device",)))
    return Table("Lines, Python's time", head, tuple(rows))


def _places(a: int | None, b: int | None) -> str:
    known = [str(line) for line in (a, b) if line is not None]
    return known[0] if len({*known}) == 1 else " → ".join(known)


def _more(diff: TraceDiff, n: int) -> str:
    """What stands below a table of work, whose times are of all steps, so that they can be found there."""
    whole = phrase("times are of all steps, differences of one") if diff.per_step else ""
    return chained("{a}; {b}", (_left_out(n), whole))


def _left_out(n: int) -> str:
    return phrase("and {n} more: to_frame() has all", n=units.count(n)) if n > 0 else ""


# A comparison of two timelines as GitHub's Markdown.


def comparison_markdown(diff: TraceDiff) -> str:
    """The verdict, what a reader must know, and the tables."""
    title = say("{a} and {b}", a=markdown_text(diff.a.name), b=markdown_text(diff.b.name))
    parts = [f"## {title}", f"**{markdown_text(translated(diff.headline))}**"]
    parts.append("\n".join(f"- {markdown_text(note)}" for note in translated(diff.notes)))
    return "\n\n".join([*parts, *(markdown_table(table) for table in comparison_tables(diff))])


# A comparison of two timelines as HTML for a notebook and a page: no style sheet; a page's own script sorts.

MOST_HTML_ROWS, PAGE_ROWS = 6, 50  # of a long table: in an output of a notebook, and on a page
_SMALL = "font-size:11px;margin:2px 0 4px 0"


def comparison_html(diff: TraceDiff, first: Drawn, second: Drawn, *, whole: bool = False) -> str:
    """The verdict, the waterfall, both timelines on one axis, and tables that unfold; at most 80 kB.

    whole: for a page of its own: more rows, the tables open, the picture as fine as it gets.
    """
    verdict, _, parts = translated(diff.headline).partition(say(": "))
    above = headline(verdict, parts) if parts else headline(verdict, "")
    tables = "".join(html_section(table) for table in comparison_tables(diff, PAGE_ROWS if whole else MOST_HTML_ROWS))
    unfolds = f'<details style="{_SMALL}"><summary>{say("tables")}</summary>{tables}</details>'
    below = paragraphs(translated(diff.notes)) + (tables if whole else unfolds)
    drawn = above + (image(waterfall_picture(diff), _alt(diff)) if len(diff.parts) and not diff.of_samples else "")
    used = len((drawn + below).encode()) + 500
    max_bytes = MAX_BYTES if whole else (MAX_OUTPUT_BYTES - used) * 3 // 4
    if first.trace.device_ids and second.trace.device_ids:
        drawn += image(
            pair_picture(diff, first, second, max_bytes),
            say("Both timelines on one axis: {name} above", name=escaped(diff.a.name)),
        )
    return framed(drawn + below)


def _alt(diff: TraceDiff) -> str:
    return say("From {a} to {b}: {headline}", a=diff.a.name, b=diff.b.name, headline=diff.headline)[:400]


BRIEF_ROWS = 6  # of a table of operators, kernels or replacements
MOST_NOTES = 2  # before the details


def comparison_text(diff: TraceDiff, details: str = "") -> str:
    """How much longer the second took, who decides in each, and what changed most.

    details: how to see all the rest; "" to have it here.
    """
    lines = _first(diff)
    about = translated(tuple(note for note in diff.notes if note != ONE_RUN))
    if details:
        lines += [line for note in about[:MOST_NOTES] for line in wrapped(f"  ! {note}", indent=4)]
        tables = len(comparison_tables(diff, BRIEF_ROWS, narrow=True))
        more = [counted(len(diff.notes), "{n} note", "{n} notes"), counted(tables, "{n} table", "{n} tables")]
        return "\n".join([*lines, f"  {details}: {say(', ').join(map(translated, more))}"])
    lines += [line for note in translated(diff.notes) for line in wrapped(f"  {note}", indent=4)]
    for table in comparison_tables(diff, BRIEF_ROWS, narrow=True):
        lines += ["", *table_lines(table)]
    return "\n".join(lines)


def _first(diff: TraceDiff) -> list[str]:
    who = "" if diff.no_verdict else diff.decides
    lines = wrapped(translated(chained("{a}: {b}", (diff.total, who))), indent=2)
    return lines + [_with_times(number, part) for number, part in enumerate(diff.differences, 1)]


def _with_times(number: int, part: TimeChange) -> str:
    """A difference, with its times at the end of the line."""
    right = f"{units.duration(part.a_ns)} → {units.duration(part.b_ns)}"
    described = translated(describe_part(part))
    what = described[:1].upper() + described[1:]
    left = cut_to_columns(f"{number:>3}  {what}", width() - columns(right) - 2)
    return left + " " * (width() - columns(left) - columns(right)) + right
