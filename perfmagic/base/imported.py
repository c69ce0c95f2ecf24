"""What this process has imported already: asking imports nothing."""

from __future__ import annotations

import sys
from typing import Any


def torch_if_imported() -> Any | None:
    """torch where the user has imported it already, else None; never imports it."""
    return sys.modules.get("torch")


def jax_if_imported() -> Any | None:
    """jax where the user has imported it already, else None, also while its import is under way."""
    jax = sys.modules.get("jax")
    return jax if hasattr(jax, "live_arrays") and hasattr(jax, "profiler") else None


def sim_loaded() -> bool:
    """Whether the simulated device has been loaded; asking does not load it."""
    sim = sys.modules.get("perfmagic.sim")
    return sim is not None and bool(sim.loaded())
