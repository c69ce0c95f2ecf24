"""perfmagic.load(): what the save() of any result wrote."""

from __future__ import annotations

import os

from perfmagic.analysis.bench.saved import format_of, text_of
from perfmagic.api import benchmarks
from perfmagic.api.opening import open_trace
from perfmagic.base.errors import OptionError
from perfmagic.base.files import local_path
from perfmagic.results import BenchResult, CompareResult, RanksResult, RanksSweep, SweepResult, TimelineResult
from perfmagic.results.ranks import is_saved, is_sweep

Loaded = BenchResult | SweepResult | CompareResult | TimelineResult | RanksResult | RanksSweep


def load(path: str | os.PathLike[str]) -> Loaded:
    """The benchmark, sweep, comparison or timeline that save() wrote; of ranks and sweeps over them, the folder.

    Raises OptionError for other files and folders, TraceError where a trace cannot be read.

    >>> file = perfmagic.bench(lambda: sorted(range(100)), samples=20, name="sorting").save("sorting.json")
    >>> perfmagic.load("sorting.json").name
    'sorting'
    """
    if is_saved(path):
        return RanksSweep.load(path) if is_sweep(path) else RanksResult.load(path)
    if local_path(path).is_dir():
        hint = "perfmagic.open_traces(folder) opens traces, .ranks has those of one job"
        raise OptionError(f"{path} is a folder that no result was saved as", hint=hint)
    return open_trace(path) if _is_trace(path) else benchmarks.load(path)


def _is_trace(path: str | os.PathLike[str]) -> bool:
    if str(path).endswith((".npz", ".gz")):
        return True
    text = text_of(path)
    return not format_of(text) and '"traceEvents"' in text
