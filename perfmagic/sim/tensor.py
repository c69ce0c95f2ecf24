"""What a tensor on the simulated device is: a shape torch sees, and the real memory a stream fills."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn

import torch

from perfmagic.base.clock import VIRTUAL
from perfmagic.base.errors import DeviceError
from perfmagic.sim import torch_private
from perfmagic.sim.blocks import Held
from perfmagic.sim.device import ALIAS, NAME, current_lane, sim_device
from perfmagic.sim.queues import Job, Lane, NotComputedError
from perfmagic.sim.refusals import refuse_address, refuse_compiling

# What a tensor on the simulated device tells of its memory: its size, and no address.


class SimStorage:
    """What Tensor.untyped_storage() returns: it has a size and a device, can be emptied, and refuses all else."""

    def __init__(self, t: SimTensor) -> None:
        self.device, self._ref = t.device, t._ref

    def nbytes(self) -> int:
        return 0 if self._ref.buffer.freed else self._ref.buffer.spec.storage_bytes

    size = __len__ = nbytes

    def resize_(self, size_bytes: int) -> SimStorage:
        """Free the memory (0), or allocate it again: what FSDP does between two uses of a parameter."""
        __tracebackhide__ = True
        if size_bytes not in (0, self._ref.buffer.spec.storage_bytes):
            message = (
                f"untyped_storage().resize_: {self.nbytes()} to {size_bytes} bytes; only 0 and the first size work"
            )
            raise DeviceError(message, hint="make a new tensor of that size")
        if size_bytes != self.nbytes():
            _installed["resize"](self._ref)
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "_weak_ref":  # torch.compile asks, of tensors that it has made itself
            refuse_compiling()
        if name.startswith("_"):  # Python and notebooks look for these everywhere
            raise AttributeError(name)
        refuse_address(f"untyped_storage().{name}")

    def __repr__(self) -> str:
        return f"<storage of {self.nbytes()} bytes on {self.device} (simulated device)>"


class NoValueError(DeviceError):
    """A value was asked for of a tensor that has none: it was not computed (perfmagic.sim.values)."""


class Spec(NamedTuple):
    """Shape, layout and type of a tensor; storage_bytes: of the whole memory it is a part of."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    conj: bool
    neg: bool
    storage_bytes: int


def spec_of(t: torch.Tensor) -> Spec:
    """The spec of a real or meta tensor."""
    size, stride, offset = tuple(t.shape), tuple(t.stride()), int(t.storage_offset())
    return Spec(size, stride, offset, t.dtype, t.is_conj(), t.is_neg(), t.untyped_storage().nbytes())


def view_of(storage: torch.UntypedStorage, spec: Spec, device: str = "cpu") -> torch.Tensor:
    """A plain tensor over given memory."""
    t = torch.empty(0, dtype=spec.dtype, device=device).set_(storage, spec.offset, spec.size, spec.stride)
    if spec.conj:
        t = t.conj()
    return t._neg_view() if spec.neg else t


class Buffer:
    """The memory of a tensor and all its views.

    base: the real tensor, once there.  writer: the last job that writes it.  readers: the last one of each stream that
    has read it since.  error: why it will never be there.
    missing: it has no value, as nothing was computed (perfmagic.sim.values); it never had, or lost its base.
    assumed: what all its bools would be then, were every value finite; None where that does not tell.
    freed: its memory was given back, until it is allocated again.
    odd: a result whose real shape differs from the inferred one (the CPU's own kernels take it as it is).
    unplaced: made by a gradient formula of torch, whose idea of the device is always sim:0: the first op that uses it
    together with tensors of another device settles where it is.
    """

    __slots__ = (
        "__weakref__", "_held", "_missing", "assumed", "base", "device_index", "error", "freed", "odd", "readers",
        "spec", "unplaced", "writer",
    )  # fmt: skip

    def __init__(self, device_index: int, spec: Spec, stream: int, base: torch.Tensor | None = None) -> None:
        __tracebackhide__ = True
        self.device_index = device_index
        self._held: Any = sim_device(device_index).memory.allocate(spec.storage_bytes, stream)
        self.spec = spec
        self.base = base
        self.writer: Job | None = None
        self.readers: dict[Lane, Job] = {}
        self.error: BaseException | None = None
        self.assumed: bool | None = None
        self._missing = self.freed = self.odd = self.unplaced = False

    @property
    def missing(self) -> bool:
        """As above. What ranks move may come from one without values: they know that once they have met."""
        if VIRTUAL and self.writer is not None and self.writer.meets_ranks:
            self.writer.settle()
        return self._missing

    @missing.setter
    def missing(self, value: bool) -> None:
        self._missing = value

    def held(self) -> Held | None:
        """What tensors keep so that the memory counts as allocated. The buffer keeps it until the first call."""
        held = self._held
        if isinstance(held, Held):
            self._held = weakref.ref(held)
            return held
        return None if held is None else held()

    def real(self, spec: Spec) -> torch.Tensor:
        """The real tensor of one view. Raises NotComputedError where the op that makes it failed."""
        if self.error is not None:
            raise NotComputedError(self.error)
        if self.base is None:
            raise NotComputedError(RuntimeError("its op was not run"))
        if spec is self.spec or spec == self.spec or self.odd:
            return self.base
        return view_of(self.base.untyped_storage(), spec)

    def fill(self, result: torch.Tensor) -> None:
        """Take a kernel's result, in the layout that was promised."""
        spec = self.spec
        self.odd = result.shape != spec.size or result.dtype != spec.dtype
        if not self.odd and (result.stride() != spec.stride or result.storage_offset() != spec.offset):
            result = _relaid(result, spec)
        self.base = result


def _relaid(result: torch.Tensor, spec: Spec) -> torch.Tensor:
    if result.numel() and 0 in spec.stride:
        return result  # an expanded result: nothing can be written into it, and as_strided of it is not what was meant
    laid = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
    return laid.copy_(result)


class Ref:
    """A tensor as a job holds it: its shape at the launch, even if it changes later."""

    __slots__ = ("buffer", "spec")

    def __init__(self, spec: Spec, buffer: Buffer) -> None:
        self.spec = spec
        self.buffer = buffer

    def real(self) -> torch.Tensor:
        return self.buffer.real(self.spec)


_installed: dict[str, Callable[..., Any]] = {}


def install(dispatch: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any], **others: Callable[..., Any]) -> None:
    """Set the functions behind SimTensor: for operators; and to, rebuild (unpickles), resize (frees, or allocates)."""
    _installed.update(others, dispatch=dispatch)


@contextmanager
def without_work(instead: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> Iterator[None]:
    """Operators of this thread call another function in the block."""
    dispatch, here = _installed["dispatch"], threading.get_ident()

    def called(*call: Any) -> Any:
        return (instead if threading.get_ident() == here else dispatch)(*call)

    _installed["dispatch"] = called
    try:
        yield
    finally:
        _installed["dispatch"] = dispatch


def _not_numpy(t: torch.Tensor, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        f"can't convert {t.device} device type tensor to numpy. "
        "Use Tensor.cpu() to copy the tensor to host memory first."
    )


_OURS = ("_ref", "_held")  # attributes that belong to one tensor alone


@lru_cache
def _device(index: int, name: str = NAME) -> torch.device:
    return torch.device(name, index)


class SimTensor(torch.Tensor):
    """A tensor on the simulated device. Made by torch's own functions with device="sim".

    torch lets a device written in Python have one index only: its autograd engine refuses others. So torch's own code
    takes every such tensor to be on sim:0. The buffer knows the real device, and `device` returns it. `to` and `cpu`,
    where torch would compare its own idea of it, are done in copies.py. Tensors that torch's code makes on the way, as
    the 0 in `t[t < 0] = 0`, are put on the device of the tensor they are for: see FarTensor and Buffer.unplaced.
    """

    _ref: Ref
    _held: Held | None

    @staticmethod
    def __new__(cls: type[SimTensor], ref: Ref) -> SimTensor:  # noqa: PYI034 - Self needs Python 3.11
        spec = ref.spec
        kind = FarTensor if ref.buffer.device_index else SimTensor
        t: SimTensor = torch_private.make_wrapper(kind, spec.size, spec.stride, spec.offset, spec.dtype, _device(0))
        if spec.conj or spec.neg:
            torch_private.mark_lazy(t, conj=spec.conj, neg=spec.neg)
        t._ref, t._held = ref, ref.buffer.held()
        return t

    __torch_function__ = torch_private.plain_torch_function()
    numpy = __array__ = _not_numpy

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's stub leaves out func
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        __tracebackhide__ = True
        return _installed["dispatch"](func, args, kwargs or {})

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        index = self._ref.buffer.device_index
        return _device(index, ALIAS[0]) if ALIAS and torch_private.in_function_mode() else _device(index)

    def get_device(self) -> int:
        return self._ref.buffer.device_index

    def to(self, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        return _installed["to"](self, *args, **options)

    def cpu(self, memory_format: torch.memory_format = torch.preserve_format) -> torch.Tensor:
        return self.to("cpu", memory_format=memory_format)  # type: ignore[no-any-return]

    def copy_(self, source: Any, non_blocking: bool = False) -> SimTensor:
        __tracebackhide__ = True
        return super().copy_(self._beside(source), non_blocking)  # type: ignore[return-value]

    def __setitem__(self, place: Any, value: Any) -> None:
        __tracebackhide__ = True
        super().__setitem__(place, self._beside(value))

    def _beside(self, source: Any) -> Any:
        """The source on this tensor's device. torch takes both devices for one, and would leave its gradient here."""
        if not (isinstance(source, SimTensor) and source.requires_grad and torch.is_grad_enabled()):
            return source
        return source if source.device == self.device else source.to(self.device)

    def type_as(self, other: torch.Tensor) -> torch.Tensor:
        return self.to(other)  # type: ignore[no-any-return]

    @property
    def data(self) -> torch.Tensor:
        """The tensor without its history; setting it takes over the other's memory."""
        return self.detach()

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        if not isinstance(other, SimTensor):
            raise RuntimeError(f"cannot set .data of a tensor on {self.device} to one on {other.device}; use .to()")
        become(self, other._ref)

    def record_stream(self, stream: Any) -> None:
        """Keep the memory taken until a stream has done what it was given so far, even if the tensor goes before.

        A torch.Stream, which torch.accelerator.current_stream() gives, stands for the current one.
        """
        lane = stream._lane if hasattr(stream, "_lane") else current_lane(self._ref.buffer.device_index)
        lane.commit(Job(lane, "record_stream", partial(_hold, self._held)), ())

    @property
    def __tensor_flatten__(self) -> NoReturn:
        """Refuse torch.compile, which asks for this, and would compile perfmagic's own code."""
        refuse_compiling()
        raise AttributeError("__tensor_flatten__")

    def data_ptr(self) -> NoReturn:
        refuse_address("data_ptr")

    def untyped_storage(self) -> SimStorage:  # type: ignore[override]
        return SimStorage(self)

    def storage(self) -> NoReturn:
        refuse_address("storage")

    def _typed_storage(self) -> NoReturn:
        """torch.multiprocessing and share_memory_() start here."""
        refuse_address("storage, which share_memory_() and torch.multiprocessing use")

    def __dlpack__(self, **_: Any) -> NoReturn:
        refuse_address("__dlpack__")

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        if self._ref.buffer.missing:
            text = f"tensor(no value, shape={tuple(self.shape)}, dtype={self.dtype}"
        else:
            text = repr(self.detach().cpu()).removesuffix(")")
        if self.grad_fn is not None:
            return f"{text}, device='{self.device}', grad_fn=<{type(self.grad_fn).__name__}>)"
        return f"{text}, device='{self.device}'{', requires_grad=True' if self.requires_grad else ''})"

    def __format__(self, format_spec: str) -> str:
        if self.dim() or not format_spec:
            return repr(self)
        try:
            return format(self.item(), format_spec)
        except NoValueError:
            return "no value"

    def __deepcopy__(self, memo: dict[int, Any]) -> SimTensor:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user support the deepcopy protocol at the moment"
            )
        twin: SimTensor = adopt(self.detach().clone(), self.requires_grad, self.__dict__)
        memo[id(self)] = twin
        if self.grad is not None:
            twin.grad = self.grad.__deepcopy__(memo)  # type: ignore[no-untyped-call]
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        extra = {k: v for k, v in self.__dict__.items() if k not in _OURS}
        return _installed["rebuild"], (self.detach().cpu(), self.requires_grad, extra, self._ref.buffer.device_index)


class FarTensor(SimTensor):
    """A tensor on another device than sim:0.

    Functions called with one say so for as long as they run. torch's code makes tensors in them "where this one is",
    which it takes to be sim:0: they are then made there. That costs a call into Python for each attribute and each
    function.
    """

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        __tracebackhide__ = True
        kwargs = kwargs or {}
        with torch_private.without_torch_function():
            if func in _NOT_FACTORIES or kwargs.get("device") is not None or getattr(func, "__name__", "") == "__get__":
                return func(*args, **kwargs)
            before, beside.index = beside.index, _first_index((*args, *kwargs.values()))
            try:
                return func(*args, **kwargs)
            finally:
                beside.index = before


class _Beside(threading.local):
    """The device of the tensor whose function this thread is in; 0 where torch's own idea is right."""

    index = 0


beside = _Beside()
_NOT_FACTORIES = {torch.Tensor.backward}  # runs hooks, which are code of the user's


def _first_index(values: Iterable[Any]) -> int:
    """The device of the first tensor on a simulated device, also one level down."""
    for value in values:
        if isinstance(value, SimTensor):
            return value._ref.buffer.device_index
        if isinstance(value, (list, tuple)):
            for inner in value:
                if isinstance(inner, SimTensor):
                    return inner._ref.buffer.device_index
    return 0


def _hold(held: Held | None) -> None:
    """The body of a job that only refers to memory."""


def become(t: SimTensor, ref: Ref) -> None:
    """Make a tensor stand for other memory or another shape; its history stays."""
    other = SimTensor(ref)
    t.__class__ = type(other)
    with torch_private.without_torch_function():
        torch.Tensor.data.__set__(t, other)  # type: ignore[attr-defined]
    t._ref, t._held = ref, other._held


def adopt(t: Any, requires_grad: bool, extra: dict[str, Any]) -> Any:
    """Copy requires_grad and the user's attributes to a copy of a tensor."""
    t.requires_grad_(requires_grad)
    for key, value in extra.items():
        if key not in _OURS:
            setattr(t, key, value)
    return t
