"""Who decides how long a job takes and what to do, above the rows of its ranks."""

from __future__ import annotations

import numpy as np

from perfmagic.analysis.ranks.finding import RankFinding
from perfmagic.base.language import translated
from perfmagic.base.numerics.intervals import total_ns
from perfmagic.view.ranks.doc import RanksDoc, describe_cost
from perfmagic.view.timeline.answers import FindingRow, Summary


def ranks_summary(doc: RanksDoc) -> Summary:
    """What stands above the rows of several ranks."""
    rows = []
    for finding in doc.findings:
        start_ns, end_ns = _window(doc, finding)
        cause = translated(finding.cause)
        rest = translated(finding.sentence).removeprefix(cause)
        cost = describe_cost(finding.cost_ns)
        rows.append(FindingRow(finding.rule, cost, finding.cost_ns, cause, rest, start_ns, end_ns))
    return Summary(doc.parts[0], doc.about, translated(doc.answers), tuple(rows))


def _window(doc: RanksDoc, finding: RankFinding) -> tuple[int, int]:
    """What to show of a finding on the axis: of waiting the longest wait, else the records of the ranks it names."""
    if finding.window_ns is not None:
        return finding.window_ns
    if finding.rule in ("ranks_in_turn", "rank_exposed"):
        waits = [row.bands["wait"] for row in doc.rows if total_ns(row.bands["wait"])]
        if waits:
            longest = max(
                (spans[np.argmax(spans[:, 1] - spans[:, 0])].tolist() for spans in waits), key=lambda s: s[1] - s[0]
            )
            return int(longest[0]), int(longest[1])
    named = [row for row in doc.rows if row.rank in finding.ranks] or list(doc.rows)
    return min(row.start_ns for row in named), max(row.end_ns for row in named)
