"""The tables of a report on a saved trace, as text cells: the same for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfmagic.analysis.findings.answer import list_rest, name_action
from perfmagic.analysis.timeline.idle import CAUSES
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, say, translate_term
from perfmagic.base.tables import Cell, Table, cell, whole_name
from perfmagic.trace.families import CATEGORY_WORDS, Category
from perfmagic.trace.names import short_names
from perfmagic.view.timeline.lanes import PARTITION_WORDS

KeyColumn = tuple[str, Callable[[Any], Cell], str]  # its heading, what makes its cells, and of which key of a report


def named_table(
    title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], thing: str, note: str = ""
) -> Table:
    """A table whose first column has names."""
    return Table(title, head, rows, note, thing, tuple(whole_name(row[0]) for row in rows))


def columns_of(
    items: Sequence[Mapping[str, Any]], first: Callable[[Mapping[str, Any]], str], columns: Sequence[KeyColumn]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the rows of a table: a row for each item of a report.  first: the cell that names it."""
    head = ("", *(heading for heading, _, _ in columns))
    return head, [(first(item), *(made(item[key]) for _, made, key in columns)) for item in items]


def name_cell(item: Mapping[str, Any]) -> Cell:
    """The cell with an item's name, which may be shortened."""
    return cell(item["name"], full=item["name"])


def time_cell(ns: float | None) -> Cell:
    """A time; empty where it is not known."""
    return cell("") if ns is None else cell(units.duration(ns), ns)


def count_cell(n: int) -> Cell:
    """A count."""
    return cell(units.count(n), n)


def share_cell(frac: float) -> Cell:
    """A fraction as a percentage."""
    return cell(units.percent(frac), frac)


def size_cell(size_bytes: int | None) -> Cell:
    """A size; empty where it is 0 or not known."""
    return cell(units.size(size_bytes), size_bytes) if size_bytes else cell("")


def rate_cell(bytes_per_s: float | None) -> Cell:
    """Bytes a second; empty where they are 0 or not known."""
    return cell(f"{units.size(bytes_per_s)}/s", bytes_per_s) if bytes_per_s else cell("")


def answers_table(report: Mapping[str, Any]) -> Table:
    """What to do, and what the run would take then; what gains little, and what else was seen, in the note."""
    answers = report["answers"]
    note = say(". ").join(list_rest(answers["little_gain"], answers["also_seen"]))
    together = answers["together"]
    head, rows = columns_of(
        [*answers["answers"], *([together] if together else [])],
        _answer_cell,
        (
            (say("from"), time_cell, "before_ns"),
            (say("to"), time_cell, "after_ns"),
            ("", lambda bound: cell(say("at best") if bound else ""), "at_most"),
            (say("costs"), time_cell, "cost_ns"),
        ),
    )
    return Table(say("What to do"), head, rows, note, thing="answer")


def _answer_cell(answer: Mapping[str, Any]) -> Cell:
    action = name_action(answer["headline"], answer["action"], answer["lines"])
    return cell(" → ".join(filter(None, (answer["headline"], action))))


# The tables of a report about Python's side: steps, operators, annotations, lines of the cell, waits.


def steps_table(report: Mapping[str, Any]) -> Table:
    """The training steps: their time on the host, and what they had the devices do."""
    head, rows = columns_of(
        report["steps"],
        lambda step: cell(say("step {n}", n=step["number"]), step["number"]),
        (
            ("on the host", time_cell, "duration_ns"),
            ("busy then", share_cell, "window_busy_frac"),
            ("compute", time_cell, "compute_ns"),
            ("communication", time_cell, "communication_ns"),
            ("copies", time_cell, "copy_ns"),
            ("lap", time_cell, "lap_ns"),
            ("ops, all threads", count_cell, "n_ops"),
        ),
    )
    return Table("Steps", head, rows, report["steps_note"], thing="step")


def phases_table(report: Mapping[str, Any]) -> Table:
    """Prefill and decode of an LLM server: what a step took, and how many tokens it computed in it."""
    head, rows = columns_of(
        report["phases"],
        lambda phase: cell(translate_term(phase["phase"])),
        (
            ("steps", count_cell, "n_steps"),
            ("a step", time_cell, "step_ns"),
            ("busy then", lambda frac: cell("") if frac is None else share_cell(frac), "window_busy_frac"),
            ("batch", count_cell, "batch_size"),
            ("tokens", lambda n: cell("") if n is None else count_cell(n), "n_tokens"),
            ("rate", lambda rate: cell("") if rate is None else cell(units.tokens_per_s(rate), rate), "tokens_per_s"),
        ),
    )
    return Table("Phases of serving", head, rows, report["phases_note"], thing="phase")


def operators_table(report: Mapping[str, Any]) -> Table:
    """What each operator cost, with and without those inside it."""
    head, rows = columns_of(
        report["operators"],
        name_cell,
        (
            ("calls", count_cell, "n_calls"),
            ("host total", time_cell, "host_ns"),
            ("host self", time_cell, "host_self_ns"),
            ("device total", time_cell, "device_ns"),
            ("device self", time_cell, "device_self_ns"),
            ("ops", count_cell, "n_ops"),
        ),
    )
    return named_table("Operators on the host", head, rows, "operator")


def annotations_table(report: Mapping[str, Any]) -> Table:
    """What each annotation took, and what was launched inside it on its own thread."""
    head, rows = columns_of(
        report["annotations"],
        name_cell,
        (
            ("times", count_cell, "n_occurrences"),
            ("host", time_cell, "host_ns"),
            ("device busy, own thread", time_cell, "busy_ns"),
            ("ops, own thread", count_cell, "n_ops"),
        ),
    )
    return named_table("Annotations", head, rows, "annotation")


def lines_table(report: Mapping[str, Any]) -> Table:
    """The lines of the cell."""
    head, rows = columns_of(
        report["lines"],
        lambda line: cell(f"{line['line']}: {line['text'].strip()}", line["line"]),
        (
            ("host", time_cell, "host_ns"),
            ("blocked", time_cell, "blocked_ns"),
            ("device", time_cell, "device_ns"),
            ("queued", time_cell, "queued_ns"),
            ("idle", time_cell, "idle_ns"),
            ("ops", count_cell, "n_ops"),
        ),
    )
    return Table("Lines of the cell", head, rows, thing="line")


def syncs_table(report: Mapping[str, Any]) -> Table:
    """What made Python wait for the device."""
    head, rows = columns_of(
        report["syncs"],
        _describe_sync,
        (
            ("asked", count_cell, "n_asked"),
            ("calls", count_cell, "n_calls"),
            ("Python blocked", time_cell, "blocked_ns"),
            ("device busy meanwhile", time_cell, "busy_ns"),
        ),
    )
    return named_table("Waits for the device", head, rows, "wait")


def _describe_sync(sync: Mapping[str, Any]) -> str:
    lines = ", ".join(map(str, sync["lines"]))
    return (
        say("{call}, line {lines}", call=sync["asked_by"], lines=lines) if lines else translate_term(sync["asked_by"])
    )


# The tables of a report about what a device worked on: by operator and by category.

_SHAPES_LENGTH = 60


def operator_table(device: Mapping[str, Any], where: str) -> Table:
    """Device time by operator, the longest first."""
    rows = [
        (
            cell(_name(row, _SHAPES_LENGTH), full=_name(row)),
            count_cell(row["n_calls"]),
            time_cell(row["total_ns"]),
            time_cell(row["mean_ns"]),
            share_cell(row["share_frac"]),
            cell(_rate(row["flop_per_s"], row["peak_frac"]), row["flop_per_s"]),
            rate_cell(row["bytes_per_s"]),
        )
        for row in device["device_operators"]
    ]
    of_calls = "self" if any(row["source"] == "operator" for row in device["device_operators"]) else "total"
    head = ("", "calls", of_calls, "mean", "of all ops", "achieved", "in and out")
    return named_table(
        translate_term("Device time by operator") + where, head, rows, "operator", _note(device, len(rows))
    )


def brief_operator_table(device: Mapping[str, Any], where: str) -> Table:
    """The same in fewer columns; empty where the record has no operators, because the table of kernels says it all."""
    rows = device["device_operators"]
    whole = operator_table(device, where)
    if not any(row["source"] in ("operator", "graph") for row in rows):
        return Table(whole.title, whole.head, ())
    kept = (0, 1, 2, 4, 5)
    cells = [[row[i] for i in kept] for row in whole.rows]
    return replace(whole, head=[whole.head[i] for i in kept], rows=cells)


def category_table(device: Mapping[str, Any], where: str) -> Table:
    """Device time by what it was for; adds up to the summed time of all ops."""
    head, rows = columns_of(
        device["categories"],
        lambda row: cell(_describe_category(row), full=_describe_category(row)),
        (
            ("ops", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("of all ops", share_cell, "share_frac"),
        ),
    )
    return Table(translate_term("Device time by category") + where, head, rows)


def _describe_category(row: Mapping[str, Any]) -> str:
    """What the ops of a category are for; of a custom kernel its name."""
    if row["kernel"]:
        return say("kernel {name}", name=row["kernel"])
    return translate_term(CATEGORY_WORDS[Category[row["category"].upper()]])


def _name(row: Mapping[str, Any], length: int | None = None) -> str:
    """The operator with its inputs, their shapes cut to length characters."""
    shapes = row["shapes"]
    if length is not None and len(shapes) > length:
        shapes = shapes[: length - 1] + "…"
    name = " ".join(filter(None, (row["name"], shapes, row["dtypes"])))
    return say("kernel {name}", name=name) if row["source"] in ("kernel", "unknown") else name


def _rate(flop_per_s: float | None, peak_frac: float | None) -> str:
    if flop_per_s is None:
        return ""
    share = "" if peak_frac is None else f" ({units.percent(peak_frac)})"
    return units.rate(flop_per_s, "FLOP/s") + share


def _note(device: Mapping[str, Any], n_rows: int) -> str:
    achieved, words = device["achieved"], []
    if not n_rows:
        return ""
    if any(row["source"] == "operator" for row in device["device_operators"]):
        words.append(say("self: an op counts for the innermost operator around its launch"))
    if achieved["unattributed_ns"]:
        alone = units.duration(achieved["unattributed_ns"])
        words.append(say("{time} were launched by no recorded operator", time=alone))
    if achieved["flop_ns"]:
        rate = units.rate(achieved["flop"] / achieved["flop_ns"] * 1e9, "FLOP/s")
        words.append(say("counted operators: {time} at {rate}", time=units.duration(achieved["flop_ns"]), rate=rate))
    peaks = device["peaks"]
    if peaks is None and achieved["flop_ns"]:
        words.append(say("no peak of {label} is known", label=device["label"]))
    elif peaks is not None and achieved["flop_ns"]:
        kind = phrase(peaks["kind"])
        words.append(say("shares in brackets: of the peak of {name}, {kind}", name=peaks["name"], kind=kind))
    words += [device["operators_note"]] if device["operators_note"] else []
    return say("; ").join(words)


TEXT_ROWS, MARKDOWN_ROWS, HTML_ROWS = 5, 15, 200
RULE_NAMES, RULE_LENGTH = 15, 60  # names in a sentence on communication, and the columns of each


def report_tables(report: Mapping[str, Any], most: int = HTML_ROWS, *, brief: bool = False) -> list[Table]:
    """The tables of one trace, each with its first rows. Tables without rows and note are left out.

    report: from perfmagic.analysis.report.  brief: as a terminal has room for; without those of the streams, which the
    timeline's own text has.
    """
    tables = [steps_table(report), phases_table(report)]
    # where work is missing from a record, it is unknown what its idle time waited for
    lacks = any(remark["kind"] in ("sample", "graph_ops") for remark in report["trust"]["remarks"])
    for device, where in _devices(report):
        tables += [
            _time(device, where),
            *([] if lacks else [_idle(device, where)]),
            *([] if brief else [_streams(device, where)]),
            category_table(device, where),
            brief_operator_table(device, where) if brief else operator_table(device, where),
            _kernels(device, where),
            _copies(device, where),
            _collectives(device, where),
            _overlaps(device, where),
            _memory(device, where),
        ]
    tables += [
        operators_table(report),
        annotations_table(report),
        lines_table(report),
        syncs_table(report),
    ]
    return [table.first(most) for table in tables if table.rows or table.note]


def _devices(report: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Each device, and the words that name it in a title if there are several."""
    several = len(report["devices"]) > 1
    return [(d, f", {d['label']} {number}" if several else "") for number, d in report["devices"].items()]


def describe_windows(report: Mapping[str, Any]) -> str:
    """Explains the two lengths in a report on a file, of all records and of a device's ops; "" if they are the same."""
    meta, devices = report["meta"], report["devices"]
    extents_ns = sorted(device["extent_ns"] for device in devices.values())
    extents = list(dict.fromkeys(units.duration(ns) for ns in (extents_ns[:1] + extents_ns[-1:])))
    whole = units.duration(meta["end_ns"] - meta["start_ns"])
    if meta["returned_ns"] is not None or extents in ([], [whole]):
        return ""
    return say(
        "The trace is {whole} long, from its first operator, call or device op to its last. The extent of a device,"
        " {extent}, runs from its first op to its last; busy, idle and shares refer to the extent.",
        whole=whole,
        extent=chained("{a} to {b}", extents),
    )


def describe_communication(report: Mapping[str, Any]) -> str:
    """Which kernels count as communication by an expression of the user's; "" for the built-in rule."""
    if report["comm_names"] is None:
        return ""
    names = list(short_names(report["communication_kernels"], RULE_LENGTH).values())
    more = phrase(" and {n} more", n=units.count(len(names) - RULE_NAMES)) if len(names) > RULE_NAMES else ""
    shown = ", ".join(names[:RULE_NAMES])
    n_names = counted(
        len(names), "{n} kernel name: {names}{more}", "{n} kernel names: {names}{more}", names=shown, more=more
    )
    return say(
        "Kernels that match {pattern} count as communication: {names}.",
        pattern=repr(report["comm_names"]),
        names=n_names if names else phrase("no kernel name"),
    )


def _time(device: Mapping[str, Any], where: str) -> Table:
    extent_ns = device["extent_ns"]
    rows = [
        (translate_term(PARTITION_WORDS[key]), time_cell(ns), share_cell(ns / extent_ns))
        for key, ns in device["partition"].items()
        if ns
    ]
    title = say("Where the {time} went", time=units.duration(extent_ns)) + where
    return Table(title, ("", "time", "share"), tuple(rows))


def _streams(device: Mapping[str, Any], where: str) -> Table:
    deepest = {queue["stream"]: queue["ops_max"] for queue in device["queues"]}
    rows = [
        (
            cell(say("stream {n}", n=stream["stream"]), stream["stream"]),
            count_cell(stream["n_ops"]),
            time_cell(stream["busy_ns"]),
            share_cell(stream["busy_frac"]),
            count_cell(deepest[stream["stream"]]) if stream["stream"] in deepest else "",
        )
        for stream in device["streams"]
    ]
    head = ("", "ops", "busy", "of the extent", "queue ≤")
    return Table(translate_term("Streams") + where, head, rows, thing="stream")


def _idle(device: Mapping[str, Any], where: str) -> Table:
    idle_ns = device["idle_ns"]
    by_cause = dict(device["idle"]["by_cause_ns"])
    inside_ns = by_cause.pop("in_call")
    by_cause["in_python"] += inside_ns
    named = []
    for cause, ns in sorted(by_cause.items(), key=lambda item: -item[1]):
        named += [(say("waiting {cause}", cause=phrase(CAUSES[cause])), ns)]
        named += [(say("  of it inside calls into the driver"), inside_ns)] if cause == "in_python" else []
    rows = [(words, time_cell(ns), share_cell(ns / idle_ns)) for words, ns in named if ns]
    return Table(translate_term("Idle by cause") + where, ("", "time", "of idle"), tuple(rows))


def _collectives(device: Mapping[str, Any], where: str) -> Table:
    head, rows = columns_of(
        device["collectives"],
        _describe_collective,
        (
            ("ops", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("size", size_cell, "size_bytes"),
            ("bus bandwidth", rate_cell, "bus_bytes_per_s"),
        ),
    )
    note = chained("{a}; {b}", (note["words"] for note in device["notes"]))
    return named_table(translate_term("Collectives") + where, head, rows, "collective", note)


def _describe_collective(row: Mapping[str, Any]) -> str:
    name = f"{row['name']} {row['dtype']}".rstrip()
    return say("{name}, group {group}", name=name, group=row["group"]) if row["group"] else name


def _kernels(device: Mapping[str, Any], where: str) -> Table:
    head, rows = columns_of(
        device["kernels"],
        lambda kernel: cell(kernel["short_name"], full=kernel["name"]),
        (
            ("ops", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("mean", time_cell, "mean_ns"),
            ("of all kernels", share_cell, "share_frac"),
        ),
    )
    return replace(named_table(translate_term("Kernels") + where, head, rows, "kernel"), kernels=True)


def _copies(device: Mapping[str, Any], where: str) -> Table:
    head, rows = columns_of(
        device["copies"],
        lambda copy: copy["name"],
        (
            ("copies", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("size", size_cell, "size_bytes"),
            ("while copying", rate_cell, "bandwidth_bytes_per_s"),
        ),
    )
    return named_table(translate_term("Copies") + where, head, rows, "kind")


def _overlaps(device: Mapping[str, Any], where: str) -> Table:
    head, rows = columns_of(
        [pair for pair in sorted(device["overlaps"], key=lambda pair: -pair["overlap_ns"]) if pair["overlap_ns"]],
        lambda pair: say("{a} and {b}", a=phrase(pair["first"]), b=phrase(pair["second"])),
        (
            ("time", time_cell, "overlap_ns"),
            ("of the first", share_cell, "frac_of_first"),
            ("of the second", share_cell, "frac_of_second"),
        ),
    )
    return Table(translate_term("At the same time") + where, head, rows, thing="pair")


def _memory(device: Mapping[str, Any], where: str) -> Table:
    memory = device["memory"]
    if memory is None:
        return Table(translate_term("Memory") + where, (), ())
    rows: list[tuple[str, ...]] = [(say("allocated, at most"), size_cell(memory["peak_bytes"]))]
    rows += (
        [(say("reserved, at most"), size_cell(memory["reserved_max_bytes"]))] if memory["reserved_max_bytes"] else []
    )
    return Table(translate_term("Memory") + where, ("", "size"), tuple(rows))
