"""perfmagic.DeviceModel: the model of a GPU, and one that is fitted on a recording."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from perfmagic.analysis.replay.fit import device_factor, host_time
from perfmagic.api.opening import open_trace
from perfmagic.base import units
from perfmagic.base.errors import OptionError
from perfmagic.predict import model
from perfmagic.predict.gpus import Gpu, gpu_named, gpu_of
from perfmagic.trace.model import Trace


class DeviceModel(model.DeviceModel):
    """The model of a GPU for a virtual device: perfmagic.device(DeviceModel("H100")), or for short device("H100").

    name: of a GPU in the table.
    host_factor: how much longer the host takes than a fast one without a profiler. That one is an assumption: 3 µs a
    launch, 5 µs an elementwise operator with its launch, 5 µs a module. Public records have 15 to 107 µs between
    launches, all of them with a profiler.
    device_factor: how much longer kernels take than by the model.
    fitted_on: what the factors are from, for labels.
    has_module_time: whether a call of a module takes time of its own.
    Raises OptionError for a GPU that is not in the table.

    >>> perfmagic.DeviceModel("H100").words
    'predicted for H100 SXM, not recorded · ÷ × 1.4'
    """

    @classmethod
    def fit(cls, source: str | os.PathLike[str] | Any, name: str = "") -> DeviceModel:
        """The model of the GPU of a recording, with host and kernels as slow as they were there.

        source: as in open_trace(), recorded with shapes. The host's factor is that of its time between launches without
        waits, and includes what the profiler took. The device's is that of all kernels of operators with a model.
        name: of another GPU, for the host of this recording alone.

        Raises what open_trace() raises, and OptionError for a record without launches or shapes. The GPU has to
        be in the table, and at least half of the kernels' time must have a model: else OptionError, too.

        >>> model = perfmagic.DeviceModel.fit("step.json.gz")  # doctest: +SKIP
        >>> perfmagic.device(model)  # doctest: +SKIP
        """
        trace = open_trace(source).trace
        recorded, gpu = _gpu_of(trace, name)
        host = host_time(trace)
        title = Path(source).name if isinstance(source, (str, os.PathLike)) else "a recording"
        return cls(
            gpu.name,
            host_factor=host.factor,
            device_factor=device_factor(trace, gpu) if recorded == gpu else 1.0,
            fitted_on=f"{title}, {units.plural(host.launches, 'launch', 'launches')}",
            has_module_time=host.has_modules,
        )


def _gpu_of(trace: Trace, name: str) -> tuple[Gpu | None, Gpu]:
    """The GPU of a record, None for one that is not in the table, and the one that is meant."""
    infos = [trace.device_info(index) for index in trace.device_ids]
    recorded = next((gpu for gpu in map(gpu_of, infos) if gpu is not None), None)
    if name:
        return recorded, gpu_named(name)
    if recorded is None and infos and not infos[0].simulated:
        try:
            gpu_named(infos[0].name)
        except OptionError as error:
            hint = f'{error.hint}; DeviceModel.fit(…, "H100") takes the host alone from this record'
            raise OptionError(f"the record is of {infos[0].label}, which is not in the table", hint=hint) from None
    if recorded is None:
        label = infos[0].label if infos else "no device"
        raise OptionError(f"the record is of {label}, and no whole GPU of that name is in the table")
    return recorded, recorded
