"""nbval compares the outputs of demos: not their briefs, which repeat in numbers what the text says in patterns."""

from typing import Any

from perfmagic.results.briefs.form import MIME


def pytest_collectstart(collector: Any) -> None:
    """Leave briefs out of what nbval compares."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare = (*collector.skip_compare, MIME)
