"""What tests of the engine need, tests of what it measured need too."""

from tests.analysis.bench.clock import clock
from tests.capture.bench.conftest import _nothing_profiled_before

__all__ = ["_nothing_profiled_before", "clock"]
