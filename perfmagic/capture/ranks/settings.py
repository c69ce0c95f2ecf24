"""What a rank is started with, by perfmagic or by torchrun, srun and mpirun."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perfmagic.base.errors import OptionError

# more than one thread forbids forking, and OpenBLAS starts one for each core when numpy is imported
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LOOPBACK = "127.0.0.1"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # one for each start of a kernel


@dataclass(frozen=True)
class Settings:
    """One session of ranks.

    world: how many.  device: "auto", "cuda", "sim" or "cpu".  backend: of torch.distributed, "" for the one that fits.
    clock: "virtual", or real time.
    address: where rank 0 listens for the others.  apart: they are of several hosts, whose clocks have to be compared.
    program: the module that runs a cell in a rank, by its name; it has main(connection, rank, settings).
    threads: of torch, of all ranks together; 0 for the cores of each host.
    grace_s: how long a hang must last before it is reported.  connect_s: until ranks that start must have met.
    """

    world: int
    program: str
    device: str = "auto"
    backend: str = ""
    clock: str = ""
    colors: str = ""
    grace_s: float = 3.0
    connect_s: float = 60.0
    operation_s: float = 1800.0
    address: str = LOOPBACK
    apart: bool = False
    threads: int = 0

    def message(self) -> dict[str, Any]:
        """As fields of a message."""
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


def adopt(context: dict[str, Any]) -> None:
    """Give this process the path, folder and variables of surroundings()."""
    sys.path[:] = context["path"]
    os.chdir(context["folder"])
    os.environ.clear()
    os.environ.update(context["environ"])


# What torchrun, srun and mpirun tell a process of its place in a job.

# torchrun's variable, then what Slurm, Open MPI and MPICH call it
_NAMES = {
    "RANK": ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    "WORLD_SIZE": ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    "LOCAL_RANK": ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
    "LOCAL_WORLD_SIZE": ("SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
}
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_HINT = (
    "torchrun --nproc-per-node 2 -m perfmagic join train.py sets them; srun and mpirun set the first two and need "
    "MASTER_ADDR and MASTER_PORT of rank 0's host"
)


@dataclass(frozen=True)
class Launched:
    """The place of a process in its job.  agent: torchrun holds the store, and no rank does."""

    rank: int
    world: int
    local_rank: int
    address: str
    port: int
    agent: bool = False


def launched(environ: MutableMapping[str, str] = os.environ) -> Launched:
    """Where a launcher has put this process. torchrun's variables are set where only its launcher's own ones are.

    Raises OptionError where variables are missing, or are no numbers that make sense.
    """
    for name, others in _NAMES.items():
        value = next((environ[other] for other in others if other in environ), None)
        if name not in environ and value is not None:
            environ[name] = value
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise OptionError(f"join: {', '.join(missing)} {verb} not set: no launcher started this process", hint=_HINT)
    rank, world = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if not 0 <= rank < world:
        raise OptionError(f"join: RANK={rank} is not a rank of WORLD_SIZE={world}", hint=_HINT)
    local = _number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else rank
    agent = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Launched(rank, world, local, environ["MASTER_ADDR"], _number(environ, "MASTER_PORT"), agent)


def _number(environ: MutableMapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise OptionError(f"join: {name}={environ[name]!r} is not an integer", hint=_HINT) from None
