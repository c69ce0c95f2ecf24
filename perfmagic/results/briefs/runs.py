"""Briefs of recorded and predicted runs: timelines, what-ifs, memory, graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfmagic.analysis.findings.answer import Answer, Conclusion, Proposal
from perfmagic.analysis.findings.answers import every_answer, find_answers
from perfmagic.analysis.findings.catalogue import OPEN, action_key, decider_key, headline_key
from perfmagic.analysis.findings.find import Explanation, Explanations, findings, known
from perfmagic.analysis.findings.gains import change_of, written
from perfmagic.analysis.findings.verdict import verdict
from perfmagic.analysis.timeline.kernels import kernels
from perfmagic.analysis.timeline.trust import Trust
from perfmagic.results.briefs.form import (
    RESULT_BYTES,
    Brief,
    BriefFinding,
    microseconds,
    rounded,
    table,
    times_of_label,
    within,
)
from perfmagic.trace.model import Trace, devices_label

if TYPE_CHECKING:
    from perfmagic.analysis.graph.late import LateNode
    from perfmagic.analysis.memory.peak import HeldBytes
    from perfmagic.analysis.replay.prediction import Prediction
    from perfmagic.analysis.timeline.device_operators import RooflineData
    from perfmagic.analysis.timeline.flame.call_paths import Flame

_PLACES = 3  # of a finding
_FILE_PARTS = 3  # of a path
_HELD = ("size_bytes", "reason", "line", "function", "n_blocks")
_LATE = ("name", "lane", "line", "earlier_ns", "lost_ns", "because")
_KERNELS = ("short_name", "n_ops", "total_ns", "share_frac")


def timeline_brief(trace: Trace, comm_names: str | None, title: str, trust: Trust) -> Brief:
    """What to do about a run, who decides, and its longest kernels."""
    answers, judged = find_answers(trace, comm_names), verdict(trace)
    rough = trace.predicted
    found = [
        _in_window(trace, answer, _looked_at(trace, comm_names, answer)) for answer in every_answer(trace, comm_names)
    ]
    longest = sorted(
        (row for d in trace.device_ids for row in kernels(trace, d, comm_names)), key=lambda r: -r.total_ns
    )
    shown = table(longest, _KERNELS, most=3, rough=rough)
    return Brief(
        kind="timeline",
        times=times_of(trace),
        says=answers.decides,
        title=title or trace.meta.origin,
        devices=labels(trace),
        verdict="open" if decider_key(answers.decides) in OPEN else judged.kind,
        findings=numbered(found),
        numbers={
            "total_us": microseconds(answers.total_ns, rough=rough),
            "busy_frac": rounded(judged.busy_frac, rough=rough),
            "n_device_ops": len(trace.ops),
        },
        rows={"kernels": shown} if shown else None,
        warnings=tuple(dict.fromkeys((*answers.warnings, *trust.sentences))),
        omitted={"kernels": len(longest) - len(shown)} if len(longest) > len(shown) else None,
    )


def _looked_at(trace: Trace, comm_names: str | None, answer: Answer) -> BriefFinding:
    """An answer. One that only says where to look has the gain of a run without what is there."""
    made = of_answer(answer, _frames(trace, comm_names, answer), rough=trace.predicted)
    found = (f for f in findings(trace, comm_names) if f.rule in answer.rules and f.gain_ns and not f.action)
    replayed = next(found, None) if answer.after_ns is None else None
    if replayed is None or replayed.gain_ns is None:
        return made
    low, high = (microseconds(ns, rough=trace.predicted) for ns in replayed.gain_ns)
    change = change_of(known(trace, comm_names)[0].facts, replayed)
    return replace(
        made,
        gain_us=(low, high),
        at_most=replayed.at_most,
        change=written([change] if change is not None else [], replayed.lines),
    )


def _in_window(trace: Trace, answer: Answer, finding: BriefFinding) -> BriefFinding:
    """The finding with what to look at, where that is not all of the record."""
    begin_ns, whole_ns = trace.meta.start_ns, trace.meta.end_ns - trace.meta.start_ns
    start_ns, end_ns = max(0, answer.start_ns - begin_ns), min(whole_ns, answer.end_ns - begin_ns)
    if end_ns <= start_ns or end_ns - start_ns == whole_ns:
        return finding
    return replace(finding, window_us=(round(start_ns / 1000, 1), round(end_ns / 1000, 1)))


def what_if_brief(prediction: Prediction, sentence: str, checked: tuple[int, float, bool] | None = None) -> Brief:
    """What a run would take with changes.

    checked: what it then took (ns), by which share the prediction was too long, and whether it lies in the interval.
    """
    rough = prediction.spread != 1
    low, high = (microseconds(ns, rough=rough) for ns in prediction.gain_ns)
    numbers = {"recorded_us": microseconds(prediction.recorded_ns)}
    if not prediction.refused:
        numbers |= {
            "predicted_us": microseconds(prediction.expected_ns, rough=rough),
            "predicted_low_us": microseconds(prediction.low_ns, rough=rough),
            "predicted_high_us": microseconds(prediction.high_ns, rough=rough),
            "gain_low_us": low,
            "gain_high_us": high,
        }
    if checked is not None:
        numbers |= {"measured_us": microseconds(checked[0]), "error_frac": rounded(checked[1])}
    return Brief(
        kind="what_if" if checked is None else "what_if_check",
        times="predicted",
        says=sentence,
        title=", ".join(prediction.changes),
        verdict=_of_prediction(prediction, checked),
        reason=prediction.refused,
        numbers=numbers,
    )


def _of_prediction(prediction: Prediction, checked: tuple[int, float, bool] | None) -> str:
    if checked is not None:
        return "within" if checked[2] else "outside"
    return "refused" if prediction.refused else "at most" if prediction.at_most else "predicted"


def memory_brief(
    trace: Trace, label: str, conclusion: Conclusion, peak_bytes: int | None = None, at_peak: Sequence[HeldBytes] = ()
) -> Brief:
    """What held the most memory, and what would lower it."""
    held = table(at_peak, _HELD)
    return _concluded(
        trace,
        "memory",
        conclusion,
        devices=(label,) if label else (),
        numbers=None if peak_bytes is None else {"peak_bytes": peak_bytes},
        rows={"at_peak": held} if held else None,
        omitted={"at_peak": len(at_peak) - len(held)} if len(at_peak) > len(held) else None,
    )


def graph_brief(
    trace: Trace, conclusion: Conclusion, times_ns: Mapping[str, int] | None = None, late: Sequence[LateNode] = ()
) -> Brief:
    """What decides how long the operators took, and what to do.  times_ns: by name."""
    rough = trace.predicted
    numbers = {f"{name[:-3]}_us": microseconds(ns, rough=rough) for name, ns in (times_ns or {}).items()}
    rows = table(late, _LATE, rough=rough)
    return _concluded(
        trace, "graph", conclusion, devices=labels(trace), numbers=numbers, rows={"late": rows} if rows else None
    )


def _concluded(trace: Trace, kind: str, conclusion: Conclusion, **more: Any) -> Brief:
    return Brief(
        kind=kind,
        times=times_of(trace),
        says=conclusion.decides,
        findings=of_conclusion(conclusion),
        warnings=conclusion.warnings,
        **more,
    )


def flame_brief(flame: Flame) -> Brief:
    """Where Python was: the functions that took most time themselves."""
    longest = sorted((path for path in flame.paths if path.kind != "thread"), key=lambda path: -path.self_ns)
    return Brief(
        kind="flame",
        times=times_of_label(flame.device),
        says=flame.sentence,
        devices=(flame.device,),
        numbers={"total_us": microseconds(flame.total_ns)},
        rows={"paths": table(longest, ("name", "kind", "n_calls", "self_ns", "total_ns"))},
    )


def roofline_brief(data: RooflineData, sentence: str) -> Brief:
    """How far the longest operators lie below what the device can do."""
    columns = ("name", "shapes", "total_ns", "share_frac", "flop_per_s", "peak_frac", "roof_frac")
    return Brief(
        kind="roofline",
        times=times_of_label(data.label) if data.ops_ns else "",  # of benchmarks the label is the peaks' name
        says=sentence,
        devices=(data.label,),
        rows={"operators": table(data.operators, columns)},
    )


def brief_of_rules(trace: Trace, said: Explanation | Explanations) -> dict[str, Any]:
    """What one rule says of a trace, or every rule that found something and how many were silent; ready for JSON."""
    rules = [said] if isinstance(said, Explanation) else list(said)
    shown = [rule for rule in rules if rule.findings] or rules[:1]
    numbers = {name: rounded(n) for name in ("value", "threshold") if (n := getattr(said, name, None)) is not None}
    brief = Brief(
        kind="rules",
        times=times_of(trace),
        says=rules[0].sentence if len(rules) == 1 else f"{len(shown)} of {len(rules)} rules found something",
        title=rules[0].rule if len(rules) == 1 else "",
        devices=labels(trace),
        numbers=numbers,
        rows={"rules": tuple({"rule": rule.rule, "says": rule.sentence, "docs": rule.docs} for rule in shown)},
        omitted={"silent rules": len(rules) - len(shown)} if len(rules) > len(shown) else None,
    )
    return within(brief, RESULT_BYTES)


def of_conclusion(conclusion: Conclusion) -> tuple[BriefFinding, ...]:
    """What a conclusion proposes."""
    return numbered(_of_proposal(proposal) for proposal in conclusion.proposals)


def times_of(trace: Trace) -> str:
    """Where the times of a trace are from."""
    if trace.predicted or trace.meta.predicted:
        return "predicted"
    return "simulated" if trace.simulated else "measured"


def labels(trace: Trace) -> tuple[str, ...]:
    """The devices of a trace in words, which say where they are simulated or predicted."""
    return tuple(filter(None, (devices_label(trace.meta.devices),))) or ("CPU, no device records",)


def _frames(trace: Trace, comm_names: str | None, answer: Answer) -> Sequence[str]:
    """Where Python was in the findings of an answer: file and line, the longest first."""
    known = (finding for finding in findings(trace, comm_names) if finding.rule in answer.rules)
    return [f"{_end_of(frame.file)}:{frame.line}" for finding in known for frame in finding.frames[:1] if frame.file]


def _end_of(file: str) -> str:
    """The end of a path, which does not depend on where it is installed."""
    return "/".join(file.replace("\\", "/").split("/")[-_FILE_PARTS:])


def of_answer(answer: Answer, frames: Sequence[str] = (), *, rough: bool) -> BriefFinding:
    """An answer.  frames: where Python was, said where no line of a cell is known.  rough: times of a model."""
    rule, gain = min(answer.rules, default=""), None
    if answer.after_ns is not None:
        least = answer.after_ns if answer.low_ns is None else answer.low_ns
        most = answer.before_ns if answer.high_ns is None or answer.at_most else answer.high_ns
        gain = tuple(microseconds(max(0, answer.before_ns - ns), rough=rough) for ns in (most, least))
    places = (*(f"cell:{line}" for line in answer.lines), *([] if answer.lines else frames))
    return BriefFinding(
        id=rule,
        says=answer.headline,
        rule=rule,
        do=answer.action,
        remedy=action_key(answer.action),
        at=tuple(dict.fromkeys(places))[:_PLACES],
        change=answer.what_if,
        cost_us=microseconds(answer.cost_ns, rough=rough) if answer.cost_ns else None,
        gain_us=gain,  # type: ignore[arg-type]  # two numbers
        at_most=answer.at_most,
    )


def _of_proposal(proposal: Proposal) -> BriefFinding:
    gain_us, gain_bytes = None, None
    if proposal.before_ns is not None and proposal.after_ns is not None:
        won = microseconds(max(0, proposal.before_ns - proposal.after_ns))
        gain_us = (0 if proposal.at_most else won, won)
    if proposal.before_bytes is not None and proposal.after_bytes is not None:
        gain_bytes = max(0, proposal.before_bytes - proposal.after_bytes)
    place = f"{proposal.function or 'cell'}:{proposal.line}" if proposal.line else ""
    return BriefFinding(
        id=headline_key(proposal.headline) or action_key(proposal.action),
        says=proposal.headline,
        do=proposal.action,
        remedy=action_key(proposal.action),
        at=(place,) if place else (),
        gain_us=gain_us,
        gain_bytes=gain_bytes,
        at_most=proposal.at_most,
    )


def numbered(found: Iterable[BriefFinding]) -> tuple[BriefFinding, ...]:
    """The findings with their places in their ids, and a number behind one that another has already."""
    known: dict[str, int] = {}
    named = []
    for finding in found:
        name = f"{finding.id}@{finding.at[0]}" if finding.at else finding.id
        known[name] = known.get(name, 0) + 1
        named.append(replace(finding, id=name if known[name] == 1 else f"{name}#{known[name]}"))
    return tuple(named)
