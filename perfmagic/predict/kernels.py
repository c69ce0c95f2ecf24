"""How long calls take on a GPU: a floor, and the longer of arithmetic by tiles and waves, and bytes.

A matrix product is cut into tiles, and its k into parts where tiles are few; multiprocessors take them in waves, and
the quickest of some tilings counts. Efficiencies and floors are fitted on recordings (parameters.json).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmagic.predict.calls import Call
from perfmagic.predict.gpus import Gpu

Float64 = npt.NDArray[np.float64]

# (rows, columns, share of the peak), on tensor cores and on ordinary ones: the tile shapes of CUTLASS's default kernels
_TILES = (
    (256, 128, 1.0, 1.0), (128, 256, 1.0, 1.0), (128, 128, 0.95, 1.0), (128, 64, 0.8, 1.0), (64, 128, 0.8, 1.0),
    (64, 64, 0.6, 0.9), (32, 64, 0.4, 0.6), (64, 32, 0.4, 0.6), (32, 32, 0.25, 0.6), (16, 128, 0.3, 0.6),
    (128, 16, 0.3, 0.6),
)  # fmt: skip
_PARTS = (1, 2, 4, 8, 16)  # of k
_LEAST_K = 32  # what a part is at least
_K_STEP = 64  # elements of k that a tile takes at a time, in the parameter "step of k"
_PARTIAL_BYTES = 4  # of a partial sum
# Of the memory's bandwidth, by a product that reads a large matrix for few rows. The records' matrices are of 71 MB at
# most, and nearly all fit a cache, so that this is no fit: gpt-fast's README has 104.9 tokens/s of Llama-2-7B in
# bfloat16 on an A100 80 GB, 13.2 GB in 161 products in 9.5 ms, of which floors take 1.0 and other kernels some 0.6
STREAMED_FRAC = 0.81
# Of the boost clock's rate: 24 of 65 TFLOP/s for 4096² in half precision, at 70 W
_SUSTAINED = {"T4": 0.6}
OLD = ("pascal", "volta", "turing")  # without TF32 and bfloat16
_NEW = ("hopper", "blackwell")  # begin kernels sooner

# Where a fit begins and what it is drawn to: the same for all kinds and makers, so that nothing seen is in it
START = {
    "floor": 2e3, "more floor": 1e3, "step": 80.0,  # ns
    "bandwidth": 0.6, "arithmetic": 0.5, "unaligned": 0.5, "winograd": 0.8,  # shares
}  # fmt: skip
_FLOORS = ("convolution", "attention", "product", "index", "softmax", "norm", "reduce")  # kinds with more of a floor
SPREAD, SPREAD_UNSEEN = 1.4, 1.5  # hold four of five records: benchmarks/results/predict.md


def times_ns(calls: Sequence[Call], gpu: Gpu) -> Float64:
    """How long calls take on a GPU by the fitted parameters, in ns; shape of calls.

    >>> from perfmagic.predict.gpus import gpu_named
    >>> half, whole = times_ns([Call("elementwise", size_bytes=size) for size in (1e9, 2e9)], gpu_named("H100"))
    >>> 1.9 < whole / half < 2
    True
    """
    batch = Batch([(call, gpu) for call in calls])
    return batch.times_ns(batch.logs(fitted()["factors"]))


def took_tf32(call: Call, gpu: Gpu, ns: float) -> bool:
    """Whether a product of float32 that a GPU's model gave this time was one of TF32: the nearer of both times.

    A fitted model has all times by a factor, so neither need be met.
    """
    if not has_tf32(gpu):
        return False
    fp32_ns, tf32_ns = times_ns([call, replace(call, dtype="tf32")], gpu).tolist()
    return ns < math.sqrt(fp32_ns * tf32_ns)


def spread_of(gpu: Gpu) -> float:
    """The factor within which four of five predictions for a GPU lie."""
    return SPREAD if gpu.name.partition(" ")[0] in fitted()["gpus"] else SPREAD_UNSEEN


@cache
def fitted() -> dict[str, Any]:
    """The parameters that benchmarks/predict.py --fit wrote: factors by name, the GPUs that it saw."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("parameters.json").read_text())
    return found


def has_tf32(gpu: Gpu) -> bool:
    """Whether torch's float32 may be TF32 there: AMD's matrix cores take float32 as it is."""
    return not gpu.is_amd and gpu.generation not in OLD


def can_compute(call: Call, gpu: Gpu) -> bool:
    """Whether a GPU has a known rate for a call's arithmetic: without float8 a program would be another one."""
    return not call.flop or call.dtype != "fp8" or "fp8" in gpu.tflops


def flop_per_s(gpu: Gpu, dtype: str) -> float:
    """The peak of arithmetic on a type as torch does it: without TF32 or bf16 it is float32."""
    if (dtype == "tf32" and not has_tf32(gpu)) or (dtype == "bf16" and gpu.generation in OLD):
        dtype = "fp32"
    if dtype not in gpu.tflops:
        dtype = "fp16" if dtype in ("bf16", "fp8") else "fp32"
    return gpu.tflops[dtype] * 1e12 * _SUSTAINED.get(gpu.name, 1.0)


def data_sheet_ns(call: Call, gpu: Gpu) -> float:
    """The least by the data sheet alone, in ns: FLOP at the peak, or bytes at the bandwidth."""
    return max(call.flop / flop_per_s(gpu, call.dtype), call.size_bytes / (gpu.gb_per_s * 1e9)) * 1e9


def _is_plain(call: Call) -> bool:
    """Whether the arithmetic is of ordinary cores."""
    return call.dtype in ("fp32", "fp64")


def _terms(call: Call) -> dict[str, str]:
    """The parameters that a call's time depends on, by what they are."""
    kind = call.kind
    found = {"floor": "floor"}
    if not call.streamed:
        found["bandwidth"] = f"bandwidth of {kind}"
    group = next((word for word in _FLOORS if word in kind), "")
    if group:
        found["more floor"] = f"more floor of {'reduce' if group in ('softmax', 'norm') else group}"
    if call.flop:
        found["arithmetic"] = f"arithmetic of {kind}{' fp32' if _is_plain(call) else ''}"
    if not call.aligned and kind == "softmax of long rows":
        found["unaligned"] = "unaligned rows"
    if not call.aligned and call.tiled and not _is_plain(call):
        found["unaligned"] = "unaligned products"
    if call.winograd:
        found["winograd"] = "winograd"
    if call.tiled:
        found["step"] = "step of k"
    return found


def _with_family(name: str, gpu: Gpu) -> tuple[str, ...]:
    """A parameter and its factor for a family of devices, which is 1 where no device of the family was recorded."""
    if gpu.is_amd:
        return name, f"{name} @amd"
    return (name, f"{name} @new") if "floor" in name and gpu.generation in _NEW else (name,)


class Batch:
    """Calls on GPUs as columns, so that their times follow from parameters at once."""

    def __init__(self, pairs: Sequence[tuple[Call, Gpu]]) -> None:
        self.role: dict[str, str] = {}  # of each parameter, by name
        self._row: dict[str, int] = {}
        n = len(pairs)
        self._numbers = {role: np.zeros((n, 2), np.int64) for role in START}
        self._has = {role: np.zeros(n, bool) for role in START}
        for at, (call, gpu) in enumerate(pairs):
            for role, name in _terms(call).items():
                numbers = [self._numbered(one, role) for one in _with_family(name, gpu)]
                self._numbers[role][at, : len(numbers)] = numbers
                self._has[role][at] = True
        self._n_kernels = np.array([call.n_kernels for call, _ in pairs])
        share = {True: STREAMED_FRAC, False: 1.0}
        self._bytes_s = np.array([call.size_bytes / (gpu.gb_per_s * 1e9 * share[call.streamed]) for call, gpu in pairs])
        self._flop_s = np.array([_waved_flop(call, gpu) / flop_per_s(gpu, call.dtype) for call, gpu in pairs])
        self._products = _Products(pairs)

    def _numbered(self, name: str, role: str) -> int:
        """Row of a parameter, from 1: row 0 is the factor 1."""
        if name not in self.role:
            self.role[name] = role
            self._row[name] = len(self.role)
        return self._row[name]

    def logs(self, factors: Mapping[str, float]) -> Float64:
        """The logarithms of the parameters, in the order of `role`; one that is not given is where a fit begins."""
        known = {name: 1.0 if "@" in name else START[role] for name, role in self.role.items()} | dict(factors)
        return np.array([math.log(known[name]) for name in self.role])

    def times_ns(self, logs: Float64) -> Float64:
        """The time of each call.  logs: of the parameters, in the order of `role`."""
        known = np.concatenate(([0.0], logs))
        value = {role: np.exp(known[numbers].sum(axis=1)) for role, numbers in self._numbers.items()}
        unaligned = value["unaligned"]
        no_product = self._products.count == 0
        bytes_s = self._bytes_s / value["bandwidth"] / np.where(no_product, unaligned, 1.0)
        arithmetic_s = self._flop_s / value["arithmetic"] * no_product
        share = value["arithmetic"] * np.where(no_product, 1.0, unaligned)
        arithmetic_s += self._products.seconds(share, value["bandwidth"], value["step"] * 1e-9) * value["winograd"]
        floor_ns = value["floor"] * self._n_kernels + value["more floor"] * self._has["more floor"]
        return np.asarray(floor_ns + np.maximum(arithmetic_s, bytes_s) * 1e9, np.float64)


def _waved_flop(call: Call, gpu: Gpu) -> float:
    """FLOP with the idle multiprocessors of the last wave, three times as many at most."""
    if not call.blocks:
        return call.flop
    waves = call.blocks / gpu.multiprocessors
    return call.flop * min(math.ceil(waves) / waves, 3.0)


class _Products:
    """The matrix products of calls, in each tiling; `owner` is the call of each."""

    def __init__(self, pairs: Sequence[tuple[Call, Gpu]]) -> None:
        tiled = [(at, call, gpu) for at, (call, gpu) in enumerate(pairs) if call.tiled]
        rows = [(at, call, gpu, sizes) for at, call, gpu in tiled for sizes in call.products]
        self.owner = np.array([row[0] for row in rows], np.int64)
        self.count = np.bincount(self.owner, minlength=len(pairs))
        sizes = np.array([row[3] for row in rows], np.float64).reshape(-1, 4)
        batch, m, n, k = (column[:, None, None] for column in sizes.T)
        units = np.array([gpu.multiprocessors for _, _, gpu, _ in rows], np.float64)[:, None, None]
        rate = np.array([flop_per_s(gpu, call.dtype) / gpu.multiprocessors for _, call, gpu, _ in rows])[:, None, None]
        gb = np.array([gpu.gb_per_s * 1e9 for _, _, gpu, _ in rows])[:, None, None]
        plain = np.array([_is_plain(call) for _, call, _, _ in rows], bool)[:, None, None]
        tile_m, tile_n, tensor, ordinary = (np.array(column)[None, :, None] for column in zip(*_TILES, strict=True))
        parts = np.array(_PARTS, np.float64)[None, None, :]
        tiles = batch * np.ceil(m / tile_m) * np.ceil(n / tile_n)
        waves = np.ceil(tiles * parts / units)
        part_k = np.maximum(_LEAST_K, np.ceil(k / parts))
        self._compute_s = waves * 2 * tile_m * tile_n * part_k / (rate * np.where(plain, ordinary, tensor))
        self._partial_s = (parts > 1) * parts * batch * m * n * _PARTIAL_BYTES / gb
        self._steps = waves * part_k / _K_STEP
        # k is cut only where its tiles leave multiprocessors idle
        self._compute_s[np.broadcast_to((parts > 1) & (tiles >= units), self._compute_s.shape)] = np.inf

    def seconds(self, share: Float64, bandwidth_frac: Float64, step_s: Float64) -> Float64:
        """Of each call, of its products one after the other; shape of the calls."""
        if not len(self.owner):
            return np.zeros(len(self.count))
        share, bandwidth_frac, step_s = (value[self.owner, None, None] for value in (share, bandwidth_frac, step_s))
        tiled = np.maximum(self._compute_s / share + self._partial_s / bandwidth_frac, self._steps * step_s)
        return np.bincount(self.owner, tiled.min(axis=(1, 2)), len(self.count)).astype(np.float64)
