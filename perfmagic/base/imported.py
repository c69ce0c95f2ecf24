"""What this process has imported already: asking imports nothing."""

from __future__ import annotations

import sys
from typing import Any


def torch_if_imported() -> Any | None:
    """torch where the user has imported it already, else None; never imports it."""
    return sys.modules.get("torch")


def sim_loaded() -> bool:
    """Whether the simulated device has been loaded; asking does not load it."""
    sim = sys.modules.get("perfmagic.sim")
    return sim is not None and bool(sim.loaded())
