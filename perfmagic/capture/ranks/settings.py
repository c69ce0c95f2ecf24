"""What a rank is started with."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# more than one thread forbids forking, and OpenBLAS starts one for each core when numpy is imported
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Settings:
    """One session of ranks.

    world: how many.  device: "auto", "cuda", "sim" or "cpu".  backend: of torch.distributed, "" for the one that fits.
    program: the module that runs a cell in a rank, by its name; it has main(wire, rank, settings).
    grace_s: how long a standstill must last before it is said.  connect_s: until ranks that start must have met.
    """

    world: int
    program: str
    device: str = "auto"
    backend: str = ""
    colors: str = ""
    grace_s: float = 3.0
    connect_s: float = 60.0
    operation_s: float = 1800.0
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)

    def message(self) -> dict[str, Any]:
        """Ready for a wire."""
        return asdict(self)


def surroundings(rank: int, world: int) -> dict[str, Any]:
    """What a rank takes over from the notebook, and torchrun's variables."""
    names = {
        "RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0,
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": LOOPBACK,
    }  # fmt: skip
    local = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    environ = {**os.environ, **local, **{name: str(value) for name, value in names.items()}}
    return {"rank": rank, "path": sys.path, "folder": str(Path.cwd()), "environ": environ}


def take_over(found: dict[str, Any]) -> None:
    """Make this process such a rank."""
    sys.path[:] = found["path"]
    os.chdir(found["folder"])
    os.environ.clear()
    os.environ.update(found["environ"])
