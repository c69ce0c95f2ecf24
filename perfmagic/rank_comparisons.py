"""The function behind %compare for sweeps over numbers of ranks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

from perfmagic.errors import OptionError
from perfmagic.results import RanksSweep, RanksSweepComparison
from perfmagic.results.ranks_folder import is_sweep

Sweeps: TypeAlias = "RanksSweep | str | os.PathLike[str]"


def is_rank_sweep(one: Any) -> bool:
    """Whether it is a sweep over numbers of ranks, or names the folder that one was saved as."""
    return isinstance(one, RanksSweep) or (isinstance(one, (str, os.PathLike)) and is_sweep(one))


def compare_sweeps(first: Sweeps, second: Sweeps, *, names: Sequence[str] = ()) -> RanksSweepComparison:
    """What changed from the first sweep over numbers of ranks to the second?

    first, second: results, or folders that they were saved as.  names: what to call the two, A and B if left out.
    Raises OptionError where one is weak scaling and the other strong, and where no number of ranks is in both.
    """
    if names and len(names) != 2:
        raise OptionError(f"compare: {len(names)} names given for 2 sweeps")
    a, b = names or ("A", "B")
    opened = [one if isinstance(one, RanksSweep) else RanksSweep.load(one) for one in (first, second)]
    return RanksSweepComparison.of(opened[0], opened[1], ("A", "B") if a == b else (a, b))
