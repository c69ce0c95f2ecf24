"""perfmagic.explain(): one rule of the findings, asked alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, overload

from perfmagic.analysis.findings.explain import Explanation, Explanations, check_rule, explain_all
from perfmagic.analysis.findings.explain import explain as explain_rule
from perfmagic.base.errors import OptionError
from perfmagic.trace.model import Trace
from perfmagic.trace.names import check_matches, checked_pattern

if TYPE_CHECKING:
    from perfmagic.results import TimelineResult

__all__ = ["explain"]


@overload
def explain(
    source: TimelineResult | Trace | str | os.PathLike[str], rule: str, *, comm_names: str | None = None
) -> Explanation: ...


@overload
def explain(
    source: TimelineResult | Trace | str | os.PathLike[str], rule: None = None, *, comm_names: str | None = None
) -> Explanations: ...


def explain(
    source: TimelineResult | Trace | str | os.PathLike[str], rule: str | None = None, *, comm_names: str | None = None
) -> Explanation | Explanations:
    """Why does a timeline have a finding, or not have it? Asks one rule alone, or all of them.

    source: a timeline, its `.trace`, or a file or folder as in open_trace().
    rule: a name of docs/findings.md, such as "pageable". None: all of them, a line for each.
    comm_names: as in open_trace(); None takes what the timeline was opened with.
    A rule that is silent gives the reason, with the numbers that it compared. The gains of findings are not predicted
    here: `t.findings` has them. Raises OptionError where there is no such rule, TraceError for what is no trace.

    >>> t = perfmagic.open_trace("step.json.gz")
    >>> perfmagic.explain(t, "graph_launch")
    graph_launch: silent
      the largest graph ran 502 of 3,521 device ops, not more than 50 %
    docs/findings.md#graph_launch
    >>> perfmagic.explain(t, "queue_full").finding.cost_ns
    0
    """
    if rule is not None:
        check_rule(rule)
    checked_pattern(comm_names)
    trace, names = _trace_of(source, comm_names)
    return explain_all(trace, names) if rule is None else explain_rule(trace, rule, names)


def _trace_of(source: object, comm_names: str | None) -> tuple[Trace, str | None]:
    """The trace, and the expression for names of communication."""
    if isinstance(source, (str, os.PathLike)):
        from perfmagic.api.timelines import open_trace

        return open_trace(source, comm_names=comm_names).trace, comm_names
    if isinstance(source, Trace):
        trace, names = source, comm_names
    else:
        from perfmagic.results import TimelineResult

        if not isinstance(source, TimelineResult):
            what = f"{source!r} ({type(source).__name__})"
            raise OptionError(f"explain: a timeline, a trace or a file is needed, not {what}", hint="explain(t)")
        trace, names = source.trace, comm_names or source.comm_names
    check_matches(comm_names, [trace])
    return trace, names
