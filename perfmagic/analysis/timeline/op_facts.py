"""What a table of device ops says of each beside its times: how much it moved, and the function it came from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from perfmagic.analysis.timeline.by_path import op_paths
from perfmagic.analysis.timeline.collectives import op_bytes
from perfmagic.analysis.timeline.origin import frames
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from perfmagic.trace.paths import NOWHERE


def op_sizes(trace: Trace, comm_names: str | None = None) -> list[int | None]:
    """The bytes of each copy, memset and collective (one rank's whole buffer), None where unknown; in order of ops."""
    known = op_bytes(trace, comm_names)
    return [known.get(row, None if size == NONE else size) for row, size in enumerate(trace.ops.size_bytes.tolist())]


def followed_frames(trace: Trace) -> dict[str, npt.NDArray[np.object_]]:
    """The innermost line of the user's functions that launched each op, as a column "frame"; none where not followed.

    "In[2](4): f", or "train.py(3): step" as the frames of a profiler are written; these stand where an op has one.
    """
    paths = trace.paths
    if paths is None:
        return {}
    recorded = frames(trace)
    found = np.empty(len(trace.ops), object)
    for i, (path, row) in enumerate(zip(op_paths(trace).tolist(), recorded.row.tolist(), strict=True)):
        function = None if path == NOWHERE else paths.functions[paths.function[path]]
        if row != NONE:
            found[i] = recorded.words[row]
        elif function is not None and not function.is_cell:
            found[i] = f"{function.file}({paths.line[path]}): {function.name}"
    return {"frame": found}
