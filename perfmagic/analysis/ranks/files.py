"""What the files of a job's ranks say by themselves: which of them are missing, and which cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from perfmagic import units
from perfmagic.analysis.ranks.finding import RankFinding

_SHOWN = 6  # stretches of ranks that a sentence lists
_NAMED = 2  # files that it names


def unread(problems: Sequence[str], n_files: int) -> list[RankFinding]:
    """That some files cannot be read.  problems: why, a sentence each that names its file."""
    if not problems:
        return []
    more = f"; and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return [
        RankFinding(
            rule="unread",
            cost_ns=None,
            cause=f"{units.count(len(problems))} of {units.plural(n_files, 'file')} cannot be read",
            detail=f": {'; '.join(problems[:_NAMED])}{more}",
            ranks=(),
            advice="Copy them again, or record them again",
        )
    ]


def missing(ranks: Iterable[int], world_size: int | None) -> list[RankFinding]:
    """Which ranks of the job have no file; nothing where no file says how many there are."""
    known = set(ranks)
    absent = [rank for rank in range(world_size or 0) if rank not in known]
    if not absent:
        return []
    n, of = len(absent), units.plural(world_size or 0, "rank")
    which = f"rank{'' if n == 1 else 's'} {stretches(absent)}"
    return [
        RankFinding(
            rule="missing_ranks",
            cost_ns=None,
            cause=f"{units.count(n)} of {of} {'has' if n == 1 else 'have'} no file",
            detail=f": {which}. Others may have waited for {'it' if n == 1 else 'them'}, and nothing here says so",
            ranks=(),
            advice="Add their files",
        )
    ]


def stretches(ranks: Sequence[int]) -> str:
    """Rising numbers as people list them: "3, 17–19, 40, …"."""
    cuts = np.flatnonzero(np.diff(ranks) > 1) + 1
    parts = [part.tolist() for part in np.split(np.asarray(ranks), cuts)]
    words = [str(part[0]) if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts]
    return ", ".join(words[:_SHOWN]) + (", …" if len(words) > _SHOWN else "")


def without_match(comm_names: str | None, n_comm: Mapping[int, int]) -> bool:
    """Whether a rule for communication matched nothing of any rank.  n_comm: communication ops by rank."""
    return comm_names is not None and not any(n_comm.values())
