"""The simulated device: a real asynchronous accelerator for machines that have none. README.md says how it works.

After load(), torch.randn(..., device="sim") queues real CPU kernels on the threads of streams and returns at once;
.item() blocks; streams overlap; the launch queue fills. On a virtual clock (virtual.py) each op runs at once, and its
time is computed. Results are those of the CPU with one thread, bit for bit, where no random op runs on the device.
Importing this package imports no torch; load() does.

This module is the only door: nothing outside perfmagic.sim imports another module of it. The package uses:

    load prepare loaded      make the device; tell torch of it without making it; whether it was made
    state call               what sets all back to what it is now; a name beside "sim" for code in a mode
    devices_in_use           what the devices were given and have not done, and their pace
    synchronize              one wait for all of them
    torch_module             torch.sim: streams, events, memory, random numbers, as torch.cuda has them
    found_accelerator        what torch.accelerator meant before the simulated device was there
    Pace                     the least time of ops
    VALUES                   what a virtual clock computes, and what reads of other values give
    SimRecording SimRecords  what the devices did in a recording; BesideRecords: on another GPU
    groups                   process groups for the simulated device and the CPU: a door of its own

Tests and benchmarks also use set_pace, current_pace and log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from perfmagic.base.clock import HOST, virtual_clock
from perfmagic.base.errors import DeviceError, OptionError, TorchMissingError
from perfmagic.base.kinds import CallKind
from perfmagic.sim import groups
from perfmagic.sim.beside import BesideRecords, beside_records
from perfmagic.sim.log import LOG, SimLog, SimRecords
from perfmagic.sim.pace import Model, Pace, PaceFunction, PaceLog, as_pace, describe, describe_in_turn, on_virtual_clock
from perfmagic.sim.values import VALUES, check_values

if TYPE_CHECKING:
    from perfmagic.sim.device import SimDevice
    from perfmagic.sim.queues import Lane

__all__ = [
    "VALUES", "BesideRecords", "Pace", "SimRecording", "SimRecords", "call", "devices_in_use", "found_accelerator",
    "groups", "load", "loaded", "prepare", "state", "synchronize", "torch_module",
]  # fmt: skip

_paces = PaceLog()
_kept: list[Any] = []  # torch's registrations: gone with this list
_has_devices: list[bool] = []
_loading = threading.RLock()


def load(
    pace: Pace | str | PaceFunction | None = None,
    *,
    devices: int = 1,
    memory_bytes: int | None = None,
    clock: str | None = None,
    host: str | None = None,
    values: str | None = None,
    item: float | None = None,
) -> None:
    """Load the device "sim" if it is not loaded, and apply what is given.

    pace: see set_pace.  devices: the least number of devices.  memory_bytes: of each device; 0 for no limit; None: as
    it is, but that a GPU's model brings the memory of its GPU, and takes it along.
    clock: "real" or "virtual" from now on; what is queued is waited for before. None: as it is.
    host: "counted" or "measured", on a virtual clock. None: as it is, and counted where the clock was real.
    values, item: what is computed on a virtual clock, and what reads of other values give; see perfmagic.sim.values.

    Raises TorchMissingError without torch, and what failed on a device before it changes. Raises DeviceError where this
    torch cannot take the device, or the clock cannot change or compute no less.
    """
    wanted = as_pace(pace)
    has_model, takes_model = isinstance(current_pace(), Model), isinstance(wanted, Model)
    leaves_model = has_model and not takes_model and (wanted is not None or clock == "real")
    if memory_bytes is None and (takes_model or leaves_model):
        memory_bytes = wanted.memory_bytes if isinstance(wanted, Model) else 0
    if values is None and leaves_model:
        values = "real"
    is_virtual = clock == "virtual" or (clock is None and virtual_clock() is not None)
    check_values(values, item, virtual=is_virtual)
    _check_host(host, virtual=is_virtual)
    with _loading:
        prepare()
        if not loaded():
            from perfmagic.sim.device import create_devices

            create_devices()
            _has_devices.append(True)
    _loaded_device().make_devices(devices)
    if clock is not None or host is not None:
        _keep_clock("virtual" if is_virtual else "real", host)
    VALUES.choose(values, item)
    if wanted is not None:
        set_pace(wanted)
    if memory_bytes is not None:
        for device in _loaded_device().all_devices():
            device.memory.limit(memory_bytes)


def prepare() -> None:
    """Tell torch of the device without making it: forks of this process then load it at little cost.

    Fork no process that has loaded it: the streams have no threads there.
    """
    if _kept:
        return
    try:
        import torch
    except ImportError as error:
        raise TorchMissingError("the simulated device") from error
    from perfmagic.sim import module

    registrations = module.register(rebuild)
    # torch imports much of itself at the first op on meta: here, so that no cell is charged with it
    torch.empty(1, device="meta").add(1)
    _kept.extend(registrations)


def loaded() -> bool:
    """Whether load() has been called."""
    return bool(_has_devices)


def set_pace(pace: Pace | str | PaceFunction | None) -> None:
    """Give ops launched from now on a least time; None: as fast as this machine.

    pace: a Pace, text like "matmul=3ms, copy=12GB/s", or a function (name, kind, size_bytes) -> seconds.
    """
    wanted = as_pace(pace)
    _paces.changed(current_pace())
    for device in _loaded_device().all_devices():
        device.keep_pace(wanted)
    from perfmagic.sim import virtual

    virtual.take_host_of(wanted)


def state() -> Callable[[], None]:
    """What sets clock, pace and memory of the devices, and what this thread works on, back to what they are now."""
    if not loaded():
        return partial(_set_state, None, [], ("real", None), 0, {}, (VALUES.kept, VALUES.item))
    from perfmagic.sim import device as devices

    limits = [d.memory.capacity.total_bytes if d.memory.capacity else 0 for d in devices.all_devices()]
    host = "measured" if HOST.measured else "counted"
    clock = ("virtual", host) if virtual_clock() is not None else ("real", None)
    lanes, values = dict(devices.current.lanes), (VALUES.kept, VALUES.item)
    return partial(_set_state, current_pace(), limits, clock, devices.current_index(), lanes, values)


def _set_state(
    pace: PaceFunction | None,
    limits: list[int],
    clock: tuple[str, str | None],
    index: int,
    lanes: dict[int, Lane],
    values: tuple[str, float | None],
) -> None:
    """Harmless when called again."""
    if not loaded():
        return
    from perfmagic.sim import device as devices

    _keep_clock(*clock)
    VALUES.choose(*values)
    set_pace(pace)
    for device in devices.all_devices():
        device.memory.limit(limits[device.index] if device.index < len(limits) else 0)
    devices.choose(index)
    devices.current.lanes.clear()
    devices.current.lanes.update(lanes)


def call(name: str) -> None:
    """Let code in a torch function mode see the device by another name, "cuda", from now on; "": by its own."""
    from perfmagic.sim import device as devices

    devices.ALIAS[:] = [name] if name else []


def current_pace() -> PaceFunction | None:
    """The pace set last; None if there is none."""
    if not loaded():
        return None
    pace: PaceFunction | None = _loaded_device().sim_device(0).pace
    return pace


def devices_in_use() -> tuple[SimDevice, ...]:
    """The devices that were given something; the first if none was. () where load() was not called."""
    return tuple(_loaded_device().in_use()) if loaded() else ()


def synchronize(index: int | None = None) -> None:
    """Block until a device, or with None every device in use, has done all it was given.

    Raises what failed there, once.
    """
    device = _loaded_device()
    from perfmagic.sim.streams import wait_for_devices

    wait_for_devices(devices_in_use() if index is None else (device.sim_device(index),))


def torch_module() -> Any:
    """torch.sim; before load(), the module that it will be."""
    import torch

    module = getattr(torch, "sim", None)
    if module is None:
        from perfmagic.sim.module import make_module

        module = make_module()
    return module


def found_accelerator() -> str | None:
    """The accelerator that torch found on this machine ("mps", "xpu", "cuda"), None without one; starts nothing.

    torch.accelerator means the simulated device as soon as that is there.
    """
    from perfmagic.sim.torch_private import accelerator_kind

    return accelerator_kind()


def log() -> SimLog:
    """What the devices did, while recording is on."""
    return LOG


class SimRecording:
    """What the devices did from take() on, as a resource (perfmagic.capture.owner).

    memory: blocks of memory too.  inputs: those of operators too, which on a virtual clock always are.
    """

    def __init__(self, *, memory: bool, inputs: bool = False) -> None:
        self._memory, self._inputs = memory, inputs
        self._mark = 0

    def acquire(self) -> None:
        LOG.start(self, memory=self._memory, inputs=self._inputs)
        self._mark = LOG.mark()

    def read(self) -> SimRecords:
        """What was recorded so far. Raises IndexError after give_back(), once another recording has begun."""
        records = LOG.since(self._mark)
        launched_ns = records.calls["start_ns"][records.calls["kind"] == CallKind.LAUNCH]
        paces = _paces.used(launched_ns, current_pace())
        pace_json = paces[0].to_json() if len(paces) == 1 and isinstance(paces[0], Pace) else ""
        words = describe_in_turn([describe(pace) for pace in paces])
        pace = words if virtual_clock() is None else on_virtual_clock(words)
        model = paces[0].predicted if len(paces) == 1 and isinstance(paces[0], Model) else None
        return replace(records, pace=pace, pace_json=pace_json, predicted=model, beside=beside_records())

    def give_back(self) -> None:
        LOG.stop(self)


def rebuild(t: Any, requires_grad: bool, extra: dict[str, Any], index: int) -> Any:
    """Unpickle a tensor onto the device where it was, or where torch.load puts it. Loads the device if needed."""
    import torch

    from perfmagic.sim import tensor, torch_private

    place = torch.device(torch_private.place_of_loading(f"sim:{index}"))
    if place.type == "sim":
        load(devices=(place.index or 0) + 1)
    return tensor.adopt(t.to(place), requires_grad, extra)


def _check_host(host: str | None, *, virtual: bool) -> None:
    """Raise OptionError for another word, and DeviceError where that host cannot be kept."""
    if host not in (None, "counted", "measured"):
        raise OptionError(f"host {host!r} is not known", hint="counted or measured")
    if host is not None and not virtual:
        message = "host= needs a simulated device on a virtual clock"
        raise DeviceError(message, hint='perfmagic.device("H100", host="measured")')
    if host == "measured":
        groups.refuse_measured()


def _keep_clock(clock: str, host: str | None) -> None:
    """Keep "real" or "virtual" time from now on, when all that is queued is done. Raises DeviceError in a recording."""
    from perfmagic.sim import dispatch, virtual

    is_virtual = clock == "virtual"
    with HOST.moving:  # no launch meanwhile
        measured = is_virtual and (HOST.measured if host is None else host == "measured")
        if is_virtual != (virtual_clock() is not None) or measured != HOST.measured:
            if LOG.depth:
                hint = "choose it in a cell before; in ranks with %%ranks --clock"
                raise DeviceError("the clock cannot change while something is recorded", hint=hint)
            synchronize()
            _paces.clear()
        virtual.keep_time(virtual=is_virtual, measured=measured)
        if measured:
            dispatch.measure_way()
        if not is_virtual:
            VALUES.choose("real", None)
            if isinstance(current_pace(), Model):
                set_pace(None)  # what is measured is predicted for no GPU


def _loaded_device() -> Any:
    if not loaded():
        raise DeviceError("the simulated device is not loaded", hint="call perfmagic.sim.load() first")
    from perfmagic.sim import device

    return device
