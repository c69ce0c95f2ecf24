"""What works in this environment, in words."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform

from perfmagic.capture.devices.backends import active_backends, cuda_available, sim_loaded, torch_if_imported


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
