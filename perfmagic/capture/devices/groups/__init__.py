"""A process group for the simulated device and the CPU: torch.distributed without a GPU, as NCCL does it with one.

After register(), torch.distributed.init_process_group("sim") makes one. Operations on tensors of the simulated device
are queued on a stream of their own and run by gloo on real memory; those on host tensors go to gloo as they are.

    sockets     no torch: which connections a group has opened, and how they are shut
    standing    no torch: what a group was asked for and has not done; the sequence numbers
    host_log    no torch: what was communicated on host tensors while somebody records
    link        no torch: what passes a rank's link; names and sizes as records of real devices have them
    gloo        the two gloo groups behind one of ours, made, freed and made anew
    memory      the real memory of arguments, on the stream's thread
    headers     no torch: what ranks tell each other of an operation, and whether that is one operation
    agreement   they do so before each operation
    work        what an operation returns: the stream waits for it, or the host
    courier     a thread for operations on host tensors
    posting     an operation goes onto its stream
    hosting     an operation on host tensors goes to a courier
    operations  what gloo is asked for, operation by operation
    group       the class torch.distributed sees
    functional  torch.ops._c10d_functional: what DTensor and compiled code call
    life        all groups of the process: free, renew, leave

The engine of a notebook's ranks uses register(), standing(), free(), renew() and HostLog; importing this imports no
torch. What the device communicates is in its log, and so in every trace; what the host does, in HostLog.
"""

from __future__ import annotations

import sys
from typing import Any

from perfmagic.capture.devices.groups.host_log import HostLog
from perfmagic.capture.devices.groups.standing import Standing, Took
from perfmagic.errors import TorchMissingError

__all__ = ["HostLog", "Standing", "Took", "free", "freed", "register", "renew", "standing"]

NAMES = ("sim", "perfmagic")  # both name one backend; the second for ranks that compute on the CPU


def register() -> bool:
    """Make the backend known to torch.distributed; once, whatever the number of calls. False where torch has none.

    Raises TorchMissingError without torch.
    """
    try:
        import torch
    except ImportError as error:
        raise TorchMissingError("the process group") from error
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        return False
    from perfmagic.capture.devices.groups import life

    life.register(NAMES)
    return True


def standing() -> list[Standing]:
    """What this process was asked to communicate and has not done yet, the oldest first. From any thread."""
    life = _life()
    return life.standing() if life else []


def free(reason: str) -> int:
    """End every operation between ranks that is under way or queued, from any thread; how many connections were shut.

    reason: why, in words that complete "all_reduce was given up: …". Operations fail with CommunicationError, and go on
    failing until renew(). Works where the process's sockets can be listed (Linux, macOS); elsewhere it returns 0 and
    what is under way stays blocked.
    """
    life = _life()
    return life.free(reason) if life else 0


def freed() -> str:
    """Why operations were ended, empty if they were not, or have been renewed."""
    life = _life()
    return life.freed() if life else ""


def renew(epoch: int, timeout_s: float = 60.0) -> None:
    """Connect every group of the process anew, as all its ranks must do with the same epoch, on the main thread.

    Models, subgroups and meshes that hold a group go on with it. Waits until the simulated device is idle, and forgets
    what failed on it. Raises CommunicationError where a rank does not come within the time.
    """
    life = _life()
    if life:
        life.renew(epoch, timeout_s)


def _life() -> Any:
    return sys.modules.get("perfmagic.capture.devices.groups.life")
