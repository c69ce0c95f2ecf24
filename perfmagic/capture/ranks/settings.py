"""What a rank is started with."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# more than one thread forbids forking, and OpenBLAS starts one for each core when numpy is imported
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LOOPBACK = "127.0.0.1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # one for each start of a kernel


@dataclass(frozen=True)
class Settings:
    """One session of ranks.

    world: how many.  device: "auto", "cuda", "sim" or "cpu".  backend: of torch.distributed, "" for the one that fits.
    address: where rank 0 listens for the others.  apart: they are of several hosts, whose clocks have to be compared.
    program: the module that runs a cell in a rank, by its name; it has main(wire, rank, settings).
    threads: of torch, of all ranks together; 0 for the cores of each host.
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
    address: str = LOOPBACK
    apart: bool = False
    threads: int = 0

    def message(self) -> dict[str, Any]:
        """Ready for a wire."""
        return asdict(self)


def surroundings(rank: int, world: int, others: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What a rank takes over from the process that starts it, and torchrun's variables.

    others: variables that differ where not all ranks are of this machine.
    """
    names = {
        "RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0,
        "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": LOOPBACK,
    }  # fmt: skip
    environ = {**os.environ, **{name: str(value) for name, value in names.items()}, **(others or {})}
    if environ["MASTER_ADDR"] == LOOPBACK and sys.platform == "linux":
        environ["GLOO_SOCKET_IFNAME"] = "lo"
    return {"rank": rank, "path": sys.path, "folder": str(Path.cwd()), "environ": environ}


def boot() -> str:
    """What tells this run of this host from all others, whose clocks are not its own; "" where the system is silent."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def take_over(found: dict[str, Any]) -> None:
    """Make this process such a rank."""
    sys.path[:] = found["path"]
    os.chdir(found["folder"])
    os.environ.clear()
    os.environ.update(found["environ"])
