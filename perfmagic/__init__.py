"""perfmagic: when Python queued work and when the device executed it, inside a notebook cell.

    %load_ext perfmagic

gives %%timeline, %%bench, %%syncbench and %trace. The same as functions: perfmagic.timeline(), perfmagic.bench(fn),
perfmagic.syncbench(fn), perfmagic.open_trace(path). Importing this package imports nothing heavy: names come in when
they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Benchmark": "perfmagic.api",
    "bench": "perfmagic.benchmarks",
    "compare": "perfmagic.benchmarks",
    "device": "perfmagic.api",
    "devices": "perfmagic.api",
    "last": "perfmagic.api",
    "load": "perfmagic.benchmarks",
    "measurement": "perfmagic.benchmarks",
    "open_trace": "perfmagic.api",
    "open_traces": "perfmagic.api",
    "rank_findings": "perfmagic.api",
    "sweep": "perfmagic.benchmarks",
    "syncbench": "perfmagic.benchmarks",
    "synchronize": "perfmagic.api",
    "timeline": "perfmagic.api",
    "trace_handler": "perfmagic.api",
    "Pace": "perfmagic.api",
    "PerfmagicError": "perfmagic.errors",
}

__all__ = [
    "Benchmark",
    "Pace",
    "PerfmagicError",
    "__version__",
    "bench",
    "compare",
    "device",
    "devices",
    "last",
    "load",
    "load_ipython_extension",
    "measurement",
    "open_trace",
    "open_traces",
    "rank_findings",
    "sweep",
    "syncbench",
    "synchronize",
    "timeline",
    "trace_handler",
    "unload_ipython_extension",
]

if TYPE_CHECKING:
    from perfmagic.api import (
        Benchmark,
        Pace,
        device,
        devices,
        last,
        open_trace,
        open_traces,
        rank_findings,
        synchronize,
        timeline,
        trace_handler,
    )
    from perfmagic.benchmarks import bench, compare, load, measurement, sweep, syncbench
    from perfmagic.errors import PerfmagicError


def __getattr__(name: str) -> Any:
    if name == "testing":
        return importlib.import_module("perfmagic.testing")
    if name not in _HOMES:
        raise AttributeError(f"module 'perfmagic' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "testing"})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext perfmagic`: add the magics."""
    from perfmagic.magics.registry import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext perfmagic`: leave the shell as it was before."""
    from perfmagic.magics.registry import unload

    unload(shell)
