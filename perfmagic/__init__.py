"""perfmagic: when Python queued work and when the device executed it, inside a notebook cell.

    %load_ext perfmagic

gives %%timeline, %%bench, %%syncbench, %compare and %trace. The same as functions: perfmagic.timeline(),
perfmagic.bench(f), perfmagic.syncbench(f), perfmagic.compare(f, g), perfmagic.open_trace(path). Importing this package
imports nothing heavy: a name's module is imported when the name is first used.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public names by module
_NAMES = {
    "perfmagic.predict.gpus": "Peaks",
    "perfmagic.api.benchmarks": "bench measurement sweep syncbench",
    "perfmagic.api.comparisons": "compare",
    "perfmagic.api.models": "DeviceModel",
    "perfmagic.api.opening": "open_snapshot open_trace open_traces",
    "perfmagic.api.ranks.files": "open_ranks",
    "perfmagic.api.ranks.session": "ranks",
    "perfmagic.api.ranks.sweeps": "sweep_ranks",
    "perfmagic.api.rooflines": "roofline",
    "perfmagic.api.saved": "load",
    "perfmagic.api.timelines": "device devices explain graph last rank_findings synchronize timeline trace_handler "
    "Benchmark Pace",
    "perfmagic.base.errors": "CaptureError DeviceError KeywordError OptionError PerfmagicError RanksError "
    "TorchMissingError TraceError",
    "perfmagic.base.language": "set_language",
    "perfmagic.capture.bench.spec": "Work",
    "perfmagic.results": "BenchResult CompareResult RanksResult TimelineResult",  # perfmagic.rows has the rest
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_MODULES = {
    "lessons": "perfmagic.lessons",
    "rows": "perfmagic.rows",
    "testing": "perfmagic.testing",
    "units": "perfmagic.base.units",
}

__all__ = [
    "BenchResult", "Benchmark", "CaptureError", "CompareResult", "DeviceError", "DeviceModel", "OptionError", "Pace",
    "Peaks", "PerfmagicError", "RanksError", "RanksResult", "TimelineResult", "TorchMissingError", "TraceError", "Work",
    "bench", "compare", "device", "devices", "explain", "graph", "last", "load", "measurement", "open_ranks",
    "open_snapshot", "open_trace", "open_traces", "rank_findings", "ranks", "roofline", "rows", "set_language",
    "sweep", "sweep_ranks", "syncbench", "synchronize", "timeline", "trace_handler",
]  # fmt: skip

if TYPE_CHECKING:
    from perfmagic import rows
    from perfmagic.api.benchmarks import bench, measurement, sweep, syncbench
    from perfmagic.api.comparisons import compare
    from perfmagic.api.models import DeviceModel
    from perfmagic.api.opening import open_snapshot, open_trace, open_traces
    from perfmagic.api.ranks.files import open_ranks
    from perfmagic.api.ranks.session import ranks
    from perfmagic.api.ranks.sweeps import sweep_ranks
    from perfmagic.api.rooflines import roofline
    from perfmagic.api.saved import load
    from perfmagic.api.timelines import (
        Benchmark,
        Pace,
        device,
        devices,
        explain,
        graph,
        last,
        rank_findings,
        synchronize,
        timeline,
        trace_handler,
    )
    from perfmagic.base.errors import (
        CaptureError,
        DeviceError,
        OptionError,
        PerfmagicError,
        RanksError,
        TorchMissingError,
        TraceError,
    )
    from perfmagic.base.language import set_language
    from perfmagic.capture.bench.spec import Work
    from perfmagic.predict.gpus import Peaks
    from perfmagic.results import BenchResult, CompareResult, RanksResult, TimelineResult


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)  # found at once the next time
        return value
    if not name.startswith("_") and name in importlib.import_module("perfmagic.rows").__all__:
        return _from_rows(name)
    raise AttributeError(f"module 'perfmagic' has no attribute {name!r}")


def _from_rows(name: str) -> Any:
    """A type under the name it had here, with one warning; kept, since `from perfmagic import …` asks twice."""
    message = f"use perfmagic.rows.{name}: the next version drops perfmagic.{name}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)  # names the line that asked
    row_type = globals()[name] = getattr(importlib.import_module("perfmagic.rows"), name)
    return row_type


def __dir__() -> list[str]:
    """The public names and Python's own, so that Tab offers nothing that was imported for this file."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext perfmagic`: add the magics."""
    from perfmagic.magics.running.registry import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext perfmagic`: leave the shell as it was before, and end the ranks that run."""
    from perfmagic.magics.running.registry import unload

    unload(shell)
    sessions = sys.modules.get("perfmagic.api.ranks.session")
    if sessions is not None:
        sessions.end_for_unload()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where a Jupyter server finds what opens traces from the file browser."""
    return [{"module": "perfmagic.server"}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where `jupyter labextension develop` finds what was built for JupyterLab and Notebook 7."""
    return [{"src": "labextension", "dest": "perfmagic"}]
