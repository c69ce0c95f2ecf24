"""What a record cannot be trusted in, with what is therefore not predicted from it."""

from __future__ import annotations

from dataclasses import replace

from perfmagic.analysis.replay.path_shares import why_not_told
from perfmagic.analysis.timeline.trust import Trust, trust
from perfmagic.trace.model import Trace
from perfmagic.trace.remarks import Remark


def told_trust(trace: Trace, comm_names: str | None = None) -> Trust:
    """The trust counts of a trace, and why it has no critical path or no gains where it has none.

    comm_names: a regular expression that says which kernels are communication, None for the default rule.
    """
    why = why_not_told(trace, comm_names)
    return replace(trust(trace), untold=(Remark("untold", why),)) if why else trust(trace)
