"""On what a benchmark ran: versions and the machine, never its name, its user or a path."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from perfmagic.capture.devices.backends import torch_if_imported
from perfmagic.trace.samples import Plain


def processor() -> str:
    """What the processor calls itself, as the system tells it; empty where it does not."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def environment() -> dict[str, Plain]:
    """Versions of Python and of what is imported already, the system, the processor and its cores."""
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
        for name in ("cuda", "hip"):
            if getattr(torch.version, name, None):
                facts[name] = str(getattr(torch.version, name))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        facts["numpy"] = str(numpy.__version__)
    return facts
