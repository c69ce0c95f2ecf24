"""What torchrun, srun and mpirun tell a process of its place in a job."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import dataclass

from perfmagic.errors import OptionError

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
        found = next((environ[other] for other in others if other in environ), None)
        if name not in environ and found is not None:
            environ[name] = found
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise OptionError(f"join: {', '.join(missing)} {verb} not set: no launcher started this process", hint=_HINT)
    rank, world = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if not 0 <= rank < world:
        raise OptionError(f"join: RANK={rank} is no rank of WORLD_SIZE={world}", hint=_HINT)
    local = _number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else rank
    agent = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Launched(rank, world, local, environ["MASTER_ADDR"], _number(environ, "MASTER_PORT"), agent)


def _number(environ: MutableMapping[str, str], name: str) -> int:
    try:
        return int(environ[name])
    except ValueError:
        raise OptionError(f"join: {name}={environ[name]!r} is no whole number", hint=_HINT) from None
