"""Process groups for the simulated device and the CPU: torch.distributed without a GPU, as NCCL does it with one.

After register(), torch.distributed.init_process_group("sim") makes one. Operations on tensors of the simulated device
are queued on a stream of their own and run by gloo on real memory. Those on host tensors go to gloo as they are.

    ledger      no torch: the operations a group has not done; the log of those on host tensors
    gloo        the two gloo groups behind one of ours: connected, freed, reconnected
    agreement   before an operation its ranks exchange headers, and find out whether they are in the same one
    operations  what records call an operation, and what gloo is asked for
    arguments   what an operation was given: checked at the call, and its real memory
    posting     an operation on the device goes onto its stream; what torch gets to wait for
    courier     a thread for operations on host tensors
    hosting     an operation on host tensors goes to a courier
    foreign     operators that are not torch's own: those of groups, of extensions and of users
    functional  torch.ops._c10d_functional: what DTensor and compiled code call
    stores      calls of a key-value store, on a virtual clock
    group       the class torch.distributed sees, and all groups of the process

Importing this package imports no torch. What the device communicates is in its log, and so in every trace; what the
host does, in HostLog.
"""

from __future__ import annotations

import sys
from typing import Any

from perfmagic.base.errors import TorchMissingError
from perfmagic.sim.groups.ledger import HostLog, PendingOperation

__all__ = [
    "NAMES", "HostLog", "PendingOperation", "failed", "forget", "free", "leave", "pending", "register", "renew",
    "time_store",
]  # fmt: skip

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
    from perfmagic.sim.groups import group

    group.register(NAMES)
    return True


def time_store(kind: type) -> None:
    """Let the calls of a class of key-value stores take virtual time, on a virtual clock; once a class."""
    from perfmagic.sim.groups import stores

    stores.keep_times(kind)


def pending() -> list[PendingOperation]:
    """The operations of this process that are queued or under way, the oldest first. From any thread."""
    module = _group_module()
    return module.pending() if module else []


def failed() -> list[PendingOperation]:
    """The first operation of each group that failed since the group was connected, the oldest first."""
    module = _group_module()
    return module.failed() if module else []


def leave() -> None:
    """Let what runs come to its end, then shut the connections: as at the end of the process."""
    module = _group_module()
    if module:
        module.leave()


def free(reason: str) -> int:
    """End every operation between ranks that is under way or queued; gives how many connections were shut.

    Call it from any thread.

    reason: why, in words that complete "all_reduce was given up: …". Operations fail with CommunicationError, and go on
    failing until renew(). Works where the process's sockets can be listed (Linux, macOS); elsewhere it returns 0 and
    what is under way stays blocked.
    """
    module = _group_module()
    return module.free(reason) if module else 0


def renew(epoch: int, timeout_s: float = 60.0) -> None:
    """Reconnect every group of the process, as all its ranks must do with the same epoch, on the main thread.

    Models, subgroups and meshes that hold a group go on with it. Waits until the simulated device is idle, and forgets
    what failed on it. Raises CommunicationError where a rank does not come within the time.
    """
    module = _group_module()
    if module:
        module.renew(epoch, timeout_s)


def forget() -> None:
    """End what the groups of the process are doing, and forget them: they were destroyed, and none is renewed."""
    module = _group_module()
    if module:
        module.forget()


def refuse_measured() -> None:
    """Raise DeviceError in a rank of several: each would measure how the others slow it on this machine's cores."""
    module = _group_module()
    if module:
        module.refuse_measured(module.most_ranks())


def _group_module() -> Any:
    return sys.modules.get("perfmagic.sim.groups.group")
