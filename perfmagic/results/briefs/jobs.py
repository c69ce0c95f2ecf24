"""Briefs of several ranks or GPUs: jobs, flight recorders, scaling."""

from __future__ import annotations

from collections.abc import Sequence

from perfmagic.analysis.findings.answer import Answers, Conclusion
from perfmagic.analysis.findings.catalogue import decider_key
from perfmagic.analysis.flight.report import FlightReport
from perfmagic.analysis.ranks.finding import RankFinding, RankStat
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.ranks.scaling import ScalingChange, ScalingStat
from perfmagic.predict.runs import GpuStat
from perfmagic.results.briefs.form import Brief, BriefFinding, microseconds, table, times_of_label
from perfmagic.results.briefs.runs import numbered, of_answer, of_conclusion
from perfmagic.trace.model import TraceMeta, devices_label

_RANK = (
    "rank", "compute_ns", "exposed_communication_ns", "exposed_waiting_ns", "exposed_transfer_ns", "copy_ns", "idle_ns",
    "n_last",
)  # fmt: skip
_MOST_RANKS = 16


def ranks_brief(ranks: Ranks, answers: Answers, findings: Sequence[RankFinding], title: str) -> Brief:
    """What decides how long a job takes, what to do, and its ranks, those that wait least first."""
    meta = ranks.summaries[ranks.ranks[0]].meta
    rough = bool(meta.predicted_label)
    found = [_with_ranks(of_answer(answer, rough=rough), findings) for answer in answers.answers]
    known = {finding.rule for finding in found}
    facts = [_of_finding(finding, rough=rough) for finding in findings if finding.rule not in known]
    rows = sorted(ranks.table, key=_waited)
    return Brief(
        kind="ranks",
        times=_times(meta),
        says=answers.decides,
        title=title,
        devices=tuple(filter(None, (devices_label(meta.devices),))),
        verdict=decider_key(answers.decides).removeprefix("ranks_").replace("_", "-"),
        findings=numbered([*found, *facts]),
        numbers={"total_us": microseconds(answers.total_ns, rough=rough), "n_ranks": len(ranks.ranks)},
        rows={"ranks": table(rows, _RANK, most=_MOST_RANKS, rough=rough)},
        warnings=answers.warnings,
        omitted={"ranks": len(rows) - _MOST_RANKS} if len(rows) > _MOST_RANKS else None,
    )


def flight_brief(report: FlightReport, title: str) -> Brief:
    """Which ranks hang, and what keeps them there."""
    stopped = table(report.standstills, ("kind", "call", "number", "group", "ranks", "absent"))
    ranks = table(report.ranks, ("rank", "last_ended", "waits_in", "state", "file", "line"), most=_MOST_RANKS)
    more = len(report.ranks) - len(ranks)
    rows = {"standstills": stopped, "ranks": ranks}
    return Brief(
        kind="flight",
        times="measured",
        says=report.conclusion.decides,
        title=title,
        verdict="hangs" if stopped else "nothing hangs",
        findings=of_conclusion(report.conclusion),
        rows={name: some for name, some in rows.items() if some},
        warnings=report.conclusion.warnings,
        omitted={"ranks": more} if more else None,
    )


def gpus_brief(sentence: str, rows: Sequence[GpuStat]) -> Brief:
    """One run, predicted for several GPUs."""
    columns = ("gpu", "time_ns", "low_ns", "high_ns", "verdict", "busy_frac", "without_waits_ns", "peak_bytes", "fits")
    return Brief(kind="gpus", times="predicted", says=sentence, rows={"gpus": table(rows, columns, rough=True)})


def scaling_brief(conclusion: Conclusion, rows: Sequence[ScalingStat], label: str, failed: str) -> Brief:
    """How efficient more ranks are."""
    columns = ("ranks", "time_ns", "ideal_ns", "speedup", "efficiency_frac", "exposed_waiting_ns")
    return Brief(
        kind="scaling",
        times=times_of_label(label),
        says=conclusion.decides,
        devices=(label,),
        reason=failed,
        findings=of_conclusion(conclusion),
        rows={"ranks": table(rows, columns, most=_MOST_RANKS)},
        warnings=conclusion.warnings,
    )


def scaling_change_brief(
    headline: str, rows: Sequence[ScalingChange], names: tuple[str, str], no_verdict: str, notes: tuple[str, ...]
) -> Brief:
    """What changed from one sweep over ranks to another."""
    return Brief(
        kind="scaling_comparison",
        says=headline,
        title=f"{names[1]} against {names[0]}",
        verdict="not comparable" if no_verdict else "",
        reason=no_verdict,
        rows={"ranks": table(rows, ("ranks", "a_ns", "b_ns", "diff_ns", "apart"), most=_MOST_RANKS)},
        warnings=notes,
    )


def _waited(row: RankStat) -> int:
    """What a rank waited for others: the late one waits least."""
    return row.exposed_waiting_ns


def _times(meta: TraceMeta) -> str:
    if meta.predicted or meta.predicted_label:
        return "predicted"
    return "simulated" if any(info.simulated for info in meta.devices) else "measured"


def _with_ranks(finding: BriefFinding, findings: Sequence[RankFinding]) -> BriefFinding:
    ranks = next((f.ranks for f in findings if f.rule == finding.rule), ())
    return BriefFinding(**{**vars(finding), "ranks": tuple(ranks)})


def _of_finding(finding: RankFinding, *, rough: bool) -> BriefFinding:
    return BriefFinding(
        id=finding.rule,
        says=finding.headline or finding.cause,
        rule=finding.rule,
        do=finding.action,
        at=(f"cell:{finding.line}",) if finding.line else (),
        cost_us=microseconds(finding.cost_ns, rough=rough) if finding.cost_ns else None,
        ranks=tuple(finding.ranks),
    )
