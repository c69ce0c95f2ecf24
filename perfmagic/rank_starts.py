"""What the ranks of a notebook or script are started with, and beside what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from perfmagic.capture.ranks.settings import Settings
from perfmagic.show import running_shell

if TYPE_CHECKING:
    from perfmagic.capture.ranks.cluster import Cluster

PROGRAM = "perfmagic.magics.in_rank.program"
PRELOAD = (  # what every rank needs; nothing that starts a thread or touches CUDA
    "torch", "torch.distributed", "torch.nn.parallel", "perfmagic.api", PROGRAM, "perfmagic.capture.recording.session",
    "perfmagic.capture.devices.sim", "perfmagic.trace.formats.npz",
)  # fmt: skip
WITH_SIM = "perfmagic.capture.ranks.with_sim"
GRACE = "PERFMAGIC_RANKS_GRACE_S"  # how long a standstill lasts before it is said, for tests


def settings_of(world: int, device: str, backend: str) -> Settings:
    """What ranks of this notebook or script are started with."""
    shell = running_shell()
    return Settings(
        world,
        PROGRAM,
        device=device,
        backend=backend,
        colors=str(getattr(shell, "colors", "")) if shell is not None else "nocolor",
        grace_s=float(os.environ.get(GRACE, "3")),
    )


def preload(device: str) -> tuple[str, ...]:
    """What a fork server imports for ranks on a device; it must not ask CUDA which there are."""
    has_gpu = any(Path(node).exists() for node in ("/dev/nvidia0", "/dev/kfd", "/dev/dxg"))
    return (*PRELOAD, WITH_SIM) if device == "sim" or (device == "auto" and not has_gpu) else PRELOAD


def cluster_of(name: str) -> Cluster:
    """A running ipyparallel cluster by its profile, id or file. Raises CaptureError where there is none."""
    from perfmagic.capture.ranks.cluster import cluster_named

    return cluster_named(name)
