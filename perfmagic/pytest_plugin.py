"""The pytest plugin: the fixture `perfmagic` has the checks of perfmagic.testing. Loads nothing until it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perfmagic.results import CompareResult

_PROPERTY = "perfmagic"  # of a report: what the summary says of its test


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("perfmagic")
    group.addoption(
        "--perfmagic-record", action="store_true", help="record the baselines that the fixture perfmagic compares with"
    )
    group.addoption(
        "--perfmagic-baselines", metavar="DIR", help="where they are (default: .perfmagic/baselines below rootdir)"
    )


def pytest_collectstart(collector: Any) -> None:
    """Leave briefs of results out of what nbval compares: what they say is in the text, too."""
    if hasattr(collector, "skip_compare"):
        from perfmagic.results.briefs.form import MIME

        collector.skip_compare = (*collector.skip_compare, MIME)


@pytest.fixture(name="perfmagic")
def checks(request: pytest.FixtureRequest) -> Checks:
    """The checks of perfmagic.testing; a baseline without a name has that of the test."""
    return Checks(request.node, request.config)


class Checks:
    """The checks of perfmagic.testing, bound to a test.

    Without a baseline the body is compared with its own benchmark, recorded by an earlier run with --perfmagic-record
    under the test's id. What is unclear passes, and the summary says why.
    """

    def __init__(self, node: pytest.Item, config: pytest.Config) -> None:
        self._node, self._record = node, config.getoption("--perfmagic-record")
        self._folder = config.getoption("--perfmagic-baselines") or config.rootpath / ".perfmagic" / "baselines"
        self._unnamed = 0

    def not_slower(self, body: Callable[[], object], baseline: Any = None, **options: Any) -> CompareResult | None:
        """See perfmagic.testing.not_slower(); None where the baseline is recorded."""
        __tracebackhide__ = True
        return self._check("not_slower", body, baseline, options)

    def faster(self, body: Callable[[], object], baseline: Any = None, **options: Any) -> CompareResult | None:
        """See perfmagic.testing.faster(); None where the baseline is recorded."""
        __tracebackhide__ = True
        return self._check("faster", body, baseline, options)

    def peak_below(self, body: Callable[[], object], limit: str | int) -> int:
        """See perfmagic.testing.peak_below()."""
        __tracebackhide__ = True
        from perfmagic import testing

        return testing.peak_below(body, limit)

    def no_growth(self, body: Callable[[], object], **options: Any) -> int:
        """See perfmagic.testing.no_growth()."""
        __tracebackhide__ = True
        from perfmagic import testing

        return testing.no_growth(body, **options)

    def _check(self, name: str, body: Callable[[], object], baseline: Any, options: Any) -> CompareResult | None:
        __tracebackhide__ = True
        from perfmagic import testing
        from perfmagic.api.baselines import is_name

        baseline = self._next_name() if baseline is None else baseline
        if self._record and is_name(baseline):
            options = {key: value for key, value in options.items() if key != "quantity"}
            testing.record_baseline(body, baseline, baselines=self._folder, **options)
            self._say(f"recorded {baseline}")
            return None
        comparison: CompareResult = getattr(testing, name)(body, baseline, baselines=self._folder, **options)
        if comparison.verdict == "unclear":
            self._say(f"{self._node.nodeid}: {comparison.comparisons[0].sentence}")
        return comparison

    def _next_name(self) -> str:
        """The id of the test; the second baseline of a test has a number behind it."""
        self._unnamed += 1
        return self._node.nodeid + (f" {self._unnamed}" if self._unnamed > 1 else "")

    def _say(self, words: str) -> None:
        """Have the summary say something, also where the test runs in a worker of pytest-xdist."""
        self._node.user_properties.append((_PROPERTY, words))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was recorded, and what was unclear."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    said = [words for report in reports for name, words in getattr(report, "user_properties", ()) if name == _PROPERTY]
    if said:
        terminalreporter.section("perfmagic")
        for words in dict.fromkeys(said):
            terminalreporter.write_line(words)
