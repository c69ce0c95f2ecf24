"""Findings form a tree by time, and no instant is told twice, on recorded traces and on random ones."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings

from perfmagic.analysis.findings.facts import Facts
from perfmagic.analysis.findings.find import Finding, findings
from perfmagic.numerics.intervals import intersect, subtract, total_ns
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace
from tests.analysis.findings.test_verdict import traces
from tests.trace.recorded import EXPECTED, real


def families(found: tuple[Finding, ...]) -> list[tuple[Finding | None, list[Finding]]]:
    """Every finding with its parts, None with those that are parts of none."""
    groups: list[tuple[Finding | None, list[Finding]]] = [(None, [f for f in found if f.depth == 0])]
    for i, parent in enumerate(found):
        parts = []
        for later in found[i + 1 :]:
            if later.depth <= parent.depth:
                break
            if later.depth == parent.depth + 1:
                parts.append(later)
        if parts:
            groups.append((parent, parts))
    return groups


def check(trace: Trace) -> None:
    found = findings(trace)
    if not len(trace.ops):
        return
    facts = Facts(trace)
    for parent, beside in families(found):
        costly = [f for f in beside if f.cost_ns]
        for i, one in enumerate(costly):
            assert one.cost_ns is not None
            assert one.cost_ns <= total_ns(one.where), one.rule
            for other in costly[:i]:
                assert not total_ns(intersect(one.where, other.where)), (one.rule, other.rule)
            if parent is not None and len(parent.where):
                assert not total_ns(subtract(one.where, parent.where)), (one.rule, parent.rule)
        costs = sum(f.cost_ns or 0 for f in costly)
        if parent is None:
            window = facts.cell_time
            assert costs <= window.window.length_ns
        elif parent.cost_ns:
            assert costs <= parent.cost_ns, parent.rule
    assert next(f.depth for f in found) == 0
    assert all(b.depth <= a.depth + 1 for a, b in itertools.pairwise(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.stem for path in EXPECTED])
def test_no_instant_of_a_real_trace_is_told_twice(name: str) -> None:
    check(read_trace(Path(real(name.replace("__", "/")))))


@given(traces())
@settings(deadline=None, max_examples=80)
def test_no_instant_of_a_random_trace_is_told_twice(trace: Trace) -> None:
    check(trace)
