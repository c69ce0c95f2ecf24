"""The rank whose compute, copies, idle time or bytes in all_to_all stand out, where the files hold the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from perfmagic.analysis.findings.catalogue import Remedy, action, headline
from perfmagic.analysis.ranks.causes import LINK, Cause, causes_of
from perfmagic.analysis.ranks.finding import CollectiveOfRanks, RankFinding
from perfmagic.analysis.ranks.meetings import UNEVEN
from perfmagic.analysis.ranks.rank_summary import Totals
from perfmagic.analysis.ranks.waits import judged
from perfmagic.base import units
from perfmagic.base.language import chained, counted, phrase, sentences
from perfmagic.trace.columns import Int64
from perfmagic.trace.model import TraceMeta

if TYPE_CHECKING:
    from perfmagic.analysis.ranks.ranks import Ranks

OUTLIER_FRAC = 0.05  # of the median extent, as of the longest gap
OUTLIER_RATIO = 1.25  # to the median of the other ranks
OTHER_KERNELS = phrase(
    "Compare its kernels with another rank's: more of them mean an uneven share of the work, longer ones more rows or "
    "a slower device"
)
OTHER_COPIES = phrase("Compare its copies with another rank's: only it may load or save data, or use pageable memory")


@dataclass(frozen=True)
class Total:
    """One total by which ranks are compared.

    alone: only ranks that do not communicate are compared. An early rank waits inside a collective while its Python
    runs ahead; a late rank is idle instead, so that its device's wait for Python does not depend on itself alone.
    advice: "" for what only the rank's own findings say.  headline, action: of the catalogue.
    """

    rule: str
    did: str
    value: Callable[[Totals], int]
    advice: str
    headline: str
    action: str
    alone: bool = False


TOTALS = (
    Total(
        "rank_compute",
        phrase("computed"),
        lambda totals: totals.compute_ns,
        OTHER_KERNELS,
        "late_in_compute",
        "late_kernels",
    ),
    Total(
        "rank_idle",
        phrase("waited for Python"),
        lambda totals: totals.waited_for_host_ns,
        "",
        "rank_waits",
        "own_python",
        alone=True,
    ),
    Total(
        "rank_copies",
        phrase("copied"),
        lambda totals: totals.copy_ns,
        OTHER_COPIES,
        "late_in_copies",
        "late_copies",
    ),
)


def totals(job: Ranks) -> list[RankFinding]:
    """The ranks whose totals stand out; where the files hold other steps, that."""
    if len(job.ranks) < 2:
        return []
    steps = {rank: summary.steps for rank, summary in job.summaries.items()}
    if len(set(steps.values())) > 1:
        return [_other_steps(steps)]
    if not any(steps.values()) and (job.matching.refused or not job.matching.n):
        return []  # nothing says that the files cover the same time of the job
    communicate = any(summary.totals.communication_ns for summary in job.summaries.values())
    outliers = []
    for total in TOTALS:
        if total.alone and communicate:
            continue
        values = [total.value(job.summaries[rank].totals) for rank in job.ranks]
        i = int(np.argmax(values))
        others_ns = _others_median(values, i)
        if values[i] - others_ns >= OUTLIER_FRAC * job.extent_ns and values[i] >= OUTLIER_RATIO * others_ns:
            outliers.append(_outlier(job, total, i, values))
    return outliers


def _outlier(job: Ranks, total: Total, i: int, values: list[int]) -> RankFinding:
    rest = np.delete(np.array(values), i)
    median, least, most = (units.duration(float(ns)) for ns in (np.median(rest), rest.min(), rest.max()))
    others = phrase("the others {time} in the median ({least} to {most})", time=median, least=least, most=most)
    if len(rest) == 1:
        others = phrase("rank {rank} {time}", rank=job.ranks[1 - i], time=median)
    longer_ns = round(values[i] - float(np.median(rest)))
    longer = {"rank": job.ranks[i], "time": units.duration(longer_ns), "others": job.others(i)}
    return RankFinding(
        rule=total.rule,
        cost_ns=longer_ns,
        cause=phrase("rank {rank} {did} longer", rank=job.ranks[i], did=total.did),
        detail=phrase(": {time}, {others}", time=units.duration(values[i]), others=others),
        ranks=(job.ranks[i],),
        advice=total.advice or phrase("Look at its own findings, and at {place}", place=job.where_to_look),
        headline=headline(total.headline, **longer),
        action=action(total.action, rank=job.ranks[i]),
    )


def _other_steps(steps: Mapping[int, tuple[int, ...]]) -> RankFinding:
    least, most = min(steps, key=lambda r: len(steps[r])), max(steps, key=lambda r: len(steps[r]))
    if least == most:  # as many, but others
        most = next(rank for rank in steps if steps[rank] != steps[least])
    return RankFinding(
        rule="other_steps",
        cost_ns=None,
        cause=phrase("ranks recorded different steps"),
        detail=phrase(
            ": rank {rank} has {steps}, rank {other} {other_steps}. Their totals are not compared",
            rank=most,
            steps=_numbers(steps[most]),
            other=least,
            other_steps=_numbers(steps[least]),
        ),
        ranks=(most, least),
        advice=phrase("Give every rank the same torch.profiler.schedule"),
    )


def _numbers(steps: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, steps[:3])) + (", …" if len(steps) > 3 else "")
    return counted(len(steps), "{n} step ({steps})", "{n} steps ({steps})", steps=shown) if steps else phrase("none")


# How far apart ranks of files began: start-up is one line, and nothing in it is taken for a straggler.


def start_up(job: Ranks) -> list[RankFinding]:
    """How far apart the ranks began with what is judged; nothing of cells, which begin on all ranks together."""
    starts = [job.summaries[rank].start for rank in job.ranks]
    came = _came_to_start(job)
    if came is None or not all(start.is_file for start in starts):
        return []
    last = max(came, key=lambda rank: came[rank])
    apart_ns = came[last] - min(came.values())
    if apart_ns < job.notable_ns:
        return []
    steps = {start.step for start in starts if start.step is not None}
    time = units.duration(apart_ns)
    since = phrase("Steps are judged from step {n} on", n=max(steps)) if steps else phrase("What follows is judged")
    return [
        RankFinding(
            rule="ranks_start_up",
            cost_ns=None,
            cause=phrase("start-up: ranks began up to {time} apart, rank {rank} last", time=time, rank=last),
            detail=phrase(". {sentence}", sentence=phrase("{since}, each rank by its own start", since=since)),
            ranks=(last,),
            headline=headline("ranks_start_up", time=time, rank=last),
        )
    ]


def _came_to_start(job: Ranks) -> dict[int, int] | None:
    """When each rank came to the start-up's collective that they came to furthest apart; without one, when it began.

    In ns. None where nothing tells how the clocks fit together.
    """
    ahead = [
        (int(ahead_ns.max()), group.ranks, ahead_ns)
        for group in job.matching.groups
        for ahead_ns in group.waits.ahead_ns[:, ~judged(group, job.summaries)].T
    ]
    if ahead:
        _, ranks, ahead_ns = max(ahead, key=lambda each: each[0])
        return dict(zip(ranks, (-ahead_ns).tolist(), strict=True))
    clocks = job.alignment
    if clocks.residual_ns is None and not clocks.comparable:
        return None
    return {rank: job.began_on_axis_ns(rank) for rank in job.ranks}


# Whether ranks waited for a core: the first suspect where several ranks share few cores.

EXPLAINS_FRAC = 0.5  # of what others wait for a late rank: waiting for a core so much longer may be why
LENGTHENS_FRAC = 0.1  # of the extent: shorter waits do not explain how long it took


def is_crowded(job: Ranks) -> bool:
    """Whether ranks waited for cores about as long as they communicated: then that is no transfer."""
    waited = [summary.meta.waited_for_core_ns or 0 for summary in job.summaries.values()]
    exposed = [row.exposed_communication_ns for row in job.table]
    return float(np.median(waited)) >= EXPLAINS_FRAC * float(np.median(exposed)) > 0


def explains_lateness(job: Ranks, of_late: Sequence[RankFinding]) -> bool:
    """Whether waiting for a core may be why ranks are late, half of what others wait for them, or why all take long.

    of_late: the findings about late ranks. A rank whose own code sleeps is late for longer than it waited for a core.
    """
    waited = _waited_ns(job)
    if of_late and all(summary.lane.knows_core for summary in job.summaries.values()):
        return False  # the findings say it
    if not of_late:
        return max(waited.values(), default=0) >= LENGTHENS_FRAC * job.extent_ns
    first = of_late[0]
    in_time = [ns for rank, ns in waited.items() if rank not in first.ranks]
    usual_ns = float(np.median(in_time)) if in_time else 0.0  # what all wait makes none late
    return max(waited.get(rank, 0) for rank in first.ranks) - usual_ns >= EXPLAINS_FRAC * (first.cost_ns or 0)


def _waited_ns(job: Ranks) -> dict[int, int]:
    """By rank how long it waited for a core, of those whose scheduler tells."""
    waited = {rank: job.summaries[rank].meta.waited_for_core_ns for rank in job.ranks}
    return {rank: ns for rank, ns in waited.items() if ns is not None}


def cores(job: Ranks, of_late: Sequence[RankFinding] = ()) -> list[RankFinding]:
    """The rank that waited longest for a core, where the system's scheduler tells; nothing below 2 % of the extent.

    What a rank waited is that of all its threads added up, so that it may be more than the time that passed.
    of_late: the findings about late ranks.
    """
    metas = {rank: job.summaries[rank].meta for rank in job.ranks}
    waited = _waited_ns(job)
    if not waited:
        return []
    most = max(waited, key=lambda rank: waited[rank])
    if waited[most] < max(1, job.notable_ns):
        return []
    n_here = sum(_beside(meta, metas[most]) for meta in metas.values())
    n_cores = metas[most].cores
    others = [ns for rank, ns in waited.items() if rank != most]
    beside = chained(
        "{a}{b}",
        (
            phrase(", rank {rank} {time}", rank=rank, time=units.duration(ns))
            for rank, ns in waited.items()
            if rank != most
        ),
    )
    if len(others) > 1:
        beside = phrase(", the others {time} in the median", time=units.duration(float(np.median(others))))
    remedy = _remedy([meta for meta in metas.values() if _beside(meta, metas[most])], n_cores, most)
    before = explains_lateness(job, of_late)
    cause = phrase("rank {rank} waited {time} for a core", rank=most, time=units.duration(waited[most]))
    if n_cores:
        ranks, on = counted(n_here, "{n} rank", "{n} ranks"), counted(n_cores, "{n} core", "{n} cores")
        cause = phrase("{ranks} on {cores}: {fact}", ranks=ranks, cores=on, fact=cause)
    return [
        RankFinding(
            rule="waited_for_core",
            cost_ns=None,
            cause=cause,
            detail=phrase("{beside}; all threads of a rank added up", beside=beside),
            ranks=(most,),
            advice=phrase("{advice}, before you look for a cause in the code", advice=remedy.advice)
            if before
            else remedy.advice,
            action=remedy.action if before else "",
        )
    ]


def _remedy(here: Sequence[TraceMeta], n_cores: int | None, rank: int) -> Remedy:
    """What to do for ranks of one host: fewer threads only where they have more than their share of the cores."""
    fit = max(1, (n_cores or 1) // len(here))
    most = max(meta.threads or 1 for meta in here)
    if n_cores is not None and most > fit:
        fewer = phrase(
            "A rank computes with {n} threads: torch.set_num_threads({fit}) in each rank, or OMP_NUM_THREADS={fit} "
            "before it starts, gives it its share of the cores",
            n=most,
            fit=fit,
        )
        several = phrase("{advice}; and run no more ranks than cores", advice=fewer)
        return Remedy(several if len(here) > n_cores else fewer, action("threads", n=fit))
    if n_cores is not None and len(here) > n_cores:
        return Remedy(phrase("Run no more ranks than cores"), action("fewer_ranks"))
    if any(device.simulated for meta in here for device in meta.devices):
        advice = phrase("Each stream of a simulated device is a thread beside Python: fewer ranks leave them cores")
        return Remedy(advice, action("fewer_streams"))
    return Remedy(phrase("See what else runs there"), action("other_load", rank=rank))


def _beside(meta: TraceMeta, other: TraceMeta) -> bool:
    """Whether two ranks ran on one host, as far as their records say."""
    return meta.boot == other.boot


# That a rank moves more in all_to_all than its peers, and works more on what comes to it: a hot expert.

UNEVEN_RATIO = 1.5  # times the median of the other ranks' bytes
WORK_RATIO = 1.5  # of work to bytes, either way: work that grows with them is theirs


def uneven(job: Ranks) -> list[RankFinding]:
    """The ranks whose bytes in all_to_all cost time: in the transfer, or in work that grows with them."""
    found: dict[int, RankFinding] = {}
    for row in job.collectives:
        if row.imbalance is None or row.rank_bytes is None:
            continue
        place = int(np.argmax(row.rank_bytes))
        usual = _others_median(row.rank_bytes, place)
        if usual and row.rank_bytes[place] >= UNEVEN_RATIO * usual and row.ranks[place] not in found:
            finding = _uneven(job, row, row.ranks[place], row.rank_bytes[place] / usual)
            if (finding.cost_ns or 0) >= max(1.0, job.notable_ns):
                found[row.ranks[place]] = finding
    return list(found.values())


def _uneven(job: Ranks, row: CollectiveOfRanks, rank: int, ratio: float) -> RankFinding:
    sizes = row.rank_bytes or ()
    moved_ns = round(row.transfer_ns * (1 - float(np.mean(sizes)) / max(sizes)))
    work = [cause for cause in causes_of(job) if _grows_with(cause, rank, ratio)]
    of_work_ns = sum(cause.gain_ns for cause in work)
    cost, n = moved_ns + of_work_ns, units.significant(ratio, 2)
    facts = (
        phrase("{size}, the others {usual} in the median", **_sizes(sizes, max(sizes))),
        phrase("with equal bytes the transfers take {time} less", time=units.duration(moved_ns)) if moved_ns else "",
        phrase("its work on them costs {time}", time=units.duration(of_work_ns)) if work else "",
    )
    return RankFinding(
        rule="uneven_all_to_all",
        cost_ns=cost,
        cause=phrase("rank {rank} moves {n} × its peers' bytes in all_to_all", rank=rank, n=n),
        detail=phrase(": {detail}", detail=sentences(*facts)),
        ranks=(rank,),
        headline=headline("uneven_all_to_all", rank=rank, n=n),
        action=action("uneven_all_to_all", rank=rank),
        line=work[0].line if work else 0,
        window_ns=work[0].span_ns if work else _longest_ns(job, row),
    )


def _grows_with(cause: Cause, rank: int, ratio: float) -> bool:
    """Whether a cause is work of a rank that takes about as many times its peers' as the rank has bytes."""
    usual_ns = cause.own_ns - cause.excess_ns
    if cause.ranks != (rank,) or cause.phase == LINK or usual_ns <= 0:
        return False
    return 1 / WORK_RATIO <= cause.own_ns / usual_ns / ratio <= WORK_RATIO


def _sizes(sizes: Sequence[int], most: int) -> dict[str, str]:
    return {"size": units.size(most), "usual": units.size(_others_median(sizes, sizes.index(most)))}


def _longest_ns(job: Ranks, row: CollectiveOfRanks) -> tuple[int, int] | None:
    """When the longest transfer of a kind moved data."""
    alike = [each for each in job.meetings if each.group == row.group and each.kind.startswith(UNEVEN)]
    longest = max(alike, key=lambda each: max(each.transfer_ns), default=None)
    return None if longest is None else (longest.met_ns, max(longest.end_ns))


def _others_median(values: Sequence[int] | Int64, i: int) -> float:
    """The median of all values but one."""
    return float(np.median(np.delete(np.asarray(values), i)))
