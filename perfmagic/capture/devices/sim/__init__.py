"""The simulated device: a real asynchronous accelerator for machines that have none.

After load(), torch.randn(..., device="sim") queues real CPU kernels on the threads of streams and returns at once;
.item() blocks; streams overlap; the launch queue fills. Results are those of the CPU with one thread, bit for bit,
where no random op runs on the device. Importing this package imports no torch; load() does.

    clock pace pace_text pace_log links log    no torch: time, the least time of ops, what was recorded
    work             what a launch has to do, for a pace that is a rate
    jobs lanes       a thing to do; a stream's queue and thread; no locks, so that an interrupt leaves nothing behind
    memory capacity  what counts as allocated; a device that has so much memory and no more
    device chosen    the devices, forks, the end of the process; the stream a thread queues on
    launch waits     the host queues, the host waits
    streams module   torch.sim
    tensor storage operators arguments infer   what an operator is given, and what it will return
    dispatch kernels results substitutes       what runs, and what is handed out
    special copies moving pinned random autocast   operators that are done in another way
    foreign refusals                           what is not of torch's own arithmetic, and what cannot be done
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from perfmagic.capture.devices.sim.log import LOG, SimLog, SimRecords
from perfmagic.capture.devices.sim.pace import Pace, PaceFunction, as_pace, words_of
from perfmagic.capture.devices.sim.pace_log import PaceLog, in_turn
from perfmagic.errors import DeviceError, TorchMissingError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from perfmagic.capture.devices.sim.streams import Event, Stream

__all__ = [
    "Event",
    "Pace",
    "SimLog",
    "SimRecords",
    "Stream",
    "current_pace",
    "current_stream",
    "in_flight",
    "load",
    "loaded",
    "log",
    "pace_words",
    "paces_words",
    "set_pace",
    "synchronize",
]

_paces = PaceLog()
_kept: list[Any] = []  # torch's registrations: gone with this list
_has_devices: list[bool] = []
_loading = threading.RLock()


def load(pace: Pace | str | PaceFunction | None = None, *, devices: int = 1, memory_bytes: int | None = None) -> None:
    """Make the device "sim" known to torch; once, whatever the number of calls. A pace that is given is set.

    devices: how many there have to be at least.  memory_bytes: how much memory each has; 0: as much as the host gives.

    Raises TorchMissingError without torch, DeviceError where this torch cannot take the device.
    """
    wanted = as_pace(pace)
    with _loading:
        prepare()
        if not loaded():
            from perfmagic.capture.devices.sim import device

            device.create_devices()
            _has_devices.append(True)
    _loaded_device().make_devices(devices)
    if wanted is not None:
        set_pace(wanted)
    if memory_bytes is not None:
        for one in _loaded_device().all_devices():
            one.memory.limit(memory_bytes)


def prepare() -> None:
    """Tell torch of the device without making one: forks of this process then load it for little.

    A process that has loaded it cannot be forked so: its streams have no threads there.
    """
    if _kept:
        return
    try:
        import torch
    except ImportError as error:
        raise TorchMissingError("the simulated device") from error
    from perfmagic.capture.devices.sim import module

    registrations = module.register(rebuild)
    # torch imports much of itself at the first op on meta: here, so that no cell is charged with it
    torch.empty(1, device="meta").add(1)
    _kept.extend(registrations)


def loaded() -> bool:
    """Has load() been called?"""
    return bool(_has_devices)


def set_pace(pace: Pace | str | PaceFunction | None) -> None:
    """Give ops launched from now on a least time; None: as fast as this machine.

    pace: a Pace, text like "matmul=3ms, copy=12GB/s", or a function (name, kind, size_bytes) -> seconds.
    """
    wanted = as_pace(pace)
    _paces.changed(pace_words())
    for device in _loaded_device().all_devices():
        device.pace = wanted


def current_pace() -> PaceFunction | None:
    """The pace set last; None if there is none."""
    if not loaded():
        return None
    pace: PaceFunction | None = _loaded_device().sim_device(0).pace
    return pace


def pace_words() -> str:
    """The pace for people ("paced: matmul ≥ 3 ms, copies 12 GB/s"), empty if there is none."""
    return words_of(current_pace())


def paces_words(launched_ns: npt.NDArray[np.int64]) -> str:
    """The pace, or the paces one after the other, at which something was launched at those times (unix ns)."""
    return in_turn(_paces.used(launched_ns, pace_words()))


def log() -> SimLog:
    """What the device did, while recording is on."""
    return LOG


def in_flight() -> int:
    """Launches queued or running; 0 if the device is not loaded."""
    return int(_loaded_device().in_flight()) if loaded() else 0


def progress() -> int:
    """A number that grows with every launch, events among them, on any stream; 0 if the device is not loaded."""
    return int(_loaded_device().progress()) if loaded() else 0


def synchronize(device: Any = None) -> None:
    """Block until a device, or with None every device in use, has done all it was given.

    Raises what failed there, once.
    """
    devices = _loaded_device()
    from perfmagic.capture.devices.sim import waits

    for index in devices.in_use() if device is None else (device,):
        waits.synchronize(index)


def in_use() -> tuple[int, ...]:
    """The indices of the devices that were given something; the first if none was."""
    return tuple(_loaded_device().in_use()) if loaded() else ()


def current_stream(device: Any = None) -> Stream:
    """The stream this thread queues on."""
    _loaded_device()
    from perfmagic.capture.devices.sim import streams

    return streams.current_stream(device)


def rebuild(t: Any, requires_grad: bool, extra: dict[str, Any], index: int) -> Any:
    """Unpickle: the tensor comes back where it was, so the device has to be there, or where torch.load puts it."""
    import torch

    from perfmagic.capture.devices import torch_private
    from perfmagic.capture.devices.sim import tensor

    place = torch.device(torch_private.place_of_loading(f"sim:{index}"))
    if place.type == "sim":
        load(devices=(place.index or 0) + 1)
    return tensor.adopt(t.to(place), requires_grad, extra)


def _loaded_device() -> Any:
    if not loaded():
        raise DeviceError("the simulated device is not loaded", hint="call perfmagic.capture.devices.sim.load() first")
    from perfmagic.capture.devices.sim import device

    return device


def __getattr__(name: str) -> Any:
    if name in ("Event", "Stream"):
        from perfmagic.capture.devices.sim import streams

        return getattr(streams, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
