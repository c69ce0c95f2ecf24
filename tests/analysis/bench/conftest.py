"""What tests of the engine need, tests of what it measured need too."""

from tests.analysis.bench.clock import clock
from tests.capture.bench.conftest import _nothing_profiled_before, _small_heap

__all__ = ["_nothing_profiled_before", "_small_heap", "clock"]
