"""On what a benchmark ran: versions and the machine, never its name, its user or a path. What works here, in words."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from perfmagic.base.imported import sim_loaded, torch_if_imported
from perfmagic.capture.devices.backends import active_backends, cuda_available
from perfmagic.trace.samples import Plain


def processor() -> str:
    """What the processor calls itself, as the system tells it; empty where it does not."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def environment() -> dict[str, Plain]:
    """Versions of Python and of what is imported already, the system, the processor, its cores, and torch's threads."""
    facts: dict[str, Plain] = {
        "perfmagic": str(sys.modules["perfmagic"].__version__),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count() or 1,
    }
    torch = torch_if_imported()
    if torch is not None and hasattr(torch, "version"):
        facts["torch"] = str(torch.__version__)
        facts["threads"] = int(torch.get_num_threads())
        for name in ("cuda", "hip"):
            if getattr(torch.version, name, None):
                facts[name] = str(getattr(torch.version, name))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        facts["numpy"] = str(numpy.__version__)
    return facts


def diagnosis() -> dict[str, str]:
    """Versions, devices and what each can give, as ordered text; imports nothing that is not loaded."""
    return {
        "perfmagic": _version("perfmagic"),
        "python": f"{platform.python_version()} on {os.cpu_count()} cores",
        "ipython": _version("ipython"),
        "torch": _torch(),
        "cuda": _cuda(),
        "sim": "loaded" if sim_loaded() else 'not loaded; perfmagic.device("sim") loads it',
        "in use": ", ".join(i.label for b in active_backends() for i in b.infos()) or "no device yet",
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _torch() -> str:
    torch = torch_if_imported()
    if torch is not None:
        return str(torch.__version__)
    return "installed, not imported yet" if importlib.util.find_spec("torch") else "not installed: traces can be read"


def _cuda() -> str:
    if torch_if_imported() is None:
        return "not known before torch is imported"
    return "available" if cuda_available() else "none: returns, done and timelines come from sim or the CPU"
