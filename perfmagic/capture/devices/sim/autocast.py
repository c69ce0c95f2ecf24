"""torch.autocast("sim"): which operators take a lower precision, and which keep float32, as with CUDA.

Source: torch/csrc autocast_mode.h, the lists for CUDA of 2.13, those of them that do not consist of others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from perfmagic.capture.devices import torch_private
from perfmagic.capture.devices.sim.infer import map_tree

KEY = "AutocastPrivateUse1"
LOWER = (
    "mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "matmul", "linear", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "prelu",
    "scaled_dot_product_attention", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell",
)  # fmt: skip
FLOAT32 = (
    "acos", "asin", "cosh", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh", "tan",
    "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "group_norm", "nll_loss", "nll_loss2d", "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    "kl_div", "binary_cross_entropy_with_logits", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "prod",
    "sum", "sum.dim_IntList", "cdist", "norm.Scalar", "norm.ScalarOpt_dim", "dist",
)  # fmt: skip


def register() -> list[Any]:
    """Teach autocast the device. Returns what has to stay alive for that."""
    everything: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
    everything.fallback(torch.library.fallthrough_kernel, KEY)
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for names, wanted in ((LOWER, _lower), (FLOAT32, _float32)):
        for name in names:
            operator = torch_private.operator_named(name)
            if operator is not None:
                library.impl(name, _casting(operator, wanted), KEY)
    library.impl("binary_cross_entropy", _refuse, KEY)
    return [everything, library]


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "binary_cross_entropy is unsafe under autocast: its values overflow. "
        "Use binary_cross_entropy_with_logits, which takes what was there before the sigmoid."
    )


def _lower() -> torch.dtype:
    return torch.get_autocast_dtype("sim")


def _float32() -> torch.dtype:
    return torch.float32


def _casting(operator: Any, wanted: Callable[[], torch.dtype]) -> Callable[..., Any]:
    def cast_and_call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        dtype = wanted()

        def cast(t: torch.Tensor) -> torch.Tensor:
            other = t.is_floating_point() and t.dtype not in (dtype, torch.float64) and t.device.type == "sim"
            return t.to(dtype) if other else t

        with torch.autocast("sim", enabled=False):
            return operator(*map_tree(args, torch.Tensor, cast), **map_tree(kwargs, torch.Tensor, cast))

    return cast_and_call
