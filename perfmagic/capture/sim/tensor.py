"""What a tensor on the simulated device is: a shape torch sees, and the real memory a stream fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import torch

from perfmagic.capture import torch_private
from perfmagic.capture.sim.jobs import Job, NotComputedError


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

    base: the real tensor, once there.  writer: the last job that writes it.  error: why it will never be there.
    odd: a result whose real shape differs from the inferred one (the CPU's own kernels take it as it is).
    """

    __slots__ = ("__weakref__", "base", "device_index", "error", "odd", "spec", "writer")

    def __init__(self, device_index: int, spec: Spec, base: torch.Tensor | None = None) -> None:
        self.device_index = device_index
        self.spec = spec
        self.base = base
        self.writer: Job | None = None
        self.error: BaseException | None = None
        self.odd = False

    def real(self, spec: Spec) -> torch.Tensor:
        """The real tensor of one view. Raises NotComputedError where the op that makes it failed."""
        if self.error is not None:
            raise NotComputedError(self.error)
        if self.base is None:
            raise NotComputedError(RuntimeError("its op was not run"))
        if spec == self.spec or self.odd:
            return self.base
        return view_of(self.base.untyped_storage(), spec)

    def fill(self, result: torch.Tensor) -> None:
        """Take a kernel's result, in the layout that was promised."""
        spec = self.spec
        self.odd = tuple(result.shape) != spec.size or result.dtype != spec.dtype
        if not self.odd and (tuple(result.stride()), result.storage_offset()) != (spec.stride, spec.offset):
            result = _relaid(result, spec)
        self.base = result


def _relaid(result: torch.Tensor, spec: Spec) -> torch.Tensor:
    if result.numel() and 0 in spec.stride:
        return result  # an expanded result: nothing can be written into it, and as_strided of it is not what was meant
    laid = torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype)
    return laid.copy_(result)


class Ref:
    """A tensor as a job holds it: fixed at the launch, whatever happens to the tensor's shape later."""

    __slots__ = ("buffer", "spec")

    def __init__(self, spec: Spec, buffer: Buffer) -> None:
        self.spec = spec
        self.buffer = buffer

    def real(self) -> torch.Tensor:
        return self.buffer.real(self.spec)


Dispatch = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_installed: dict[str, Dispatch] = {}


def install_dispatch(dispatch: Dispatch) -> None:
    """Set what every operator on a SimTensor goes through."""
    _installed["dispatch"] = dispatch


def _not_numpy(*_: object, **__: object) -> NoReturn:
    raise TypeError(
        "can't convert sim:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    )


class SimTensor(torch.Tensor):
    """A tensor on the simulated device. Made by torch's own functions with device="sim"."""

    _ref: Ref

    @staticmethod
    def __new__(cls: type[SimTensor], ref: Ref) -> SimTensor:  # noqa: PYI034 - Self needs Python 3.11
        spec = ref.spec
        device = torch.device("sim", ref.buffer.device_index)
        t: SimTensor = torch_private.make_wrapper(cls, spec.size, spec.stride, spec.offset, spec.dtype, device)
        t._ref = ref
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
    def data(self) -> torch.Tensor:
        """The tensor without its history; setting it takes over the other's memory."""
        return self.detach()

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        if not isinstance(other, SimTensor):
            raise RuntimeError(f"cannot set .data of a tensor on sim:0 to one on {other.device}; use .to()")
        become(self, other._ref)

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        text = repr(self.detach().cpu()).removesuffix(")")
        if self.grad_fn is not None:
            return f"{text}, device='{self.device}', grad_fn=<{type(self.grad_fn).__name__}>)"
        return f"{text}, device='{self.device}'{', requires_grad=True' if self.requires_grad else ''})"

    def __format__(self, format_spec: str) -> str:
        return format(self.item(), format_spec) if self.dim() == 0 and format_spec else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SimTensor:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user support the deepcopy protocol at the moment"
            )
        twin: SimTensor = _adopt(self.detach().clone(), self.requires_grad, self.__dict__)
        memo[id(self)] = twin
        if self.grad is not None:
            twin.grad = self.grad.__deepcopy__(memo)  # type: ignore[no-untyped-call]
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        extra = {k: v for k, v in self.__dict__.items() if k != "_ref"}
        return _rebuild, (self.detach().cpu(), self.requires_grad, extra)


def become(t: SimTensor, ref: Ref) -> None:
    """Make a tensor stand for other memory or another shape; its history stays."""
    torch.Tensor.data.__set__(t, SimTensor(ref))  # type: ignore[attr-defined]
    t._ref = ref


def _adopt(t: Any, requires_grad: bool, extra: dict[str, Any]) -> Any:
    """Give a copy what made the original a Parameter."""
    t.requires_grad_(requires_grad)
    for key, value in extra.items():
        if key != "_ref":
            setattr(t, key, value)
    return t


def _rebuild(t: torch.Tensor, requires_grad: bool, extra: dict[str, Any]) -> Any:
    """Unpickle: the tensor comes back where it was, so the device has to be there."""
    from perfmagic.capture import sim

    sim.load()
    return _adopt(t.to("sim"), requires_grad, extra)
