"""What a benchmark watches beside the times: side effects, memory, compilations, the clocks of GPUs."""

from __future__ import annotations

import ast
import functools
import gc
import inspect
import mmap
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from perfmagic.base.free_memory import peak_bytes
from perfmagic.capture.bench import quiet
from perfmagic.capture.bench.clocks import Clocks
from perfmagic.capture.bench.device_use import Devices, DeviceUse, PeakMemory
from perfmagic.capture.bench.spec import BenchSpec, Notes
from perfmagic.capture.devices.profiled import profiled_before

# Does the first call change what later ones find? A list that is sorted in place is sorted when they come.

MOST_ITEMS = 10_000  # of a container, or of an array in each of its directions together; 1 ms


class Inputs:
    """What some names stood for when it was made."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._seen = {name: mark for name, value in values.items() if (mark := _mark(value)) is not None}

    def changed(self, values: Mapping[str, object]) -> frozenset[str]:
        """The names whose objects have changed since, or that are bound to another object now."""
        return frozenset(name for name, mark in self._seen.items() if name in values and _mark(values[name]) != mark)


def names_in(source: str) -> frozenset[str] | None:
    """All names in code, None for code that Python alone cannot read.  source: without magics."""
    try:
        return frozenset(node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    except (SyntaxError, ValueError):
        return None


def read_by_code(source: str, namespace: Mapping[str, object]) -> dict[str, object]:
    """Names that code reads before it assigns them, and their values.  source: without magics."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    names: dict[str, bool] = {}  # whether it was read first
    for statement in tree.body:
        inside = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        for node in sorted(inside, key=lambda node: isinstance(node.ctx, ast.Store)):
            names.setdefault(node.id, not isinstance(node.ctx, ast.Store))
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            names[statement.target.id] = True
    return {name: namespace[name] for name, read in names.items() if read and name in namespace}


def read_by_function(body: Any) -> dict[str, object]:
    """Names that a function reads from around it, and what they stand for; its arguments where it is a partial, and its
    object where it is a method of one.
    """
    given: dict[str, object] = {}
    while type(body) is functools.partial:
        given |= {f"argument {i}": value for i, value in enumerate(body.args, 1)} | body.keywords
        body = body.func
    if type(body) in (types.MethodType, types.BuiltinMethodType) and not inspect.ismodule(body.__self__):
        given["its object"] = body.__self__
    if type(body) is types.MethodType:
        body = body.__func__
    if type(body) is types.FunctionType:
        with suppress(ValueError):  # a variable around it that has no value yet
            around = inspect.getclosurevars(body)
            given = {**around.globals, **around.nonlocals, **given}
    return given


def _mark(value: Any) -> tuple[Any, ...] | None:
    """What tells a changed object, or another one, from the same; None for what is not looked at."""
    try:
        look = _LOOKS.get(type(value)) or _look_of_arrays(type(value))
        contents = look(value) if look is not None else None
    except Exception:  # noqa: BLE001 - another thread changes it, or it is of a kind that cannot be looked at so
        return None
    return None if contents is None else (id(value), contents)


def _look_of_arrays(kind: type) -> Callable[[Any], object] | None:
    """Exact types only: what a subclass does when it is looked at is not to be found here."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        return _some_of_array
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return lambda tensor: tensor._version  # raises for tensors of inference mode, which keep no count
    return None


def _some_of_list(items: list[Any]) -> object:
    return len(items), [id(item) for item in items[:: len(items) // MOST_ITEMS + 1]]


def _some_of_dict(items: dict[Any, Any]) -> object:
    return len(items), [(id(key), id(value)) for key, value in islice(items.items(), MOST_ITEMS)]


def _some_of_others(items: Any) -> object:
    return len(items), [id(item) for item in islice(items, MOST_ITEMS)]


def _some_of_array(array: Any) -> object:
    base = array
    while base is not None:
        if isinstance(base, mmap.mmap):  # reading it would be what the first call takes time for
            return None
        base = getattr(base, "base", None)
    if array.dtype.kind not in "biufcmM" or not array.ndim or not array.size:
        return None
    side = max(1, int(MOST_ITEMS ** (1 / array.ndim)))
    some = array[tuple(slice(None, None, max(1, n // side)) for n in array.shape)]
    return array.shape, zlib.crc32(some.tobytes())


_LOOKS: dict[type, Callable[[Any], object]] = {
    list: _some_of_list,
    dict: _some_of_dict,
    set: _some_of_others,
    deque: _some_of_others,
    bytearray: _some_of_others,
}


# What a body does besides taking time: it prints, and its first call modifies the input of later ones.

CHANGED_TIMES = 4.0  # from here on %timeit says that a slowest run took long; a first call mostly is the slowest
CHANGED_S = 50e-6  # a first call of less is long for its cold caches


class SideEffects:
    """Watches the first call and every sample of one benchmark."""

    def __init__(self, spec: BenchSpec) -> None:
        self._inputs_of = spec.inputs if spec.setup_each is None else None
        self._before: Inputs | None = None
        self._after: Inputs | None = None  # as the first call left them
        self._changed: frozenset[str] = frozenset()
        self._outputs = 0
        self._prints = False

    def before_first_call(self) -> None:
        """Look at what the body works on."""
        self._before = Inputs(self._inputs_of()) if self._inputs_of is not None else None

    def after_first_call(self) -> None:
        """See what the call has modified."""
        if self._before is not None and self._inputs_of is not None:
            self._changed = self._before.changed(self._inputs_of())
            self._after = Inputs(self._inputs_of()) if self._changed else None
            self._before = None

    def before_sample(self) -> None:
        """Output from here on is the sample's."""
        self._outputs = quiet.dropped_outputs()

    def after_sample(self) -> None:
        """See whether there was any."""
        self._prints = self._prints or quiet.dropped_outputs() > self._outputs

    def tell(self, notes: Notes, first_s: float, later_s: float) -> None:
        """Note each once, whatever the number of runs.

        Modified inputs are noted where the first call took longer and later ones left them alone: those may have had
        less to do.
        """
        if self._after is not None and self._inputs_of is not None:
            by_first = self._changed - self._after.changed(self._inputs_of())
            if by_first and first_s >= max(CHANGED_S, CHANGED_TIMES * later_s):
                times = first_s / later_s if later_s > 0 else 0.0
                notes.note("changed inputs", seconds=first_s, times=times, names=", ".join(sorted(by_first)))
        if self._prints:
            notes.note("prints")
        self._after, self._prints = None, False


# What the samples of a benchmark leave behind: memory, and graphs that torch.compile has made.

GROWN_BYTES = 512  # a call; the grain of CUDA's allocator, and of the simulated one
HOST_GROWN_BYTES = 50_000_000  # of the process while it is sampled; allocators move by some MB


class Growth:
    """What has been added since look(), summed over the stretches that count."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._device_bytes = self._host_bytes = self._compiled = 0
        self._held: list[int] = []  # on the devices, after each stretch
        self.look()

    def look(self) -> None:
        """What is added from here on counts."""
        self._was = self._now()

    def add(self) -> None:
        """Count what has been added since look()."""
        now = self._now()
        device, host, compiled = (b - a for a, b in zip(self._was, now, strict=True))
        self._device_bytes, self._host_bytes = self._device_bytes + device, self._host_bytes + host
        self._compiled += compiled
        self._held.append(now[0])

    def tell(self, notes: Notes, calls: int) -> None:
        """Note what has grown during this number of calls."""
        if self._compiled > 0:
            notes.note("recompiled", times=self._compiled)
        if calls < 3:
            return
        grown = float(self._device_bytes)
        if (stretches := len(self._held)) > 1:
            # memory that an interleaved body gives back each time does not grow: both assign one name
            grown = min(grown, (self._held[-1] - self._held[0]) * stretches / (stretches - 1))
        if grown / calls >= GROWN_BYTES:
            held = self._now()[0]
            gc.collect()  # what only waits for the collector is not kept by the cell
            grown -= held - self._now()[0]
        if grown / calls >= GROWN_BYTES:
            notes.note("memory grew", bytes_per_call=grown / calls, where="the device")
        elif self._host_bytes >= HOST_GROWN_BYTES:
            notes.note("memory grew", bytes_per_call=self._host_bytes / calls, where="the host")

    def _now(self) -> tuple[int, int, int]:
        memory = self._devices.memory_bytes()
        return memory[0] if memory is not None else 0, peak_bytes(), _compilations()


def _compilations() -> int:
    if "torch._dynamo" not in sys.modules:
        return 0
    from perfmagic.capture.devices.torch_private import compilations

    return compilations()


READ_CLOCKS_EVERY = 16  # samples, as the stopping rule looks


class Watchers:
    """Watches the first call and every sample of one body, all of it outside the clock.

    interleaved: whether other bodies run between its samples, whose memory is not its own.
    """

    def __init__(
        self, spec: BenchSpec, use: DeviceUse, clocks_of: Callable[[tuple[int, ...]], Clocks | None], notes: Notes
    ) -> None:
        self.interleaved = False
        self.peak = PeakMemory(use)
        self.clocks: Clocks | None = None
        self._use, self._clocks_of, self._notes = use, clocks_of, notes
        self._side_effects = SideEffects(spec)
        self._growth: Growth | None = None

    def before_first_call(self) -> None:
        """Look at what the body reads."""
        self._side_effects.before_first_call()

    def after_first_call(self) -> None:
        """See what the call has changed, and which GPUs have clocks to read."""
        self._side_effects.after_first_call()
        cuda = self._use.devices.cuda_indices()
        if cuda and profiled_before():
            self._notes.note("profiled before")
        self.clocks = self._clocks_of(cuda)

    def begin_run(self) -> None:
        """Note what there is before the first sample of a whole run."""
        self._growth = Growth(self._use.devices)
        self._read_clocks()

    def before_sample(self) -> Callable[[], None] | None:
        """Look before a sample; gives what is to be called when all is prepared for it."""
        if self.interleaved and self._growth is not None:
            self._growth.look()
        self._side_effects.before_sample()
        return self.peak.start if self.peak.wanted else None

    def after_sample(self, *, peak_watched: bool) -> None:
        """Look after a sample."""
        self._side_effects.after_sample()
        if peak_watched:
            self.peak.stop()
        if self.interleaved and self._growth is not None:
            self._growth.add()

    def read_clocks_when_due(self, samples: int) -> None:
        """Read the clocks of GPUs after every 16th sample of a run."""
        if samples % READ_CLOCKS_EVERY == 0:
            self._read_clocks()

    def end_run(self, *, first_s: float, median_s: float, calls: int) -> None:
        """Note what was seen.  first_s: of the first call, median_s: of those sampled, calls: made for this run."""
        self._read_clocks()
        self._side_effects.tell(self._notes, first_s, median_s)
        if self._growth is not None:
            if not self.interleaved:
                self._growth.add()
            self._growth.tell(self._notes, calls)
            self._growth = None

    def _read_clocks(self) -> None:
        if self.clocks is not None:
            self.clocks.read()
