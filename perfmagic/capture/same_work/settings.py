"""Settings of the process: what one function sets affects the other, too."""

from __future__ import annotations

import decimal
import gc
import os
import signal
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from perfmagic.base.imported import sim_loaded, torch_if_imported

_TORCH = {
    "set_num_threads": "get_num_threads",
    "set_float32_matmul_precision": "get_float32_matmul_precision",
    "set_default_dtype": "get_default_dtype",
    "set_grad_enabled": "is_grad_enabled",
    "use_deterministic_algorithms": "are_deterministic_algorithms_enabled",
}
_BACKENDS = (
    ("cudnn", "benchmark"), ("cudnn", "allow_tf32"), ("cudnn", "deterministic"), ("cuda.matmul", "allow_tf32"),
    ("cuda.matmul", "allow_fp16_reduced_precision_reduction"),
    ("cuda.matmul", "allow_bf16_reduced_precision_reduction"),
)  # fmt: skip


_MORE_TORCH = (
    ("torch.autograd.set_detect_anomaly", "is_anomaly_enabled", "set_anomaly_enabled"),
    ("torch.backends.mkldnn.enabled", "_C._get_mkldnn_enabled", "_C._set_mkldnn_enabled"),
    ("torch.backends.nnpack.enabled", "_C._get_nnpack_enabled", "_C._set_nnpack_enabled"),
    ("torch.backends.cuda.enable_math_sdp", "_C._get_math_sdp_enabled", "_C._set_sdp_use_math"),
    ("torch.backends.cuda.enable_flash_sdp", "_C._get_flash_sdp_enabled", "_C._set_sdp_use_flash"),
)
_LEAST = np.float32(1e-40)


class Settings:
    """Detects changed settings of the process, and restores them."""

    def __init__(self) -> None:
        self._known = {**_plain_settings(), **_torch_settings()}
        self._was = {name: read() for name, (read, _) in self._known.items()}

    def changed(self) -> str:
        """The first setting that has changed, "" for none. All are restored."""
        found = ""
        for name, (read, write) in self._known.items():
            if read() != self._was[name]:
                found = found or name
                with suppress(Exception):
                    write(self._was[name])
        return found


_Setting = tuple[Callable[[], Any], Callable[[Any], object]]


def _plain_settings() -> dict[str, _Setting]:
    settings: dict[str, _Setting] = {
        "sys.setswitchinterval": (sys.getswitchinterval, sys.setswitchinterval),
        "gc.enable": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        "sys.settrace": (sys.gettrace, sys.settrace),
        "sys.setprofile": (sys.getprofile, sys.setprofile),
        "gc.set_threshold": (gc.get_threshold, lambda limits: gc.set_threshold(*limits)),
        "gc.callbacks": (lambda: [*gc.callbacks], lambda were: gc.callbacks.__setitem__(slice(None), were)),
        "numpy.seterr": (np.geterr, lambda were: np.seterr(**were)),
        "decimal's context": (_decimal, _set_decimal),
        "tracemalloc.start": (tracemalloc.is_tracing, lambda on: None if on else tracemalloc.stop()),
    }
    if hasattr(os, "sched_getaffinity"):
        settings["os.sched_setaffinity"] = (
            lambda: os.sched_getaffinity(0),
            lambda cores: os.sched_setaffinity(0, cores),
        )
    if hasattr(os, "getpriority"):
        settings["os.nice"] = (
            lambda: os.getpriority(os.PRIO_PROCESS, 0), lambda n: os.setpriority(os.PRIO_PROCESS, 0, n)
        )  # fmt: skip
    if hasattr(signal, "getitimer"):
        settings["signal.setitimer"] = (
            lambda: signal.getitimer(signal.ITIMER_REAL)[1], lambda s: signal.setitimer(signal.ITIMER_REAL, s, s)
        )  # fmt: skip
    for name in ("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2"):
        if hasattr(signal, name):
            # not restored: with the default handler, a function's next alarm would end the process
            settings[f"the handler of {name}"] = partial(signal.getsignal, getattr(signal, name)), lambda _: None
    return settings


def _decimal() -> tuple[int, str]:
    context = decimal.getcontext()
    return context.prec, context.rounding


def _set_decimal(was: tuple[int, str]) -> None:
    context = decimal.getcontext()
    context.prec, context.rounding = was


def _torch_settings() -> dict[str, _Setting]:
    torch = torch_if_imported()
    if torch is None or not hasattr(torch, "get_num_threads"):
        return {}
    settings: dict[str, _Setting] = {
        f"torch.{write}": (getattr(torch, read), getattr(torch, write)) for write, read in _TORCH.items()
    }
    for path, name in _BACKENDS:
        owner: Any = torch.backends
        for part in path.split("."):
            owner = getattr(owner, part, None)
        with suppress(Exception):
            getattr(owner, name)
            settings[f"torch.backends.{path}.{name}"] = (partial(getattr, owner, name), partial(setattr, owner, name))
    if hasattr(torch, "is_autocast_enabled"):
        settings["torch.autocast"] = (
            lambda: torch.is_autocast_enabled("cpu"),
            lambda on: torch.set_autocast_enabled("cpu", on),
        )
    for name, reads, writes in _MORE_TORCH:
        with suppress(AttributeError):
            settings[name] = attrgetter(reads)(torch), attrgetter(writes)(torch)
    # no function reports it: a denormal number times one is 0 if denormals are flushed
    settings["torch.set_flush_denormal"] = lambda: bool(_LEAST * np.float32(1.0) == 0), torch.set_flush_denormal
    from perfmagic.capture.devices import torch_private as private

    settings["torch's function modes"] = private.modes_entered, private.leave_modes
    settings["operators by torch.library"] = private.own_operators, lambda _: None
    if sim_loaded():
        sim = torch.sim
        settings["torch.sim.set_stream"] = (sim.current_stream, sim.set_stream)
    if torch.cuda.is_initialized():
        settings["torch.cuda.set_stream"] = (torch.cuda.current_stream, torch.cuda.set_stream)
        settings["torch.cuda.set_device"] = (torch.cuda.current_device, torch.cuda.set_device)
    return settings
