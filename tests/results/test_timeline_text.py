"""A timeline as text: who decides, what to do, and on request all the rest."""

from __future__ import annotations

import pytest

from perfmagic.results import TimelineResult
from tests.analysis.findings.build import plain
from tests.trace.recorded import ALL, real_trace

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ALL)
def test_a_text_is_short_and_begins_with_who_decides_of_the_time_in_the_title(name: str) -> None:
    result = TimelineResult(real_trace(name))
    lines = plain(result.text()).splitlines()
    assert len(lines) <= 14, lines
    assert lines[0].startswith(plain(result.doc.header.parts[0]).ljust(9))
    assert lines[0].endswith(plain(result.answers.decides)[-20:])
    assert lines[-1].startswith("  .text(details=True): ")


def test_details_begin_with_the_same_and_have_all_findings() -> None:
    result = TimelineResult(real_trace("a100_nccl_rank0of2"))
    text, details = (plain(result.text(details=whether)) for whether in (False, True))
    assert details.startswith("\n".join(text.splitlines()[:-1]))
    assert len(details.splitlines()) > 2 * len(text.splitlines())
    for finding in result.findings:
        assert finding.cause in details


def test_no_warning_is_given_twice() -> None:
    lines = TimelineResult(real_trace("a100_event_sync_3streams")).text().splitlines()
    warned = [line for line in lines if line.startswith("  ! ")]
    assert len(warned) == 1
    assert "No critical path and no gains" in warned[0]
