"""What to do about the ranks of one job: what decides, and at most three answers, replayed on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmagic.analysis.findings.answer import Answer, Answers
from perfmagic.analysis.findings.answers import MOST_ANSWERS, Asked, asked_of, is_worth, name_together
from perfmagic.analysis.findings.catalogue import HEADLINE_CHARS, decider_key, decides, headline, without_time
from perfmagic.analysis.ranks.finding import CAUSES, RankFinding
from perfmagic.analysis.ranks.findings import findings_of
from perfmagic.analysis.ranks.job_prediction import JobReplay, job_replay_in_passing
from perfmagic.analysis.ranks.late import name_ranks
from perfmagic.analysis.ranks.ranks import Ranks
from perfmagic.analysis.ranks.totals import is_crowded
from perfmagic.analysis.replay.changes.change import Change
from perfmagic.analysis.replay.changes.copies import Overlapped
from perfmagic.analysis.replay.critical_path import DECIDES_FRAC
from perfmagic.analysis.replay.prediction import Prediction
from perfmagic.analysis.verdict import COMMUNICATION_BOUND
from perfmagic.base import units
from perfmagic.base.language import capitalised, counted, phrase, sentences
from perfmagic.base.terminal import columns, cut_to_columns
from perfmagic.trace.model import once_per_trace
from perfmagic.trace.names import OpClass

LATE = ("straggler", "slow_link", "ranks_in_turn")
OF_RECORD = (
    "unread", "missing_ranks", "no_communication", "sample", "device_left_alone", "unmatched", "other_steps",
    "waited_for_core",
)  # fmt: skip
OF_JOB = frozenset(("exposed_communication", "communication"))  # all ranks together say more about these than one
LATE_FRAC = 0.1  # of the job: shorter waits for others do not decide how long it takes
TURNS_RATIO = 2  # between Python's and the device's share: below it, neither decides unless it has DECIDES_FRAC
MOST_RANKS_FRAC = 0.5  # of the ranks: what fewer ask for concerns only them


@dataclass(frozen=True)
class _Change:
    """An answer without what it gains.  changes: by rank.  won_ns: of a cause.  fact: without naming ranks."""

    answer: Answer
    changes: Mapping[int, Sequence[Change]]
    won_ns: int | None = None
    fact: str = ""


@once_per_trace
def find_job_answers(job: Ranks) -> Answers:
    """What to do about a job: what decides, and what late ranks and most ranks ask for, replayed on all ranks."""
    findings, total_ns = findings_of(job), _total_ns(job)
    late = _decisive(job, findings, total_ns)
    decider = _who_decides(job, findings, total_ns)
    warned = sorted((f for f in findings if f.rule in OF_RECORD), key=lambda f: OF_RECORD.index(f.rule))
    warnings = tuple(sentences(capitalised(f.cause), f.action) for f in warned)
    if job.idle or any(summary.meta.failed for summary in job.summaries.values()):
        return Answers(decider, total_ns, warnings=warnings)
    replay = job_replay_in_passing(job)
    asked = [*_of_findings(job, findings, total_ns), *(_of_most_ranks(job, total_ns) if replay else [])]
    replayed = [_replayed(replay, each) for each in asked]
    every = [(each, _shorten(answer)) for each, answer in zip(asked, replayed, strict=True)]
    worth = sorted((pair for pair in every if is_worth(pair[1])), key=lambda pair: _place(pair[1], late is not None))
    first = worth[:MOST_ANSWERS]
    shown = {answer.headline for _, answer in first}
    together = _together(replay, first)
    of_python = decider_key(decider) in ("ranks_host_bound", "ranks_mixed")
    said = {*OF_RECORD, *(["ranks_wait_for_python"] if of_python else [])}
    facts = [
        f.headline for f in findings if f.headline and f.rule not in said and (not f.action or _is_covered(f, findings))
    ]
    seen = dict.fromkeys([each.fact or answer.headline for each, answer in worth[MOST_ANSWERS:]] + facts)
    return Answers(
        decider,
        total_ns,
        answers=tuple(answer for _, answer in first),
        together=together,
        little_gain=tuple(dict.fromkeys(each.fact or a.headline for each, a in every if not is_worth(a))),
        also_seen=tuple(fact for fact in seen if fact not in shown),
        warnings=warnings,
    )


def _total_ns(job: Ranks) -> int:
    """From the first record of any rank to the last."""
    rows = [(job.alignment.offset_ns[rank], summary) for rank, summary in job.summaries.items()]
    return max(by + s.last_ns for by, s in rows) - min(by + s.first_ns for by, s in rows)


# What decides how long a job takes: late ranks, else what takes most of the median rank's time.


def _who_decides(job: Ranks, findings: Sequence[RankFinding], total_ns: int) -> str:
    rules = {finding.rule for finding in findings}
    if any(summary.meta.failed for summary in job.summaries.values()):
        return decides("failed")
    if "sample" in rules:
        return decides("ranks_sampled")
    late = _decisive(job, findings, total_ns)
    if late is not None:
        return _who_is_late(late, total_ns)
    return decides("ranks_cpu_unknown") if "device_left_alone" in rules else _who_works(job, total_ns)


def _decisive(job: Ranks, findings: Sequence[RankFinding], total_ns: int) -> RankFinding | None:
    """The finding about late ranks, if they cost enough, and more than waiting for Python.

    Of a pipeline's slowest stage that is the pipeline's: it costs the stage's forward and backward. Of a rank that
    moves more in all_to_all that is theirs: it costs the transfers, too.
    """
    costs = {finding.rule: finding.cost_ns or 0 for finding in findings}
    late = next((finding for finding in findings if finding.rule in LATE), None)
    late = next((f for f in findings if late is not None and _covers(f, late)), late)
    least_ns = max(LATE_FRAC * min(total_ns, job.judged_ns), costs.get("ranks_wait_for_python", 0))
    return late if late is not None and (late.cost_ns or 0) >= least_ns else None


def _who_is_late(late: RankFinding, total_ns: int) -> str:
    if late.rule == "ranks_in_turn":
        return decides("in_turn", time=units.duration(late.cost_ns or 0))
    time, total = units.duration(late.cost_ns or 0), units.duration(total_ns)
    who = name_ranks(late.ranks)
    is_late = counted(len(late.ranks), "{who} is late", "{who} are late", who=who).capitalised()
    return decides("late", late=is_late, time=time, total=total)


def _who_works(job: Ranks, total_ns: int) -> str:
    """By the ranks' medians: waiting for Python, communication that moves data, and other busy time."""
    totals = [job.summaries[row.rank].totals for row in job.table]
    parts = {
        "ranks_host_bound": [each.waited_for_host_ns + each.start_up_ns for each in totals],
        "ranks_device_bound": [each.busy_ns - each.exposed_communication_ns for each in totals],
        COMMUNICATION_BOUND: [row.exposed_transfer_ns + row.exposed_unmatched_ns for row in job.table],
    }
    medians = {key: float(np.median(column)) for key, column in parts.items()}
    most = max(medians, key=lambda key: medians[key])
    if most == COMMUNICATION_BOUND and is_crowded(job):
        n_cores = job.summaries[job.ranks[0]].meta.cores or 0
        ranks, on = counted(len(job.ranks), "{n} rank", "{n} ranks"), counted(n_cores, "{n} core", "{n} cores")
        return decides("ranks_cores", ranks=ranks, cores=on)
    if most == COMMUNICATION_BOUND:
        exposed_ns = float(np.mean([row.exposed_communication_ns for row in job.table]))  # and waiting for a turn
        return decides(most, time=units.duration(exposed_ns), total=units.duration(total_ns))
    host, device = (medians[key] / max(1, total_ns) for key in ("ranks_host_bound", "ranks_device_bound"))
    if max(host, device) < min(DECIDES_FRAC, TURNS_RATIO * min(host, device)):
        return decides("ranks_mixed", host=units.percent(host), device=units.percent(device))
    n = sum(max(parts, key=lambda key: parts[key][i]) == most for i in range(len(totals)))
    return decides(most, ranks=_on(job, n), share=units.percent(max(host, device)))


def _on(job: Ranks, n: int) -> str:
    if n == len(job.ranks):
        return phrase("every rank")
    return phrase("{n} of {total} ranks", n=n, total=len(job.ranks))


# What the findings on several ranks ask for, and what most ranks ask for themselves.


def _of_findings(job: Ranks, findings: Sequence[RankFinding], total_ns: int) -> list[_Change]:
    """One change for each action among the findings, with the costliest finding's headline; of a cause its own.

    A late rank that waited for a core gets none: its code is not to blame.
    """
    explained = {finding.ranks for finding in findings if finding.rule in LATE and not finding.action}
    groups: dict[tuple[str, str], list[RankFinding]] = {}
    for finding in findings:
        asks = finding.action and finding.rule not in OF_RECORD and not _is_covered(finding, findings)
        if asks and finding.ranks not in explained:
            own = finding.headline if finding.rule in CAUSES else ""  # gains of causes add up
            groups.setdefault((finding.action, own), []).append(finding)
    asked = []
    for (remedy, _), group in groups.items():
        first = max(group, key=lambda finding: (finding.rule in LATE, finding.cost_ns or 0))
        start_ns, end_ns = first.window_ns or (0, total_ns)
        answer = Answer(
            headline=first.headline,
            action=remedy,
            rules=tuple(dict.fromkeys(finding.rule for finding in group)),
            before_ns=total_ns,
            after_ns=None,
            low_ns=None,
            high_ns=None,
            at_most=False,
            cost_ns=first.cost_ns,
            lines=(first.line,) if first.line else (),
            start_ns=start_ns,
            end_ns=end_ns,
            evidence=tuple(finding.sentence for finding in group),
        )
        won = [finding.cost_ns or 0 for finding in group if finding.rule in CAUSES and finding.cost_ns is not None]
        asked.append(_Change(answer, _changes(job, first), sum(won) if won else None))
    return asked


def _is_covered(finding: RankFinding, findings: Sequence[RankFinding]) -> bool:
    """Whether another finding says what a cause does: no gain counts twice."""
    return finding.rule == "straggler" and any(_covers(other, finding) for other in findings)


def _covers(finding: RankFinding, late: RankFinding) -> bool:
    """Whether it is about a pipeline's slowest stage on a late rank, or about the bytes that its work grows with."""
    if finding.rule == "uneven_all_to_all":
        return finding.ranks == late.ranks and finding.window_ns == late.window_ns
    return finding.rule == "pipeline" and finding.cost_ns is not None and finding.ranks == late.ranks


def _changes(job: Ranks, finding: RankFinding) -> dict[int, list[Change]]:
    """The changes that a finding asks for, by rank; empty if no replay models them."""
    if finding.rule == "rank_exposed":
        change = Overlapped("communication", (OpClass.COMMUNICATION,))
        return {rank: [change] for rank in job.ranks}
    return {}


def _of_most_ranks(job: Ranks, total_ns: int) -> list[_Change]:
    """What most ranks ask for, each on its own."""
    by_action: dict[str, dict[int, Asked]] = {}
    for rank, trace in job.traces.items():
        for asked in asked_of(trace, job.comm_names):
            if not OF_JOB & {*asked.answer.rules}:
                by_action.setdefault(asked.answer.action, {})[rank] = asked
    return [
        _joined(job, by_rank, total_ns)
        for by_rank in by_action.values()
        if len(by_rank) > MOST_RANKS_FRAC * len(job.ranks)
    ]


def _joined(job: Ranks, by_rank: Mapping[int, Asked], total_ns: int) -> _Change:
    """One answer from what several ranks ask for; the rank of median cost gives the headline."""
    order = sorted(by_rank, key=lambda rank: by_rank[rank].answer.cost_ns or 0)
    rank, n = order[len(order) // 2], len(order)
    spoken = by_rank[rank].answer
    fact = headline("like_most", ranks=_on(job, n), rank=rank, fact=spoken.headline)
    if len({each.answer.headline for each in by_rank.values()}) == 1:
        fact = headline("on_ranks", ranks=_on(job, n), fact=spoken.headline)
    by = job.alignment.offset_ns[rank]
    spoken_first = [rank, *(other for other in sorted(by_rank) if other != rank)]
    answer = replace(
        spoken,
        headline=fact,
        before_ns=total_ns,
        start_ns=spoken.start_ns + by,
        end_ns=spoken.end_ns + by,
        evidence=tuple(f"rank {of}: {words}" for of in spoken_first for words in by_rank[of].answer.evidence),
    )
    return _Change(answer, {rank: each.changes for rank, each in by_rank.items() if each.changes}, fact=spoken.headline)


def _shorten(answer: Answer) -> Answer:
    """The answer with a short enough headline; one that is short already can still be translated."""
    if columns(answer.headline) <= HEADLINE_CHARS:
        return answer
    return replace(answer, headline=cut_to_columns(answer.headline, HEADLINE_CHARS))


# How long the job would take then.


def _replayed(replay: JobReplay | None, asked: _Change) -> Answer:
    """An answer with what the job would take; as it is where no replay can say."""
    if asked.won_ns is not None:
        return _without(asked.answer, asked.won_ns)
    if replay is None or not asked.changes:
        return replace(asked.answer, what_if="")
    return _predicted(asked.answer, replay.predict_by_rank(asked.changes))


def _without(answer: Answer, won_ns: int) -> Answer:
    """An answer with the job without some causes, as the replay at its meetings has it."""
    after_ns = answer.before_ns - won_ns
    return replace(answer, after_ns=after_ns, low_ns=after_ns, high_ns=after_ns)


def _predicted(answer: Answer, prediction: Prediction) -> Answer:
    if prediction.refused:
        return replace(answer, what_if="")
    return replace(
        answer,
        headline=without_time(answer.headline),
        before_ns=prediction.recorded_ns,
        after_ns=prediction.expected_ns,
        low_ns=prediction.low_ns,
        high_ns=prediction.high_ns,
        at_most=prediction.at_most,
    )


def _together(replay: JobReplay | None, first: Sequence[tuple[_Change, Answer]]) -> Answer | None:
    """All causes, whose gains add up; without several of them all that are replayed, but bounds."""
    known = [(n, asked) for n, (asked, answer) in enumerate(first, 1) if answer.after_ns is not None]
    causes = [(n, asked) for n, asked in known if asked.won_ns is not None]
    among = causes if len(causes) > 1 else [(n, asked) for n, asked in known if not first[n - 1][1].at_most]
    if len(among) < 2 or (causes and among is not causes):
        return None
    answers = [asked.answer for _, asked in among]
    every = replace(
        answers[0],
        headline=name_together([answer for _, answer in first], [str(n) for n, _ in among]),
        action="",
        rules=tuple(dict.fromkeys(rule for answer in answers for rule in answer.rules)),
        cost_ns=None,
        evidence=tuple(words for answer in answers for words in answer.evidence),
    )
    if causes:
        return _without(every, sum(asked.won_ns or 0 for _, asked in causes))
    changes: dict[int, list[Change]] = {}
    for _, asked in among:
        for rank, of_rank in asked.changes.items():
            changes.setdefault(rank, []).extend(of_rank)
    together = _replayed(replay, _Change(every, changes))
    return None if together.after_ns is None else together


def _place(answer: Answer, late_first: bool) -> tuple[bool, bool, int]:
    """Sort key: wrong results first, late ranks if they decide, then the largest gain, or cost without a prediction."""
    worth_ns = answer.cost_ns if answer.gain_ns is None else answer.gain_ns
    return "race" not in answer.rules, not (late_first and {*LATE} & {*answer.rules}), -(worth_ns or 0)
