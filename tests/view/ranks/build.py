"""Several ranks for the tests of their pictures and pages."""

from __future__ import annotations

from perfmagic.analysis.ranks.summary import Ranks, ranks_of
from perfmagic.results import RanksResult, TimelineResult
from perfmagic.view.ranks.doc import RanksDoc, ranks_doc
from tests.analysis.ranks.test_ranks import rank


def ranks(n: int = 4, *, skew_us: float = 0) -> Ranks:
    """n ranks of four rounds of 1 ms; rank 2 computes longer. skew_us: by how much rank 1's clock is off."""
    traces = [
        rank(i, compute_us=800 if i == 2 else 300 + 20 * (i % 8), world_size=n, skew_us=skew_us if i == 1 else 0)
        for i in range(n)
    ]
    found = ranks_of(traces)
    assert found is not None
    return found


def four_ranks() -> RanksDoc:
    return ranks_doc(ranks(), [f"rank{i}.json" for i in range(4)])


def result(n: int = 4, *, skew_us: float = 0) -> RanksResult:
    found = ranks(n, skew_us=skew_us)
    return RanksResult(tuple(TimelineResult(found.traces[i], title=f"rank{i}.json") for i in found.ranks), found)
