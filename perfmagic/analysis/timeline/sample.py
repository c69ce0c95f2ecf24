"""Whether a file is a sample of a recording: thinned out before it was written, so that most calls are missing."""

from __future__ import annotations

import numpy as np

from perfmagic import units
from perfmagic.numerics.grouped import distinct
from perfmagic.trace.columns import NONE
from perfmagic.trace.model import Trace
from perfmagic.trace.once import once_per_trace
from perfmagic.trace.remarks import Remark

# CUDA numbers each call into the driver. torch.profiler leaves out those that tell little; of the others whole
# recordings have 6 to 32 % of the numbers in between, 3 % in one of 39 calls; two thinned out ones 0.5 % (traces/)
MOST_FRAC = 0.02
LEAST_CALLS = 200  # a few calls lie far apart by chance
# a whole recording has calls that execute nothing: events, queries, synchronisations, half of all and more (traces/)
ONLY_LAUNCHES_FRAC = 0.95


@once_per_trace
def sample(trace: Trace) -> Remark | None:
    """Why a file is taken for a sample of a recording, in a sentence; None where nothing says so."""
    ids = distinct(trace.calls.correlation[trace.calls.correlation != NONE])
    if len(ids) < LEAST_CALLS:
        return None
    n_ids = int(ids[-1] - ids[0]) + 1
    n_launched = int(np.isin(ids, trace.ops.correlation).sum())
    if len(ids) >= MOST_FRAC * n_ids or n_launched < ONLY_LAUNCHES_FRAC * len(ids):
        return None
    share = f"{units.percent_known(len(ids) / n_ids)}; whole recordings have more than {units.percent(MOST_FRAC)}"
    spread = f"the numbers of its {units.count(len(ids))} calls span {units.count(n_ids)} ({share})"
    words = (
        f"the file looks like a sample of a recording: {spread}, and {units.count(n_launched)} of them launched an op"
    )
    numbers = {"n_calls": len(ids), "n_call_numbers": n_ids, "n_calls_with_op": n_launched}
    return Remark("sample", words, numbers)
