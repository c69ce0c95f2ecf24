"""A run on GPUs that are not there: `%%timeline --on H100,A100,T4`. The code runs once, unmodified, on the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from perfmagic.base.errors import DeviceError, OptionError
from perfmagic.capture.devices.backends import AS_CUDA, require_torch, virtual_gpu
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.assembly import is_rank
from perfmagic.predict.model import DeviceModel, SideBySide

if TYPE_CHECKING:
    from perfmagic.capture.devices.as_cuda import AsCuda


def models_named(on: object) -> tuple[DeviceModel, ...]:
    """The GPUs of "H100,A100,T4", or of a list of names; () for None.

    Raises OptionError for none, for the same one twice and for one that is not in the table.
    """
    if on is None:
        return ()
    names = on.split(",") if isinstance(on, str) else on
    if not isinstance(names, Sequence) or not all(isinstance(name, (str, DeviceModel)) for name in names):
        raise OptionError(f"on={on!r}: names of GPUs are needed", hint='on="H100,A100"')
    names = [name for name in names if not isinstance(name, str) or name.strip()]
    if not names:
        raise OptionError("on: no GPU is named", hint="--on H100,A100,T4")
    models = [name if isinstance(name, DeviceModel) else DeviceModel(name.strip()) for name in names]
    found = [model.name for model in models]
    twice = next((name for name in found if found.count(name) > 1), "")
    if twice:
        raise OptionError(f"on: {twice} is named twice", hint="one row per GPU: name each once")
    return tuple(models)


def check_options(on: tuple[DeviceModel, ...], device: str, item: float | None) -> None:
    """Raise OptionError for options that a predicted GPU does not have, and for one that only such a GPU has."""
    if item is not None and not on:
        raise OptionError("--item needs --on", hint="--on H100 --item 0.5")
    if on and device in ("cpu", "cuda"):
        raise OptionError(
            f"--on predicts GPUs, and --device {device} records a device that is here", hint="leave one out"
        )


class OnGpus:
    """A resource of an owner: the virtual GPUs, and "cuda" as their name for code of this thread.

    models: the first one's times are the run's; of several each one's are kept.  item: see perfmagic.device().
    """

    def __init__(self, models: tuple[DeviceModel, ...], item: float | None = None) -> None:
        self.models, self._item = models, item
        self._owner = Owner()
        self._cuda: AsCuda | None = None

    def acquire(self) -> None:
        """Raises DeviceError in a rank, in a cell that runs so already, and while something is recorded."""
        if is_rank():
            hint = f'device = perfmagic.device("{self.models[0].name}") in the ranks\' cell'
            raise DeviceError("--on predicts one process, and this is a rank of several", hint=hint)
        if AS_CUDA:
            raise DeviceError("this cell runs on predicted GPUs already", hint="--on once per cell")
        require_torch("timeline(on=…)")
        from perfmagic.capture.devices.as_cuda import AsCuda

        self._owner.acquire(_Virtual(self.models, self._item))
        self._cuda = AsCuda(self.models[0])
        self._owner.acquire(self._cuda)

    def hidden(self) -> AbstractContextManager[None]:
        """A block in which tensors say where they really are."""
        return nullcontext() if self._cuda is None else self._cuda.hidden()

    def peak_bytes(self) -> int:
        """The most memory that was allocated."""
        return 0 if self._cuda is None else self._cuda.peak_bytes()

    def give_back(self) -> None:
        self._owner.close()


class _Virtual:
    """The simulated device as these GPUs, and then as it was."""

    def __init__(self, models: tuple[DeviceModel, ...], item: float | None) -> None:
        self._models, self._item = models, item
        self._back: Callable[[], None] | None = None

    def acquire(self) -> None:
        from perfmagic import sim

        first, *others = self._models
        self._back = sim.state()
        model = first
        if others:
            given = {field.name: getattr(first, field.name) for field in fields(first)}
            host = {name: given[name] for name in ("host_factor", "has_module_time")}  # there is one
            model = SideBySide(**given, others=tuple(replace(other, **host) for other in others))
        virtual_gpu(model, self._item)
        sim.torch_module().reset_peak_memory_stats()

    def give_back(self) -> None:
        if self._back is not None:
            self._back()
        self._back = None
