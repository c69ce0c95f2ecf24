"""Who holds which block of memory: modules, optimizers, graphs of autograd, variables, the last error.

Only numbers and words are kept, never a tensor or a frame. Nothing is unpacked, and no property of a stranger runs: of
objects only the type is asked, of containers and the notebook's own classes also what they contain.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from perfmagic.base.clock import read_ns
from perfmagic.capture.watch.user_code import UserCode
from perfmagic.trace.columns import HOST_DEVICE, NONE, BlockRole

_WITH_ADDRESSES = ("cpu", "cuda")  # of their blocks torch's profiler tells
DEEPEST = 2  # containers in containers
MOST_ITEMS = 10_000  # of one container
_OWN_NAMES = frozenset({"In", "Out", "get_ipython", "exit", "quit", "open", "_", "__", "___", "_oh", "_dh"})


@dataclass(frozen=True)
class Holder:
    """What a block is, and its name: `net.a.weight`, `losses[0]`; of a function that failed `x (f, line 3; …)`."""

    role: BlockRole
    name: str


@dataclass(frozen=True)
class Place:
    """A piece of memory of the host or of a CUDA device, and who held it.

    device: HOST_DEVICE or an index.  at_ns: when it was held, by base.clock.reader(); there may be several times.
    """

    device: int
    address: int
    size_bytes: int
    holder: Holder
    at_ns: list[int]


@dataclass(frozen=True)
class Holders:
    """Who holds what: blocks of the simulated device by their number, others by where they lie."""

    by_number: dict[float, Holder] = field(default_factory=dict)
    places: dict[tuple[int, int, BlockRole, str], Place] = field(default_factory=dict)

    def on_devices(self) -> Holders:
        """Without what lies in the host's memory."""
        return Holders(
            self.by_number, {key: place for key, place in self.places.items() if place.device != HOST_DEVICE}
        )


def holders(torch: Any, names: Mapping[str, Any], error: BaseException | None = None) -> Holders:
    """Who holds blocks of memory now; where there are several, the most telling one.

    names: the notebook's.  error: that has ended the cell, beside the last one that Python knows.
    """
    claims = _Claims(torch)
    variables = [(name, value) for name, value in list(names.items()) if not _is_shells(name)]
    # what a container has collected stays when the variable that it came from has another value
    variables.sort(key=lambda pair: type(pair[1]) not in (list, tuple, dict, set))
    for name, value in variables:
        claims.whole(name, value)
    for name, value in variables:
        claims.leaves(name, value)
    for name, value in variables:
        claims.graphs(name, value)
    for name, value in variables:
        claims.variable(name, value)
    out = names.get("Out")
    for number, value in list(out.items()) if type(out) is dict else ():
        claims.variable(f"Out[{number}]", value)
    for name in ("_", "__", "___"):
        claims.variable(name, names.get(name))
    left = list(_of_errors(error))
    for name, value, where in left:
        claims.graphs(name, value, where)
    for name, value, where in left:
        claims.variable(name, value, where)
    return claims.holders


def most_telling(step: Holder | None, name: Holder | None) -> Holder | None:
    """The holder to show, given what an optimizer and a name say. A name says more; a parameter stays a parameter."""
    if step is None or (name is not None and name.role not in (BlockRole.GRAPH, BlockRole.HELD)):
        return name
    return step if name is None or step.name else Holder(step.role, name.name)


class OptimizerSteps:
    """Parameters, gradients and state of every optimizer that steps; a resource of perfmagic.capture.owner."""

    def __init__(self, torch: Any) -> None:
        self._claims = _Claims(torch)
        self._hooks: list[Any] = []

    @property
    def holders(self) -> Holders:
        return self._claims.holders

    def acquire(self) -> None:
        for name, hook in (("pre", self._before), ("post", self._after)):
            module = sys.modules.get("torch.optim.optimizer")
            register: Callable[[Any], Any] | None = getattr(module, f"register_optimizer_step_{name}_hook", None)
            if register is not None:
                self._hooks.append(register(hook))

    def give_back(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def _before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._claims.parameter("", parameter)

    def _after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._claims.optimizer("", optimizer)


class _Claims:
    """The holders found so far. The first claim of a block of the simulated device wins."""

    def __init__(self, torch: Any) -> None:
        self._tensor, self._module = torch.Tensor, torch.nn.Module
        self._optimizer = torch.optim.Optimizer
        self.holders = Holders()

    def claim(self, tensor: Any, role: BlockRole, name: str) -> None:
        tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
        number = getattr(tensor, "_held", None)
        if number is not None:
            self.holders.by_number.setdefault(float(number), Holder(role, name))
            return
        with suppress(Exception):  # a tensor without memory of its own
            if tensor.device.type not in _WITH_ADDRESSES:
                return
            storage = tensor.untyped_storage()
            device, address = tensor.device.index, storage.data_ptr()
            device = HOST_DEVICE if tensor.device.type == "cpu" else device
            known = self.holders.places.get((device, address, role, name))
            if known is None:
                known = Place(device, address, storage.nbytes(), Holder(role, name), [])
                self.holders.places[device, address, role, name] = known
            known.at_ns.append(read_ns())

    def parameter(self, name: str, parameter: Any) -> None:
        self.claim(parameter, BlockRole.PARAMETER, name)
        if parameter.is_leaf and parameter.grad is not None:
            self.claim(parameter.grad, BlockRole.GRADIENT, f"{name}.grad" if name else "")

    def optimizer(self, name: str, optimizer: Any) -> None:
        for state in list(optimizer.state.values()):
            for key, value in list(state.items()):
                if issubclass(type(value), self._tensor):
                    self.claim(value, BlockRole.OPTIMIZER, f"{key} of {name}" if name else str(key))

    def whole(self, name: str, value: Any) -> None:
        """Modules and optimizers, with all that is theirs."""
        for path, item in _inside(name, value):
            kind = type(item)
            with suppress(Exception):  # the user's own module, whose methods may do anything
                if issubclass(kind, self._module):
                    for inner, parameter in item.named_parameters():
                        self.parameter(f"{path}.{inner}", parameter)
                    for inner, buffer in item.named_buffers():
                        self.claim(buffer, BlockRole.BUFFER, f"{path}.{inner}")
                elif issubclass(kind, self._optimizer):
                    self.optimizer(path, item)

    def leaves(self, name: str, value: Any) -> None:
        """Leaf tensors are data, even where a graph has saved them too."""
        for path, item in _inside(name, value):
            if issubclass(type(item), self._tensor) and item.is_leaf:
                self.claim(item, BlockRole.HELD, path)

    def graphs(self, name: str, value: Any, where: str = "") -> None:
        """What the graph of a tensor has saved for a backward pass that has not come."""
        from perfmagic.capture.devices import torch_private  # a cell without torch is recorded, too

        for path, item in _inside(name, value):
            if issubclass(type(item), self._tensor) and not item.is_leaf:
                for saved in torch_private.saved_in_graph(item.grad_fn):
                    self.claim(saved, BlockRole.GRAPH, path + where)

    def variable(self, name: str, value: Any, where: str = "") -> None:
        for path, item in _inside(name, value):
            if issubclass(type(item), self._tensor):
                self.claim(item, BlockRole.HELD, path + where)
                if item.is_leaf and item.grad is not None:
                    self.claim(item.grad, BlockRole.GRADIENT, f"{path}.grad")


def _inside(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """A value, and what containers and objects of the notebook's own classes contain, each with its path."""
    kind = type(value)
    if kind in (list, tuple):
        items = [(f"{name}[{i}]", item) for i, item in enumerate(value[:MOST_ITEMS])]
    elif kind is dict:
        items = [(f"{name}[{key!r:.40}]", item) for key, item in list(value.items())[:MOST_ITEMS] if _is_plain(key)]
    elif kind is set:
        items = [(f"{name}{{…}}", item) for item in list(value)[:MOST_ITEMS]]
    elif kind.__module__ == "__main__" and type(getattr(value, "__dict__", None)) is dict and not _is_module(value):
        items = [(f"{name}.{key}", item) for key, item in list(value.__dict__.items())[:MOST_ITEMS]]
    else:
        yield name, value
        return
    if depth < DEEPEST:
        for path, item in items:
            yield from _inside(path, item, depth + 1)


def _is_plain(key: Any) -> bool:
    return type(key) in (str, int, float, bool, tuple)


def _is_module(value: Any) -> bool:
    return hasattr(type(value), "named_parameters") or issubclass(type(value), type)


def _is_shells(name: str) -> bool:
    return name in _OWN_NAMES or name.startswith("_i") or (name[:1] == "_" and name[1:].isdigit())


def _of_errors(error: BaseException | None) -> Iterator[tuple[str, Any, str]]:
    """The local variables of functions that an error has left, which its traceback keeps: name, value, and where.

    Those of the user's functions come first: the user can delete them.
    """
    is_user_code = UserCode()
    seen: set[int] = set()
    for last in (error, getattr(sys, "last_exc", None), getattr(sys, "last_value", None)):
        raised = last
        while raised is not None and id(raised) not in seen:
            seen.add(id(raised))
            for frame, line in sorted(_frames(raised.__traceback__), key=lambda at: not is_user_code(at[0].f_code)):
                where = f" ({frame.f_code.co_name}, line {line}; traceback of the last {type(raised).__name__})"
                for name, value in list(frame.f_locals.items()):
                    yield name, value, where
            raised = raised.__cause__ or raised.__context__


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames below the cell's own, which have ended: asking a running one for its variables would keep them."""
    below = False
    while trace is not None:
        if below:
            yield trace.tb_frame, trace.tb_lineno
        below = below or trace.tb_frame.f_code.co_name == "<module>"
        trace = trace.tb_next


# Who held the blocks that torch's profiler recorded, by address and time.

_PIECE_BYTES = 512  # CUDA's caching allocator gives multiples of it
_FOREVER = np.iinfo(np.int64).max


def held_blocks(
    blocks: dict[str, Any], steps: Holders, names: Holders, offset_ns: int, start_ns: int
) -> tuple[dict[str, Any], list[Holder | None]]:
    """The blocks, with those of before that names and optimizers lead to, and who held each.

    offset_ns: from the clock of the places to that of the blocks.  start_ns: of the recording, by the blocks' clock.
    """
    of_steps, of_names = _by_address(steps), _by_address(names)
    columns = {name: np.array(column, np.int64) for name, column in blocks.items()}
    block_holders: list[Holder | None] = [None] * len(columns["address"])
    for row in np.flatnonzero(np.isin(columns["address"], [key[1] for key in (*of_steps, *of_names)])).tolist():
        key = int(columns["device"][row]), int(columns["address"][row])
        freed_ns = int(columns["free_ns"][row])
        begin = 0 if columns["before"][row] else int(columns["alloc_ns"][row]) - offset_ns
        end = _FOREVER if freed_ns == NONE else freed_ns - offset_ns
        block_holders[row] = most_telling(_held(of_steps, key, begin, end), _held(of_names, key, begin, end))
    lumps = {int(columns["device"][row]): row for row in np.flatnonzero(columns["address"] == NONE).tolist()}
    stay = np.flatnonzero(columns["free_ns"] == NONE)
    seen = set(zip(columns["device"][stay].tolist(), columns["address"][stay].tolist(), strict=True))
    added = []
    for place in _of_before(steps, names, seen):
        size = place.size_bytes
        lump = lumps.get(place.device)
        if place.device != HOST_DEVICE:
            size = -(-size // _PIECE_BYTES) * _PIECE_BYTES
            if lump is not None:
                if columns["size_bytes"][lump] < size:
                    continue  # the allocator knows of no such block: another library gave it
                columns["size_bytes"][lump] -= size
        added.append(_of_place(place, size, start_ns))
        held = _held(of_names, (place.device, place.address), 0, _FOREVER)
        block_holders.append(
            most_telling(place.holder, held) if place.holder.role not in (BlockRole.GRAPH, BlockRole.HELD) else held
        )
    for name in columns if added else ():
        columns[name] = np.append(columns[name], [row.get(name, NONE) for row in added])
    return columns, block_holders


def _by_address(holders: Holders) -> dict[tuple[int, int], list[Place]]:
    places: defaultdict[tuple[int, int], list[Place]] = defaultdict(list)
    for place in holders.places.values():
        places[place.device, place.address].append(place)
    return places


def _held(places: dict[tuple[int, int], list[Place]], key: tuple[int, int], begin: int, end: int) -> Holder | None:
    """Who held an address between two times: the first that claimed it."""
    for place in places.get(key, ()):
        at = bisect_left(place.at_ns, begin)
        if at < len(place.at_ns) and place.at_ns[at] <= end:
            return place.holder
    return None


def _of_before(steps: Holders, names: Holders, seen: set[tuple[int, int]]) -> Iterator[Place]:
    """Places that names lead to at the end and no event reported: they existed before, and stay."""
    for place in (*names.places.values(), *steps.places.values()):
        key = place.device, place.address
        stays = place.holder.role in (BlockRole.PARAMETER, BlockRole.BUFFER, BlockRole.OPTIMIZER)
        from_names = (place.device, place.address, place.holder.role, place.holder.name) in names.places
        if place.size_bytes and key not in seen and (from_names or stays):
            seen.add(key)
            yield place


def _of_place(place: Place, size_bytes: int, start_ns: int) -> dict[str, int]:
    """The columns of a block of before that have a value."""
    return {
        "device": place.device,
        "address": place.address,
        "size_bytes": size_bytes,
        "alloc_ns": start_ns,
        "before": 1,
        "thread": 0,
    }
