"""What tests of findings begin with: a device that is busy, one finding of a trace, a sentence with plain spaces."""

from perfmagic.analysis.findings.find import findings
from perfmagic.analysis.findings.finding import Finding
from perfmagic.trace.model import Trace
from tests.analysis.build import Builder


def first_finding(trace: Trace, rule: str) -> Finding | None:
    """The first finding of a rule."""
    return next((f for f in findings(trace) if f.rule == rule), None)


def plain(text: str) -> str:
    """A sentence with spaces that break."""
    return text.replace("\u00a0", " ")


def busy_device(until: float = 1000) -> Builder:
    """One op from line 2, queued at once, that runs until then, in µs."""
    b = Builder()
    b.line(0, 2)
    b.op(10, until, launch=2, name="gemm")
    return b
