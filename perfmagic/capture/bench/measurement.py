"""A result as a torch.utils.benchmark.Measurement, for torch's own tables (Compare) and fuzzers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmagic.capture.devices.backends import require_torch


def measurement(
    samples_s: Sequence[float], *, calls_per_sample: int, code: str, setup: str, label: str, description: str
) -> Any:
    """The Measurement that holds these samples.

    samples_s: seconds a call; torch keeps seconds a sample, so they are multiplied by calls_per_sample again.
    Raises TorchMissingError without torch.
    """
    torch = require_torch("a Measurement")
    from torch.utils.benchmark import Measurement
    from torch.utils.benchmark.utils.common import TaskSpec

    lines = [line.strip() for line in code.splitlines() if line.strip() and not line.startswith("%%")]
    task = TaskSpec(
        stmt=code or "pass",
        setup=setup or "pass",
        label=label,
        sub_label=(f"{lines[0]} …" if len(lines) > 1 else lines[0]) if lines else "a function",  # torch's row, one line
        description=description,  # its column: Compare fails without one, and pools what has the same
        num_threads=torch.get_num_threads(),
    )
    return Measurement(calls_per_sample, [s * calls_per_sample for s in samples_s], task)
