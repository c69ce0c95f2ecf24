"""A GPU that is not there, as the simulated device asks for it: times of kernels, of copies and of the host."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real

from perfmagic.base.clock import HOST_NS
from perfmagic.base.errors import OptionError
from perfmagic.base.kinds import KernelTime, OpKind, PredictedFor
from perfmagic.base.work import DTYPE_BYTES, Inputs
from perfmagic.predict.calls import Call, call_of
from perfmagic.predict.gpus import PCIE_BYTES_PER_S, Gpu, gpu_named, link_of, pcie_bytes_per_s, peer_bytes_per_s
from perfmagic.predict.kernels import OLD, can_compute, has_tf32, spread_of, times_ns

OPERATOR_NS = HOST_NS["operator"] + HOST_NS["launch"]  # of an elementwise operator with its launch
# How much longer others take there than an elementwise operator, from records of several machines
_HOST_UNITS = (
    ("convolution backward", 6.0), ("convolution", 4.0), ("attention backward", 4.0), ("attention", 3.0),
    ("product", 2.2), ("batch norm", 3.0), ("norm backward", 2.5), ("norm", 2.0), ("lists of tensors", 4.0),
    ("nonzero", 4.0), ("sort", 3.0), ("index", 1.8), ("reduce", 1.5), ("cat", 1.5), ("pool", 2.0), ("upsample", 2.0),
    ("softmax", 1.2),
)  # fmt: skip
NVLINK_C2C_BYTES_PER_S = 400e9  # GH200, the one device of the table without PCIe
COPY_NS = 2_000  # of a copy of no size
PAGEABLE_FRAC = 0.35  # of the rate of pinned memory: 18 to 25 of 57 GB/s on H100 records
_LARGER = ("A100", "H200", "MI325X")
_FLASH_HEAD = 256  # the longest that flash attention takes (check_head_dim_size_flash)
_TILE = 64  # rows and columns of the smallest tile that counts
_BLOCK_BYTES = 32_768  # that a multiprocessor takes at a time of what is no product

_BATCH_NORMS = ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional")
_FILLS = frozenset({
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "arange",
    "scalar_tensor", "rand", "randn", "randint", "rand_like", "randn_like", "randint_like", "eye", "linspace",
    "bernoulli", "normal", "tril_indices", "triu_indices",
})  # fmt: skip
# Whose results their inputs do not tell the size of: the device knows what they move
_BY_RESULT = {
    **dict.fromkeys(("cat", "stack", "_chunk_cat", "split_with_sizes_copy"), "cat"),  # the last two: FSDP's
    **dict.fromkeys(("select_backward", "slice_backward", "repeat", "constant_pad_nd", "im2col", "col2im"), "copy"),
}


def host_units(call: Call | None) -> float:
    """How much longer the host takes for a call than for an elementwise operator; 1 where it has no model."""
    return next((units for word, units in _HOST_UNITS if word in call.kind), 1.0) if call else 1.0


@dataclass(frozen=True)
class DeviceModel:
    """A GPU as a virtual device has it; the fields are those of perfmagic.DeviceModel.

    >>> DeviceModel("h100").words
    'predicted for H100 SXM, not recorded · ÷ × 1.4'
    """

    name: str
    host_factor: float = 1.0
    device_factor: float = 1.0
    fitted_on: str = ""
    has_module_time: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", gpu_named(self.name).name)
        for what in ("host_factor", "device_factor"):
            factor = getattr(self, what)
            if not (isinstance(factor, Real) and 0 < float(factor) < math.inf):
                raise OptionError(f"{what}={factor!r} is not a positive number", hint="1.2 for a fifth longer")

    @property
    def others(self) -> tuple[DeviceModel, ...]:
        """GPUs whose times are kept beside: of a SideBySide."""
        return ()

    @cached_property
    def gpu(self) -> Gpu:
        return gpu_named(self.name)

    @property
    def predicted(self) -> PredictedFor:
        """What records with its times say of it."""
        return PredictedFor(self.name, self.spread, self.fitted_on)

    @property
    def words(self) -> str:
        """What it is, for people."""
        return self.predicted.words

    @property
    def given(self) -> str:
        """What perfmagic.device() is given for it, in code."""
        return "model" if self.fitted_on else f'"{self.name}"'

    @property
    def memory_bytes(self) -> int:
        """What a device has without memory=."""
        return self.gpu.memory_bytes

    @property
    def larger(self) -> str:
        """A GPU with more memory, for advice; "" for none."""
        return next((name for name in _LARGER if gpu_named(name).memory_bytes > self.memory_bytes), "")

    @property
    def spread(self) -> float:
        """The factor within which four of five predictions of the device's time lie."""
        return spread_of(self.gpu)

    @property
    def host_ns(self) -> Mapping[str, int]:
        """What the host needs for each thing, in ns."""
        found = {what: round(ns * self.host_factor) for what, ns in HOST_NS.items()}
        return found if self.has_module_time else {**found, "module": 0}

    def __call__(self, name: str, kind: OpKind, size_bytes: int) -> float:
        """Seconds of a copy or a fill of this many bytes."""
        if kind == OpKind.MEMCPY and "DtoD" not in name:
            peer = peer_bytes_per_s(self.name) if "PtoP" in name else None
            rate = peer or pcie_bytes_per_s(self.name) or NVLINK_C2C_BYTES_PER_S
            return (COPY_NS + size_bytes / (rate * (PAGEABLE_FRAC if "Pageable" in name else 1)) * 1e9) / 1e9
        moved = Call("elementwise", size_bytes=max(0, size_bytes) * (2 if kind == OpKind.MEMCPY else 1))
        return float(times_ns([moved], self.gpu)[0]) * self.device_factor / 1e9

    def fused_attention(self, dtype: str, *, masked: bool, head_size: int) -> tuple[str, ...]:
        """The fused kernels of attention that torch has there, as sdp_utils.cpp of torch 2.13 chooses them.

        dtype: "torch.float16".  masked: with a mask, which flash attention does not take.  head_size: of elements.
        """
        kinds = []
        half = dtype in ("torch.float16", "torch.bfloat16")
        if half and not masked and head_size <= _FLASH_HEAD and self.gpu.generation not in OLD:
            kinds.append("flash")
        if dtype in ("torch.float32", "torch.float16") or (half and self.gpu.generation not in OLD):
            kinds.append("efficient")
        return tuple(kinds)

    def link_s(self, _name: str, link_bytes: float, steps: int = 1) -> float:
        """Seconds of an operation between such GPUs in one server, by its bytes on a link. Not checked on GPUs."""
        rate, latency_s = link_of(self.name) or (PCIE_BYTES_PER_S[4], 0.0)
        return steps * latency_s + link_bytes / rate

    def kernel(
        self, name: str, inputs: Inputs, outputs: Inputs, moved_bytes: int, *, tf32: bool, strided: bool
    ) -> KernelTime:
        """How long a call of an operator takes.

        outputs: its new results.  moved_bytes: that it reads and writes at least.
        tf32: its products of float32 may be TF32.  strided: elements are not in the order of memory.
        """
        call = self._call(name.removeprefix("aten::"), inputs, outputs, moved_bytes, strided)
        if call is None or not can_compute(call, self.gpu):
            call = Call("elementwise", size_bytes=moved_bytes)
            ns, known = moved_bytes / (self.gpu.gb_per_s * 1e9) * 1e9, False
        else:
            if call.dtype == "fp32" and call.products and has_tf32(self.gpu) and tf32:
                call = replace(call, dtype="tf32")
            ns, known = float(times_ns([call], self.gpu)[0]), True
        host_ns = (OPERATOR_NS * host_units(call) - HOST_NS["launch"]) * self.host_factor
        return KernelTime(ns * self.device_factor, host_ns, known, self._filled_frac(call) > 0.5)

    def _call(self, name: str, inputs: Inputs, outputs: Inputs, moved_bytes: int, strided: bool) -> Call | None:
        plain = name.removesuffix("_")
        if plain in _FILLS and outputs.shapes:
            return Call("elementwise", size_bytes=_bytes(outputs))
        if plain in _BATCH_NORMS or plain == "_native_batch_norm_legit_no_training":
            return self._batch_norm(plain, inputs)
        if plain == "native_batch_norm_backward" and not self.gpu.is_amd:
            name = "cudnn_batch_norm_backward"
        kernel = "elementwise_kernel" if strided else "vectorized_elementwise_kernel"
        call = call_of(f"aten::{name}", inputs, kernel)
        kind = "upsample" if re.fullmatch(r"_?upsample_\w+_backward", plain) else _BY_RESULT.get(plain)
        if kind:
            return Call(kind, size_bytes=moved_bytes, n_kernels=call.n_kernels if call else 1)
        if call is None and plain.startswith("_foreach_"):  # of tensors without dimensions
            return Call("lists of tensors", size_bytes=moved_bytes)
        return call

    def _batch_norm(self, plain: str, inputs: Inputs) -> Call | None:
        training = not plain.endswith("no_training") and inputs.values[5:6] == ("True",)
        if not training:
            return Call("elementwise", size_bytes=2 * _bytes(Inputs(inputs.shapes[:1], inputs.dtypes[:1])))
        return call_of("aten::native_batch_norm" if self.gpu.is_amd else "aten::cudnn_batch_norm", inputs)

    def _filled_frac(self, call: Call) -> float:
        """The share of the multiprocessors that a kernel occupies."""
        if call.tiled:
            blocks = sum(batch * math.ceil(m / _TILE) * math.ceil(n / _TILE) for batch, m, n, _ in call.products)
        else:
            blocks = call.blocks or math.ceil(call.size_bytes / _BLOCK_BYTES)
        return min(1.0, blocks / self.gpu.multiprocessors)


@dataclass(frozen=True)
class SideBySide(DeviceModel):
    """The model of a GPU that also says what others would take. The run follows the first.

    others: their models.
    """

    others: tuple[DeviceModel, ...] = ()

    @property
    def memory_bytes(self) -> int:
        """No limit: a run that one of them cannot hold is to be seen on those that can."""
        return 0

    def kernel(
        self, name: str, inputs: Inputs, outputs: Inputs, moved_bytes: int, *, tf32: bool, strided: bool
    ) -> KernelTime:
        """How long a call of an operator takes on the first GPU, with what the others take."""
        given = (name, inputs, outputs, moved_bytes)
        others = tuple(model.kernel(*given, tf32=tf32, strided=strided) for model in self.others)
        return super().kernel(*given, tf32=tf32, strided=strided)._replace(others=others)


def _bytes(tensors: Inputs) -> int:
    return sum(
        math.prod(shape) * DTYPE_BYTES.get(dtype, 4)
        for shape, dtype in zip(tensors.shapes, tensors.dtypes, strict=True)
    )
